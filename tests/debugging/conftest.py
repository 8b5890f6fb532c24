"""Launches are tested without the disk cache, except by the tests of the disk cache."""

import pytest


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", "off")
