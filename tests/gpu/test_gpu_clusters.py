"""Programs that clusters of workgroups share: results, which programs qualify, and who does what."""

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
def matmul(p, a, b, y, *, BM=128, BN=128, BK=64, SHARE="", STAGES=0):
    if SHARE:
        p.variant("workgroups", SHARE)
    if STAGES:
        p.stages(STAGES)
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK]), p.read(b, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=by_tiles)
def linear(p, x, w, bias, residual, y, z, *, BM=128, BN=128, BK=64, SHARE="cluster of 2"):
    """Deferred reads, of a row and of a block, and stores of two types."""
    p.variant("workgroups", SHARE)
    i, j = p.id(0), p.id(1)
    X, W = p.read(x, [BM, BK]), p.read(w, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        acc += X[i, k] @ W[k, j]
    p.write(z, [BM, BN])[i, j] = acc
    p.write(y, [BM, BN])[i, j] = (acc + p.read(bias, [BN])[j]).relu() + p.read(residual, [BM, BN])[i, j]


@tile.kernel(grid=by_tiles)
def gated(p, x, w, v, y, *, BM=64, BN=64, BK=64, SHARE="cluster of 4"):
    """Two sums, of which one begins with something."""
    p.variant("workgroups", SHARE)
    i, j = p.id(0), p.id(1)
    X, W, V = p.read(x, [BM, BK]), p.read(w, [BK, BN]), p.read(v, [BK, BN])
    up, gate = p.zeros([BM, BN]), p.full([BM, BN], 1.5)
    for k in range(X.blocks(1)):
        block = X[i, k]
        up += block @ W[k, j]
        gate += block @ V[k, j]
    p.write(y, [BM, BN])[i, j] = up * gate


@tile.kernel(grid=by_tiles)
def centred(p, x, w, y, *, BM=64, BN=128, BK=64, SHARE="cluster of 2"):
    """Rows are reduced after the loop, which needs whole ones."""
    p.variant("workgroups", SHARE)
    i, j = p.id(0), p.id(1)
    X, W = p.read(x, [BM, BK]), p.read(w, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        acc += X[i, k] @ W[k, j]
    p.write(y, [BM, BN])[i, j] = acc - acc.sum(1) / BN


def is_clustered(kernel, *tensors, size=2, **constants):
    text = kernel.source(*tensors, **HOPPER, **constants)
    report = assemble(text, "sm_90a")
    assert (report.spills, report.warnings) == (0, ())
    return f".reqnctapercluster {size}\n" in text


def simulated(kernel, *tensors, **constants):
    ran = kernel.simulate(*tensors, **HOPPER, **constants)
    assert not [str(each) for each in ran.findings if each.kind not in COSTS]


def assert_product(y, want, bits=8):
    assert np.abs(wide(y) - want).max() <= 2.0**-bits * max(np.abs(want).max(), 1)


def operands(m, n, k):
    return numbers(m, k, kind="bf16"), numbers(k, n, kind="bf16"), room(m, n, kind="bf16")


# Whole and ragged tiles; as many turns as workgroups, fewer, and one more for some of them.
@pytest.mark.parametrize("shape", [(256, 256, 512), (136, 264, 72), (128, 256, 64), (72, 200, 712)])
@pytest.mark.parametrize(
    "size, BM, BN", [(2, 128, 128), (2, 64, 256), (4, 128, 256), (4, 64, 64), (8, 64, 64), (2, 256, 64)]
)
def test_sizes(shape, size, BM, BN):
    a, b, y = operands(*shape)
    share = {"BM": BM, "BN": BN, "SHARE": f"cluster of {size}"}
    assert is_clustered(matmul, a, b, y, size=size, **share)
    simulated(matmul, a, b, y, **share)
    assert_product(y, wide(a) @ wide(b))


def test_columns_and_first():
    """Who stores what, as told."""
    a, b, y = operands(256, 256, 512)
    told = matmul.explain(a, b, y, SHARE="cluster of 2", **HOPPER)
    assert "a cluster of 2 workgroups runs each program" in told and "each stores its columns" in told
    told = matmul.explain(a, b, y, BN=64, SHARE="one", **HOPPER)
    assert "half of the turns each, the first does what follows" in told


def test_epilogue_by_columns():
    m, n, k = 200, 264, 200
    x, w, bias = numbers(m, k, kind="bf16"), numbers(k, n, kind="bf16"), numbers(n)
    residual, y, z = numbers(m, n), room(m, n), room(m, n, kind="bf16")
    assert is_clustered(linear, x, w, bias, residual, y, z)
    assert "each stores its columns" in linear.explain(x, w, bias, residual, y, z, **HOPPER)
    simulated(linear, x, w, bias, residual, y, z)
    product = wide(x) @ wide(w)
    assert_product(z, product)
    assert_product(y, np.maximum(product + wide(bias), 0) + wide(residual), 16)


@pytest.mark.parametrize("size", [2, 4])
def test_two_sums(size):
    m, n, k = 72, 136, 328
    x, w, v = numbers(m, k, kind="bf16"), numbers(k, n, kind="bf16"), numbers(k, n, kind="bf16")
    y = room(m, n)
    share = {"SHARE": f"cluster of {size}"}
    assert is_clustered(gated, x, w, v, y, size=size, **share)
    simulated(gated, x, w, v, y, **share)
    assert_product(y, wide(x) @ wide(w) * (wide(x) @ wide(v) + 1.5), 16)


def test_rows_are_reduced_by_the_first():
    x, w, y = numbers(72, 200, kind="bf16"), numbers(200, 128, kind="bf16"), room(72, 128)
    assert is_clustered(centred, x, w, y)
    simulated(centred, x, w, y)
    product = wide(x) @ wide(w)
    assert_product(y, product - product.mean(1, keepdims=True), 16)


# 132 multiprocessors: programs, turns, and the workgroups of each program.
@pytest.mark.parametrize(
    "shape, size",
    [
        ((1024, 1024, 1024), 2),
        ((128, 8192, 8192), 2),
        ((128, 4096, 8192), 4),
        ((1024, 1152, 1024), 1),  # 72 programs: two workgroups each are more than there is room for
        ((1024, 1024, 960), 1),  # fifteen turns
        ((4096, 4096, 4096), 1),
    ],
)
def test_few_programs_are_shared(shape, size):
    m, n, k = shape
    tensors = [np.zeros(each, np.float16) for each in ((m, k), (k, n), (m, n))]
    told = matmul.explain(*tensors, **HOPPER)
    table = [line.split("  ")[2] for line in told.split("loop: workgroups\n")[1].splitlines()[:4]]
    smaller = [f"cluster of {each}" for each in (4, 2) if each <= size]
    assert table[: len(smaller) + 1] == [*smaller, "one"]


def test_a_size_compiles_anew_only_where_the_room_differs():
    few = matmul.source(*operands(1024, 1024, 1024), **HOPPER)
    assert few == matmul.source(*operands(512, 1024, 2048), SHARE="cluster of 2", **HOPPER)
    assert few != matmul.source(*operands(512, 1024, 2048), SHARE="one", **HOPPER)


@tile.kernel(grid=by_tiles)
def running(p, x, w, y, *, BM=64, BN=64, BK=64, SHARE="cluster of 2"):
    """The sum is looked at in every turn."""
    p.variant("workgroups", SHARE)
    i, j = p.id(0), p.id(1)
    X, W = p.read(x, [BM, BK]), p.read(w, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        acc = (acc + X[i, k] @ W[k, j]).relu()
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=by_tiles)
def stores_before(p, x, w, y, z, *, BM=64, BN=64, BK=64, SHARE="cluster of 2"):
    p.variant("workgroups", SHARE)
    i, j = p.id(0), p.id(1)
    p.write(z, [BM, BN])[i, j] = p.zeros([BM, BN])
    X, W = p.read(x, [BM, BK]), p.read(w, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        acc += X[i, k] @ W[k, j]
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=by_tiles)
def no_product(p, x, y, *, BM=64, BN=64, SHARE="cluster of 2"):
    p.variant("workgroups", SHARE)
    p.write(y, [BM, BN])[p.id(0), p.id(1)] = p.read(x, [BM, BN])[p.id(0), p.id(1)]


def test_what_cannot_be_shared():
    x, w, y, z = (numbers(64, 64, kind="bf16") for _ in range(4))
    cases = [
        (running, (x, w, y), {}, "the loop carries more than sums of what its turns give"),
        (stores_before, (x, w, y, z), {}, "the program stores before the loop has ended"),
        (no_product, (x, y), {}, "warps have no roles"),
        (matmul, (x, w, y), {"SHARE": "cluster of 8"}, "458752 bytes of sums leave too little"),
        (matmul, (x, w, y), {"SHARE": "cluster of 2", "STAGES": 6}, "leave too little workgroup memory"),
        (matmul, (x, w, y), {"SHARE": "cluster of 3"}, "there is no such variant"),
    ]
    for kernel, tensors, constants, message in cases:
        with pytest.raises(tile.TileError, match=message):
            kernel.source(*tensors, **HOPPER, **constants)


@tile.kernel(grid=1)
def with_row_sums(p, a, b, w, y, *, BM=64, BN=128, BK=64):
    """Beside the products' results the loop carries a sum of each row, which all that store want."""
    A, B, W = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.read(w, [BM, BK])
    acc, total = p.zeros([BM, BN]), p.zeros([BM, 1])
    for k in range(A.blocks(1)):
        acc += A[0, k] @ B[k, 0]
        total += W[0, k].sum(1)
    p.write(y, [BM, BN])[0, 0] = (acc * total).to(tile.F16)


def test_other_sums_that_are_carried():
    """Smallest case: each workgroup took its own columns of the products, and its own part of row sums."""
    a, b, w = (numbers(*shape, kind="f16") for shape in ((64, 1280), (1280, 128), (64, 1280)))
    y = room(64, 128, kind="f16")
    simulated(with_row_sums, a, b, w, y)
    want = (wide(a) @ wide(b)) * wide(w).sum(1, keepdims=True)
    assert np.abs(wide(y) - want).max() <= 2.0**-8 * np.abs(want).max()
