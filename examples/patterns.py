"""What people write first in Triton, CuTe, FlyDSL or TVM, each as a kernel: coming_from.md tells about them.

Elementwise, reduction, tiled copy (also transposed, permuted, gathered by elements), matrix product, product
with an epilogue, single elements of memory, and elementwise work in workgroup memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda y, BLOCK: tile.cdiv(y.shape[0], BLOCK))
def square(p, x, y, *, BLOCK=1024):
    i = p.id(0)
    t = p.read(x, [BLOCK])[i]
    p.write(y, [BLOCK])[i] = t * t


@tile.kernel(grid=lambda y, ROWS, **_: tile.cdiv(y.shape[0], ROWS))
def rmsnorm(p, x, w, y, *, COLUMNS, ROWS=4):
    i = p.id(0)
    row = p.read(x, [ROWS, COLUMNS])[i, 0]
    mean = (row * row).sum(1) / x.shape[1]
    p.write(y, [ROWS, COLUMNS])[i, 0] = row * (mean + 1e-6).rsqrt() * p.read(w, [COLUMNS])[0]


@tile.kernel(grid=lambda x, BM, BN: (tile.cdiv(x.shape[1], BN), tile.cdiv(x.shape[0], BM)))
def copy(p, x, y, *, BM=8, BN=24):
    j, i = p.id(0), p.id(1)
    p.write(y, [BM, BN])[i, j] = p.read(x, [BM, BN])[i, j]


@tile.kernel(grid=lambda x, BM, BN: (tile.cdiv(x.shape[1], BN), tile.cdiv(x.shape[0], BM)))
def transpose(p, x, y, *, BM=32, BN=32):
    j, i = p.id(0), p.id(1)
    p.write(y, [BN, BM])[j, i] = p.read(x, [BM, BN])[i, j].T


@tile.kernel(grid=lambda x, BC, BP: (tile.cdiv(x.shape[2], BP), tile.cdiv(x.shape[1], BC), x.shape[0]))
def channels_last(p, x, y, *, BC=32, BP=32):
    pixel, channel, image = p.id(0), p.id(1), p.id(2)
    p.write(y, [BP, BC])[image, pixel, channel] = p.read(x, [BC, BP])[image, channel, pixel].T


@tile.kernel(grid=lambda y, BR, BC: (tile.cdiv(y.shape[1], BC), tile.cdiv(y.shape[0], BR)))
def take_rows(p, x, ids, y, *, BR=16, BC=64):
    j, i = p.id(0), p.id(1)
    row = p.read(ids, [BR], pad=-1)[i].T
    column = p.iota([1, BC], 1, tile.I32) + j * BC
    p.write(y, [BR, BC])[i, j] = p.read(x, [1, 1]).gather([row, column])


@tile.kernel(grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def gemm(p, a, b, c, *, BM=64, BN=64, BK=32):
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK]), p.read(b, [BN, BK])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[j, k].T
    p.write(c, [BM, BN])[i, j] = acc


@tile.kernel(grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def gemm_gelu(p, a, b, bias, c, *, BM=64, BN=64, BK=32):
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK]), p.read(b, [BN, BK])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[j, k].T
    p.write(c, [BM, BN])[i, j] = (acc + p.read(bias, [BN])[j]).gelu()


@tile.kernel(grid=lambda y, BLOCK, **_: tile.cdiv(y.shape[0], BLOCK))
def every_nth(p, x, first, step, y, *, BLOCK=256):
    n = p.iota([1, BLOCK], 1, tile.I64) + p.id(0) * BLOCK
    taken = p.read(x, [1]).gather([n * step + first])
    p.write(y, [1]).scatter(taken * 2, [n])


@tile.kernel(grid=lambda y, B: (tile.cdiv(y.shape[1], B), tile.cdiv(y.shape[0], B)))
def sqrt_in_memory(p, x, y, *, B=32):
    p.variant("elementwise", "workgroup")
    j, i = p.id(0), p.id(1)
    p.write(y, [B, B])[i, j] = p.read(x, [B, B])[i, j].sqrt()


@dataclass(frozen=True)
class Pattern:
    """A kernel with its arguments, of which it writes the last; what NumPy gives for the others, and how
    far the two may be apart."""

    kernel: Any
    arguments: list
    numpy: Callable[..., np.ndarray]
    bound: Callable[[np.ndarray], Any] = lambda truth: 0
    constants: dict[str, int] = field(default_factory=dict)

    @property
    def launch(self):
        return partial(self.kernel, *self.arguments, **self.constants)

    @property
    def truth(self):
        """What NumPy gives in float64."""
        return self.numpy(*map(_wide, self.arguments[:-1]))


def _wide(argument):
    is_float = isinstance(argument, np.ndarray) and argument.dtype.kind == "f"
    return argument.astype(np.float64) if is_float else argument


def patterns(quick=True):
    """Each pattern by its name."""
    n, rows, columns = (1000, 37, 70) if quick else (1 << 22, 2048, 1000)
    images, channels, pixels = (2, 40, 50) if quick else (8, 256, 56 * 56)
    x, flat, w = measure.random(rows, columns), measure.random(n), measure.random(columns, seed=1)
    image = measure.random(images, channels, pixels)
    a, b = (measure.random(size, columns, seed=size).astype(np.float16) for size in (rows, 90))
    bias = measure.random(90, seed=2)
    ids = np.random.default_rng(3).integers(0, rows, 50 if quick else rows, dtype=np.int32)

    def room(*shape):
        return np.full(shape, np.nan, np.float32)

    def product(a, b):
        return a @ b.T

    def of_product(truth):
        return columns * 2.0**-24 * (np.abs(_wide(a)) @ np.abs(_wide(b)).T)

    def normalised(x, w):
        return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w

    def gelu(x):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x)))

    block = 1 << (columns - 1).bit_length()
    taken = (n - 7) // 3
    return {
        "elementwise": Pattern(square, [flat, room(n)], lambda x: x * x, lambda truth: 2.0**-24 * truth),
        "reduction": Pattern(
            rmsnorm,
            [x, w, room(rows, columns)],
            normalised,
            lambda truth: 2e-6 * np.abs(truth),
            {"COLUMNS": block},
        ),
        "tiled copy": Pattern(copy, [x, room(rows, columns)], np.copy),
        "transpose": Pattern(transpose, [x, room(columns, rows)], lambda x: x.T.copy()),
        "permute": Pattern(
            channels_last, [image, room(images, pixels, channels)], lambda x: x.transpose(0, 2, 1).copy()
        ),
        "gather": Pattern(take_rows, [x, ids, room(len(ids), columns)], lambda x, ids: x[ids]),
        "product": Pattern(gemm, [a, b, room(rows, 90)], product, of_product),
        "fused": Pattern(
            gemm_gelu,
            [a, b, bias, room(rows, 90)],
            lambda a, b, bias: gelu(product(a, b) + bias),
            lambda truth: 1.2 * of_product(truth) + 1e-6 * (1 + np.abs(truth)),
        ),
        "single elements": Pattern(
            every_nth, [flat, 7, 3, room(taken)], lambda x, first, step: 2 * x[first::step][:taken]
        ),
        "in workgroup memory": Pattern(
            sqrt_in_memory,
            [np.abs(x), room(rows, columns)],
            np.sqrt,
            lambda truth: 2.0**-24 * truth,
        ),
    }


def main(quick=False):
    for name, pattern in patterns(quick).items():
        pattern.launch()
        result, truth = pattern.arguments[-1], pattern.truth
        measure.check(f"patterns, {name}", result, truth, pattern.bound(truth))
        measure.compare(
            f"patterns, {name}",
            1e-9 * result.size,
            "billion results/s",
            pattern.launch,
            quick,
            NumPy=partial(pattern.numpy, *pattern.arguments[:-1]),
        )


if __name__ == "__main__":
    measure.run(main)
