"""The arithmetic of the simulator, against exact arithmetic."""

import ctypes
import ctypes.util
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from gizml_tile.dtypes import BF16, F16, F32, FP8, I8, I16, I32, I64, MASK, U8
from gizml_tile.lowering.simulate import numbers
from gizml_tile.lowering.simulate.fused import fma

RNG = np.random.default_rng(7)


def float32s(count):
    """Any bits at all."""
    return RNG.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)


def nearest(exact):
    """The float32 nearest to a fraction, ties to even, from integers alone."""
    if exact == 0:
        return np.float32(0)
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    steps, rest = divmod(size, unit)
    if rest * 2 > unit or (rest * 2 == unit and steps % 2):
        steps += 1
    value = steps * unit
    result = np.float32(np.inf) if value >= Fraction(2) ** 128 else np.float32(float(value))
    return -result if exact < 0 else result


def assert_fma(a, b, c):
    a, b, c = (np.asarray(each, np.float32).reshape(1, -1) for each in (a, b, c))
    with np.errstate(all="ignore"):
        result = fma(a, b, c)[0]
    for x, y, z, value in zip(a[0], b[0], c[0], result, strict=True):
        if not np.isfinite([x, y, z]).all():
            continue
        expected = nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))
        assert value == expected, (x.hex(), y.hex(), z.hex(), value.hex(), expected.hex())


def test_fma_of_any_bits():
    assert_fma(float32s(3000), float32s(3000), float32s(3000))


def test_fma_of_ordinary_numbers():
    a, b, c = RNG.standard_normal((3, 3000)).astype(np.float32)
    assert_fma(a, b, c)


def test_fma_where_two_roundings_differ():
    """The sum lies on a tie of float32 up to a bit far below, which float64 cannot hold."""
    one = np.float32(1)
    tie = np.float32(2.0**-24)
    for far in range(30, 100):
        for sign in (1, -1):
            # (1 + ulp) * 2^-24 +- a little + 1, and its mirror images
            little = np.float32(sign * 2.0**-far)
            for odd in (0, 1):
                base = np.float32(1 + odd * 2.0**-23)
                assert_fma([tie, -tie], [one, one], [base, -base])
                # tie * (1 + eps) is a tie and a bit 23 places lower
                assert_fma([tie + tie * np.float32(2.0**-23)], [one], [base])
                a = np.float32(2.0**-12 + 2.0**-35)
                assert_fma([a, -a], [a, a], [base, base])
                assert_fma([little], [one], [base])


def test_fma_among_hard_products():
    """Products of 48 bits beside sums whose last bit is near the product's middle."""
    count = 4000
    a = (RNG.integers(1 << 23, 1 << 24, count) | 1).astype(np.float64)
    b = (RNG.integers(1 << 23, 1 << 24, count) | 1).astype(np.float64)
    c = RNG.integers(-(1 << 24), 1 << 24, count).astype(np.float64)
    scale = 2.0 ** RNG.integers(-40, 60, count)
    assert_fma(a * 2.0**-23, b * 2.0**-23, c * scale)
    # Cancellation up to the last bits.
    assert_fma(a * 2.0**-23, b * 2.0**-23, -(a * b * 2.0**-46))


def test_fma_among_subnormals():
    count = 4000
    a = RNG.standard_normal(count) * 2.0 ** RNG.integers(-80, -60, count)
    b = RNG.standard_normal(count) * 2.0 ** RNG.integers(-80, -60, count)
    c = RNG.integers(-50, 50, count) * 2.0**-149
    assert_fma(a, b, c)
    # Exact halves of the smallest steps, and a bit more.
    assert_fma([2.0**-75] * 4, [2.0**-75, 3 * 2.0**-75, 2.0**-75, -(2.0**-75)], [0, 0, 2.0**-149, 2.0**-149])


