"""Tensors whose rows do not begin where the copy engine can begin, copied before the launch."""

import numpy as np
import pytest
from gpu_cases import numbers, room, wide
from test_gpu_clusters import HOPPER, assert_product, by_tiles, simulated

import gizml_tile as tile
from gizml_tile.aligned import aligned, copying
from gizml_tile.lowering.simulate.findings import COSTS
from gizml_tile.runtime.tensors import describe

pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")


@tile.kernel(grid=by_tiles)
def matmul(p, a, b, y, *, BM=128, BN=64, BK=64, TENSORS="copied first", TURN_A=False):
    if TENSORS:
        p.variant("tensors", TENSORS)
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [BK, BM] if TURN_A else [BM, BK]), p.read(b, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(0 if TURN_A else 1)):
        acc += (A[k, i].T if TURN_A else A[i, k]) @ B[k, j]
    p.write(y, [BM, BN])[i, j] = acc


def odd(m, n, kind="bf16"):
    """A matrix whose rows are one element longer than a multiple of 8."""
    return numbers(m, -(-n // 8) * 8 + 1, kind=kind)[:, :n]


@pytest.mark.parametrize("shape", [(65, 67, 69), (130, 72, 200), (64, 64, 64)])
def test_odd_sizes(shape):
    m, n, k = shape
    a, b, y = odd(m, k), odd(k, n), room(m, n, kind="bf16")
    assert "cp.async.bulk.tensor" in matmul.source(a, b, y, **HOPPER)
    simulated(matmul, a, b, y)
    assert_product(y, wide(a) @ wide(b))


def test_one_of_two_and_columns():
    a, b, y = odd(200, 130), numbers(200, 72, kind="bf16"), room(130, 72, kind="bf16")
    told = matmul.explain(a, b, y, TURN_A=True, **HOPPER)
    assert told.count("copied first  chosen    to rows that begin at multiples of 16 bytes") == 1
    simulated(matmul, a, b, y, TURN_A=True)
    assert_product(y, wide(a).T @ wide(b))
    across = odd(130, 200).T
    assert across.strides == (2, 402)
    simulated(matmul, across, b, y, TURN_A=True)
    assert_product(y, wide(across).T @ wide(b))


def test_a_copy_is_dense_but_for_the_ends_of_rows():
    info = describe(odd(3, 13).reshape(1, 3, 13)[:, :, ::1])
    assert (aligned(info).strides, aligned(info).shape) == ((48, 16, 1), (1, 3, 13))
    turned = describe(np.zeros((13, 3), np.float16, "F"))
    assert aligned(turned).strides == (1, 16)


def test_only_what_is_read_often_is_copied():
    for shape, often in (((4095, 4097, 4099), True), ((16, 4097, 4099), False), ((1023, 1025, 1027), False)):
        m, n, k = shape
        tensors = [np.zeros(each, np.float16) for each in ((m, k), (k, n), (m, n))]
        assert ("copied first" in matmul.explain(*tensors, TENSORS="", **HOPPER)) == often
    tensors = [each.astype(np.float32) for each in tensors]
    assert "copied first" not in matmul.explain(*tensors, TENSORS="", **HOPPER)


@pytest.mark.parametrize("shape", [(9, 13), (3, 17, 300)])
def test_the_copy(shape):
    source = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    made = np.full((*shape[:-1], -(-shape[-1] // 8) * 8), -1, np.int16)
    grid, body = copying(source, made, made.shape)
    ran = tile.simulate(grid, body, **HOPPER)
    assert not [str(each) for each in ran.findings if each.kind not in COSTS]
    assert np.array_equal(made[..., : shape[-1]], source) and not made[..., shape[-1] :].any()


def test_what_cannot_be_copied():
    @tile.kernel(grid=by_tiles)
    def twice(p, a, b, *, BM=64, BN=64, BK=64):
        p.variant("tensors", "copied first")
        A, B = p.read(a, [BM, BK]), p.read(b, [BK, BN])
        acc = p.zeros([BM, BN])
        for k in range(A.blocks(1)):
            acc += A[0, k] @ B[k, 0]
        p.write(a, [BM, BN])[0, 0] = acc

    x, even = odd(64, 64), numbers(64, 64, kind="bf16")
    cases = [
        (lambda: matmul.source(even, even, room(64, 64), **HOPPER), "no operand of a product lies so"),
        (lambda: matmul.source(x, even, x, **HOPPER), "tensors may overlap"),
        (lambda: twice.source(x, even, **HOPPER), "a is written, too"),
        (lambda: matmul.source(x, even, room(64, 64), kind="cuda", arch="sm_80"), "sm_80 has no products"),
        (lambda: matmul.source(x[:, ::2], even, room(64, 64), **HOPPER), "neighbours along none"),
    ]
    for call, message in cases:
        with pytest.raises(tile.TileError, match=message):
            call()
