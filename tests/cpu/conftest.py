"""The emitter's own code is tested, so nothing comes from the disk cache."""

import pytest


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", "off")
