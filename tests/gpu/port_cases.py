"""Kernels that people bring from elsewhere: masks drawn anew, products of bytes, transforms, networks.

The others are where their operations are: an embedding, its gradient, permutations, pages and segments in
``addressing_cases``, gating, the recurrence and long rows' largest in ``along_cases``, the loss of a large
vocabulary in ``row_cases``, weights of four bits in ``product_cases``, a convolution and the rotary embedding
in the examples.
"""

from __future__ import annotations

import numpy as np
from gpu_cases import HALF_ULP, Case, by_blocks, numbers, room

import gizml_tile as tile
from gizml_tile import F32, I8, I32, I64


def kept(p, seed, i, j, width, share, BM, BN):
    """Of a block of a tensor, which elements stay: each is drawn from where it is, whatever the blocks."""
    row = p.iota([BM, 1], 0, I64) + i * BM
    four = p.iota([1, BN // 4], 1, I64) + j * (BN // 4)
    return p.random(seed, row * tile.cdiv(width, 4) + four, [BM, BN], "uniform") >= share


@tile.kernel(grid=by_blocks)
def dropout(p, x, residual, seed, y, *, SHARE=0.3, BM=8, BN=64):
    """A share of x becomes 0 and the rest grows by as much; no mask is written."""
    j, i = p.id(0), p.id(1)
    stays = kept(p, seed, i, j, x.shape[1], SHARE, BM, BN)
    scaled = p.read(x, [BM, BN])[i, j] * (1 / (1 - SHARE))
    p.write(y, [BM, BN])[i, j] = p.read(residual, [BM, BN])[i, j] + (scaled if stays else 0)


@tile.kernel(grid=by_blocks)
def dropout_gradient(p, gradient, seed, y, *, SHARE=0.3, BM=4, BN=128):
    """The gradient of x, by the mask that the seed draws again."""
    j, i = p.id(0), p.id(1)
    stays = kept(p, seed, i, j, gradient.shape[1], SHARE, BM, BN)
    scaled = p.read(gradient, [BM, BN])[i, j] * (1 / (1 - SHARE))
    p.write(y, [BM, BN])[i, j] = scaled if stays else 0


@tile.kernel(grid=lambda scales, ROWS, **_: tile.cdiv(scales.shape[0], ROWS))
def quantise(p, x, q, scales, *, COLUMNS, ROWS=4):
    """Rows as bytes, each with the number that they are to be multiplied by."""
    i = p.id(0)
    row = p.read(x, [ROWS, COLUMNS])[i, 0]
    scale = abs(row).max(1) / 127
    p.write(q, [ROWS, COLUMNS])[i, 0] = (row / max(scale, 1e-30)).round().to(I8)
    p.write(scales, [ROWS, 1])[i, 0] = scale


@tile.kernel(grid=by_blocks)
def quantised_product(p, a, b, rows, columns, y, *, BM=32, BN=64, BK=64):
    """Products of bytes, [M, K] and [N, K], times a number for each row and column."""
    j, i = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK]), p.read(b, [BN, BK])
    acc = p.zeros([BM, BN], I32)
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[j, k].T
    scaled = acc.to(F32) * p.read(rows, [BM, 1])[i, 0] * p.read(columns, [BN, 1])[j, 0].T
    p.write(y, [BM, BN])[i, j] = scaled


def times(a, b, c, d):
    """The product of matrices of complex numbers, a + ib and c + id."""
    return a @ c - b @ d, a @ d + b @ c


@tile.kernel(grid=lambda y, **_: y.shape[1])
def fft(p, x, roots, turns, y, *, N=32):
    """The Fourier transform of N * N numbers by products of N x N; parts are [2, batch, N, N], [2, N, N].

    With n = N a + b and k = c + N d, the sum over n of x[n] w^(nk) is the sum over a of x[a, b] w^(N a c),
    times w^(b c), and then summed over b with w^(N b d); w^N are the ``roots`` and w^(b c) the ``turns``.
    """
    i = p.id(0)
    X, R, T, Y = p.read(x, [N, N]), p.read(roots, [N, N]), p.read(turns, [N, N]), p.write(y, [N, N])
    c, s, u, v = R[0, 0, 0], R[1, 0, 0], T[0, 0, 0], T[1, 0, 0]
    re, im = times(c, s, X[0, i, 0, 0], X[1, i, 0, 0])
    re, im = times(re * u - im * v, re * v + im * u, c, s)
    Y[0, i, 0, 0], Y[1, i, 0, 0] = re.T, im.T


