"""PyTorch's tensors, given to kernels as they are."""

import numpy as np
import pytest
import torch

import gizml_tile as tile
from gizml_tile.dtypes import DType, to_numpy
from gizml_tile.errors import TileError
from gizml_tile.runtime.tensors import check_output, describe, is_tensor


@pytest.mark.parametrize("dtype", list(DType), ids=str)
def test_every_storage_type(dtype):
    name = {"float8_e4m3fn": torch.float8_e4m3fn, "bfloat16": torch.bfloat16}
    numpy_name = to_numpy(dtype).name
    tensor = torch.zeros(5, 7, dtype=name.get(numpy_name) or getattr(torch, numpy_name)).T[1:]
    info = describe(tensor)
    assert (info.dtype, info.shape, info.strides) == (dtype, (6, 5), (1, 7))
    assert info.pointer == tensor.data_ptr() and info.device == "cpu" and info.writable


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.zeros(2, dtype=torch.complex128), "x holds complex128, which is not supported"),
        (torch.zeros(2, dtype=torch.complex64), "x holds complex64, which is not supported"),
        (torch.eye(2).to_sparse(), r"x is torch.sparse_coo; only strided tensors"),
        (torch.zeros(2, device="meta"), "x is on the meta device"),
        (torch.ones(2, dtype=torch.complex64).conj().imag, "x is a lazily negated view"),
    ],
    ids=["double complex", "complex", "sparse", "meta", "negated"],
)
def test_what_is_refused_is_named(value, message):
    with pytest.raises(TileError, match=message) as caught:
        describe(value, "x")
    assert caught.value.filename == __file__


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.zeros(1).expand(4), "share an address"),
        (torch.zeros(2, requires_grad=True), "x cannot be written: the tensor requires grad"),
    ],
    ids=["broadcast", "grad"],
)
def test_outputs_that_are_refused(value, message):
    with pytest.raises(TileError, match=message):
        check_output(describe(value, "x"), "x")


def test_grad_is_no_obstacle_under_no_grad():
    tensor = torch.zeros(2, requires_grad=True)
    with torch.no_grad():
        check_output(describe(tensor))


def test_which_values_are_tensors():
    assert is_tensor(torch.zeros(2))
    assert not is_tensor(torch.float32)


@tile.kernel(grid=lambda out: tile.cdiv(out.shape[0], 8))
def double(p, x, out):
    p.write(out, [8])[p.id(0)] = p.read(x, [8])[p.id(0)] * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_kernel_on_tensors(dtype):
    x = torch.arange(20, dtype=torch.float32).to(dtype)
    for _ in range(3):
        out = torch.zeros(20, dtype=dtype)
        assert double(x, out)[0] is out
        assert torch.equal(out, x * 2)
    out = np.zeros(20, np.float32)
    double(x[::2], out[:10])
    assert np.array_equal(out[:10], x[::2].float().numpy() * 2)


def test_a_tensor_that_a_body_captures():
    x, out = torch.arange(8, dtype=torch.float32), torch.zeros(8)

    def body(p):
        p.write(out, [8]).put(p.read(x, [8]).at([0]).add(1), [0])

    assert tile.run(1, body)[0] is out
    assert torch.equal(out, x + 1)
