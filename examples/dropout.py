"""Dropout whose mask is never stored: random numbers are a function of a seed and a place.

The gradient draws the same mask again from the same seed. An element's number depends on where it is in the
tensor and not on the block, so blocks of other sizes, another device or another launch give the same mask.
"""

import measure
import numpy as np

import gizml_tile as tile


@tile.function
def kept(p, seed, i, j, width, SHARE, BM, BN):
    """Which elements of a block stay; four neighbours share a counter."""
    row = p.iota([BM, 1], 0, tile.I64) + i * BM
    four = p.iota([1, BN // 4], 1, tile.I64) + j * (BN // 4)
    return p.random(seed, row * tile.cdiv(width, 4) + four, [BM, BN], "uniform") >= SHARE


@tile.kernel(grid=lambda y, BM, BN, **_: (tile.cdiv(y.shape[1], BN), tile.cdiv(y.shape[0], BM)))
def dropout(p, x, seed, y, *, SHARE=0.25, BM=8, BN=128):
    j, i = p.id(0), p.id(1)
    t = p.read(x, [BM, BN])[i, j] * (1 / (1 - SHARE))
    p.write(y, [BM, BN])[i, j] = t if kept(p, seed, i, j, x.shape[1], SHARE, BM, BN) else 0


def main(quick=False):
    rows, columns = (50, 130) if quick else (2048, 1024)
    x, share, seed = measure.random(rows, columns), 0.25, 7
    y, again, other = (np.empty_like(x) for _ in range(3))
    dropout(x, seed, y, SHARE=share)
    mask = y != 0
    measure.check("dropout", y, np.where(mask, x * (1 / (1 - share)), 0), 2.0**-23 * np.abs(y))
    off = abs(mask.mean() - (1 - share)) / np.sqrt(share * (1 - share) / mask.size)
    measure.check("dropout, share that stays, in standard deviations", off, 0, 5)
    dropout(x, seed, again, SHARE=share, BM=16, BN=64)
    measure.same_bits("dropout", y, again)
    dropout(x, seed + 1, other, SHARE=share)
    measure.check("dropout, masks of two seeds", np.mean(mask != (other != 0)), 2 * share * (1 - share), 0.05)
    rng = np.random.default_rng(0)

    def numpy_dropout():
        stays = rng.random(x.shape, np.float32) >= share
        np.multiply(x, stays * np.float32(1 / (1 - share)), out=other)

    peers = {"NumPy": numpy_dropout}
    if measure.torch:
        tx = measure.torch.from_numpy(x)
        peers["PyTorch"] = lambda: measure.torch.nn.functional.dropout(tx, share)
    measure.compare(
        f"dropout {rows}x{columns}",
        8e-9 * x.size,
        "GB/s",
        lambda: dropout(x, seed, y, SHARE=share),
        quick,
        **peers,
    )


if __name__ == "__main__":
    measure.run(main)
