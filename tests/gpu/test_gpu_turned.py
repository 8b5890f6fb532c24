"""Products of few rows, made with rows and columns exchanged by groups of four warps."""

import sys
from pathlib import Path

import numpy as np
import pytest
from gpu_cases import numbers, room, wide
from test_gpu_clusters import HOPPER, assert_product, by_tiles, simulated

import gizml_tile as tile

sys.path.append(str(Path(__file__).parents[1] / "assemble"))

from ptxas import assemble

pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")


@tile.kernel(grid=by_tiles)
def matmul(p, a, b, y, *, BM=16, BN=64, BK=64, TURN_A=False, TURN_B=False, LOOP="specialised", SHARE="one"):
    p.variant("loop", LOOP)
    p.variant("workgroups", SHARE)
    i, j = p.id(0), p.id(1)
    A = p.read(a, [BK, BM] if TURN_A else [BM, BK])
    B = p.read(b, [BN, BK] if TURN_B else [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(0 if TURN_A else 1)):
        left = A[k, i].T if TURN_A else A[i, k]
        right = B[j, k].T if TURN_B else B[k, j]
        acc += left @ right
    p.write(y, [BM, BN])[i, j] = acc


def made(kernel, tensors, **constants):
    """Simulate a kernel whose text multiplies by four warps, without spills."""
    text = kernel.source(*tensors, **HOPPER, **constants)
    report = assemble(text, "sm_90a")
    assert (report.spills, report.warnings) == (0, ())
    simulated(kernel, *tensors, **constants)
    return text


@pytest.mark.parametrize("shape", [(16, 256, 256), (16, 200, 72), (40, 264, 136)])
@pytest.mark.parametrize("BM, BN", [(16, 64), (16, 128), (32, 256)])
def test_sizes(shape, BM, BN):
    m, n, k = shape
    a, b, y = numbers(m, k, kind="bf16"), numbers(k, n, kind="bf16"), room(m, n, kind="bf16")
    assert f"m64n{BM}k16" in made(matmul, (a, b, y), BM=BM, BN=BN)
    assert_product(y, wide(a) @ wide(b))


@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("size", ["one", "cluster of 4"])
def test_orders_of_the_operands(turn_a, turn_b, size):
    m, n, k = 24, 200, 328
    a = numbers(*((k, m) if turn_a else (m, k)), kind="f16")
    b = numbers(*((n, k) if turn_b else (k, n)), kind="f16")
    y = room(m, n, kind="f16")
    text = made(matmul, (a, b, y), BM=32, BN=128, TURN_A=turn_a, TURN_B=turn_b, SHARE=size)
    assert (".reqnctapercluster 4" in text) == (size != "one")
    assert_product(y, (wide(a).T if turn_a else wide(a)) @ (wide(b).T if turn_b else wide(b)), 10)


@tile.kernel(grid=lambda y, BN, **_: tile.cdiv(y.shape[1], BN))
def decode(p, x, w, bias, y, *, BM=16, BN=64, BK=64):
    """A row of biases, and what each row and each column has in common."""
    p.variant("loop", "specialised")
    j = p.id(0)
    X, W = p.read(x, [BM, BK]), p.read(w, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        acc += X[0, k] @ W[k, j]
    acc = (acc + p.read(bias, [BN])[j]).relu()
    p.write(y, [BM, BN])[0, j] = acc - acc.max(1) + acc.sum(0)


def test_epilogue():
    x, w, bias = numbers(16, 136, kind="bf16"), numbers(136, 128, kind="bf16"), numbers(128)
    y = room(16, 128)
    made(decode, (x, w, bias, y))
    want = np.maximum(wide(x) @ wide(w) + wide(bias), 0)
    top = want.reshape(16, 2, 64).max(2).repeat(64, axis=1)
    assert_product(y, want - top + want.sum(0), 16)


def test_told():
    tensors = numbers(16, 64, kind="bf16"), numbers(64, 64, kind="bf16"), room(16, 64, kind="bf16")
    told = matmul.explain(*tensors, **HOPPER)
    assert "rows and columns exchanged, asynchronous, 64 x 16 by each four warps" in told
    assert "transposed result of 4 warps: " in told


def test_what_cannot_be_turned():
    a, y = numbers(16, 64, kind="bf16"), room(16, 32, kind="bf16")
    with pytest.raises(tile.TileError, match="products have 16 rows, no multiple of 64"):
        matmul.source(a, numbers(64, 32, kind="bf16"), y, BN=32, **HOPPER)
    bytes = numbers(16, 64, kind="fp8"), numbers(64, 64, kind="fp8"), room(16, 64)
    with pytest.raises(tile.TileError, match="a product of 16 rows is summed in parts"):
        matmul.source(bytes[0], bytes[1].T.copy().T, bytes[2], **HOPPER)
