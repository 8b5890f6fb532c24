"""Makes the corpus of GPU kernels, the examples and small kernels importable from the tests here."""

import sys
from pathlib import Path

import pytest

for folder in ("gpu", "assemble", "metal", "random_programs"):
    sys.path.append(str(Path(__file__).parents[1] / folder))


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", "off")
