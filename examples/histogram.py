"""Count how often each value of a byte comes: each program counts its part, then all add up.

A program keeps its counts in a tile, which no other program sees, and adds them to the result once: 256
additions that others may meet, for thousands of elements.
"""

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda x, BLOCK, TURNS, **_: tile.cdiv(x.shape[0], BLOCK * TURNS))
def histogram(p, x, counts, *, BINS=256, BLOCK=4096, TURNS=16):
    i = p.id(0)
    X, total = p.read(x, [BLOCK]), p.zeros([1, BINS], tile.I32)
    for turn in range(TURNS):
        at = i * TURNS + turn
        inside = p.iota([1, BLOCK], 1, tile.I32) + at * BLOCK < x.shape[0]
        # Elements past the end would read as 0 and be counted; -1 belongs to no bin.
        total = total + (X[at].to(tile.I32) if inside else -1).histogram(BINS)
    p.write(counts, [1]).scatter_add(total, [p.iota([1, BINS], 1, tile.I32)])


def main(quick=False):
    n, constants = (5001, {"BLOCK": 1024, "TURNS": 2}) if quick else ((1 << 22) + 1, {})
    x = np.random.default_rng(0).binomial(255, 0.4, n).astype(np.uint8)
    counts = np.zeros(256, np.int32)
    histogram(x, counts, **constants)
    measure.check("histogram", counts, np.bincount(x, minlength=256), 0)
    peers = {"NumPy": lambda: np.bincount(x, minlength=256)}
    if measure.torch:
        tx = measure.torch.from_numpy(x)
        peers["PyTorch"] = lambda: measure.torch.bincount(tx, minlength=256)
    measure.compare(
        f"histogram of {n} bytes",
        1e-9 * n,
        "GB/s",
        lambda: histogram(x, counts, **constants),
        quick,
        **peers,
    )


if __name__ == "__main__":
    measure.run(main)
