"""Softmax along rows, whole rows in one tile, written in both styles."""

import math

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda y, ROWS: tile.cdiv(y.shape[0], ROWS))
def softmax(p, x, y, *, COLUMNS, ROWS=16):
    i = p.id(0)
    # Columns past the end read as -inf, whose exponential is 0, so any number of columns is right.
    X, Y = p.read(x, [ROWS, COLUMNS], pad=-math.inf), p.write(y, [ROWS, COLUMNS])
    row = X[i, 0]
    e = (row - row.max(1)).exp()
    Y[i, 0] = e * (1 / e.sum(1))


def softmax_explicit(x, y, *, COLUMNS, ROWS=16):
    """The same program without the decorator: ``body`` closes over the tensors and calls methods."""

    def body(p):
        i = p.id(0)
        X, Y = p.read(x, [ROWS, COLUMNS], pad=-math.inf), p.write(y, [ROWS, COLUMNS])
        row = X.at([i, 0])
        e = row.sub(row.max(1)).exp()
        Y.put(e.mul(p.k(1).div(e.sum(1))), [i, 0])

    return tile.run([tile.cdiv(y.shape[0], ROWS)], body)


def power_of_two(n):
    """The smallest power of two that is at least ``n``: blocks of such sizes serve rows of many lengths."""
    return 1 << max(0, n - 1).bit_length()


def reference(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def main(quick=False):
    rows, columns = (37, 200) if quick else (2048, 1000)
    x = measure.random(rows, columns) * 4
    y, z = np.empty_like(x), np.empty_like(x)
    COLUMNS = power_of_two(columns)
    softmax(x, y, COLUMNS=COLUMNS)
    softmax_explicit(x, z, COLUMNS=COLUMNS)
    measure.same_bits("softmax", y, z)
    truth = reference(x.astype(np.float64))
    measure.check("softmax", y, truth, 4e-6 * truth)
    peers = {"NumPy": lambda: reference(x)}
    if measure.torch:
        tx, ty = measure.torch.from_numpy(x), measure.torch.empty(rows, columns)
        peers["PyTorch"] = lambda: measure.torch.softmax(tx, 1, out=ty)
    measure.compare(
        f"softmax {rows}x{columns}",
        8e-9 * x.size,
        "GB/s",
        lambda: softmax(x, y, COLUMNS=COLUMNS),
        quick,
        **peers,
    )


if __name__ == "__main__":
    measure.run(main)
