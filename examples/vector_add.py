"""Add two vectors: the smallest program. Each program of the grid adds one block."""

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda z, BLOCK: tile.cdiv(z.shape[0], BLOCK))
def vector_add(p, x, y, z, *, BLOCK=4096):
    i = p.id(0)
    X, Y, Z = p.read(x, [BLOCK]), p.read(y, [BLOCK]), p.write(z, [BLOCK])
    Z[i] = X[i] + Y[i]  # elements past the end read as 0 and are not written


def main(quick=False):
    n = 10_001 if quick else 2**22 + 1
    x, y, z = measure.random(n, seed=1), measure.random(n, seed=2), np.empty(n, np.float32)
    vector_add(x, y, z)
    measure.check("vector_add", z, x.astype(np.float64) + y, 2.0**-24 * np.abs(z))
    measure.compare(
        f"vector_add {n}",
        12e-9 * n,
        "GB/s",
        lambda: vector_add(x, y, z),
        quick,
        NumPy=lambda: np.add(x, y, out=z),
    )


if __name__ == "__main__":
    measure.run(main)
