"""A step of AdamW whose two moments are bytes, with a scale for each block of 256 weights.

A program reads some blocks once, computes the step in F32 and writes weights, bytes and new scales back:
what a chain of separate operations moves eight times moves once. Of the second moment the root is kept,
which has half as many powers of two between its smallest and its largest.
"""

import measure
import numpy as np

import gizml_tile as tile

RATES = {"B1": 0.9, "B2": 0.999, "EPSILON": 1e-8, "DECAY": 0.01}


@tile.function
def as_bytes(t, most):
    """Rows divided by their scales and rounded, and the scales."""
    scale = abs(t).max(1) / most
    return (t / max(scale, 1e-30)).round(), scale


@tile.kernel(grid=lambda x, ROWS, **_: tile.cdiv(x.shape[0], ROWS))
def adam(p, x, g, m, m_scale, v, v_scale, rate, step1, step2, *, B1, B2, EPSILON, DECAY, ROWS=4, BLOCK=256):
    """All tensors are [blocks, 256], scales [blocks, 1]; step1 is 1 - B1 ** n, step2 1 - B2 ** n in step n.

    The rates are constants: as run-time numbers they would be rounded to F32 first, and 1 - 0.999 with them.
    """
    i = p.id(0)
    weights, gradient = p.read(x, [ROWS, BLOCK])[i, 0], p.read(g, [ROWS, BLOCK])[i, 0]
    first = p.read(m, [ROWS, BLOCK])[i, 0].to(tile.F32) * p.read(m_scale, [ROWS, 1])[i, 0]
    root = p.read(v, [ROWS, BLOCK])[i, 0].to(tile.F32) * p.read(v_scale, [ROWS, 1])[i, 0]
    first = first * B1 + gradient * (1 - B1)
    second = root * root * B2 + gradient * gradient * (1 - B2)
    update = (first / step1) / ((second / step2).sqrt() + EPSILON)
    p.write(x, [ROWS, BLOCK])[i, 0] = weights * (1 - rate * DECAY) - rate * update
    number, scale = as_bytes(first, 127)
    p.write(m, [ROWS, BLOCK])[i, 0] = number.to(tile.I8)
    p.write(m_scale, [ROWS, 1])[i, 0] = scale
    number, scale = as_bytes(second.sqrt(), 255)
    p.write(v, [ROWS, BLOCK])[i, 0] = number.to(tile.U8)
    p.write(v_scale, [ROWS, 1])[i, 0] = scale


def reference(x, g, first, root, rate, step1, step2, B1, B2, EPSILON, DECAY):
    first, second = first * B1 + g * (1 - B1), root * root * B2 + g * g * (1 - B2)
    update = (first / step1) / (np.sqrt(second / step2) + EPSILON)
    return x * (1 - rate * DECAY) - rate * update, first, np.sqrt(second)


def main(quick=False):
    blocks, rate, steps = 37 if quick else 16384, 1e-3, 3
    x, m, v = measure.random(blocks, 256), np.zeros((blocks, 256), np.int8), np.zeros((blocks, 256), np.uint8)
    m_scale, v_scale = (np.zeros((blocks, 1), np.float32) for _ in range(2))
    for n in range(1, steps + 1):
        g = measure.random(blocks, 256, seed=n)
        step1, step2 = 1 - RATES["B1"] ** n, 1 - RATES["B2"] ** n
        held = [array.astype(np.float64) for array in (x, g, m, v)]
        held[2:] = held[2] * m_scale, held[3] * v_scale
        truth, first, root = reference(*held, rate, step1, step2, **RATES)
        adam(x, g, m, m_scale, v, v_scale, rate, step1, step2, **RATES)
    measure.check("adam, weights", x, truth, 1e-6)
    measure.check("adam, first moments", m * m_scale.astype(np.float64), first, 0.501 * m_scale)
    measure.check("adam, second moments", v * v_scale.astype(np.float64), root, 0.501 * v_scale)
    moments = [np.zeros_like(x), np.zeros_like(x)]
    measure.compare(
        f"adam of {blocks} blocks of 256",
        16e-9 * x.size,
        "GB/s",
        lambda: adam(x, g, m, m_scale, v, v_scale, rate, step1, step2, **RATES),
        quick,
        NumPy=lambda: reference(x, g, *moments, rate, step1, step2, **RATES),
    )


if __name__ == "__main__":
    measure.run(main)