def test_fma_of_special_values():
    with np.errstate(all="ignore"):
        inf, nan = np.float32(np.inf), np.float32(np.nan)
        a = np.array([[inf, inf, 0, nan, 1, -0.0, 3e38, inf]], np.float32)
        b = np.array([[1, 0, inf, 1, nan, 1, 3e38, 1]], np.float32)
        c = np.array([[1, 1, 1, 1, 1, -0.0, -inf, -inf]], np.float32)
        result = fma(a, b, c)[0]
    assert result[0] == inf and np.isnan(result[[1, 2, 3, 4, 7]]).all()
    assert result[5] == 0 and np.signbit(result[5]) and result[6] == -inf


def test_fma_stretches_registers():
    a, b, c = (RNG.standard_normal(shape).astype(np.float32) for shape in ((5, 1), (1, 40000), (5, 40000)))
    result = fma(a, b, c)
    assert (result == fma(np.repeat(a, 40000, 1), np.repeat(b, 5, 0), c)).all()


@pytest.mark.parametrize("dtype, type_", [(BF16, ml_dtypes.bfloat16), (F16, np.float16)])
def test_narrow_floats(dtype, type_):
    every = np.arange(1 << 16, dtype=np.uint16)
    held = every.view(numbers.HELD[dtype])
    wide = numbers.to_float32(held, dtype)
    assert np.array_equal(wide, every.view(type_).astype(np.float32), equal_nan=True)
    back = numbers.from_float32(wide, dtype).view(np.uint16)
    same = np.where(np.isnan(wide), np.isnan(numbers.to_float32(back.view(held.dtype), dtype)), back == every)
    assert same.all()
    values = np.concatenate([float32s(100000), np.float32([65519.99, 65520, 3.4e38, -3.4e38, np.inf])])
    with np.errstate(all="ignore"):
        expected = values.astype(type_).astype(np.float32)
        rounded = numbers.to_float32(numbers.from_float32(values, dtype), dtype)
    assert np.array_equal(rounded, expected, equal_nan=True)


def test_fp8():
    every = np.arange(256, dtype=np.uint8)
    wide = numbers.to_float32(every, FP8)
    assert np.array_equal(wide, every.view(ml_dtypes.float8_e4m3fn).astype(np.float32), equal_nan=True)
    values = np.float32([448, 449, 464, 465, 1e9, np.inf, -np.inf, -1000, 0.3, -0.0])
    result = numbers.to_float32(numbers.from_float32(values, FP8), FP8)
    assert list(result) == [448, 448, 448, 448, 448, 448, -448, -448, 0.3125, 0]
    assert np.signbit(result[-1])
    assert numbers.from_float32(np.float32([np.nan]), FP8)[0] & 0x7F == 0x7F


def test_to_integers():
    values = np.float32([1.9, -1.9, 300, -300, 3e9, -3e9, 1e30, -1e30, np.inf, -np.inf, np.nan, -0.5])
    with np.errstate(all="ignore"):
        assert list(numbers.convert(values, F32, I8)) == [1, -1, 127, -128] + [127, -128] * 3 + [0, 0]
        assert list(numbers.convert(values, F32, U8)) == [1, 0, 255, 0] + [255, 0] * 3 + [0, 0]
        low, high = -(2**31), 2**31 - 1
        assert list(numbers.convert(values, F32, I32)) == [1, -1, 300, -300] + [high, low] * 3 + [0, 0]
        low, high = -(2**63), 2**63 - 1
        expected = [1, -1, 300, -300, 3000000000, -3000000000] + [high, low] * 2 + [0, 0]
        assert list(numbers.convert(values, F32, I64)) == expected


def test_integers_wrap():
    value = np.array([300, -300, 2**31 - 1, -(2**31)], np.int32)
    assert list(numbers.convert(value, I32, I8)) == [44, -44, -1, 0]
    assert list(numbers.convert(value, I32, U8)) == [44, 212, 255, 0]
    assert list(numbers.convert(np.array([200], np.uint8), U8, I32)) == [200]
    assert list(numbers.convert(np.array([-56], np.int8), I8, I64)) == [-56]
    assert list(numbers.convert(np.array([True, False]), MASK, F32)) == [1, 0]
    assert list(numbers.convert(np.array([True, False]), MASK, I32)) == [1, 0]


