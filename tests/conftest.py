"""Makes the helpers that stand in this folder importable from the tests in the folders below."""

import sys

import pytest
from fake_cuda import FakeCuda
from previews import check_previews


@pytest.fixture(autouse=True)
def previews(monkeypatch):
    """Kernels whose previews were traced to the same tile IR as the kernels themselves."""
    return check_previews(monkeypatch)


@pytest.fixture
def cuda(monkeypatch):
    """A CUDA driver of two devices that notes what it is asked, and no assembler beside it."""
    from gizml_tile.runtime.cuda import assembler, devices, driver, maps, memory

    fake = FakeCuda()
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", fake)
    monkeypatch.setenv(assembler.PTXAS_VARIABLE, "off")
    for module in (driver, devices, memory):
        module.forget()
    maps._encoded.cache_clear()
    yield fake
    for module in (driver, devices, memory):
        module.forget()
