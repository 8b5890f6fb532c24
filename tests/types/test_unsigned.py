"""Integers without a sign against NumPy, on the CPU and in the simulator of a GPU of each family."""

from __future__ import annotations

import numpy as np
import pytest
from everywhere import everywhere

import gizml_tile as tile
from gizml_tile import F32, I64, U16, U32, U64

TYPES = [np.uint16, np.uint32, np.uint64]


def spread(shape, dtype, seed=0):
    """Numbers of every length, the largest ones among them."""
    rng, limits = np.random.default_rng([seed, *shape]), np.iinfo(dtype)
    values = rng.integers(0, limits.max, shape, dtype, endpoint=True)
    values >>= rng.integers(0, limits.bits, shape, dtype)
    values.flat[:4] = [limits.max, 0, limits.max // 2 + 1, limits.max // 2]
    return values


@tile.kernel(grid=lambda x, **_: 1)
def ordered(p, x, values, places, best, running):
    t = p.read(x, [8, 64])[0, 0]
    found, where = t.sort(1)
    p.write(values, [8, 64])[0, 0] = found.to(x.dtype)
    p.write(places, [8, 64])[0, 0] = where
    p.write(best, [8, 1])[0, 0] = t.argmax(1) * 64 + t.topk(1, 1, largest=False)[1]
    p.write(running, [8, 64])[0, 0] = (t.cummax(1) - t.cumsum(1, reverse=True)).to(x.dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_order_and_running_values(dtype):
    x = spread((8, 64), dtype)
    arrays = [x, np.zeros_like(x), np.zeros((8, 64), np.int32), np.zeros((8, 1), np.int32), np.zeros_like(x)]
    _, values, places, best, running = everywhere(ordered, *arrays)
    wanted = np.argsort(x, 1, kind="stable")
    assert np.array_equal(values, np.take_along_axis(x, wanted, 1))
    assert np.array_equal(places, wanted)
    assert np.array_equal(best[:, 0], x.argmax(1) * 64 + x.argmin(1))
    sums = np.cumsum(x[:, ::-1], 1, dtype=np.uint64)[:, ::-1]
    most = np.maximum.accumulate(x, 1).astype(np.uint64)
    assert np.array_equal(running, (most - sums).astype(dtype))


@tile.kernel(grid=lambda y, **_: 1)
def gathered(p, table, ids, y):
    p.write(y, [1, 16])[0, 0] = p.read(table, [16], pad=-1).gather([p.read(ids, [16])[0]])


@pytest.mark.parametrize("dtype", TYPES)
def test_places_beyond_the_largest_signed_number_are_outside(dtype):
    table, limits = np.arange(10, dtype=np.int32), np.iinfo(dtype)
    ids = np.array([0, 9, 10, limits.max, limits.max - 5, limits.max // 2 + 1, *range(10)], dtype)
    *_, y = everywhere(gathered, table, ids, np.zeros((1, 16), np.int32))
    inside = ids < 10
    assert np.array_equal(y[0], np.where(inside, table[np.where(inside, ids, 0).astype(int)], -1))


@tile.kernel(grid=lambda x, **_: 1)
def stored(p, x, u16, u32, u64, i64, f32):
    t = p.read(x, [64])[0]
    for out, kind in [(u16, U16), (u32, U32), (u64, U64), (i64, I64), (f32, F32)]:
        p.write(out, [64])[0] = t.to(kind)


@pytest.mark.parametrize("dtype", [*TYPES, np.int8, np.int32, np.int64, np.float32])
def test_conversions_wrap_between_integers_and_saturate_from_floats(dtype):
    kinds = [np.uint16, np.uint32, np.uint64, np.int64, np.float32]
    if dtype is np.float32:
        powers = [2.0**n for n in (16, 31, 32, 63, 64)]
        near = [np.nextafter(np.float32(power), np.float32(0)) for power in powers]
        x = np.array(
            [*powers, *near, 0.99, -0.99, -1, -1e30, 1e30, np.inf, -np.inf, np.nan, 255.5], np.float32
        )
        exact = [0 if np.isnan(each) else int(np.clip(each, -(2.0**80), 2.0**80)) for each in x.astype(float)]
        limits = [np.iinfo(kind) for kind in kinds[:-1]]
        wanted = [
            np.array([min(max(each, limit.min), limit.max) for each in exact], kind)
            for limit, kind in zip(limits, kinds, strict=False)
        ]
        wanted.append(x)
    else:
        x = np.resize(spread((60,), f"u{np.dtype(dtype).itemsize}").view(dtype), 60)
        wanted = [x.astype(kind) for kind in kinds]
    arrays = everywhere(stored, x, *(np.zeros(len(x), kind) for kind in kinds))[1:]
    for kind, found, each in zip(kinds, arrays, wanted, strict=True):
        assert np.array_equal(found, each, equal_nan=kind is np.float32), kind


@tile.kernel(grid=lambda y, **_: 2)
def counted(p, y, z):
    """A hash of each element's number."""
    i = p.id(0)
    number = p.iota([1, 64], 1, U32) + i * 64
    mixed = (number ^ number >> 16) * 0x7FEB352D
    mixed = (mixed ^ mixed >> 15) * 0x846CA68B
    p.write(y, [64])[i] = mixed ^ mixed >> 16
    p.write(z, [64])[i] = mixed.mulhi(1000) + (-i).value(U32)


def test_a_hash_of_numbers():
    y, z = everywhere(counted, np.zeros(128, np.uint32), np.zeros(128, np.uint32))
    number = np.arange(128, dtype=np.uint32)
    mixed = (number ^ number >> np.uint32(16)) * np.uint32(0x7FEB352D)
    mixed = (mixed ^ mixed >> np.uint32(15)) * np.uint32(0x846CA68B)
    assert np.array_equal(y, mixed ^ mixed >> np.uint32(16))
    upper = (mixed.astype(np.uint64) * 1000 >> np.uint64(32)).astype(np.uint32)
    assert np.array_equal(z, upper - (np.arange(128) // 64).astype(np.uint32))
