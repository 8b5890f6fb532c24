"""Reductions and scans by a function against NumPy, on the CPU and in simulation."""

from itertools import product

import numpy as np
import pytest
from along_programs import DEVICES, elements, left, outputs
from along_reference import best, prefix_sums, running
from ml_dtypes import bfloat16
from tile_ir_interpreter import fused_multiply_add

import gizml_tile as tile
from gizml_tile.program import trace
from gizml_tile.trial import rounds

SHAPES = [(1, 2), (2, 1), (8, 16), (16, 1), (1, 64), (4, 256), (64, 4), (32, 32), (128, 2)]
TARGETS = [
    *product(DEVICES[:1], SHAPES),
    *((d, s) for d in DEVICES[1:] for s in [(8, 16), (32, 32), (1, 1024), (256, 4)]),
]


@pytest.mark.parametrize(("device", "shape"), TARGETS)
def test_integers_are_exact(device, shape):
    x = elements(shape, np.int32)
    for axis in (0, 1):
        slim = left(shape, axis)

        def function(p, a, axis=axis):
            pair = a.associative_scan(lambda a, b, c, d: (a * c, b * c + d), axis, a + 1)
            again = a.reduce(lambda a, b, c, d: (a * c, b * c + d), axis, a + 1)
            return (
                a.cumsum(axis),
                a.cumsum(axis, reverse=True),
                a.cumprod(axis),
                a.cummax(axis, reverse=True),
                *pair,
                a.prod(axis),
                *again,
            )

        whole, few = (shape, np.int32), (slim, np.int32)
        found = outputs(device, [x], function, *[whole] * 6, *[few] * 3)
        with np.errstate(over="ignore"):
            sums = np.cumsum(x, axis, dtype=np.int32)
            linear = running(lambda a, b, c, d: (a * c, b * c + d), (x, x + 1), axis)
            wanted = [
                sums,
                np.flip(np.cumsum(np.flip(x, axis), axis, dtype=np.int32), axis),
                np.cumprod(x, axis, dtype=np.int32),
                np.flip(np.maximum.accumulate(np.flip(x, axis), axis), axis),
                *linear,
                np.prod(x, axis, dtype=np.int32, keepdims=True),
                *(np.take(each, [-1], axis) for each in linear),
            ]
        for got, right in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize(("device", "shape"), TARGETS)
def test_floats(device, shape):
    x = elements(shape, np.float32, wild=True)
    plain = elements(shape, np.float32, seed=1)
    for axis in (0, 1):
        slim = left(shape, axis)

        def function(p, a, b, axis=axis):
            return (
                a.argmax(axis),
                a.argmin(axis),
                a.cummax(axis),
                a.cummin(axis, reverse=True),
                a.max(axis, nan="propagate"),
                a.min(axis, nan="propagate"),
                b.cumsum(axis),
                b.cumsum(axis, reverse=True),
                b.prod(axis),
                a.gt(1).any(axis).to(tile.I32),
                a.lt(9).all(axis).to(tile.I32),
            )

        whole, few, places = (shape, np.float32), (slim, np.float32), (slim, np.int32)
        kinds = [places, places, whole, whole, few, few, whole, whole, few, places, places]
        found = iter(outputs(device, [x, plain], function, *kinds))
        np.testing.assert_array_equal(next(found), best(x, axis).reshape(slim))
        np.testing.assert_array_equal(next(found), best(x, axis, largest=False).reshape(slim))
        np.testing.assert_array_equal(next(found), np.fmax.accumulate(x, axis))
        np.testing.assert_array_equal(next(found), np.flip(np.fmin.accumulate(np.flip(x, axis), axis), axis))
        np.testing.assert_array_equal(next(found), x.max(axis, keepdims=True))
        np.testing.assert_array_equal(next(found), x.min(axis, keepdims=True))
        for reverse in (False, True):
            wanted, bound = prefix_sums(plain, axis, reverse=reverse)
            assert (np.abs(next(found) - wanted) <= bound).all()
        wide = plain.astype(np.float64).prod(axis, keepdims=True)
        assert (np.abs(next(found) - wide) <= shape[axis] * 2.0**-24 * np.abs(wide) + 1e-44).all()
        np.testing.assert_array_equal(next(found), (x > 1).any(axis, keepdims=True))
        np.testing.assert_array_equal(next(found), (x < 9).all(axis, keepdims=True))


