"""Write the transpose of a matrix: a block at (i, j) goes to (j, i), turned."""

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda x, BM, BN: (tile.cdiv(x.shape[1], BN), tile.cdiv(x.shape[0], BM)))
def transpose(p, x, y, *, BM=64, BN=64):
    j, i = p.id(0), p.id(1)
    X, Y = p.read(x, [BM, BN]), p.write(y, [BN, BM])
    Y[j, i] = X[i, j].T


def main(quick=False):
    rows, columns = (130, 77) if quick else (2000, 3000)
    x, y = measure.random(rows, columns), np.empty((columns, rows), np.float32)
    transpose(x, y)
    measure.check("transpose", y, x.T, 0)
    peers = {"NumPy": lambda: np.copyto(y, x.T)}
    if measure.torch:
        tx, ty = measure.torch.from_numpy(x), measure.torch.empty(columns, rows)
        peers["PyTorch"] = lambda: ty.copy_(tx.T)
    measure.compare(
        f"transpose {rows}x{columns}",
        8e-9 * x.size,
        "GB/s",
        lambda: transpose(x, y),
        quick,
        **peers,
    )


if __name__ == "__main__":
    measure.run(main)
