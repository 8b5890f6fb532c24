"""Tiles whose registers lie apart go to memory in a layout that fills what memory moves."""

import ml_dtypes
import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.layout import blocked
from gizml_tile.lowering.planning.vectors import Traffic, access_cost

ARCHS = {"sm_80": "cuda", "sm_90a": "cuda", "gfx942": "hip", "gfx1100": "hip", "apple9": "metal"}
RNG = np.random.default_rng(4)


@tile.kernel(grid=lambda x, **_: (tile.cdiv(x.shape[0], 64), tile.cdiv(x.shape[1], 128)))
def sums_of_columns(p, x, out, *, how="sum"):
    i, j = p.id(0), p.id(1)
    total = getattr(p.read(x, [64, 128])[i, j], how)(0)
    p.write(out, [1, 128]).scatter_add(total, [0, p.iota([1, 128], 1, tile.I32) + j * 128])


@tile.kernel(grid=lambda c: (tile.cdiv(c.shape[0], 64), tile.cdiv(c.shape[1], 64)))
def product(p, a, b, c):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [64, 32]), p.read(b, [32, 64]), p.write(c, [64, 64])
    acc = p.zeros([64, 64])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = acc


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("columns", [128, 200])
def test_atomic_additions_of_a_row_lie_beside_each_other(arch, columns):
    x = RNG.integers(-9, 9, (200, columns)).astype(np.float32)
    out = np.zeros((1, columns), np.float32)
    found = sums_of_columns.simulate(x, out, kind=ARCHS[arch], arch=arch)
    assert not found.findings
    np.testing.assert_array_equal(out[0], x.sum(0))


# On gfx1100 16 lanes lie beside each other, which is as good as what moving the tile first would give.
@pytest.mark.parametrize("arch", [arch for arch in ARCHS if arch != "gfx1100"])
def test_products_with_odd_rows_of_16_bits_lie_beside_each_other(arch):
    a, b = (RNG.integers(-3, 3, shape).astype(ml_dtypes.bfloat16) for shape in ((96, 64), (64, 131)))
    c = np.zeros((96, 131), ml_dtypes.bfloat16)
    found = product.simulate(a, b, c, kind=ARCHS[arch], arch=arch)
    assert not found.findings
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(ml_dtypes.bfloat16))


def test_a_product_of_floats_with_odd_rows_goes_as_it_is():
    """Half of what moves is used, and moving the tile first would take as long."""
    a, b, c = np.ones((64, 32), np.float16), np.ones((32, 63), np.float16), np.zeros((64, 63), np.float32)
    assert "put c at 64x64 converted" not in product.explain(a, b, c, kind="cuda", arch="sm_80")


def test_the_cost_of_accesses_counts_them_and_the_sectors_they_touch():
    wide, single = Traffic(4, 4), Traffic(4, 1)
    neighbours, apart = blocked((1, 128), (1, 0), 1), blocked((1, 128), (1, 0), 4)
    # 32 lanes: an access of 4 sectors, or of 16, whose 4 of 16 bytes fill them.
    assert access_cost(neighbours, 1, single) == access_cost(neighbours, 1, wide) == (1 + 1) / 32
    assert access_cost(apart, 1, single) == (1 + 4) / 32
    assert access_cost(apart, 1, wide) == (1 + 4) / 128
    # Each column has sectors of its own.
    assert access_cost(neighbours, 0, single) == (1 + 8) / 32
