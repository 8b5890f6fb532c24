"""Rows of a table by their numbers, and the gradient of that: places that data give.

``lookup`` gathers: each program reads a block of numbers and with it rows from anywhere. Its gradient adds
rows to the table where the numbers say, and a number that comes twice gets the sum of both.
"""

import measure
import numpy as np

import gizml_tile as tile


def blocks(y, BR, BC):
    return tile.cdiv(y.shape[1], BC), tile.cdiv(y.shape[0], BR)


@tile.kernel(grid=blocks)
def lookup(p, table, ids, y, *, BR=16, BC=128):
    j, i = p.id(0), p.id(1)
    row = p.read(ids, [BR], pad=-1)[i].T  # [BR, 1]; past the end -1, which is outside of the table
    column = p.iota([1, BC], 1, tile.I32) + j * BC
    p.write(y, [BR, BC])[i, j] = p.read(table, [1, BC]).gather([row, column])


@tile.kernel(grid=lambda g, BR, BC, **_: blocks(g, BR, BC))
def gradient(p, g, ids, table, *, BR=16, BC=128):
    j, i = p.id(0), p.id(1)
    row = p.read(ids, [BR], pad=-1)[i].T
    column = p.iota([1, BC], 1, tile.I32) + j * BC
    p.write(table, [1, BC]).scatter_add(p.read(g, [BR, BC])[i, j], [row, column])


def reference(g, ids, rows):
    sums = np.zeros((rows, g.shape[1]), g.dtype)
    np.add.at(sums, ids, g)
    return sums


def main(quick=False):
    rows, columns, count = (23, 70, 50) if quick else (10_000, 768, 4096)
    table = measure.random(rows, columns, seed=1)
    # Programs add in any order. Sums of such multiples of 1/64 are exact, so here the order does not show.
    g = np.rint(measure.random(count, columns, seed=2) * 64) / 64
    ids = np.random.default_rng(3).integers(0, rows, count, dtype=np.int32)
    y, sums = np.empty((count, columns), np.float32), np.zeros((rows, columns), np.float32)
    lookup(table, ids, y)
    measure.check("embedding", y, table[ids], 0)
    gradient(g, ids, sums)
    measure.check("embedding, its gradient", sums, reference(g.astype(np.float64), ids, rows), 0)
    peers = {"NumPy": lambda: np.take(table, ids, 0, y)}
    if measure.torch:
        ttable, tids = measure.torch.from_numpy(table), measure.torch.from_numpy(ids)
        peers["PyTorch"] = lambda: measure.torch.nn.functional.embedding(tids, ttable)
    title = f"embedding {count} of {rows} rows of {columns}"
    measure.compare(title, 8e-9 * y.size, "GB/s", lambda: lookup(table, ids, y), quick, **peers)
    measure.compare(
        f"{title}, its gradient",
        12e-9 * g.size,
        "GB/s",
        lambda: gradient(g, ids, sums),
        quick,
        NumPy=lambda: np.add.at(sums, ids, g),
    )


if __name__ == "__main__":
    measure.run(main)
