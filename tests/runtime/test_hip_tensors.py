"""Tensors of libraries on AMD GPUs, which PyTorch calls CUDA's, and the streams that they are on."""

from types import SimpleNamespace

import pytest
from fake_hip import run

from gizml_tile.dtypes import F32
from gizml_tile.runtime.streams import order
from gizml_tile.runtime.tensors import describe


class Tensor:
    """As much of PyTorch's tensor as a launch looks at."""

    dtype, layout, device = "torch.float32", "strided", "cuda:1"
    shape, requires_grad = (8,), False

    def is_neg(self) -> bool:
        return False

    def numel(self) -> int:
        return 8

    def stride(self) -> tuple[int, ...]:
        return (1,)

    def data_ptr(self) -> int:
        return 4096


@pytest.fixture
def torch(monkeypatch):
    """PyTorch as it is built for ROCm."""
    import sys

    module = SimpleNamespace(
        Tensor=Tensor,
        strided="strided",
        version=SimpleNamespace(hip="6.4.1"),
        is_grad_enabled=lambda: True,
        _C=SimpleNamespace(_cuda_getCurrentRawStream={1: 0x71}.__getitem__),
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_pytorch_for_rocm(torch):
    info = describe(Tensor())
    assert (info.device, info.dtype, info.pointer) == ("hip:1", F32, 4096)
    assert order([info], 1).stream == 0x71


def test_pytorch_for_cuda(torch):
    torch.version.hip = None
    assert describe(Tensor()).device == "cuda:1"


def test_arrays_that_are_known_by_dlpack():
    """CuPy's for ROCm have no other interface. ROCm calls the default stream 0."""
    told = run(
        """
import numpy as np
from fake_hip import FakeHip, without_comgr
import gizml_tile as tile

class Array:
    def __init__(self, array):
        self.array, self.waiting = array, []

    def __dlpack_device__(self):
        return (10, 0)

    def __dlpack__(self, *, stream=None, max_version=None):
        self.waiting.append(stream)
        return self.array.__dlpack__()

without_comgr()
hip = FakeHip("gfx90a")
hip.keep_texts()
x, y = Array(np.arange(64, dtype=np.float32)), Array(np.zeros(64, np.float32))
tile.run((1,), lambda p: p.write(y, [64]).put(p.read(x, [64]).at([0]).add(1), [0]))
print(np.array_equal(y.array, x.array + 1), x.waiting[-1], y.waiting[-1])
print(*hip.log, sep="\\n")
"""
    )
    assert told.splitlines() == ["True 0 0", "load 0 0", "launch 0 0", "record 1 0", "destroy 1 0"]
