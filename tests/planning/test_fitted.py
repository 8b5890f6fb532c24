"""Blocks in workgroup memory whose fragments are read by vectors: wide accesses, and no bank conflicts."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import gizml_tile as tile
from gizml_tile.layout import vector_width
from gizml_tile.lowering.planning.fitted import turning


@tile.kernel(grid=lambda c, SIDE, **_: (tile.cdiv(c.shape[0], SIDE), tile.cdiv(c.shape[1], SIDE)))
def matmul(p, a, b, c, *, SIDE=128, DEPTH=32):
    A, B = p.read(a, [SIDE, DEPTH]), p.read(b, [DEPTH, SIDE])
    acc = p.zeros([SIDE, SIDE])
    for k in range(A.blocks(1)):
        acc += A[p.id(0), k] @ B[k, p.id(1)]
    p.write(c, [SIDE, SIDE])[p.id(0), p.id(1)] = acc


TARGETS = [("hip", "gfx90a"), ("hip", "gfx950"), ("hip", "gfx1100"), ("hip", "gfx1201"), ("metal", "apple9")]


@pytest.mark.parametrize("kind, arch", TARGETS)
@pytest.mark.parametrize("orders", ["CC", "CF", "FC", "FF"])
@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_products_have_no_bank_conflicts(kind, arch, orders, dtype):
    rng = np.random.default_rng(0)
    a, b = (
        np.asarray(rng.integers(-4, 5, shape).astype(dtype), order=order)
        for shape, order in zip(((128, 64), (64, 128)), orders, strict=True)
    )
    c = np.zeros((128, 128), np.float32)
    ran = matmul.simulate(a, b, c, kind=kind, arch=arch)
    assert not ran.findings, ran.findings
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()


@pytest.mark.parametrize("kind, arch", TARGETS)
def test_a_block_is_turned_where_its_fragments_run_along_the_other_axis(kind, arch):
    a, c = np.zeros((128, 64), np.float16), np.zeros((128, 128), np.float32)
    turned = kind == "hip"  # Apple's fragments of b run along its rows
    for order in "CF":
        told = matmul.explain(a, np.zeros((64, 128), np.float16, order), c, kind=kind, arch=arch)
        assert ("turned" in told) == (turned == (order == "C"))


@pytest.mark.parametrize("shape", [(32, 128), (128, 32), (16, 16), (64, 8), (1, 64)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("lanes, warps", [(32, 4), (64, 2), (64, 8)])
def test_threads_that_turn_a_block_have_all_of_it(shape, axis, lanes, warps):
    found = turning(shape, 2, axis, 8, lanes, warps)
    assert found.layout.is_surjective
    assert (found.layout.size("lane"), found.layout.size("warp")) == (lanes, warps)
    assert vector_width(found.layout, axis)[0] >= min(found.vector, shape[axis])
    assert found.vector * found.across <= max(shape[0] * shape[1] // (lanes * warps), 1)


@tile.kernel(grid=1)
def chained(p, q, k, v, y, *, ROWS=64, KEYS=64, DEPTH=64):
    """Weights are made of one product's results, and are the left operand of the other."""
    scores = p.read(q, [ROWS, DEPTH])[0, 0] @ p.read(k, [KEYS, DEPTH])[0, 0].T
    weights = (scores - scores.max(1)).to(tile.F16)
    p.write(y, [ROWS, DEPTH])[0, 0] = weights @ p.read(v, [KEYS, DEPTH])[0, 0]


@pytest.mark.parametrize(
    "kind, arch, stays",
    [
        ("hip", "gfx90a", True),
        ("hip", "gfx950", True),
        ("hip", "gfx1100", False),  # whose operands are in each half of a wave
        ("hip", "gfx1201", True),
        ("metal", "apple9", True),
    ],
)
def test_results_of_a_product_are_operands_of_another_as_they_lie(kind, arch, stays):
    rng = np.random.default_rng(0)
    q, k, v = (rng.integers(-2, 3, (64, 64)).astype(np.float16) for _ in range(3))
    y = np.zeros((64, 64), np.float32)
    assert ("operand of a product" not in chained.explain(q, k, v, y, kind=kind, arch=arch)) == stays
    ran = chained.simulate(q, k, v, y, kind=kind, arch=arch)
    assert not ran.findings, ran.findings
    q, k, v = (each.astype(np.float32) for each in (q, k, v))
    scores = q @ k.T
    assert (y == (scores - scores.max(1, keepdims=True)) @ v).all()


@pytest.mark.parametrize("kind, arch", TARGETS)
@pytest.mark.parametrize("m, n, k", [(16, 8, 32), (8, 4, 64), (128, 16, 32), (16, 128, 16), (4, 256, 32)])
@pytest.mark.parametrize("stored", [2, 4])
def test_products_of_few_rows_or_columns(kind, arch, m, n, k, stored):
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), f"f{stored}")

    def body(p):
        p.write(c, [m, n]).put(p.read(a, [m, k]).at([0, 0]).dot(p.read(b, [k, n]).at([0, 0])), [0, 0])

    ran = tile.simulate(1, body, kind=kind, arch=arch)
    assert not [each for each in ran.findings if not each.is_cost]
    assert (c == (a.astype(np.float32) @ b.astype(np.float32)).astype(c.dtype)).all()
