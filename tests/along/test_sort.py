"""Sorting and the first few in order against NumPy, on the CPU and in simulation."""

import numpy as np
import pytest
from along_programs import DEVICES, elements, outputs
from ml_dtypes import bfloat16, float8_e4m3fn, float8_e5m2

import gizml_tile as tile

SHAPES = [(1, 2), (2, 1), (8, 16), (16, 1), (1, 64), (4, 256), (64, 4), (32, 32), (128, 2), (2, 512)]
SMALL = [(8, 16), (1, 256), (64, 4), (2, 128)]


def places(x, axis, *, descending=False):
    """Where the elements in order are: by the bits' order of numbers, NaN last, equal ones as they stand."""
    if x.dtype.kind == "i":
        keys = x.astype(object)
        return np.argsort(np.where(True, -keys if descending else keys, 0), axis, kind="stable")
    bits = x.astype(np.float32).view(np.int32).astype(np.int64)
    keys = np.where(bits < 0, -(bits & 0x7FFFFFFF) - 1, bits)
    return np.argsort(np.where(np.isnan(x), 2**40, -keys if descending else keys), axis, kind="stable")


def check(device, x, axis, keep, *, descending, placed=True, warps=0):
    shape = (keep, x.shape[1]) if axis == 0 else (x.shape[0], keep)
    whole = keep == x.shape[axis]

    def function(p, a):
        if warps:
            p.warps(warps)
        pair = a.sort(axis, descending=descending) if whole else a.topk(keep, axis, largest=descending)
        return pair if placed else pair[0]

    kind = {"f": np.float32, "V": np.float32, "i": np.int32, "u": np.int32}[x.dtype.kind]
    kind = np.int64 if x.dtype == np.int64 else kind
    found = outputs(device, [x], function, (shape, kind), *[(shape, np.int32)] * placed)
    wide = x.astype(kind)
    wanted = np.take(places(wide, axis, descending=descending), range(keep), axis)
    if placed:
        np.testing.assert_array_equal(found[1], wanted)
    values = np.take_along_axis(wide, wanted, axis)
    np.testing.assert_array_equal(found[0], values)
    numbers = ~np.isnan(values)
    assert (np.signbit(found[0]) == np.signbit(values))[numbers].all()


