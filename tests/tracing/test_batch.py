"""Batches of tiles: blocks of the last three dimensions against NumPy, and their mistakes."""

from __future__ import annotations

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile import TileError
from gizml_tile.program import trace

RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@tile.kernel(grid=lambda c, B, M, **_: (tile.cdiv(c.shape[-2], M), tile.cdiv(c.shape[-3], B), c.shape[0]))
def products(p, a, b, bias, c, *, B=2, M=16, K=16, N=32):
    i, g, outer = p.id(0), p.id(1), p.id(2)
    A, W, C = p.read(a, [B, M, K]), p.read(b, [B, K, N]), p.write(c, [B, M, N])
    acc = p.zeros([B, M, N])
    for k in range(A.blocks(-1)):
        acc += A[outer, g, i, k] @ W[outer, g, k, 0]
    row = p.read(bias, [N])[0]
    y = max(acc + row, 0)
    C[outer, g, i, 0] = y - y.max(2)


@pytest.mark.parametrize("sizes", [{"B": 2}, {"B": 3, "M": 24, "K": 10}, {"B": 1, "M": 8}, {"B": 8}])
def test_products_of_batches(sizes):
    a, b, bias = numbers(2, 5, 40, 50), numbers(2, 5, 50, 32), numbers(32)
    c = np.zeros((2, 5, 40, 32), np.float32)
    products(a, b, bias, c, **sizes)
    wanted = np.maximum(a.astype(np.float64) @ b + bias, 0)
    np.testing.assert_allclose(c, wanted - wanted.max(-1, keepdims=True), atol=1e-4)


def run(function, *arrays, out=None, block=(3, 4, 8)):
    """What a function of batches gives, stored as one block."""
    made = []

    def body(p):
        result = function(p, *(p.read(each, list(block)).at([0, 0, 0]) for each in arrays))
        if not made:
            made.append(np.zeros(result.shape, np.float32 if out is None else out))
        p.write(made[0], list(made[0].shape)).put(result, [0, 0, 0])

    trace("shape", body)
    tile.run([1], body)
    return made[0]


def test_methods_are_those_of_each_tile():
    x, y = numbers(3, 4, 8), numbers(3, 4, 8)
    same = np.testing.assert_array_equal
    same(run(lambda p, a, b: a * b + 1, x, y), np.float32(np.float64(x) * y + 1))
    same(run(lambda p, a, b: 1 - a, x, y), 1 - x)
    same(run(lambda p, a, b: -abs(a).sqrt(), x, y), -np.sqrt(abs(x)))
    same(run(lambda p, a, b: a.T, x, y), x.swapaxes(1, 2))
    same(run(lambda p, a, b: (a < b).select(a, 0), x, y), np.where(x < y, x, 0))
    same(run(lambda p, a, b: a.max(1), x, y), x.max(1, keepdims=True))
    same(run(lambda p, a, b: a.max(-1) + b.min(-2), x, y), x.max(2, keepdims=True) + y.min(1, keepdims=True))
    same(run(lambda p, a, b: a.concat(b, 2).split(2)[1], x, y), y)
    same(run(lambda p, a, b: a.flip(1).sort(-1, descending=True)[0], x, y), -np.sort(-x[:, ::-1]))
    same(run(lambda p, a, b: a.to(tile.I32), x, y, out=np.int32), x.astype(np.int32))


def test_tiles_stand_beside_each_tile_of_a_batch():
    x, y = numbers(3, 4, 8), numbers(3, 4, 8)

    def mixed(p, a, b):
        own = a[-1]
        return own + b * p.iota([4, 1], 0) + (own > 0).select(b, p.k(2))

    expected = x[2] + y * np.arange(4, dtype=np.float32)[:, None] + np.where(x[2] > 0, y, 2)
    np.testing.assert_allclose(run(mixed, x, y), expected, rtol=1e-5, atol=1e-5)
    product = run(lambda p, a, b: a[0].T @ b, x, y)
    np.testing.assert_allclose(product, np.float64(x[0].T) @ y, atol=1e-5)


@pytest.mark.parametrize("axis", range(-3, 3))
def test_numbers_along_each_axis(axis):
    x = numbers(3, 4, 8)
    counted = run(lambda p, a: p.iota([3, 4, 8], axis, tile.I32), x, out=np.int32)
    np.testing.assert_array_equal(counted, np.indices(x.shape)[axis])


def test_parts_of_a_batch():
    x = numbers(3, 4, 8)
    np.testing.assert_array_equal(run(lambda p, a: a[:, 1:3, ::-1] * 2, x), x[:, 1:3, ::-1] * 2)
    np.testing.assert_array_equal(run(lambda p, a: a[::-1], x), x[::-1])
    np.testing.assert_array_equal(run(lambda p, a: a[1:, :, 2:3] - a[:-1, 3:], x), x[1:, :, 2:3] - x[:-1, 3:])
    np.testing.assert_array_equal(run(lambda p, a: a[-1:, :2] + a[0, 2:], x), x[-1:, :2] + x[0, 2:])