@pytest.mark.parametrize(
    "dtype", [np.float16, bfloat16, np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64]
)
@pytest.mark.parametrize("device", [None, ("cuda", "sm_90a"), ("hip", "gfx1100"), ("metal", "apple9")])
def test_types(device, dtype):
    shape = (8, 32)
    x = elements(shape, dtype)
    is_float = np.dtype(dtype).kind not in "iu"
    kind = dtype if dtype in (np.int64, np.uint32, np.uint64) else np.float32 if is_float else np.int32
    slim = (8, 1)
    function = lambda p, a: (a.argmax(1), a.cumsum(1), a.cummin(1))
    place, sums, least = outputs(device, [x], function, (slim, np.int32), (shape, kind), (shape, kind))
    wide = x.astype(np.float64 if is_float else kind)
    np.testing.assert_array_equal(place, best(wide, 1).reshape(slim))
    np.testing.assert_array_equal(least, np.minimum.accumulate(wide, 1))
    wanted, bound = prefix_sums(wide, 1)
    assert (np.abs(sums - wanted) <= (bound if is_float else 0)).all()


def test_masks_are_counted():
    x = elements((8, 16), np.float32)
    (found,) = outputs(None, [x], lambda p, a: a.gt(0).cumsum(1), ((8, 16), np.int32))
    np.testing.assert_array_equal(found, np.cumsum(x > 0, 1))


@pytest.mark.parametrize("device", DEVICES)
def test_functions_need_not_commute(device):
    """Products of 2 x 2 matrices, four numbers that belong together, modulo a prime."""
    shape = (4, 64)
    tiles = [elements(shape, np.int32, seed=seed) for seed in range(4)]

    def multiply(a, b, c, d, e, f, g, h):
        return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h

    for axis in (0, 1):
        slim = left(shape, axis)
        function = lambda p, a, *others, axis=axis: (
            *a.associative_scan(multiply, axis, *others, reverse=True),
            *a.reduce(multiply, axis, *others),
        )
        found = outputs(device, tiles, function, *[(shape, np.int32)] * 4, *[(slim, np.int32)] * 4)
        with np.errstate(over="ignore"):
            scanned = running(multiply, tiles, axis, reverse=True)
            whole = [np.take(each, [-1], axis) for each in running(multiply, tiles, axis)]
        for got, right in zip(found, [*scanned, *whole], strict=True):
            np.testing.assert_array_equal(got, right)


def test_values_that_nobody_uses():
    """A pair of which one value is stored, by rows and by columns, in a loop and from a transposed read."""
    x = elements((32, 64), np.int32)

    def body(p):
        block = p.read(x, [16, 16])
        out = p.write(y, [16, 1])

        def turn(k, total):
            a = block.at([p.id(0), k])
            _, found = a.reduce(lambda a, b, c, d: (a * c, b * c + d), 1, a.T.T + 1)
            return total + found

        out.put(p.fold(0, block.blocks(1), p.zeros([16, 1], tile.I32), turn), [p.id(0), 0])

    y = np.zeros((32, 1), np.int32)
    with np.errstate(over="ignore"):
        parts = [
            running(lambda a, b, c, d: (a * c, b * c + d), (q, q + 1), 1)[1][:, -1:]
            for q in np.split(x, 4, 1)
        ]
        wanted = sum(parts).astype(np.int32)
    tile.run((2,), body)
    np.testing.assert_array_equal(y, wanted)
    y[:] = 0
    tile.simulate((2,), body, kind="cuda")
    np.testing.assert_array_equal(y, wanted)
    for order in ("C", "F"):
        z = np.asarray(x, order=order)
        (sums,) = outputs(None, [z], lambda p, a: a.cumsum(0) + a.T.cumsum(1).T, ((32, 64), np.int32))
        np.testing.assert_array_equal(sums, 2 * np.cumsum(x, 0))


def test_running_values_that_only_a_loop_gives():
    """The turns of a loop all give the same, which moves before it; their result is its only use."""
    x, y = elements((4, 8), np.int32), np.zeros((4, 8), np.int32)

    def body(p):
        a = p.read(x, [4, 8]).at([0, 0])
        p.write(y, [4, 8]).put(p.fold(0, 3, a, lambda k, total: a.cumsum(1)), [0, 0])

    tile.run((1,), body)
    np.testing.assert_array_equal(y, np.cumsum(x, 1))


def test_products_in_a_function_are_fused():
    """One rounding for b1 * a2 + b2 on every device, so that scans of two places have equal bits."""
    a, b = (elements((64, 2), np.float32, seed=seed) for seed in (0, 1))
    follow = lambda a1, b1, a2, b2: (a1 * a2, b1 * a2 + b2)
    function = lambda p, x, y: x.associative_scan(follow, 1, y)[1]
    fused = fused_multiply_add(b[:, 0], a[:, 1], b[:, 1])
    for device in DEVICES:
        (found,) = outputs(device, [a, b], function, ((64, 2), np.float32))
        np.testing.assert_array_equal(found, np.stack([b[:, 0], fused], 1))
    assert (fused != b[:, 0] * a[:, 1] + b[:, 1]).any()


