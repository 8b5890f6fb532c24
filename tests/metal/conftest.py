"""Makes the corpus of GPU kernels and the examples importable from the tests here."""

import sys
from pathlib import Path

import pytest

for folder in ("gpu", "assemble"):
    sys.path.append(str(Path(__file__).parents[1] / folder))


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", "off")
