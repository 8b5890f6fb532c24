"""One compiled kernel serves every size, offset and stride of its kind, launch after launch."""

import numpy as np
from agreement import assert_close, numbers
from products import assert_product, chain

import gizml_tile as tile

SINGLE = np.dtype(np.float32)


def grid(c, BM, BN, **_):
    return tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)


@tile.kernel(grid=grid)
def matmul(p, a, b, c, *, BM=32, BN=32, BK=16):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    total = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        total += A[i, k] @ B[k, j]
    C[i, j] = total


@tile.kernel(grid=lambda y, **_: tile.cdiv(y.shape[0], 8))
def softmax(p, x, y, *, LENGTH=256):
    i = p.id(0)
    rows = p.read(x, [8, LENGTH], pad=float("-inf"))[i, 0]
    e = (rows - rows.max(1)).exp()
    p.write(y, [8, LENGTH])[i, 0] = e / e.sum(1)


def window(rng, rows, columns):
    """A matrix somewhere in a larger one, at any offset from a vector's alignment."""
    top, left, right = (int(each) for each in rng.integers(0, 20, 3))
    whole = numbers(rng, (rows + top, columns + left + right + 1), SINGLE)
    return whole, whole[top:, left : left + columns]


def test_products_of_all_sizes():
    rng = np.random.default_rng(0)
    before = matmul.cache_info().misses
    for _ in range(40):
        m, n = (int(each) for each in rng.integers(2, 140, 2))
        k = int(rng.choice([rng.integers(2, 60), rng.integers(60, 400)]))
        (_, a), (_, b), (whole, c) = window(rng, m, k), window(rng, k, n), window(rng, m, n)
        untouched = whole.copy()
        matmul(a, b, c)
        assert_close(c, chain(a, b))
        assert_product(c, a, b)
        untouched[whole.shape[0] - m :, :][:, _offset(whole, c) : _offset(whole, c) + n] = c
        assert np.array_equal(whole, untouched)
    assert matmul.cache_info().misses - before <= 2


def test_rows_of_all_lengths():
    rng = np.random.default_rng(1)
    for _ in range(150):
        m, n = int(rng.integers(2, 60)), int(rng.integers(2, 257))
        (_, x), (_, y) = window(rng, m, n), window(rng, m, n)
        softmax(x, y)
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        assert_close(y, e / e.sum(1, keepdims=True), 1e-6)


def test_nothing_to_do():
    """Empty tensors and grids launch nothing; a product without depth stores zeros."""
    empty, c = np.zeros((5, 0), np.float32), np.full((5, 7), 3, np.float32)
    matmul(empty, np.zeros((0, 7), np.float32), c)
    assert np.all(c == 0)
    matmul(np.zeros((0, 4), np.float32), np.zeros((4, 7), np.float32), np.zeros((0, 7), np.float32))
    softmax(np.zeros((0, 9), np.float32), np.zeros((0, 9), np.float32))


def _offset(whole: np.ndarray, part: np.ndarray) -> int:
    """The column of ``whole`` that ``part`` starts in."""
    return (part.ctypes.data - whole.ctypes.data) // whole.itemsize % whole.shape[1]
