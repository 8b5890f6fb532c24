"""Makes the corpus of GPU kernels, the examples and small kernels importable from the tests here."""

import sys
from pathlib import Path

import pytest

for folder in ("gpu", "assemble", "metal", "random_programs"):
    sys.path.append(str(Path(__file__).parents[1] / folder))


def pytest_addoption(parser):
    parser.addoption(
        "--whole", action="store_true", help="make code for AMD GPUs of every text for each architecture"
    )


@pytest.fixture(scope="session")
def whole(request):
    """Whether every text goes through the code generator, and not a part of them for each architecture."""
    return request.config.getoption("--whole", default=False)


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", "off")
