"""Launches with sums whose order leaves no trace, through a driver that only takes notes."""

import numpy as np
import pytest
from fake_cuda import OUT_OF_MEMORY
from on_gpu import OnGpu

import gizml_tile as tile
from gizml_tile.exact import ExactKernel


@tile.kernel(grid=lambda x, **_: tile.cdiv(x.shape[0], 64))
def add(p, x, at, y):
    i = p.id(0)
    p.write(y, [64]).scatter_add(p.read(x, [64])[i], [p.read(at, [64])[i]], deterministic=True)


def tensors(size=100):
    arrays = np.zeros(size, np.float32), np.zeros(size, np.int32), np.zeros(3000, np.float32)
    return [OnGpu(array) for array in arrays]


def test_steps_in_order_on_one_stream(cuda):
    x, at, y = tensors()
    for turn in range(2):
        assert add(x, at, y, stream=7) == (y,)
        launches = cuda.launches[4 * turn :]
        assert [each.stream for each in launches] == [7] * 4
        # Blocks of 1024 for clearing and adding at last, of 64 elements for the programs themselves.
        assert [each.grid[0] for each in launches] == [3, 2, 2, 3]
        *_, (size, pool, stream, address) = cuda.called("cuMemAllocFromPoolAsync")
        assert (size, pool, stream) == (12032 + 24064, "pool of 0", 7)  # I32 and I64, each to 256 bytes
        assert cuda.called("cuMemFreeAsync")[turn] == (address, 7, 4 * turn + 4)
    assert not cuda.memory


def test_launches_of_one_kind_are_made_once(cuda, monkeypatch):
    made = []
    code = ExactKernel._code
    monkeypatch.setattr(ExactKernel, "_code", lambda *args: made.append(args[1]) or code(*args))
    for _ in range(3):
        add(*tensors(size=200))  # other memory of the same sizes
        assert made == [0, 1, 2, 3]
    add(*tensors(size=300))
    assert made == [0, 1, 2, 3] * 2
    assert [each.grid[0] for each in cuda.launches[12:]] == [3, 5, 5, 3]


def test_memory_that_meets_is_told_after_good_launches(cuda):
    x, at, y = tensors()
    add(x, at, y)
    with pytest.raises(tile.TileError, match="for which programs run twice, and reads x where it writes y"):
        add(OnGpu(y.array[:100]), at, y)
    add(x, at, y)
    assert len(cuda.launches) == 8


def test_no_memory_left(cuda):
    cuda.pool_status = OUT_OF_MEMORY
    with pytest.raises(tile.TileError, match="the CUDA driver answered 'out of"):
        add(*tensors())
    assert not cuda.launches
