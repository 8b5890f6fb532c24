"""Host arrays in a device's memory: the same elements at the same strides, freed afterwards."""

import numpy as np
import pytest

from gizml_tile import placing
from gizml_tile.errors import TileError
from gizml_tile.runtime.tensors import describe, is_tensor
from gizml_tile.trial import array_of


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.float32).reshape(4, 6),
        np.arange(24, dtype=np.int16).reshape(4, 6).T,
        np.arange(24, dtype=np.float32).reshape(4, 6)[::-1, ::-2],
        np.broadcast_to(np.arange(5, dtype=np.int64), (3, 5)),
        np.zeros((0, 4), np.float32),
        np.array([True, False]),
    ],
)
def test_elements_and_strides_stay(cuda, array):
    with placing.on("cuda:1") as place:
        placed = place(array)
        given = describe(array)
        assert (placed.device, placed.refusal) == ("cuda:1", "")
        assert (placed.shape, placed.strides, placed.dtype) == (given.shape, given.strides, given.dtype)
        assert placed.pointer != given.pointer or not array.size
        assert placed.extent[0] in cuda.memory
        assert placed.pointer - placed.extent[0] == given.pointer - given.extent[0]
        if array.size:
            assert np.array_equal(array_of(placed), array)
        # What is described is a tensor itself.
        assert is_tensor(placed) and describe(placed) is placed
        assert cuda.stack == [0x1001]
    assert not cuda.memory and not cuda.stack


def test_on_the_cpu_arrays_stay_where_they_are():
    array = np.zeros(3, np.float32)
    with placing.on("cpu") as place:
        assert place(array) is array


def test_devices_that_cannot_be_measured_on(cuda):
    with pytest.raises(TileError, match="launches on metal:0 cannot be measured; those on cpu and cuda can"):
        placing.on("metal:0").__enter__()
    with pytest.raises(TileError, match="there is no cuda:2; the CUDA driver sees 2 GPUs"):
        placing.on("cuda:2").__enter__()
