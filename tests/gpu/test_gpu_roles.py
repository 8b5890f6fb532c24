"""Products whose warps have roles: results, which programs qualify and why others do not, and the text."""

import sys
from pathlib import Path

import numpy as np
import pytest
from gpu_cases import numbers, room, wide

import gizml_tile as tile
from gizml_tile.lowering.simulate.findings import COSTS

sys.path.append(str(Path(__file__).parents[1] / "assemble"))

from ptxas import assemble

pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")
HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def by_tiles(y, BM, BN, **_):
    return tile.cdiv(y.shape[-2], BM), tile.cdiv(y.shape[-1], BN)


@tile.kernel(grid=by_tiles)
def matmul(p, a, b, y, *, BM=128, BN=128, BK=64, TURN_A=False, TURN_B=False, LOOP="", WARPS=0, STAGES=0):
    if LOOP:
        p.variant("loop", LOOP)
    if WARPS:
        p.warps(WARPS)
    if STAGES:
        p.stages(STAGES)
    i, j = p.id(0), p.id(1)
    A = p.read(a, [BK, BM] if TURN_A else [BM, BK])
    B = p.read(b, [BN, BK] if TURN_B else [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(0 if TURN_A else 1)):
        left = A[k, i].T if TURN_A else A[i, k]
        right = B[j, k].T if TURN_B else B[k, j]
        acc += left @ right
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=lambda y, BM, BN, **_: (*by_tiles(y, BM, BN), y.shape[0]))
def batched(p, a, b, y, *, BM=64, BN=64, BK=64):
    i, j, n = p.id(0), p.id(1), p.id(2)
    A, B = p.read(a, [BM, BK]), p.read(b, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(2)):
        acc += A[n, i, k] @ B[n, k, j]
    p.write(y, [BM, BN])[n, i, j] = acc


