"""Every elementwise operation, on hard values, has the bits of the tile IR's interpreter."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from elementwise_kernels import computed, expected, kernel, padded, run
from exact import STORAGE, all_patterns, convert
from floats import SPECIAL, TRUE, same, sample, ulps

from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    FP8,
    I8,
    I16,
    I32,
    I64,
    MASK,
    U8,
    U16,
    U32,
    U64,
    integer_range,
    to_numpy,
)
from gizml_tile.lowering.expand import integers
from gizml_tile.lowering.expand.elementwise import expand_index
from gizml_tile.nodes import APPROXIMABLE, UNARY_FLOAT, make, param

FLOATS = [F32, F16, BF16, FP8, E5M2]
INTEGERS = [I8, U8, I16, U16, I32, U32, I64, U64]
# The oldest, one that converts BF16, one that converts FP8 too.
ARCHS = ["sm_75", "sm_80", "sm_90a"]


def values(dtype, count=2048):
    """Special values of a type and a sample of the others."""
    if dtype.bits <= 16:
        patterns = all_patterns(dtype)
        return patterns if len(patterns) <= count else patterns[:: len(patterns) // count]
    if dtype is F32:
        halves = np.arange(-512, 512, dtype=np.float32) / 2
        return np.concatenate([SPECIAL, halves, sample(count)])
    kind = to_numpy(dtype)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    small = [0, 1, -1, 2, -2, 3, -3, 7, -7, 10, 31, 32, 33, 63, 64, 65, -64, 1000, -1000]
    small = [number for number in small if number >= low]
    ends = np.array([*small, low, low + 1, low // 2, high // 2, high - 1, high], kind)
    random = np.random.default_rng(4)
    spread = random.integers(low, high, count, kind, endpoint=True)
    # Magnitudes of every length, and the ties of 8 significant bits with their neighbours.
    short = spread >> random.integers(0, dtype.bits, count).astype(kind)
    unit = kind.type(1) << random.integers(0, dtype.bits - 10, count).astype(kind)
    ties = (2 * random.integers(128, 256, count) + 1).astype(kind) * unit
    return np.concatenate([ends, spread, short, ties, ties + 1, ties - 1, -ties])


def pairs(first, second, count=2048):
    """Pairs of special values with each other, and of others."""
    random = np.random.default_rng(5)
    a, b = values(first, 64)[:64], values(second, 64)[:64]
    left, right = (grid.ravel() for grid in np.meshgrid(np.arange(len(a)), np.arange(len(b))))
    x, y = (random.permutation(values(dtype))[:count] for dtype in (first, second))
    x, y = np.resize(x, count), np.resize(y, count)
    return padded(np.concatenate([a[left], x])), padded(np.concatenate([b[right], y]))


def assert_same(result, wanted, *arrays):
    kind = result.dtype
    if kind.kind not in "iub" and kind.itemsize < 4:
        result, wanted = result.astype(np.float32), wanted.astype(np.float32)
    wrong = ~(result == wanted if kind.kind == "b" else same(result, wanted))
    given = [array[wrong][:4] for array in arrays]
    assert not wrong.any(), f"{given} gave {result[wrong][:4]} not {wanted[wrong][:4]}"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", sorted(UNARY_FLOAT | {"neg", "abs"}))
def test_float_functions(op, dtype):
    x = padded(values(dtype))
    for arch in ARCHS:
        assert_same(computed(op, [dtype], [x], arch=arch), expected(op, [dtype], [x]), x)


@pytest.mark.parametrize(
    ("op", "dtype"),
    [(op, dtype) for op in ("neg", "not_", "popcount", "clz") for dtype in INTEGERS]
    + [("abs", dtype) for dtype in INTEGERS if not dtype.is_unsigned],
)
def test_integer_functions(op, dtype):
    x = padded(values(dtype))
    assert_same(computed(op, [dtype], [x]), expected(op, [dtype], [x]), x)


@pytest.mark.parametrize(
    ("source", "target"),
    [pair for pair in itertools.product(FLOATS + INTEGERS, repeat=2) if pair[0].bits == pair[1].bits],
)
def test_bitcast(source, target):
    x = padded(all_patterns(source) if source.bits <= 16 else values(source))
    for arch in ARCHS:
        result = computed("bitcast", [source], [x], target, arch)
        assert_same(result, x.view(result.dtype), x)


@pytest.mark.parametrize("target", STORAGE)
@pytest.mark.parametrize("source", STORAGE)
def test_to(source, target):
    x = padded(all_patterns(source) if source.bits <= 16 else values(source))
    for arch in ARCHS:
        assert_same(computed("to", [source], [x], target, arch), convert(x, target), x)


FLOAT_BINARY = "add sub mul div rem floormod pow maximum minimum lt le gt ge eq ne".split()
INTEGER_BINARY = "add sub mul rem floordiv floormod maximum minimum and_ or_ xor shl shr".split()


@pytest.mark.parametrize("op", FLOAT_BINARY)
def test_float_binary(op):
    for dtypes in [F32, F32], [F16, BF16], [FP8, F32]:
        a, b = pairs(*dtypes)
        attr = False if op == "pow" else None
        assert_same(computed(op, dtypes, [a, b], attr), expected(op, dtypes, [a, b]), a, b)


@pytest.mark.parametrize("unsigned", [False, True])
def test_upper_halves_of_products(unsigned):
    for dtypes in [I32, I32], [I8, U8], [I16, I32], *([[U32, U32]] if unsigned else []):
        a, b = pairs(*dtypes)
        wanted = expected("mulhi", dtypes, [a, b], unsigned)
        assert_same(computed("mulhi", dtypes, [a, b], unsigned), wanted, a, b)


@pytest.mark.parametrize("op", [*INTEGER_BINARY, *"lt le gt ge eq ne".split()])
def test_integer_binary(op):
    for dtypes in [I32, I32], [I64, I64], [I8, U8], [U16, I64], [U32, U32], [U64, U32], [I64, I32]:
        a, b = pairs(*dtypes)
        assert_same(computed(op, dtypes, [a, b]), expected(op, dtypes, [a, b]), a, b)


MASKS = [np.arange(8) >> bit & 1 == 1 for bit in range(3)]


@pytest.mark.parametrize("op", ["and_", "or_", "xor", "eq", "ne", "not_", "select"])
def test_masks(op):
    arrays = [padded(each) for each in MASKS[: {"not_": 1, "select": 3}.get(op, 2)]]
    dtypes = [MASK] * len(arrays)
    assert_same(computed(op, dtypes, arrays), expected(op, dtypes, arrays), *arrays)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_select_keeps_bits(dtype):
    yes, no = pairs(dtype, dtype)
    mask = np.resize(MASKS[0], len(yes))
    result = computed("select", [MASK, dtype, dtype], [mask, yes, no])
    raw = [array.view(f"u{array.itemsize}") for array in (result, yes, no)]
    assert (raw[0] == np.where(mask, raw[1], raw[2])).all()


@pytest.mark.parametrize("dtypes", [[F16, F32], [BF16, F16], [I8, I64], [U8, I16]])
def test_select_of_two_types(dtypes):
    yes, no = pairs(*dtypes)
    arrays = [np.resize(MASKS[0], len(yes)), yes, no]
    assert_same(computed("select", [MASK, *dtypes], arrays), expected("select", [MASK, *dtypes], arrays))


@pytest.mark.parametrize("negate_c", [False, True])
@pytest.mark.parametrize("negate_product", [False, True])
def test_fma(negate_product, negate_c):
    attr = (negate_product, negate_c)
    random = np.random.default_rng(6)
    for dtypes in [F32, F32, F32], [F16, BF16, F32]:
        arrays = [np.resize(random.permutation(values(dtype)), 4096) for dtype in dtypes]
        assert_same(computed("fma", dtypes, arrays, attr), expected("fma", dtypes, arrays, attr), *arrays)


def test_transpose_renames():
    x = padded(values(F16))
    assert_same(computed("transpose", [F16], [x]), x, x)


@pytest.mark.parametrize("dtype", [F32, F16, BF16, FP8, E5M2, I32, I64, U32, U64, I8])
def test_value_of_an_index(dtype):
    x = padded(values(I64))
    made = kernel("to", [I64], dtype, "sm_75")
    node = make("value", (make("index", (), 0),), dtype)
    assert node.dtype is dtype
    assert_same(run(made, [x]), convert(x, dtype), x)


@pytest.mark.parametrize("op", sorted(APPROXIMABLE))
def test_approximations_are_near(op):
    x = padded(np.linspace(0.01, 8, 2048, dtype=np.float32))
    x = x if op in ("log", "log2") else np.concatenate([x, -x])
    result = computed(op, [F32], [x], True)
    wide = x.astype(np.float64)
    true = 1 / wide if op == "reciprocal" else TRUE[op][0](wide)
    if op in ("sin", "cos"):
        assert (np.abs(result - true) < 2**-20 + 2**-22 * np.abs(wide)).all()
        return
    # tanh.approx has 11 bits; an exponential's error grows with x, that in gelu with its square.
    most = {"tanh": 2**13, "gelu": 5 + 4 * wide**2}.get(op, 16)
    assert (ulps(result, true) < most).all()


def test_approximate_powers_are_near():
    x = padded(np.linspace(-8, 8, 3000, dtype=np.float32))
    y = np.random.default_rng(6).permutation(np.where(x < 0, np.rint(x), x))
    y = np.where(x < 0, np.rint(y), y)
    result = computed("pow", [F32, F32], [x, y], True)
    wide = np.power(x.astype(np.float64), y)
    exponent = np.abs(y * np.log2(np.abs(x.astype(np.float64))))
    assert (ulps(result, wide) < 2 + 2 * exponent).all()


DIVISORS = [0, 1, -1, 2, 3, -3, 5, 7, -7, 10, 16, 64, 641, -1000, 2**30, 2**31 - 1, -(2**31)]


@pytest.mark.parametrize("dtype", [I32, I64, U32, U64])
@pytest.mark.parametrize("op", ["div", "rem", "floordiv", "floormod"])
def test_division_by_a_constant(op, dtype):
    x = padded(values(dtype))
    node = make(op, (param((), I64, 0), param((), I64, 1)))
    for divisor in DIVISORS:
        for nonnegative in (False, True) if not dtype.is_unsigned else (True,):
            if nonnegative and divisor < 0:
                continue
            a = np.where(x < 0, 0, x) if nonnegative else x

            def write(build, loaded, divisor=divisor, nonnegative=nonnegative):
                number = build.constant(divisor, dtype)
                result = expand_index(build, node, [loaded[0], number], nonnegative=nonnegative)
                return build.spread(result, loaded[0].count)

            result = run(kernel("neg", [dtype], write=write), [a])
            wanted = _divided(op, a, divisor, dtype)
            assert_same(result, wanted, a, np.full_like(a, divisor))


@pytest.mark.parametrize("dtype", [I32, I64])
@pytest.mark.parametrize("op", ["div", "rem", "floordiv", "floormod"])
def test_division_of_indices(op, dtype):
    a, b = pairs(dtype, dtype)
    node = make(op, (param((), I64, 0), param((), I64, 1)))
    for nonnegative in (False, True):
        if nonnegative:
            a, b = (np.where(each < 0, 0, each) for each in (a, b))

        def write(build, loaded, nonnegative=nonnegative):
            return expand_index(build, node, loaded, nonnegative=nonnegative)

        result = run(kernel("add", [dtype, dtype], write=write), [a, b])
        assert_same(result, _divided(op, a, b, dtype), a, b)


def _divided(op, a, b, dtype):
    """LANGUAGE's division in Python's integers."""
    low = integer_range(dtype)[0]
    found = []
    for x, y in zip(a.tolist(), np.broadcast_to(b, a.shape).tolist(), strict=True):
        floor = x // y if y else 0
        cut = -(-x // y) if y and (x < 0) != (y < 0) else floor
        quotient = floor if op.startswith("floor") else cut
        number = quotient if op in ("div", "floordiv") else x - quotient * y if y else 0
        found.append((number - low) % (1 << dtype.bits) + low)
    return np.array(found, to_numpy(dtype))


@pytest.mark.parametrize("count", [0, 1, 31, 32, -1, 63, 64])
def test_shift_by_a_constant(count):
    for dtype in (I32, I64, *((U32, U64) if count >= 0 else ())):
        x = padded(values(dtype))
        for op, shift in (("shl", integers.shift_left), ("shr", integers.shift_right)):

            def write(build, loaded, shift=shift, dtype=dtype):
                result = shift(build, loaded[0], build.constant(count, dtype))
                return build.spread(result, loaded[0].count)

            result = run(kernel("neg", [dtype], write=write), [x])
            wanted = expected(op, [dtype, dtype], [x, np.full_like(x, count)])
            assert_same(result, wanted, x)
