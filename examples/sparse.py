"""A sparse matrix times a dense one, and the gradient of its elements: loops as long as memory says.

The matrix is in compressed rows: the columns and values of row i are those from starts[i] to starts[i + 1].
A program makes a part of one row of the result; it takes BK elements of the row at a time and gathers as
many rows of the dense matrix. The gradient of the elements needs products of rows only where the matrix has
elements.
"""

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda y, BN, **_: (tile.cdiv(y.shape[1], BN), y.shape[0]))
def sparse_times_dense(p, starts, columns, values, x, y, *, BK=16, BN=128):
    j, i = p.id(0), p.id(1)
    S, C, V = p.read(starts, [1]), p.read(columns, [BK], pad=-1), p.read(values, [BK])
    X, column = p.read(x, [1, BN]), p.iota([1, BN], 1, tile.I32) + j * BN
    stop, total = S.index([i + 1]), p.zeros([1, BN])
    for first in range(S.index([i]), stop, BK):
        # Elements of the next row read as column -1, which is outside of x: nothing is fetched for them.
        inside = p.iota([1, BK], 1, tile.I32) + first < stop
        rows = X.gather([C.window([first], mask=inside).T, column])
        total += (V.window([first], mask=inside).T * rows).sum(0)
    p.write(y, [1, BN])[i, j] = total


@tile.kernel(grid=lambda out, BLOCK, **_: tile.cdiv(out.shape[0], BLOCK))
def sampled_products(p, rows, columns, a, b, out, *, BLOCK=32, BK=64):
    """out[n] is the product of row rows[n] of a and row columns[n] of b."""
    i = p.id(0)
    row, column = (p.read(t, [BLOCK], pad=-1)[i].T for t in (rows, columns))
    A, B, k = p.read(a, [1, BK]), p.read(b, [1, BK]), p.iota([1, BK], 1, tile.I32)
    total = p.zeros([BLOCK, BK])
    for turn in range(A.blocks(1)):
        total += A.gather([row, k + turn * BK]) * B.gather([column, k + turn * BK])
    p.write(out, [BLOCK])[i] = total.sum(1).T


def matrix(rows, columns, each):
    """A random matrix with up to twice so many elements in a row: starts, rows, columns, values."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 2 * each, rows)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    row = np.repeat(np.arange(rows, dtype=np.int32), counts)
    return starts, row, rng.integers(0, columns, len(row), np.int32), measure.random(len(row), seed=1)


def reference(rows, columns, values, x, count):
    y = np.zeros((count, x.shape[1]), x.dtype)
    np.add.at(y, rows, values[:, None] * x[columns])
    return y


def main(quick=False):
    count, inner, width, each = (20, 30, 70, 12) if quick else (4096, 4096, 128, 32)
    starts, rows, columns, values = matrix(count, inner, each)
    x, g = measure.random(inner, width, seed=2), measure.random(count, width, seed=3)
    y, gradient = np.empty((count, width), np.float32), np.empty_like(values)
    sparse_times_dense(starts, columns, values, x, y)
    wide = [array.astype(np.float64) for array in (values, x, g)]
    bound = 1e-6 * reference(rows, columns, *map(np.abs, wide[:2]), count)
    measure.check("sparse, times dense", y, reference(rows, columns, *wide[:2], count), bound)
    sampled_products(rows, columns, g, x, gradient)
    truth = (wide[2][rows] * wide[1][columns]).sum(1)
    measure.check("sparse, gradient of its elements", gradient, truth, 1e-5 * np.sqrt(width))
    measure.compare(
        f"{len(values)} elements of {count}x{inner} times {inner}x{width}",
        2e-9 * len(values) * width,
        "GFLOP/s",
        lambda: sparse_times_dense(starts, columns, values, x, y),
        quick,
        NumPy=lambda: reference(rows, columns, values, x, count),
    )


if __name__ == "__main__":
    measure.run(main)
