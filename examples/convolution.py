"""A two-dimensional convolution by ``window``: blocks that start at any element, also outside the image.

Images are [count, height, width, channels]. Each turn multiplies a stretch of one image row, shifted by
the tap's place, with that tap's [channels, outputs] matrix; what lies outside the image reads as 0.
"""

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(
    grid=lambda y, BX, BO: (tile.cdiv(y.shape[2], BX) * tile.cdiv(y.shape[3], BO), y.shape[1], y.shape[0])
)
def convolution(p, x, w, y, *, BX=64, BC=64, BO=64):
    X, W, Y = p.read(x, [BX, BC]), p.read(w, [BC, BO]), p.write(y, [BX, BO])
    block, row, image = p.id(0), p.id(1), p.id(2)
    column, outputs = block // Y.blocks(3) * BX, block % Y.blocks(3)
    top, left = W.dim(0) // 2, W.dim(1) // 2
    acc = p.zeros([BX, BO])
    for dy in range(W.dim(0)):
        for dx in range(W.dim(1)):
            for c in range(W.blocks(2)):
                shifted = X.window([image, row + dy - top, column + dx - left, c * BC])
                acc += shifted @ W[dy, dx, c, outputs]
    Y.put_window(acc, [image, row, column, outputs * BO])


def reference(x, w):
    """The same in the type of ``x``: a sum over taps of shifted images times the tap's matrix."""
    height, width = w.shape[:2]
    padded = np.pad(x, [(0, 0), (height // 2, height // 2), (width // 2, width // 2), (0, 0)])
    taps = np.ndindex(height, width)
    return sum(padded[:, dy : dy + x.shape[1], dx : dx + x.shape[2]] @ w[dy, dx] for dy, dx in taps)


def main(quick=False):
    count, height, width, channels, outputs = (2, 9, 20, 3, 5) if quick else (4, 56, 56, 64, 64)
    x = measure.random(count, height, width, channels, seed=1)
    w = measure.random(3, 3, channels, outputs, seed=2)
    y = np.empty((count, height, width, outputs), np.float32)
    convolution(x, w, y)
    wide = x.astype(np.float64), w.astype(np.float64)
    bound = 9 * channels * 2.0**-24 * reference(np.abs(wide[0]), np.abs(wide[1]))
    measure.check("convolution", y, reference(*wide), bound)
    peers = {"NumPy": lambda: reference(x, w)}
    if measure.torch:
        tx = measure.torch.from_numpy(x).permute(0, 3, 1, 2)
        tw = measure.torch.from_numpy(w).permute(3, 2, 0, 1)
        peers["PyTorch"] = lambda: measure.torch.nn.functional.conv2d(tx, tw, padding=1)
    measure.compare(
        f"convolution {count}x{height}x{width}x{channels}, 3x3 to {outputs}",
        2e-9 * 9 * y.size * channels,
        "GFLOP/s",
        lambda: convolution(x, w, y),
        quick,
        **peers,
    )


if __name__ == "__main__":
    measure.run(main)