def test_a_batch_of_one_tile_stands_beside_each():
    x = numbers(3, 4, 8)
    np.testing.assert_array_equal(run(lambda p, a: a[:1] - a, x), x[:1] - x)
    np.testing.assert_array_equal(run(lambda p, a: (a[:1] > 0).select(a, 0), x), np.where(x[:1] > 0, x, 0))
    np.testing.assert_array_equal(run(lambda p, a: (a > 0).select(a[:1], a), x), np.where(x > 0, x[:1], x))


def test_loops_and_branches_carry_batches():
    x = numbers(3, 4, 8)

    def carried(p, a):
        total, count = p.loop(0, 3, [a, 0.0], lambda k, c: [c[0] + a, c[1] + 1.0])
        return p.cond(p.id(0).lt(1), lambda: total * count, lambda: a)

    np.testing.assert_allclose(run(carried, x), 12 * x, rtol=1e-6)


def test_windows_and_edges():
    x, y = numbers(5, 6, 9), np.zeros((5, 6, 9), np.float32)

    def body(p):
        X, Y = p.read(x, [2, 4, 8], pad=5.0), p.write(y, [2, 4, 8])
        assert X.block == (2, 4, 8) and X.ndim == 3
        Y.put_window(X.window([-1, 3, 2]), [3, 4, 1])

    tile.run([1], body)
    window = np.full((2, 4, 8), 5, np.float32)
    window[1, :3, :7] = x[0, 3:, 2:]
    wanted = np.zeros_like(y)
    wanted[3:, 4:, 1:] = window[:, :2]
    np.testing.assert_array_equal(y, wanted)


MISTAKES = {
    r"the axis of sum on a batch is 1 or -2 for rows, 2 or -1 for columns, found 0": lambda p, a: a.sum(0),
    r"add needs batches of as many tiles \(or 1\), found \[3, 4, 8\] and \[2, 4, 8\]": (
        lambda p, a: a.add(p.zeros([2, 4, 8]))
    ),
    r"a tile of a batch of 3 is taken by a host integer, found 3": lambda p, a: a[3],
    r"a batch of tiles is neither true nor false": lambda p, a: bool(a),
    r"dot needs \[.., 8\] x \[8, ..\], found \[4, 8\] x \[4, 8\]": lambda p, a: a @ a,
    r"loop carries batches of \[3\] tiles \(0 for a tile\), and a turn gives \[0\]": (
        lambda p, a: p.loop(0, 2, [a], lambda k, carried: [carried[0][0]])
    ),
    r"`total` changes: it is an F32 tile \[4, 8\] before the loop and an F32 tile \[8, 4\] after": (
        lambda p, a: p.fold(0, 2, a, lambda k, total: total.T)
    ),
    r"put needs a batch of 3 tiles \(or 1\), found \[2, 4, 8\]": (
        lambda p, a: p.write(np.zeros((3, 4, 8), np.float32), [3, 4, 8]).put(p.zeros([2, 4, 8]), [0, 0, 0])
    ),
    r"concat needs two tiles, found an F32 tile \[4, 8\] and a batch of tiles": (
        lambda p, a: a[0].concat(a, 0)
    ),
    r"a block of read has one to three sizes, found 4": (
        lambda p, a: p.read(numbers(2, 2, 2, 2), [2, 2, 2, 2])
    ),
    r"iota has one to three sizes, found 4": lambda p, a: p.iota([2, 2, 2, 2], 0),
    r"the axis of iota of three sizes is 0, 1 or 2 \(or -1, -2, -3\), found 3": (
        lambda p, a: p.iota([2, 2, 2], 3)
    ),
    r"iota counts in a float or an integer type, found MASK": lambda p, a: p.iota([2, 2, 2], 0, tile.MASK),
    r"a batch of 3 tiles \[4, 8\] has three axes, found 4 slices": lambda p, a: a[:, :, :, :],
    r"a slice has at least one tile of a batch, found none of 3": lambda p, a: a[3:],
    r"the bounds of a batch's slice are Python integers, found an index": lambda p, a: a[p.id(0) :],
    r"elements of .* are taken by slices, found 1; t\[1:2\] keeps the axis": lambda p, a: a[:, 1],
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes(message):
    x = numbers(3, 4, 8)
    with pytest.raises(TileError, match=message) as caught:
        trace("wrong", lambda p: MISTAKES[message](p, p.read(x, [3, 4, 8]).at([0, 0, 0])))
    assert caught.value.filename == __file__


def test_a_batch_has_no_other_attributes():
    x = numbers(3, 4, 8)
    found = []
    trace("attributes", lambda p: found.append(p.read(x, [3, 4, 8]).at([0, 0, 0])))
    assert repr(found[0]) == "<Batch [3, 4, 8] F32>"
    with pytest.raises(AttributeError, match=r"a batch of 3 tiles .4, 8. has no 'blocks'"):
        found[0].blocks
