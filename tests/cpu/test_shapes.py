"""Slices, tiles joined and other shapes: every axis, type and order in memory, alone and computed with."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import TYPES, agree, laid_out, numbers

import gizml_tile as tile
from gizml_tile.dtypes import to_numpy
from gizml_tile.program import trace

STORAGE = TYPES | {"bool": np.dtype(bool)}
# A tile's shape, and what is made of it.
MOVES = [
    ((8, 64), "t.split(1)"),
    ((8, 64), "t.split(0)"),
    ((64, 1), "t.split(0)"),
    ((2, 2), "t.split(1)"),
    ((64, 64), "t.reshape([16, 256])"),
    ((4, 256), "t.reshape([64, 16])"),
    ((8, 4), "t.reshape([1, 32])"),
    ((1, 64), "t.reshape([64, 1])"),
    ((1, 64), "t.reshape([32, 2])"),
    ((64, 1), "t.reshape([4, 16])"),
    ((64, 1), "t.reshape(64)"),
    ((16, 16), "t.reshape([256, 1])"),
    ((8, 64), "t.reshape([-1, 16]).T.reshape([1, -1])"),
    ((4, 48), "t.reshape([8, 24])"),
    ((4, 48), "t.reshape([48, 4])"),
    ((6, 10), "t.reshape([1, 60])"),
    ((1, 60), "t.reshape([4, 15])"),
    ((15, 1), "t.reshape([3, 5])"),
    ((7, 9), "t.reshape([63, 1])"),
    ((12, 16), "t.T.reshape([64, 3])"),
    ((8, 64), "t.flip(0)"),
    ((8, 64), "t.flip(1)"),
    ((64, 1), "t.flip(0)"),
    ((8, 4), "t[::-1, ::-1]"),
    ((8, 64), "t.deinterleave(1)"),
    ((8, 64), "t.deinterleave(0)"),
    ((64, 1), "t.deinterleave(0)"),
    ((8, 64), "t.interleave(u, 1)"),
    ((8, 64), "t.interleave(u, 0)"),
    ((64, 1), "t.interleave(u, 1)"),
    ((64, 1), "t.interleave(u, 0)"),
    ((1, 64), "t.interleave(u, 0)"),
    ((1, 1), "t.interleave(u, 1)"),
    ((8, 64), "t.concat(u, 1)"),
    ((8, 64), "t.concat(u, 0)"),
    ((8, 1), "t.concat(u, 1)"),
    ((8, 1), "t.concat(u, 0)"),
    ((1, 8), "t.concat(u, 0)"),
    ((8, 2), "t.concat(u, 1)"),
    ((1, 1), "t.concat(u, 0)"),
    ((8, 64), "t[1:3, 5:37]"),
    ((8, 64), "t[3:4, 5:6]"),
    ((8, 64), "t[:, 5:6]"),
    ((8, 64), "t[2:3]"),
    ((8, 64), "t[:, ::4]"),
    ((8, 64), "t[::-2, ::-4]"),
    ((8, 64), "t[:, 1::2][:, 4:20]"),
    ((8, 64), "t.T.flip(0).T.split(1)"),
    ((2, 8), "t.reshape([16, 1]).concat(u.reshape([16, 1]), 1).reshape([4, 8])"),
    ((1, 64), "t.broadcast_to([8, 64])"),
    ((8, 1), "t.broadcast_to([8, 64])"),
    ((1, 1), "t.broadcast_to([8, 64])"),
    # Sizes that are no powers of two.
    ((5, 24), "t.split(1)"),
    ((6, 40), "t.split(0)"),
    ((96, 3), "t.T.flip(1)"),
    ((3, 80), "t.flip(1)[1:, ::3]"),
    ((7, 5), "t.interleave(u, 1)"),
    ((7, 5), "t.concat(u[:3], 0).concat(t[:, 4:].flip(0).concat(u[4:], 0)[:10, :1], 1)"),
    ((3, 5), "t.concat(u, 1)"),
    ((12, 8), "t.reshape([24, 4])"),
    ((12, 4), "t.reshape([1, -1]).reshape([-1, 1])"),
    ((1, 5), "t.broadcast_to([3, 5])"),
]
# What else happens on the way: reductions, products, functions, slices of what was joined.
COMPUTED = [
    ((8, 64), "(t.concat(u, 1) + t.sum(1))[:, 32:96]"),
    ((8, 64), "(t.concat(u, 1) * 2)[:, 3:67]"),
    ((8, 64), "(t.interleave(u, 1) * 2)[:, 3:67]"),
    ((8, 64), "(t.concat(u, 1) * 2).max(1)"),
    ((8, 64), "(t - t.max(1)).flip(0)"),
    ((8, 64), "(t - t.max(0))[3:4, 5:6] * t"),
    ((16, 16), "t @ u.flip(0)"),
    ((16, 16), "t.flip(1) @ u"),
    ((16, 32), "t[:, :16] @ u[:, 16:].T"),
    ((16, 16), "(t @ u).reshape([8, 32]).split(1)"),
    ((8, 64), "t.exp().flip(1).split(1)[0]"),
    ((5, 80), "(t - t.max(1)).exp() / (t - t.max(1)).exp().sum(1)"),
    ((12, 20), "t @ u.flip(0).T"),
    ((12, 20), "(t + 1).T @ (u - 1)"),
    ((3, 5), "t.sort(0)[0] * u.argmax(1).to(tile.F32) + t.cumsum(1, reverse=True)"),
]


def made(source, t, u):
    results = eval(source, {"t": t, "u": u, "tile": tile})
    return results if isinstance(results, tuple) else (results,)


def moved(shape, source, kind, order, bound=0.0):
    """A launch of a program that makes tiles of two others agrees with NumPy's run of it."""
    rng = np.random.default_rng(0)
    x, y = (laid_out(numbers(rng, shape, STORAGE[kind]), order) for _ in range(2))

    def tiles(p):
        return made(source, *(p.read(each, list(shape)).at([0, 0]) for each in (x, y)))

    found = []
    trace("shapes", lambda p: found.extend(tiles(p)), grid_rank=1)
    outs = [laid_out(np.zeros(each.shape, to_numpy(each.dtype)), order) for each in found]

    def body(p):
        for out, each in zip(outs, tiles(p), strict=True):
            p.write(out, list(out.shape)).put(each, [0, 0])

    agree([1], body, bound)