@tile.kernel(grid=by_tiles)
def linear(p, x, w, bias, residual, y, z, *, BM=128, BN=128, BK=64):
    """An epilogue with a bias and a residual, and the sum in another type."""
    i, j = p.id(0), p.id(1)
    X, W = p.read(x, [BM, BK]), p.read(w, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        acc += X[i, k] @ W[k, j]
    p.write(z, [BM, BN])[i, j] = acc
    p.write(y, [BM, BN])[i, j] = (acc + p.read(bias, [BN])[j]).relu() + p.read(residual, [BM, BN])[i, j]


@tile.kernel(grid=by_tiles)
def gated(p, x, w, v, y, *, BM=64, BN=64, BK=64):
    """Two products of one block a turn."""
    i, j = p.id(0), p.id(1)
    X, W, V = p.read(x, [BM, BK]), p.read(w, [BK, BN]), p.read(v, [BK, BN])
    up, gate = p.zeros([BM, BN]), p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        block = X[i, k]
        up += block @ W[k, j]
        gate += block @ V[k, j]
    p.write(y, [BM, BN])[i, j] = up * gate


@tile.kernel(grid=by_tiles)
def two_loops(p, x, w, v, y, *, BM=64, BN=64, BK=64):
    """One product after the other, scaled by what is known of the rows of the first."""
    i, j = p.id(0), p.id(1)
    X, W, V = p.read(x, [BM, BK]), p.read(w, [BK, BN]), p.read(v, [BK, BN])
    first, second = p.zeros([BM, BN]), p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        first += X[i, k] @ W[k, j]
    for k in range(X.blocks(1)):
        second += X[i, k] @ V[k, j]
    p.write(y, [BM, BN])[i, j] = second - first.max(1)


def is_specialised(kernel, *tensors, **constants):
    text = kernel.source(*tensors, **HOPPER, **constants)
    report = assemble(text, "sm_90a")
    assert (report.spills, report.warnings) == (0, ())
    return "wgmma.mma_async" in text and "cp.async.bulk.tensor" in text


def simulated(kernel, *tensors, **constants):
    ran = kernel.simulate(*tensors, **HOPPER, **constants)
    assert not [str(each) for each in ran.findings if each.kind not in COSTS]


def assert_product(y, want, bits=8):
    assert np.abs(wide(y) - want).max() <= 2.0**-bits * max(np.abs(want).max(), 1)


@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize(
    "size",
    [(192, 128, 64), (128, 96, 64), (64, 192, 32), (48, 64, 64), (128, 64, 96), (192, 96, 80), (64, 64, 48)],
    ids=str,
)
def test_blocks_that_are_larger_inside(size, turn_a, turn_b):
    """What is brought beyond a block makes nothing that is stored; along k products leave it out."""
    m, n, k = 400, 264, 296
    a, b, y = numbers(m, k, kind="bf16"), numbers(k, n, kind="bf16"), room(m, n, kind="bf16")
    a[192:], b[:, 96:] = a[192:] * 100, b[:, 96:] * 100
    given = np.ascontiguousarray(a.T) if turn_a else a, np.ascontiguousarray(b.T) if turn_b else b
    constants = dict(zip(("BM", "BN", "BK"), size, strict=True)) | {"TURN_A": turn_a, "TURN_B": turn_b}
    assert is_specialised(matmul, *given, y, **constants)
    simulated(matmul, *given, y, **constants)
    want = wide(a) @ wide(b)
    assert (np.abs(wide(y) - want) <= 2.0**-7 * (np.abs(wide(a)) @ np.abs(wide(b)))).all()


# Whole and ragged tiles, one program and many, no turn at all; sizes are multiples of 8.
@pytest.mark.parametrize(
    "shape", [(256, 256, 128), (128, 128, 0), (8, 8, 8), (136, 264, 72), (520, 264, 200)]
)
@pytest.mark.parametrize("columns", [64, 128, 256])
def test_sizes(shape, columns):
    m, n, k = shape
    a, b, y = numbers(m, k, kind="bf16"), numbers(k, n, kind="bf16"), room(m, n, kind="bf16")
    assert is_specialised(matmul, a, b, y, BN=columns) == (k > 0)
    simulated(matmul, a, b, y, BN=columns)
    assert_product(y, wide(a) @ wide(b))


@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("block", [(64, 32, 64), (128, 128, 32), (128, 64, 128), (64, 256, 16)], ids=str)
def test_orders_of_operands(turn_a, turn_b, block):
    m, n, k = 136, 264, 136
    a, b, y = numbers(m, k, kind="f16"), numbers(k, n, kind="f16"), room(m, n, kind="f32")
    want = wide(a) @ wide(b)
    a = np.ascontiguousarray(a.T) if turn_a else a
    b = np.ascontiguousarray(b.T) if turn_b else b
    how = {"TURN_A": turn_a, "TURN_B": turn_b} | dict(zip(("BM", "BN", "BK"), block, strict=True))
    assert is_specialised(matmul, a, b, y, **how)
    simulated(matmul, a, b, y, **how)
    assert_product(y, want, 18)


# Several times 64 rows for four warps, and teams with unequal numbers of programs and turns.
@pytest.mark.parametrize("loop", ["specialised", "alternating"])
@pytest.mark.parametrize("block", [(64, 64), (128, 128), (256, 64)], ids=str)
@pytest.mark.parametrize("shape", [(264, 392, 200), (300, 136, 8)], ids=str)
def test_forms(loop, block, shape):
    m, n, k = shape
    a, b, y = numbers(m, k, kind="bf16"), numbers(k, n, kind="bf16"), room(m, n)
    how = {"LOOP": loop} | dict(zip(("BM", "BN"), block, strict=True))
    assert is_specialised(matmul, a, b, y, **how)
    simulated(matmul, a, b, y, **how)
    assert_product(y, wide(a) @ wide(b), 18)


def test_a_batch():
    a, b, y = (numbers(3, 72, 136, kind="f16"), numbers(3, 136, 72, kind="f16"), room(3, 72, 72))
    assert is_specialised(batched, a, b, y)
    simulated(batched, a, b, y)
    assert_product(y, wide(a) @ wide(b), 18)


@pytest.mark.parametrize("kind", ["f32", "bf16", "fp8"])
@pytest.mark.parametrize("order", ["C", "inside"])  # what the copy engine can store, and what it cannot
def test_epilogues(kind, order):
    x, w = numbers(136, 200, kind="bf16"), numbers(200, 144, kind="bf16", seed=1)
    bias, residual = numbers(144), numbers(136, 144, kind="bf16", seed=2)
    y, z = room(136, 144, kind=kind, order=order), room(136, 144, kind="bf16")
    assert is_specialised(linear, x, w, bias, residual, y, z)
    simulated(linear, x, w, bias, residual, y, z)
    product = wide(x) @ wide(w)
    assert_product(z, product)
    assert_product(y, np.maximum(product + bias, 0) + wide(residual), 4 if kind == "fp8" else 8)


def test_two_products_of_a_turn():
    x, w, v = (numbers(*shape, kind="bf16") for shape in ((72, 136), (136, 72), (136, 72)))
    y = room(72, 72)
    assert is_specialised(gated, x, w, v, y)
    simulated(gated, x, w, v, y)
    assert_product(y, (wide(x) @ wide(w)) * (wide(x) @ wide(v)), 16)


def test_two_loops():
    x, w, v = (numbers(*shape, kind="bf16") for shape in ((72, 136), (136, 64), (136, 64)))
    y = room(72, 64)
    assert is_specialised(two_loops, x, w, v, y)
    simulated(two_loops, x, w, v, y)
    assert_product(y, wide(x) @ wide(v) - (wide(x) @ wide(w)).max(1, keepdims=True), 16)


REFUSED = [
    ({"a": numbers(64, 64)}, {}, "operands are BF16 and F32, not both F16, BF16, FP8, E5M2, I8, U8 or F32"),
    ({}, {"BM": 32, "BN": 32}, "products have 32 rows, no multiple of 64"),
    ({}, {"WARPS": 16}, "128 rows are not shared by 4 x 4 warps"),
    ({}, {"BK": 8}, "a block has 8 elements of k"),
    ({}, {"STAGES": 8}, "8 turns of 32768 bytes are more than the"),
    ({"a": numbers(64, 66, kind="bf16")}, {}, "the copy engine cannot move boxes of a"),
]


@pytest.mark.parametrize("tensors, constants, why", REFUSED, ids=[each[2] for each in REFUSED])
def test_why_not(tensors, constants, why):
    plain = {"a": numbers(64, 64, kind="bf16"), "b": numbers(64, 64, kind="bf16"), "y": room(64, 64)}
    if "a" in tensors:
        plain["b"] = numbers(tensors["a"].shape[1], 64, kind="bf16")
    given = list((plain | tensors).values())
    if "STAGES" not in constants:
        assert why in matmul.explain(*given, **HOPPER, **constants)
    with pytest.raises(tile.TileError, match="loop cannot be made by 'specialised': ") as error:
        matmul.source(*given, **HOPPER, **constants, LOOP="specialised")
    assert why in str(error.value)


def test_a_loop_can_be_told_to_have_no_roles():
    a, b, y = numbers(64, 64, kind="bf16"), numbers(64, 64, kind="bf16"), room(64, 64)
    assert not is_specialised(matmul, a, b, y, LOOP="uniform")


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
def test_only_where_there_are_such_operations(arch):
    a, b, y = numbers(64, 64, kind="bf16"), numbers(64, 64, kind="bf16"), room(64, 64)
    text = matmul.source(a, b, y, kind="cuda", arch=arch)
    assert ("wgmma" in text) == (arch == "sm_90a")


@pytest.mark.parametrize("order_a", ["C", "F"])
@pytest.mark.parametrize("order_b", ["C", "F"])
@pytest.mark.parametrize("turn_b", [False, True])
def test_orders_of_tensors(order_a, order_b, turn_b):
    m, n, k = 136, 264, 136
    a, b = numbers(m, k, kind="f16", order=order_a), numbers(k, n, kind="f16", order=order_b)
    want, y = wide(a) @ wide(b), room(m, n)
    b = b.T if turn_b else b
    assert is_specialised(matmul, a, b, y, TURN_B=turn_b)
    simulated(matmul, a, b, y, TURN_B=turn_b)
    assert_product(y, want, 18)
