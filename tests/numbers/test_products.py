"""Products: within the bound of a chain of fused multiply-adds, and the same bits for every cut of F32."""

import ml_dtypes
import numpy as np
import pytest

import gizml_tile as tile

# rows, columns, depth: inside one block, ragged on all sides, few rows, several chunks of k
SHAPES = [(128, 128, 128), (130, 200, 77), (257, 129, 515), (1, 33, 64), (8, 1024, 300), (33, 17, 1031)]
BLOCKS = [(128, 128, 64), (32, 64, 16), (8, 512, 32), (16, 16, 16), (4, 32, 8), (1, 8, 4), (256, 128, 128)]


@tile.kernel(grid=lambda c, BM, BN: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def product(p, a, b, c, *, BM, BN, BK):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = acc


def multiplied(a, b, blocks):
    rows, columns, depth = blocks
    c = np.full((a.shape[0], b.shape[1]), np.nan, np.float32)
    product(a, b, c, BM=rows, BN=columns, BK=depth)
    return c


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_every_cut_keeps_the_bound(shape, kind):
    m, n, k = shape
    random = np.random.default_rng(sum(shape))
    a, b = (random.standard_normal(size).astype(kind) for size in ((m, k), (k, n)))
    wide = a.astype(np.float64), b.astype(np.float64)
    # one rounding for each of k sums, and one more for a pair that is multiplied at once
    bound = (k + 2) * 2.0**-24 * (abs(wide[0]) @ abs(wide[1]))
    results = [multiplied(a, b, blocks) for blocks in BLOCKS]
    for blocks, result in zip(BLOCKS, results, strict=True):
        assert (abs(result - wide[0] @ wide[1]) <= bound).all(), blocks
        if kind is np.float32:
            assert (result == results[0]).all(), blocks


def test_a_product_is_one_chain_in_the_order_of_k():
    random = np.random.default_rng(7)
    a, b = (random.standard_normal(size).astype(np.float32) for size in ((16, 600), (600, 32)))
    wide = a.astype(np.float64), b.astype(np.float64)
    total = np.zeros((16, 32), np.float32)
    for k in range(600):
        # float64 holds the product exactly; its rounding of the sum moves no result for these numbers
        total = (np.outer(wide[0][:, k], wide[1][k]) + total).astype(np.float32)
    assert (multiplied(a, b, (16, 32, 8)) == total).all()