@pytest.mark.parametrize("to, type_", [(F32, np.float32), (BF16, ml_dtypes.bfloat16)])
def test_integers_round_once(to, type_):
    bits = 24 if to is F32 else 8
    value = RNG.integers(-(2**63), 2**63, 2000)
    # Ties, and a bit more or less than one, far below.
    high = RNG.integers(1 << bits - 1, 1 << bits, 500) << 63 - bits
    value = np.concatenate(
        [value, high + (1 << 62 - bits), high + (1 << 62 - bits) + 1, high + (1 << 62 - bits) - 1]
    )
    result = numbers.to_float32(numbers.convert(value, I64, to), to)
    for number, found in zip(value, result, strict=True):
        number = int(number)
        unit = 1 << max(abs(number).bit_length() - bits, 0)
        steps, rest = divmod(abs(number), unit)
        steps += rest * 2 > unit or (rest * 2 == unit and steps % 2)
        assert int(found) == (steps * unit if number >= 0 else -steps * unit)


def op(name, *args, dtype=F32):
    result = MASK if name in ("lt", "le", "gt", "ge", "eq", "ne") else dtype
    with np.errstate(all="ignore"):
        return numbers.evaluate(name, list(args), [dtype] * len(args), result)


def test_minimum_and_maximum():
    nan = np.float32(np.nan)
    a = np.float32([[nan, 1, 0.0, -0.0, nan, -1, np.inf]])
    b = np.float32([[2, nan, -0.0, 0.0, nan, -2, 1]])
    low, high = op("min", a, b)[0], op("max", a, b)[0]
    assert list(low[[0, 1]]) == [2, 1] and list(high[[0, 1]]) == [2, 1]
    assert np.signbit(low[[2, 3]]).all() and not np.signbit(high[[2, 3]]).any()
    assert np.isnan(low[4]) and np.isnan(high[4])
    assert list(low[[5, 6]]) == [-2, 1] and list(high[[5, 6]]) == [-1, np.inf]


def test_integer_operations():
    rng = np.random.default_rng(3)
    for dtype, bits in ((I32, 32), (I64, 64)):
        held = numbers.HELD[dtype]
        a = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), 500).astype(held)
        b = rng.integers(1, 1 << rng.integers(2, bits - 1), 500).astype(held) * rng.choice(
            [-1, 1], 500
        ).astype(held)
        count = rng.integers(0, bits, 500).astype(held)

        def wrapped(number, bits=bits):
            return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)

        for x, y, n, *found in zip(
            a,
            b,
            count,
            op("add", a, b, dtype=dtype),
            op("mul", a, b, dtype=dtype),
            op("div", a, b, dtype=dtype),
            op("rem", a, b, dtype=dtype),
            op("shl", a, count, dtype=dtype),
            op("shr", a, count, dtype=dtype),
            op("ushr", a, count, dtype=dtype),
            strict=True,
        ):
            x, y, n = int(x), int(y), int(n)
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            expected = [x + y, x * y, quotient, x - quotient * y, x << n, x >> n, (x % (1 << bits)) >> n]
            assert [int(each) for each in found] == [wrapped(each) for each in expected]
    a, b = rng.integers(-(2**31), 2**31, (2, 500)).astype(np.int32)
    for x, y, found in zip(a, b, op("high", a, b, dtype=I32), strict=True):
        assert int(found) % 2**32 == (int(x) % 2**32) * (int(y) % 2**32) >> 32


