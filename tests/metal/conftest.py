"""Makes the corpus of GPU kernels and the examples importable from the tests here."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# Launches go through PyTorch, so they are tested where it is installed.
collect_ignore = [] if find_spec("torch") else ["test_metal_launches.py"]

for folder in ("gpu", "assemble"):
    sys.path.append(str(Path(__file__).parents[1] / folder))


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", "off")
