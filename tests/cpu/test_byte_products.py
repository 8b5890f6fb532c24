"""Products of bytes with and without signs: exact, whatever unit multiplies them."""

from __future__ import annotations

import numpy as np
import pytest

import gizml_tile as tile

# Ragged ends of every axis, and depths around the 64 and 1024 that the matrix unit takes at a time.
SIZES = [(1, 1, 1), (33, 70, 100), (5, 200, 1030), (64, 64, 2500)]
BLOCKS = [(16, 16, 16), (4, 8, 32), (2, 2, 16), (32, 128, 128)]


def cdiv(a, b):
    return -(-a // b)


@pytest.mark.parametrize("right", [np.int8, np.uint8])
@pytest.mark.parametrize("left", [np.int8, np.uint8])
@pytest.mark.parametrize("turned", [False, True])
def test_sums_of_products_of_bytes(left, right, turned):
    rng = np.random.default_rng(4)
    for m, n, depth in SIZES:
        a = rng.integers(np.iinfo(left).min, np.iinfo(left).max, (m, depth), left, endpoint=True)
        b = rng.integers(np.iinfo(right).min, np.iinfo(right).max, (depth, n), right, endpoint=True)
        a[0], b[:, 0] = np.iinfo(left).min, np.iinfo(right).min
        held = np.ascontiguousarray(b.T) if turned else b
        for bm, bn, bk in BLOCKS:
            y = np.zeros((m, n), np.int32)

            def body(p, a=a, held=held, y=y, bm=bm, bn=bn, bk=bk):
                i, j = p.id(0), p.id(1)
                A, B = p.read(a, [bm, bk]), p.read(held, [bn, bk] if turned else [bk, bn])

                def turn(k, total):
                    block = B.at([j, k]).transpose() if turned else B.at([k, j])
                    return total + A.at([i, k]).dot(block)

                p.write(y, [bm, bn]).put(p.fold(0, A.blocks(1), p.zeros([bm, bn], tile.I32), turn), [i, j])

            tile.run([cdiv(m, bm), cdiv(n, bn)], body)
            np.testing.assert_array_equal(y, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("right", [tile.I8, tile.U8])
@pytest.mark.parametrize("left", [tile.I8, tile.U8])
@pytest.mark.parametrize("depth", [8, 64, 128])
def test_products_of_bytes_that_are_computed(left, right, depth):
    """Operands that are made first, of which one is reduced as well; they wrap into bytes."""
    rng = np.random.default_rng(depth)
    x, z = (rng.integers(-1000, 1000, shape).astype(np.int32) for shape in ((32, depth), (depth, 16)))
    y = np.zeros((32, 16), np.int32)

    def body(p):
        a = (p.read(x, [32, depth]).at([0, 0]) * 3 + 1).to(left)
        b = (p.read(z, [depth, 16]).at([0, 0]) - p.iota([depth, 16], 1, tile.I32)).to(right)
        p.write(y, [32, 16]).put(a.dot(b) + a.to(tile.I32).sum(1), [0, 0])

    tile.run([1], body)
    kinds = {tile.I8: np.int8, tile.U8: np.uint8}
    a = (x * 3 + 1).astype(kinds[left]).astype(np.int64)
    b = (z - np.arange(16)).astype(kinds[right]).astype(np.int64)
    np.testing.assert_array_equal(y, a @ b + a.sum(1, keepdims=True))