def test_tiles_stretch():
    """A decay for each row beside what it decays, and the other way round."""
    x, rate = elements((8, 32), np.int32), elements((8, 1), np.int32, seed=1)
    follow = lambda a1, b1, a2, b2: (a1 * a2, b1 * a2 + b2)
    wide = np.broadcast_to(rate, x.shape)
    for device in (None, ("cuda", "sm_90a"), ("metal", "apple9")):
        function = lambda p, a, r: (r.associative_scan(follow, 1, a)[1], a.associative_scan(follow, 1, r)[0])
        found = outputs(device, [x, rate], function, *[((8, 32), np.int32)] * 2)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(found[0], running(follow, (wide, x), 1)[1])
            np.testing.assert_array_equal(found[1], np.cumprod(x, 1, dtype=np.int32))


def test_equal_scans_are_made_once():
    x = elements((8, 16), np.float32)

    def body(p):
        a = p.read(x, [8, 16]).at([0, 0])
        p.write(x, [8, 16]).put(a.cumsum(1) + a.cumsum(1) + a.cumsum(1, reverse=True), [0, 0])

    assert tile.ir((1,), body, kind="cpu").count("  scan ") == 2


@tile.kernel(grid=1)
def decorated(p, x, y, z, *, N=32):
    def steeper(a, i, b, j):
        wins = abs(b) > abs(a) or (abs(a) == abs(b) and j < i)
        return (b if wins else a), (j if wins else i)

    a = p.read(x, [N, N])[0, 0]
    p.write(y, [N, N])[0, 0] = a.associative_scan(lambda a, b: max(a, b) - 0.5, 1)
    p.write(z, [N, 1])[0, 0] = a.reduce(steeper, 1, p.iota([N, N], 1, tile.I32))[1]


def test_functions_are_rewritten_as_kernels_are():
    """Operators, branches by masks and builtins in a nested function and in a lambda."""
    x = elements((32, 32), np.float32)
    for device in (None, ("cuda", "sm_90a"), ("hip", "gfx942")):
        y, z = np.zeros((32, 32), np.float32), np.zeros((32, 1), np.int32)
        if device is None:
            decorated(x, y, z)
        else:
            decorated.simulate(x, y, z, kind=device[0], arch=device[1])
        np.testing.assert_array_equal(z[:, 0], np.argmax(np.abs(x), 1))
        assert (y[:, 1] == np.maximum(x[:, 0], x[:, 1]) - 0.5).all()


def test_scans_may_be_rounded_otherwise_when_tuned():
    x = elements((8, 16), np.float32)

    def body(p):
        p.write(x, [8, 16]).put(p.read(x, [8, 16]).at([0, 0]).cumsum(1), [0, 0])

    assert rounds(trace("body", body).program)


@pytest.mark.parametrize("device", [None, ("cuda", "sm_90a"), ("hip", "gfx1100"), ("metal", "apple9")])
@pytest.mark.parametrize("shape", [(5, 96), (7, 3), (1, 33)])
def test_sizes_that_are_no_powers_of_two(device, shape):
    """What a tile is computed in beyond its own sizes is never found, counted or combined."""
    x = elements(shape, np.float32, wild=True)
    x[0] = np.nan
    n = elements(shape, np.int32)
    follow = lambda a1, b1, a2, b2: (a1 * a2, b1 * a2 + b2)
    for axis in (0, 1):
        slim, places = left(shape, axis), (left(shape, axis), np.int32)

        def function(p, a, m, axis=axis):
            return (
                a.argmax(axis),
                a.argmin(axis),
                m.prod(axis),
                m.reduce(follow, axis, m + 1)[1],
                m.associative_scan(follow, axis, m + 1, reverse=True)[1],
                m.cumsum(axis, reverse=True),
            )

        found = outputs(device, [x, n], function, *[places] * 4, *[(shape, np.int32)] * 2)
        np.testing.assert_array_equal(found[0], best(x, axis).reshape(slim))
        np.testing.assert_array_equal(found[1], best(x, axis, largest=False).reshape(slim))
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(found[2], np.prod(n, axis, dtype=np.int32, keepdims=True))
            both = running(follow, (n, n + 1), axis)[1]
            np.testing.assert_array_equal(found[3], np.take(both, [-1], axis))
            np.testing.assert_array_equal(found[4], running(follow, (n, n + 1), axis, reverse=True)[1])
        np.testing.assert_array_equal(found[5], np.flip(np.cumsum(np.flip(n, axis), axis), axis))
