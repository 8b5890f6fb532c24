"""gelu(x * w + b) in one pass over memory: the libraries' separate calls write and read it three times."""

import math

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda y, BM, BN: (tile.cdiv(y.shape[1], BN), tile.cdiv(y.shape[0], BM)))
def fused_gelu(p, x, w, b, y, *, BM=8, BN=4096):
    j, i = p.id(0), p.id(1)
    X, W, B, Y = p.read(x, [BM, BN]), p.read(w, [BN]), p.read(b, [BN]), p.write(y, [BM, BN])
    Y[i, j] = (X[i, j] * W[j] + B[j]).gelu()


def reference(x, w, b):
    """The same in the type of ``x``, one NumPy call at a time."""
    u = x * w + b
    return 0.5 * u * (1 + np.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))


def main(quick=False):
    rows, columns = (33, 300) if quick else (1024, 4096)
    x, w, b = measure.random(rows, columns), measure.random(columns, seed=1), measure.random(columns, seed=2)
    y = np.empty_like(x)
    fused_gelu(x, w, b, y)
    truth = reference(x.astype(np.float64), w.astype(np.float64), b.astype(np.float64))
    measure.check("fused_gelu", y, truth, 1e-6 * (1 + np.abs(x * w) + np.abs(b)))
    peers = {"NumPy": lambda: reference(x, w, b)}
    if measure.torch:
        tx, tw, tb = (measure.torch.from_numpy(array) for array in (x, w, b))
        peers["PyTorch"] = lambda: measure.torch.nn.functional.gelu(tx * tw + tb, approximate="tanh")
    measure.compare(
        f"fused_gelu {rows}x{columns}",
        8e-9 * x.size,
        "GB/s",
        lambda: fused_gelu(x, w, b, y),
        quick,
        **peers,
    )


if __name__ == "__main__":
    measure.run(main)
