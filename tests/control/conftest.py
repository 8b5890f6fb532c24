"""Makes the corpus importable from the tests here, which take no code from the disk cache."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", "off")
