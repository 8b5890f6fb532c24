"""Launches that copy tensors first, through a driver that only takes notes."""

import numpy as np
import pytest
from fake_cuda import OUT_OF_MEMORY
from on_gpu import OnGpu

import gizml_tile as tile


@tile.kernel(grid=lambda y, BM, BN, **_: (tile.cdiv(y.shape[0], BM), tile.cdiv(y.shape[1], BN)))
def matmul(p, a, b, y, *, BM=64, BN=64, BK=64):
    p.variant("tensors", "copied first")
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK]), p.read(b, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    p.write(y, [BM, BN])[i, j] = acc


def tensors():
    return [OnGpu(np.zeros(shape, np.float16)) for shape in ((65, 71), (71, 80), (65, 80))]


@pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")
def test_copy_launch_and_free(cuda):
    a, b, y = tensors()
    for turn in range(2):
        assert matmul(a, b, y, stream=7) == (y,)
        copy, launch = cuda.launches[2 * turn :]
        assert (copy.stream, launch.stream) == (7, 7)
        # Of the two operands b lies well: its rows have 160 bytes.
        *_, (size, pool, stream, address) = cuda.called("cuMemAllocFromPoolAsync")
        assert (size, pool, stream) == (9472, "pool of 0", 7)  # 65 rows of 144 bytes, the last of 142
        assert address in [each[2] for each in cuda.encoded]
        assert cuda.called("cuMemFreeAsync")[turn] == (address, 7, 2 * turn + 2)
    assert cuda.called("cuMemPoolCreate") == [(0,)]
    encoded = [each[2] for each in cuda.encoded]
    assert a.array.ctypes.data not in encoded and b.array.ctypes.data in encoded
    assert not cuda.memory


@pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")
def test_a_first_launch_while_a_graph_is_captured(cuda):
    """The pool of memory is made then, which captures allow where they are told that it touches no stream."""
    cuda.capturing = 7
    matmul(*tensors(), stream=7)
    assert not cuda.broken_capture and [each.stream for each in cuda.launches] == [7, 7]


@pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")
def test_no_memory_left(cuda):
    cuda.pool_status = OUT_OF_MEMORY
    with pytest.raises(
        tile.TileError, match="memory for copies of tensors: the CUDA driver answered 'out of"
    ):
        matmul(*tensors())
    assert not cuda.launches