@pytest.mark.parametrize(("shape", "source"), MOVES)
def test_orders_and_types(shape, source):
    for order in ("C", "F", "steps"):
        moved(shape, source, "f32", order)
    for kind in ("f16", "i1", "i8", "bool"):
        moved(shape, source, kind, "C")


@pytest.mark.parametrize(("shape", "source"), COMPUTED)
def test_computed(shape, source):
    for order in ("C", "F"):
        moved(shape, source, "f32", order, bound=1e-4)


@pytest.mark.parametrize("shape", [(3, 50), (8, 64), (13, 130)])
def test_parts_of_blocks_over_edges(shape):
    """Parts are read and stored as blocks or windows of their own, of which some lie outside."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape).astype(np.float32)
    y, z = np.zeros(shape, np.float32), np.zeros(shape, np.float32)

    def body(p):
        i, j = p.id(0), p.id(1)
        t = p.read(x, [8, 64], pad=7.0).at([i, j])
        a, b = t.split(1)
        p.write(y, [8, 64]).put(b.concat(a * 2, 1), [i, j])
        c, d = t[5:7].concat(t[1:3], 0).T.split(0)
        p.write(z, [4, 64]).put(c.concat(d, 0).T, [2 * i, j])

    agree([2, 3], body)


def test_a_part_is_what_was_read_before_a_store():
    """The slices come after the block they are of was overwritten, in a loop too."""
    x = np.arange(64, dtype=np.float32).reshape(4, 16)

    def body(p):
        X, Y = p.read(x, [4, 16]), p.write(x, [4, 16])
        t = X.at([0, 0])
        Y.put(t * 2, [0, 0])
        kept = p.loop(
            0,
            3,
            [t],
            lambda k, carried: [carried[0].flip(0) + t.split(1)[0].concat(t[:, 8:], 1).split(0)[1][:1]],
        )[0]
        Y.put(kept.concat(X.at([0, 0]), 0).split(0)[1] + kept + t[:, :1], [0, 0])

    agree([1], body)


def test_conditions_see_parts_made_before_them():
    x, y = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros((8, 8), np.float32)

    def body(p):
        t = p.read(x, [8, 8]).at([0, 0])
        turned, mixed = t.T * t, t.flip(0).interleave(t, 0).split(0)[1]
        Y, i = p.write(y, [8, 8]), p.id(0)
        p.cond(i.ge(0), lambda: (Y.put(turned + mixed, [0, 0]), i)[1], lambda: i)

    agree([1], body)


def test_joined_parts_are_stored_in_one_pass():
    """Rows below rows and long halves of rows by themselves, short halves together."""

    def stored(rows, columns, axis):
        x, y = np.ones((4 * rows, columns), np.float32), np.zeros((4 * rows, columns), np.float32)

        def body(p):
            i, j = p.id(0), p.id(1)
            a, b = p.read(x, [rows, columns]).at([i, j]).split(axis)
            p.write(y, [rows, columns]).put((a - b).concat(a + b, axis), [i, j])

        text = tile.explain([4, 1], body, kind="cpu")
        assert text.count("one pass") == 1 and "keep" not in text
        agree([4, 1], body)
        return text

    assert stored(8, 64, 0).count("put [4, 64]") == 2
    assert stored(8, 64, 1).count("put [8, 64]") == 1
    assert stored(2, 2048, 1).count("put [2, 1024]") == 2


def test_rows_of_blocks_are_read_where_they_are_wanted():
    x, y = np.ones((8, 64), np.float32), np.zeros((8, 64), np.float32)

    def turned(p):
        p.write(y, [8, 64]).put(p.read(x, [8, 64]).at([0, 0]).flip(0) * 2, [0, 0])

    def computed(p):
        t = p.read(x, [8, 64]).at([0, 0])
        p.write(y, [8, 64]).put((t - t.max(1)).flip(0), [0, 0])

    assert "keep" not in tile.explain([1], turned, kind="cpu")
    assert "keep [8, 64] slice" in tile.explain([1], computed, kind="cpu")


def test_a_single_row_of_a_block_stretches_over_others():
    x, (y, z) = np.arange(128, dtype=np.float32).reshape(8, 16), np.zeros((2, 8, 16), np.float32)

    def body(p):
        t = p.read(x, [8, 16]).at([0, 0])
        low, high = t[2:3].split(1)
        p.write(y, [8, 16]).put(t.flip(0), [0, 0])
        p.write(z, [8, 16]).put(t.flip(0) + t[5:6] * high.concat(low, 1), [0, 0])

    agree([1], body)
    np.testing.assert_array_equal(z, x[::-1] + x[5] * np.roll(x[2], 8))


def test_rows_that_are_moved_have_been_made_before():
    """A tile and itself turned round, both carried: a single pass has yet to come to what places need."""
    x = np.arange(64, dtype=np.float32).reshape(2, 32)
    y, z = np.zeros((2, 32), np.float32), np.zeros((2, 64), np.float32)

    def body(p):
        t = p.read(x, [2, 32]).at([0, 0]) / 4.0 / 2.0
        inits = [t, t.flip(1), t[:, 24:8:-1].interleave(t[:, :16], 1).concat(t, 1)]
        turns = p.loop(0, 1, inits, lambda k, carried: [each + 1 for each in carried])
        p.write(y, [2, 32]).put(turns[0] - turns[1].flip(1), [0, 0])
        p.write(z, [2, 64]).put(turns[2], [0, 0])

    agree([1], body)
    np.testing.assert_array_equal(y, 0)
    np.testing.assert_array_equal(z[:, 0:32:2], z[:, 56:40:-1])
    np.testing.assert_array_equal(z[:, 1:32:2], z[:, 32:48])