def exchanged(p, values, places, size, distance):
    """A step of Batcher's network: pairs at a distance in order, rising in every second run of a size."""
    shape, pairs = values.shape, [-1, 2 * distance]
    (a, b), (i, j) = values.reshape(pairs).split(1), places.reshape(pairs).split(1)
    rising = ((p.iota([a.shape[0], 1], 0, I32) * (2 * distance)) & size) != 0
    swap = (a < b) ^ rising
    values = (b if swap else a).concat(a if swap else b, 1)
    places = (j if swap else i).concat(i if swap else j, 1)
    return values.reshape(shape), places.reshape(shape)


@tile.kernel(grid=lambda y, **_: y.shape[0])
def bitonic_topk(p, x, y, places, *, COLUMNS, K=8):
    """The largest K of a row of different numbers: runs of K in order, of each two the larger, and again."""
    i = p.id(0)
    values, at = p.read(x, [1, COLUMNS], pad=-3e38)[i, 0], p.iota([1, COLUMNS], 1, I32)
    for level in tile.unroll(1, K.bit_length()):
        for step in tile.unroll(level):
            values, at = exchanged(p, values, at, 1 << level, 1 << (level - step - 1))
    while values.shape[1] > K:
        (a, b), (m, n) = values.reshape([-1, 2 * K]).split(1), at.reshape([-1, 2 * K]).split(1)
        values, at = (a if a > b else b).reshape([-1]), (m if a > b else n).reshape([-1])
        for step in tile.unroll(1, K.bit_length()):
            values, at = exchanged(p, values, at, K, K >> step)
    p.write(y, [1, K])[i, 0] = values
    p.write(places, [1, K])[i, 0] = at


def roots_of_one(side: int, inverse: bool = False) -> list[np.ndarray]:
    """The roots and turns of a transform of side * side numbers, as parts: [2, side, side] each."""
    each = np.outer(np.arange(side), np.arange(side))
    sign = 2j if inverse else -2j
    return [parts(np.exp(sign * np.pi * each / count)) for count in (side, side * side)]


def parts(x: np.ndarray) -> np.ndarray:
    """The real and the imaginary parts of complex numbers, one after the other."""
    return np.stack([x.real, x.imag]).astype(np.float32)


def of_transform(arrays, result):
    """Rounding turns a vector by so much of its own size; 64 is twice what products of 32 and turns add."""
    return 64 * HALF_ULP * np.sqrt((np.square(arrays[0], dtype=np.float64)).sum((0, 2, 3)))[:, None, None]


CASES = [
    *(
        Case(
            f"dropout {kind} {columns}",
            dropout,
            lambda kind=kind, columns=columns: [
                numbers(20, columns, kind=kind),
                numbers(20, columns, kind=kind, seed=1),
                12345678901,
                room(20, columns, kind=kind),
            ],
        )
        for kind, columns in [("f32", 130), ("bf16", 256)]
    ),
    Case("dropout's gradient", dropout_gradient, lambda: [numbers(20, 130), -7, room(20, 130)]),
    Case(
        "bytes of rows",
        quantise,
        lambda: [numbers(9, 100), room(9, 100, kind="i1"), room(9, 1)],
        {"COLUMNS": 128},
    ),
    *(
        Case(
            f"product of bytes with scales {m} x {n} x {k}",
            quantised_product,
            lambda m=m, n=n, k=k: [
                numbers(m, k, kind="i1"),
                numbers(n, k, kind="i1", seed=1),
                numbers(m, 1),
                numbers(n, 1, seed=1),
                room(m, n),
            ],
        )
        for m, n, k in [(64, 64, 128), (50, 70, 100)]
    ),
    Case(
        "fourier transform",
        fft,
        lambda: [numbers(2, 3, 32, 32), *roots_of_one(32), room(2, 3, 32, 32)],
        {},
        of_transform,
    ),
    Case(
        "largest by a network",
        bitonic_topk,
        lambda: [numbers(3, 200), room(3, 8), room(3, 8, kind="i4")],
        {"COLUMNS": 256},
    ),
]
