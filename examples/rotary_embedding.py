"""Turn pairs of numbers in each row by an angle that grows with the row: rotary position embedding.

A pair is a number of the first half of the row and its like in the second half, or with ``NEIGHBOURS`` two
that stand next to each other. Either way a row is taken apart, computed with, and put together again.
"""

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda x, BM, **_: (tile.cdiv(x.shape[1], BM), x.shape[0]))
def rotary(p, x, cos, sin, y, *, D, NEIGHBOURS=False, BM=32):
    i, head = p.id(0), p.id(1)
    X, Y = p.read(x, [BM, D]), p.write(y, [BM, D])
    c, s = p.read(cos, [BM, D // 2])[i, 0], p.read(sin, [BM, D // 2])[i, 0]
    t = X[head, i, 0]
    a, b = t.deinterleave(1) if NEIGHBOURS else t.split(1)
    a, b = a * c - b * s, a * s + b * c
    Y[head, i, 0] = a.interleave(b, 1) if NEIGHBOURS else a.concat(b, 1)


def reference(x, cos, sin, neighbours):
    half = x.shape[-1] // 2
    a, b = (x[..., ::2], x[..., 1::2]) if neighbours else (x[..., :half], x[..., half:])
    parts = a * cos - b * sin, a * sin + b * cos
    return np.stack(parts, -1).reshape(x.shape) if neighbours else np.concatenate(parts, -1)


def main(quick=False):
    heads, rows, D = (3, 70, 32) if quick else (32, 4096, 128)
    x, y = measure.random(heads, rows, D), np.empty((heads, rows, D), np.float32)
    angles = np.arange(rows)[:, None] * 10000.0 ** -(np.arange(D // 2) / (D // 2))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    for neighbours in (False, True):
        rotary(x, cos, sin, y, D=D, NEIGHBOURS=neighbours)
        truth = reference(x.astype(np.float64), cos, sin, neighbours)
        measure.check("rotary_embedding" + " of neighbours" * neighbours, y, truth, 1e-6)
    peers = {"NumPy": lambda: np.copyto(y, reference(x, cos, sin, False))}
    if measure.torch:
        tx, tc, ts = map(measure.torch.from_numpy, (x, cos, sin))

        def eager():
            a, b = tx.chunk(2, -1)
            return measure.torch.cat((a * tc - b * ts, a * ts + b * tc), -1)

        peers["PyTorch"] = eager
    work, unit = 8e-9 * x.size, "GB/s"
    title = f"rotary {heads}x{rows}x{D}"
    measure.compare(title, work, unit, lambda: rotary(x, cos, sin, y, D=D), quick, **peers)
    measure.compare(
        f"{title} of neighbours",
        work,
        unit,
        lambda: rotary(x, cos, sin, y, D=D, NEIGHBOURS=True),
        quick,
        NumPy=lambda: np.copyto(y, reference(x, cos, sin, True)),
    )


if __name__ == "__main__":
    measure.run(main)
