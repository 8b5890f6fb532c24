"""Sine and cosine of every F64, as those of F32 in `gizml_tile.lowering.math.trigonometric`.

The multiple of pi/2 of an argument up to `LARGE` is taken off in three fused products; of a larger one the
fraction of x * 2/pi comes from those bits of 2/pi that matter, in integers. No F64 is nearer to a multiple of
pi/2 than 2^-62 of it (pi/2's continued fraction tells, for each exponent), so that the 126 bits that are kept
of the fraction leave 64 of the smallest rest.
"""

from __future__ import annotations

from itertools import pairwise

from gizml_tile.lowering.math.arithmetic import INFINITY, NAN, Arithmetic, V, polynomial
from gizml_tile.lowering.math.doubles.common import ROUNDING, float_of

LARGE = 2.0**30
_TWO_OVER_PI = 0.6366197723675814
# pi/2 as a sum of three floats.
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
# 2/pi in units of 2^-1192, which makes its first 64 bits those of 2^23 to 2^-40; from 1,300 bits of mpmath.
_TWO_OVER_PI_BITS = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E006492EEA09D1921CFE1DEB"
    "1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F49C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A"
    "6D1F6D367ECF27CB09B74F463F669E5FEA2D7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC",
    16,
)
_WORDS = 19
# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4 in r^2, r to 1.0005 pi / 4.
_SIN = (-0.1666666666666663, 0.008333333333321945, -0.00019841269829485854, 2.755731359164086e-06,
        -2.5050743658373012e-08, 1.5896012690419011e-10)  # fmt: skip
_COS = (0.041666666666666595, -0.0013888888888873383, 2.4801587289036706e-05, -2.755731422793887e-07,
        2.087570691230165e-09, -1.135882763146066e-11)  # fmt: skip


def sin(e: Arithmetic[V], x: V) -> V:
    """The sine; at most 1.55 ulp off, signed zeros kept, NaN of infinities."""
    size = e.absolute(x)

    def of_large() -> V:
        rest, quarters = _reduced_large(e, size)
        # Of the opposite argument it is the opposite, which is half a turn further.
        turned = e.bits_add(quarters, e.shift_left(e.shift_right_logical(e.as_bits(x), 63), 1))
        return _sine(e, rest, turned)

    usual = _sine(e, *_reduced(e, x))
    result = e.seldom(e.greater(size, e.constant(LARGE)), usual, of_large)
    return e.select(e.equal(x, e.constant(0.0)), x, result)


def cos(e: Arithmetic[V], x: V) -> V:
    """The cosine; at most 1.55 ulp off, NaN of infinities."""
    size, quarter = e.absolute(x), e.bits_constant(1)

    def of_large() -> V:
        rest, quarters = _reduced_large(e, size)
        return _sine(e, rest, e.bits_add(quarters, quarter))

    rest, quarters = _reduced(e, size)
    usual = _sine(e, rest, e.bits_add(quarters, quarter))
    return e.seldom(e.greater(size, e.constant(LARGE)), usual, of_large)


def _sine(e: Arithmetic[V], rest: V, quarters: V) -> V:
    """sin(rest + quarters * pi/2), for a rest of at most pi/4; of the quarters two bits matter."""
    square = e.mul(rest, rest)
    odd = e.fma(e.mul(square, polynomial(e, square, _SIN)), rest, rest)
    even = e.fma(square, e.fma(square, polynomial(e, square, _COS), e.constant(-0.5)), e.constant(1.0))
    none = e.bits_less(e.bits_and(quarters, e.bits_constant(1)), e.bits_constant(1))
    sign = e.shift_left(e.bits_and(quarters, e.bits_constant(2)), 62)
    return e.from_bits(e.bits_xor(e.as_bits(e.select(none, odd, even)), sign))


def _reduced(e: Arithmetic[V], x: V) -> tuple[V, V]:
    """x less the nearest multiple of pi/2, and its number in the last bits, for \\|x\\| to `LARGE`.

    A product with the first part of pi/2 leaves no more bits than a float has: the first difference is exact.
    """
    shifted = e.fma(x, e.constant(_TWO_OVER_PI), e.constant(ROUNDING))
    number = e.negate(e.sub(shifted, e.constant(ROUNDING)))
    rest = x
    for part in _HALF_PI:
        rest = e.fma(number, e.constant(part), rest)
    return rest, e.as_bits(shifted)


