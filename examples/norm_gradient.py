"""The gradient of RMSNorm: one result for each row, and another that is a sum over all rows.

A program takes every PROGRAMS-th block of rows and adds up what they give to the weights' gradient in a tile
of its own, so x is read once. Each program's sum is a row of ``parts``, and a second kernel adds those. The
order of additions does not depend on which program is first, so two launches give the same bits.
"""

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda parts, **_: parts.shape[0])
def norm_gradient(p, x, w, g, dx, parts, *, COLUMNS, ROWS=1, EPSILON=1e-6):
    """Of y = x r w, where r is 1 / sqrt(mean(x^2) + EPSILON) of each row; g is the gradient of y."""
    X, G, D = p.read(x, [ROWS, COLUMNS]), p.read(g, [ROWS, COLUMNS]), p.write(dx, [ROWS, COLUMNS])
    weights, total = p.read(w, [COLUMNS])[0], p.zeros([ROWS, COLUMNS])
    for i in range(p.id(0), X.blocks(0), p.count(0)):
        row, gradient = X[i, 0], G[i, 0]
        r = ((row * row).sum(1) / x.shape[1] + EPSILON).rsqrt()
        normed, pulled = row * r, gradient * weights
        D[i, 0] = (pulled - normed * ((normed * pulled).sum(1) / x.shape[1])) * r
        total += gradient * normed
    p.write(parts, [1, COLUMNS])[p.id(0), 0] = total.sum(0)


@tile.kernel(grid=lambda dw, COLUMNS, **_: tile.cdiv(dw.shape[0], COLUMNS))
def added_up(p, parts, dw, *, ROWS=8, COLUMNS=128):
    j = p.id(0)
    P, total = p.read(parts, [ROWS, COLUMNS]), p.zeros([ROWS, COLUMNS])
    for i in range(P.blocks(0)):
        total += P[i, j]
    p.write(dw, [COLUMNS])[j] = total.sum(0)


def reference(x, w, g):
    r = 1 / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6)
    normed, pulled = x * r, g * w
    return (pulled - normed * (normed * pulled).mean(1, keepdims=True)) * r, (g * normed).sum(0)


def main(quick=False):
    rows, columns, programs = (37, 200, 5) if quick else (8192, 1000, 64)
    x, g = (measure.random(rows, columns, seed=seed) for seed in (0, 1))
    w = measure.random(columns, seed=2)
    dx, dw, parts = np.empty_like(x), np.empty_like(w), np.empty((programs, columns), np.float32)

    def ours():
        norm_gradient(x, w, g, dx, parts, COLUMNS=256 if quick else 1024)
        added_up(parts, dw)

    ours()
    wide = [array.astype(np.float64) for array in (x, w, g)]
    of_rows, of_weights = reference(*wide)
    measure.check("norm_gradient, of x", dx, of_rows, 4e-6 * (1 + np.abs(g * w)))
    measure.check("norm_gradient, of w", dw, of_weights, 1e-5 * np.sqrt(rows))
    again = dw.copy()
    ours()
    measure.same_bits("norm_gradient", dw, again)
    title = f"gradient of rmsnorm {rows}x{columns}"
    measure.compare(title, 12e-9 * x.size, "GB/s", ours, quick, NumPy=lambda: reference(x, w, g))


if __name__ == "__main__":
    measure.run(main)
