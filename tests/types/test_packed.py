"""Numbers of four bits and scales of blocks against NumPy, on the CPU and on simulated GPUs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from everywhere import everywhere

import gizml_tile as tile
from gizml_tile import BF16, F32, TileError

EVERY_BYTE = np.arange(256, dtype=np.uint8).reshape(16, 16)


@tile.kernel(grid=lambda x, **_: 1)
def unpacked(p, x, signed, unsigned, again, *, AXIS, SHAPE):
    t = p.read(x, [16, 16])[0, 0]
    p.write(signed, SHAPE)[0, 0] = t.unpack4(AXIS)
    p.write(unsigned, SHAPE)[0, 0] = t.unpack4(AXIS, signed=False)
    p.write(again, [16, 16])[0, 0] = (t.unpack4(AXIS) + 16).pack4(AXIS)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("axis", [0, 1])
def test_every_byte_holds_two_numbers(axis, dtype):
    shape = (32, 16) if axis == 0 else (16, 32)
    x, room = EVERY_BYTE.view(dtype), [np.zeros(shape, np.int8), np.zeros(shape, np.uint8)]
    halves = np.stack([EVERY_BYTE & 15, EVERY_BYTE >> 4], axis + 1).reshape(shape)
    _, signed, unsigned, again = everywhere(
        unpacked, x, *room, np.zeros_like(EVERY_BYTE), AXIS=axis, SHAPE=shape
    )
    assert np.array_equal(unsigned, halves)
    assert np.array_equal(signed, np.where(halves < 8, halves, halves.astype(int) - 16))
    assert np.array_equal(again, EVERY_BYTE)


@tile.kernel(grid=lambda x, **_: 1)
def scaled(p, x, scales, y, *, AXIS, COUNT):
    t, s = p.read(x, [16, 64])[0, 0], p.read(scales, COUNT)[0, 0]
    p.write(y, [16, 64])[0, 0] = t.scale_blocks(s, AXIS)


@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.float8_e4m3fn, np.int8])
@pytest.mark.parametrize(("axis", "count"), [(1, (16, 2)), (1, (16, 64)), (0, (4, 64)), (-1, (16, 1))])
def test_each_block_has_a_scale(axis, count, kind):
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((16, 64)) * 20).astype(kind)
    exponents = rng.integers(60, 190, count).astype(np.uint8)
    powers = 2.0 ** (exponents.astype(float) - 127)
    for scales, numbers in [(exponents, powers), (powers.astype(np.float32), powers)]:
        *_, y = everywhere(scaled, x, scales, np.zeros((16, 64), np.float32), AXIS=axis, COUNT=count)
        times = 64 // count[1] if axis else 16 // count[0]
        assert np.array_equal(y, (x.astype(float) * np.repeat(numbers, times, axis)).astype(np.float32))


def test_the_ends_of_exponents():
    x, exponents = np.ones((16, 64), np.float32), np.full((16, 64), 127, np.uint8)
    exponents[0, :4] = [0, 1, 254, 255]
    y = np.zeros_like(x)
    scaled(x, exponents, y, AXIS=1, COUNT=(16, 64))
    assert np.array_equal(y[0, :3], np.float32([2.0**-127, 2.0**-126, 2.0**127]))
    assert np.isnan(y[0, 3]) and (y[1:] == 1).all()


@tile.kernel(grid=lambda y, BM, BN, **_: (tile.cdiv(y.shape[0], BM), tile.cdiv(y.shape[1], BN)))
def products(p, a, a_scales, b, b_scales, y, *, BM=32, BN=32, BK=64):
    """Of two MX matrices: FP8 with a power of two for 32 elements of k."""
    i, j = p.id(0), p.id(1)
    A, AS = p.read(a, [BM, BK]), p.read(a_scales, [BM, BK // 32])
    B, BS = p.read(b, [BK, BN]), p.read(b_scales, [BK // 32, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        left = A[i, k].scale_blocks(AS[i, k], 1).to(BF16)
        acc += left @ B[k, j].scale_blocks(BS[k, j], 0).to(BF16)
    p.write(y, [BM, BN])[i, j] = acc


def test_products_of_mx():
    rng = np.random.default_rng(6)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.float8_e4m3fn) for shape in [(40, 96), (96, 50)])
    a_scales, b_scales = (rng.integers(115, 135, shape).astype(np.uint8) for shape in [(40, 3), (3, 50)])
    left = a.astype(float) * np.repeat(2.0 ** (a_scales.astype(float) - 127), 32, 1)
    right = b.astype(float) * np.repeat(2.0 ** (b_scales.astype(float) - 127), 32, 0)
    bound = 96 * 2.0**-24 * (abs(left) @ abs(right))
    *_, y = everywhere(products, a, a_scales, b, b_scales, np.zeros((40, 50), np.float32), bound=2 * bound)
    assert (abs(y - left @ right) <= bound).all()


@tile.kernel(grid=lambda y, BM, BN, **_: (tile.cdiv(y.shape[0], BM), tile.cdiv(y.shape[1], BN)))
def dequantised(p, x, weights, scales, y, *, BM=32, BN=32, BK=64):
    """Weights of four bits, neighbours along k in a byte, with a scale for each column of 64 of k."""
    i, j = p.id(0), p.id(1)
    X, W, S = p.read(x, [BM, BK]), p.read(weights, [BK // 2, BN]), p.read(scales, [1, BN])
    acc = p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        acc += X[i, k] @ (W[k, j].unpack4(0).to(F32) * S[k, j]).to(BF16)
    p.write(y, [BM, BN])[i, j] = acc


def test_products_with_weights_of_four_bits():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((40, 128)).astype(ml_dtypes.bfloat16)
    numbers = rng.integers(-8, 8, (128, 48))
    weights = (numbers[::2] & 15 | (numbers[1::2] & 15) << 4).astype(np.uint8)
    scales = rng.random((2, 48), np.float32)
    right = (numbers * np.repeat(scales, 64, 0)).astype(np.float32).astype(ml_dtypes.bfloat16).astype(float)
    bound = 128 * 2.0**-24 * (abs(x.astype(float)) @ abs(right))
    *_, y = everywhere(dequantised, x, weights, scales, np.zeros((40, 48), np.float32), bound=2 * bound)
    assert (abs(y - x.astype(float) @ right) <= bound).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x, u: x.unpack4(1), r"unpack4 takes bytes \(I8 or U8\), found an F32 tile \[8, 8\]"),
        (lambda x, u: x.pack4(1), r"pack4 takes integers, found an F32 tile \[8, 8\]; round and convert it"),
        (lambda x, u: x.scale_blocks(2.0, 1), "scale_blocks takes a tile of scales, found 2.0"),
        (lambda x, u: x.scale_blocks(u.to(tile.I32), 1), "takes scales of a float type, or U8 for exponents"),
        (lambda x, u: x.lt(0).scale_blocks(u, 1), "scale_blocks does not take a mask"),
        (lambda x, u: x.scale_blocks(u.T, 1), r"of \[8, 8\] needs scales .* found \[2, 8\]"),
    ],
)
def test_what_does_not_fit_is_named(wrong, message):
    with pytest.raises(TileError, match=message):
        tile.ir([1], lambda p: wrong(p.zeros([8, 8]), p.zeros([8, 2], tile.U8)))
