"""Sums of columns three times: slow, better, and good. README.md beside this tells how to see why."""

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda y, **_: y.shape[0])
def one_by_one(p, x, y, *, ROWS=256):
    j = p.id(0)
    X, total = p.read(x, [ROWS, 1]), p.zeros([1, 1])
    for i in range(X.blocks(0)):
        total += X[i, j].sum(0)
    p.write(y, [1])[j] = total


@tile.kernel(grid=lambda y, COLUMNS, **_: tile.cdiv(y.shape[0], COLUMNS))
def together(p, x, y, *, ROWS=32, COLUMNS=64):
    j = p.id(0)
    X, total = p.read(x, [ROWS, COLUMNS]), p.zeros([ROWS, COLUMNS])
    for i in range(X.blocks(0)):
        total += X[i, j]
    p.write(y, [COLUMNS])[j] = total.sum(0)


@tile.kernel(grid=lambda y, COLUMNS, PARTS, **_: (tile.cdiv(y.shape[0], COLUMNS), PARTS))
def in_parts(p, x, y, *, ROWS=32, COLUMNS=64, PARTS=16):
    j, part = p.id(0), p.id(1)
    X, total = p.read(x, [ROWS, COLUMNS]), p.zeros([ROWS, COLUMNS])
    for i in range(part, X.blocks(0), PARTS):
        total += X[i, j]
    column = p.iota([1, COLUMNS], 1, tile.I32) + j * COLUMNS
    p.write(y, [COLUMNS]).scatter_add(total.sum(0), [column])  # y starts as zeros


def main(quick=False):
    rows, columns = (300, 70) if quick else (4096, 4096)
    # Sums of such multiples of 1/64 are exact, so that the order in which programs add does not show.
    x, y = np.rint(measure.random(rows, columns) * 64) / 64, np.zeros(columns, np.float32)
    for kernel in (one_by_one, together, in_parts):
        y[:] = 0
        kernel(x, y)
        measure.check(f"column_sums, {kernel.__name__}", y, x.sum(0, np.float64), 0)
    measure.compare(
        f"column_sums {rows}x{columns}, together",
        4e-9 * x.size,
        "GB/s",
        lambda: together(x, y),
        quick,
        one_by_one=lambda: one_by_one(x, y),
        in_parts=lambda: in_parts(x, y),
        NumPy=lambda: x.sum(0, out=y),
    )


if __name__ == "__main__":
    measure.run(main)