@pytest.mark.parametrize("dtype", [I32, I64])
def test_counts_of_bits(dtype):
    kind = np.dtype(dtype.text.replace("i", "int"))
    values = np.concatenate([RNG.integers(-(2**31), 2**31, 200), [0, 1, -1, np.iinfo(kind).min]]).astype(kind)
    for value, ones, zeros in zip(
        values, op("popcount", values, dtype=dtype), op("clz", values, dtype=dtype), strict=True
    ):
        bits = int(value) % (1 << dtype.bits)
        assert (int(ones), int(zeros)) == (bits.bit_count(), dtype.bits - bits.bit_length())


def test_comparisons_with_nan():
    nan, one = np.float32([[np.nan]]), np.float32([[1]])
    assert [bool(op(name, nan, one)[0, 0]) for name in "lt le gt ge eq ne".split()] == [False] * 5 + [True]


def test_narrow_operations_round_once():
    a, b = RNG.standard_normal((2, 1, 1000)).astype(np.float16)
    assert (op("mul", a, b, dtype=F16) == a * b).all()
    c, d = (each.astype(ml_dtypes.bfloat16) for each in (a, b))
    found = op("add", c.view(np.uint16), d.view(np.uint16), dtype=BF16)
    assert (found == (c + d).view(np.uint16)).all()
    assert op("lt", c.view(np.uint16), d.view(np.uint16), dtype=BF16).tolist() == (c < d).tolist()


@pytest.mark.parametrize(
    "name, function",
    [
        ("exp2", np.exp2),
        ("log2", np.log2),
        ("tanh", np.tanh),
        ("sin", np.sin),
        ("cos", np.cos),
        ("reciprocal", lambda x: 1 / x),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
    ],
)
def test_approximate_functions_are_exact_here(name, function):
    x = np.abs(RNG.standard_normal((1, 1000))).astype(np.float32)
    assert (op(name, x) == function(x.astype(np.float64)).astype(np.float32)).all()


def test_constants():
    assert numbers.constant(-1, I32).tolist() == [[-1]] and numbers.constant(255, U8).tolist() == [[255]]
    assert numbers.constant((1, 2, 3), I16).shape == (3, 1)
    assert numbers.constant(0.1, F32)[0, 0] == np.float32(0.1)
    assert numbers.to_float32(numbers.constant(-0.0, BF16), BF16).view(np.uint32)[0, 0] == 1 << 31
    assert numbers.constant(True, MASK).dtype == np.bool_


def doubles(count):
    """Numbers of a few bits or of all, about 1 or of any size, and strange ones."""
    bits = RNG.choice([3, 20, 53], count)
    values = np.rint(np.ldexp(RNG.standard_normal(count), bits)) / 2.0**20
    with np.errstate(over="ignore"):
        values = np.ldexp(values, RNG.choice([0, 0, 1], count) * RNG.integers(-1070, 1000, count))
    strange = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1.7976931348623157e308]
    return np.where(RNG.random(count) < 0.02, RNG.choice(strange, count), values)


def test_fma_of_doubles_rounds_once():
    a, b, c = (doubles(20000) for _ in range(3))
    with np.errstate(all="ignore"):
        # Sums that nearly vanish, and those that lie on ties up to a bit far below.
        c[:5000] = -(a * b)[:5000] * (1 + RNG.integers(-3, 4, 5000) * 2.0**-52)
        a[5000:9000], b[5000:9000] = 1 + 2.0**-52 * RNG.integers(0, 9, (2, 4000))
        c[5000:9000] = RNG.choice([1.0, -1.0], 4000) * 2.0 ** RNG.integers(-110, 2, 4000)
    function = ctypes.CDLL(ctypes.util.find_library("m")).fma
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double] * 3
    wanted = np.array([function(*each) for each in zip(a, b, c, strict=True)])
    found = fma(*(each.reshape(-1, 4) for each in (a, b, c))).ravel()
    alike = (found == wanted) & (np.signbit(found) == np.signbit(wanted))
    alike |= np.isnan(found) & np.isnan(wanted)
    assert alike.all(), [each[~alike][:3] for each in (a, b, c, found, wanted)]
