"""Products of rows with the matrices of their experts: how many rows each has, only memory knows.

The rows are in the order of their experts, and ``starts`` says where each expert's begin. The grid has
programs for as many blocks as the largest expert has; those of smaller ones have nothing to do. They do not
return early: their loops take no turns, so that a GPU's warps can have roles in it, and their masks let
nothing be written.
"""

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda w, MOST, BM, BN, **_: (tile.cdiv(w.shape[2], BN), tile.cdiv(MOST, BM), w.shape[0]))
def grouped_matmul(p, x, w, starts, y, *, MOST, BM=64, BN=64, BK=32):
    """y[r] = x[r] @ w[e] for all rows r of each expert e, which has at most MOST."""
    j, block, expert = p.id(0), p.id(1), p.id(2)
    X, W, S = p.read(x, [BM, BK]), p.read(w, [BK, BN]), p.read(starts, [1])
    first, stop = S.index([expert]) + block * BM, S.index([expert + 1])
    acc = p.zeros([BM, BN])
    for k in range(W.blocks(1) if first < stop else 0):
        acc += X.window([first, k * BK]) @ W[expert, k, j]
    row = p.iota([BM, 1], 0, tile.I32) + first
    p.write(y, [BM, BN]).put_window(acc, [first, j * BN], mask=row < stop)


def reference(x, w, starts):
    parts = zip(starts[:-1], starts[1:], w, strict=True)
    return np.concatenate([x[start:stop] @ each for start, stop, each in parts])


def tokens(experts, rows, depth, columns):
    """Rows for experts of which the second has none, their matrices, and where each expert's rows begin."""
    counts = np.random.default_rng(0).multinomial(rows, np.ones(experts - 1) / (experts - 1))
    starts = np.concatenate([[0], np.cumsum(np.insert(counts, 1, 0))]).astype(np.int32)
    return measure.random(rows, depth, seed=1), measure.random(experts, depth, columns, seed=2), starts


def main(quick=False):
    sizes = (4, 150, 70, 100) if quick else (8, 2048, 512, 512)
    x, w, starts = tokens(*sizes)
    y = np.empty((len(x), w.shape[2]), np.float32)
    most = int(np.diff(starts).max())
    grouped_matmul(x, w, starts, y, MOST=most)
    wide = [array.astype(np.float64) for array in (x, w)]
    bound = x.shape[1] * 2.0**-24 * reference(*map(np.abs, wide), starts)
    measure.check("mixture_of_experts", y, reference(*wide, starts), bound)
    measure.compare(
        f"mixture of {len(w)} experts, {len(x)} rows {x.shape[1]}x{w.shape[2]}",
        2e-9 * x.size * w.shape[2],
        "GFLOP/s",
        lambda: grouped_matmul(x, w, starts, y, MOST=most),
        quick,
        NumPy=lambda: reference(x, w, starts),
    )


if __name__ == "__main__":
    measure.run(main)
