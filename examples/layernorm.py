"""Layer normalisation along rows, (x - mean) / sqrt(variance + epsilon) * w + b, for any row length."""

import measure
import numpy as np
from softmax import power_of_two

import gizml_tile as tile


@tile.kernel(grid=lambda y, ROWS: tile.cdiv(y.shape[0], ROWS))
def layernorm(p, x, w, b, y, *, COLUMNS, ROWS=16, EPSILON=1e-5):
    i, n = p.id(0), x.shape[1]
    X, W, B = p.read(x, [ROWS, COLUMNS]), p.read(w, [COLUMNS]), p.read(b, [COLUMNS])
    Y = p.write(y, [ROWS, COLUMNS])
    row = X[i, 0]
    mean = row.sum(1) / n  # columns past the end read as 0 and add nothing to the sum
    centred = row - mean if p.iota([1, COLUMNS], 1) < n else 0  # ... but are not at the mean
    variance = (centred * centred).sum(1) / n
    Y[i, 0] = centred * (variance + EPSILON).rsqrt() * W[0] + B[0]


def reference(x, w, b, epsilon=1e-5):
    centred = x - x.mean(1, keepdims=True)
    variance = (centred * centred).mean(1, keepdims=True)
    return centred / np.sqrt(variance + epsilon) * w + b


def main(quick=False):
    rows, columns = (37, 200) if quick else (2048, 1000)
    x = measure.random(rows, columns) + 3
    w, b = measure.random(columns, seed=1), measure.random(columns, seed=2)
    y = np.empty_like(x)
    COLUMNS = power_of_two(columns)
    layernorm(x, w, b, y, COLUMNS=COLUMNS)
    truth = reference(x.astype(np.float64), w.astype(np.float64), b.astype(np.float64))
    measure.check("layernorm", y, truth, 4e-6 * (1 + np.abs(truth) + np.abs(w)))
    peers = {"NumPy": lambda: reference(x, w, b)}
    if measure.torch:
        tx, tw, tb = (measure.torch.from_numpy(array) for array in (x, w, b))
        peers["PyTorch"] = lambda: measure.torch.nn.functional.layer_norm(tx, (columns,), tw, tb)
    measure.compare(
        f"layernorm {rows}x{columns}",
        8e-9 * x.size,
        "GB/s",
        lambda: layernorm(x, w, b, y, COLUMNS=COLUMNS),
        quick,
        **peers,
    )


if __name__ == "__main__":
    measure.run(main)