def keeps(size):
    return sorted({1, 2, min(4, size), max(size // 2, 1), size} & {1 << n for n in range(size.bit_length())})


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_on_the_cpu(shape, descending):
    x = elements(shape, np.float32, wild=True)
    for axis in (0, 1):
        for keep in keeps(shape[axis]):
            check(None, x, axis, keep, descending=descending)
    check(None, x, 1, shape[1], descending=descending, placed=False)
    check(None, x, 0, shape[0], descending=descending, placed=False)


@pytest.mark.parametrize("device", DEVICES[1:])
@pytest.mark.parametrize("shape", SMALL)
def test_in_simulation(device, shape):
    x = elements(shape, np.float32, wild=True)
    for axis in (0, 1):
        for keep in {1, min(4, shape[axis]), shape[axis]}:
            check(device, x, axis, keep, descending=axis == 1)
    check(device, x, 1, shape[1], descending=False, placed=False)


@pytest.mark.parametrize(
    "dtype",
    [
        *(np.float16, bfloat16, float8_e4m3fn, float8_e5m2),
        *(np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64),
    ],
)
@pytest.mark.parametrize("device", [None, ("cuda", "sm_90a"), ("hip", "gfx1100"), ("metal", "apple9")])
def test_types(device, dtype):
    x = elements((4, 64), dtype, wild=True)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        x[:, ::9], x[:, 1::9] = info.min, info.max
    check(device, x, 1, 64, descending=False)
    check(device, x, 1, 64, descending=True)
    check(device, x, 1, 8, descending=True)
    check(device, x, 0, 2, descending=True, placed=False)


@pytest.mark.parametrize("columns", [8192, 16384])
def test_places_that_fit_beside_an_f16_and_those_that_do_not(columns):
    check(("cuda", "sm_90a"), elements((1, columns), np.float16, wild=True), 1, 4, descending=True)


@pytest.mark.parametrize("device", [None, ("cuda", "sm_90a"), ("hip", "gfx1100")])
@pytest.mark.parametrize(
    ("source", "target"),
    [(np.int16, tile.F32), (np.uint16, tile.F32), (np.int16, tile.I64), (bfloat16, tile.I32)],
)
def test_narrow_elements_in_a_type_that_takes_more_bits(device, source, target):
    """32767 has 14 bits of an F32's fraction, and 2^30 nearly all bits of an I32, so no room."""
    if source is bfloat16:
        x = np.exp2(np.arange(1024) % 31).astype(source)
    else:
        x = np.arange(1024).astype(source) + np.iinfo(source).max - 1023
    x = np.random.default_rng(0).permutation(x)[None]
    wide = x.astype({tile.F32: np.float32, tile.I32: np.int32, tile.I64: np.int64}[target])
    values, order = outputs(
        device, [x], lambda p, a: a.to(target).sort(1), (x.shape, wide.dtype), (x.shape, np.int32)
    )
    np.testing.assert_array_equal(order, places(wide, 1))
    np.testing.assert_array_equal(values, np.sort(wide, 1))


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
def test_warps_trade_places(warps):
    """Rows that several warps share: bits of the position move between warps and registers."""
    for shape, axis in (((1, 512), 1), ((256, 2), 0), ((2, 256), 1)):
        x = elements(shape, np.float32, wild=True)
        for keep in (shape[axis], shape[axis] // 2, 4, 1):
            check(("cuda", "sm_80"), x, axis, keep, descending=keep == 4, warps=warps)


def test_all_places_of_equal_elements():
    x = np.zeros((4, 32), np.float32)
    for descending in (False, True):
        check(None, x, 1, 32, descending=descending)
        check(("cuda", "sm_80"), x, 1, 32, descending=descending)


def test_the_largest_first_is_the_maximum():
    x = elements((8, 64), np.float32, seed=3)

    def function(p, a):
        values, where = a.topk(1, 1)
        return values - a.max(1), where - a.argmax(1)

    off, apart = outputs(None, [x], function, ((8, 1), np.float32), ((8, 1), np.int32))
    assert not off.any() and not apart.any()


def test_what_is_sorted_may_be_computed_and_used():
    """Keys from an expression and a transposed block, their order used by what follows."""
    x = np.asfortranarray(elements((32, 16), np.float32))

    def function(p, a):
        values, where = (a * a).T.sort(1)
        return (values + where.to(tile.F32)).sum(1), where.max(0)

    for device in (None, ("cuda", "sm_90a"), ("metal", "apple9")):
        sums, most = outputs(device, [x], function, ((16, 1), np.float32), ((1, 32), np.int32))
        order = places((x * x).T, 1)
        wanted = (np.take_along_axis((x * x).T.astype(np.float64), order, 1) + order).sum(1, keepdims=True)
        np.testing.assert_allclose(sums, wanted, rtol=1e-5)
        np.testing.assert_array_equal(most, order.max(0, keepdims=True))


def test_an_order_that_a_loop_gives_is_made_before_it():
    """What every turn computes alike is sorted once; the loop's result alone uses it."""
    x = elements((8, 32), np.float32)

    def function(p, a):
        return p.loop(3, 0, [a.exp()], lambda k, carried: [a.exp().sort(1)[0]], step=-1)[0].log()

    (found,) = outputs(None, [x], function, ((8, 32), np.float32))
    np.testing.assert_allclose(found, np.sort(x, 1), atol=1e-6)


@pytest.mark.parametrize("device", [None, ("cuda", "sm_90a"), ("hip", "gfx1100"), ("metal", "apple9")])
def test_sizes_that_are_no_powers_of_two(device):
    for shape in ((5, 96), (7, 3)):
        for dtype in (np.float32, np.int32):
            x = elements(shape, dtype, wild=True)
            for axis in (0, 1):
                for descending in (False, True):
                    check(device, x, axis, shape[axis], descending=descending)
                    check(device, x, axis, 3, descending=descending)
