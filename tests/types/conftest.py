"""The code that is made here is what is tested, so none comes from the disk cache."""

import pytest


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", "off")