def _reduced_large(e: Arithmetic[V], size: V) -> tuple[V, V]:
    """The same of a number above `LARGE`; of infinity NaN.

    size = m * 2^n with an m of 53 bits. Of 2/pi the 192 bits from 2^(1 - n) down matter: those before make
    multiples of four quarters, and those after are below 2^-137 in the product. Of this the upper 128 bits
    are kept, the number of quarters in the first two.
    """
    bits = e.as_bits(size)
    mantissa = e.bits_or(e.bits_and(bits, e.bits_constant((1 << 52) - 1)), e.bits_constant(1 << 52))
    first = e.bits_sub(e.shift_right_logical(bits, 52), e.bits_constant(1053))  # 0 at n = -22
    high, middle, low = _window(e, first)
    second = _upper_product(e, mantissa, low)
    lower = e.bits_add(e.bits_mul(mantissa, middle), second)
    flip, one, zero = e.bits_constant(-1 << 63), e.bits_constant(1), e.bits_constant(0)
    carries = e.bits_less(e.bits_xor(lower, flip), e.bits_xor(second, flip))
    upper = e.bits_add(e.bits_mul(mantissa, high), _upper_product(e, mantissa, middle))
    upper = e.bits_add(upper, e.bits_select(carries, one, zero))
    quarters = e.shift_right_logical(e.bits_add(upper, e.bits_constant(1 << 61)), 62)
    upper = e.bits_sub(upper, e.shift_left(quarters, 62))
    # The fraction of a quarter, 126 bits and a sign, as three floats without rounding, then as two.
    next_bits = e.shift_left(e.bits_and(upper, e.bits_constant(0x7FF)), 32)
    next_bits = e.bits_or(next_bits, e.shift_right_logical(lower, 32))
    parts = [
        e.mul(float_of(e, part), e.constant(unit))
        for part, unit in (
            (e.shift_right(upper, 11), 2.0**-51),
            (next_bits, 2.0**-94),
            (e.bits_and(lower, e.bits_constant(0xFFFFFFFF)), 2.0**-126),
        )
    ]
    total = e.add(parts[0], parts[1])
    lacking = e.add(e.add(e.sub(parts[0], total), parts[1]), parts[2])
    fraction = e.add(total, lacking)
    lacking = e.add(e.sub(total, fraction), lacking)
    rest = e.fma(fraction, e.constant(_HALF_PI[1]), e.mul(lacking, e.constant(_HALF_PI[0])))
    rest = e.fma(fraction, e.constant(_HALF_PI[0]), rest)
    return e.select(e.less(size, e.constant(INFINITY)), rest, e.constant(NAN)), quarters


def _upper_product(e: Arithmetic[V], a: V, b: V) -> V:
    """The upper 64 bits of the product of two unsigned integers, the first of at most 53 bits."""
    half = e.bits_constant(0xFFFFFFFF)
    a_upper, a_lower = e.shift_right_logical(a, 32), e.bits_and(a, half)
    b_upper, b_lower = e.shift_right_logical(b, 32), e.bits_and(b, half)
    lowest = e.shift_right_logical(e.bits_mul(a_lower, b_lower), 32)
    one = e.bits_add(e.bits_mul(a_upper, b_lower), lowest)
    other = e.bits_add(e.bits_mul(a_lower, b_upper), e.bits_and(one, half))
    above = e.bits_add(e.shift_right_logical(one, 32), e.shift_right_logical(other, 32))
    return e.bits_add(e.bits_mul(a_upper, b_upper), above)


def _window(e: Arithmetic[V], first: V) -> tuple[V, V, V]:
    """The 192 bits of 2/pi from a number on, 0 to 993, in words of 64.

    Of the words that begin at a number of four bits each bit leaves half of the places.
    """
    sign = 1 << 63
    numbers = [_TWO_OVER_PI_BITS >> 64 * (_WORDS - 1 - place) & 2 * sign - 1 for place in range(_WORDS)]
    words = [e.bits_constant((number ^ sign) - sign) for number in numbers]
    for step in (8, 4, 2, 1):
        bit = e.bits_and(first, e.bits_constant(step << 6))
        here = e.bits_less(bit, e.bits_constant(1))
        words = [
            e.bits_select(here, word, further)
            for word, further in zip(words[: step + 3], words[step:], strict=False)
        ]
    shift = e.bits_and(first, e.bits_constant(63))
    back = e.bits_sub(e.bits_constant(63), shift)
    high, middle, low = (
        e.bits_or(
            e.shift_left_by(upper, shift),
            e.shift_right_logical_by(e.shift_right_logical(lower, 1), back),
        )
        for upper, lower in pairwise(words)
    )
    return high, middle, low
