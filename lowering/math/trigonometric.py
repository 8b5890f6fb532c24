"""Sine and cosine of every float.

Both take the nearest multiple of pi/2 off, which leaves at most pi/4, and whose number tells which of two
polynomials it is and the sign. The multiple of an argument up to `LARGE` is taken off in three products;
of a larger one the fraction of x * 2/pi comes from those bits of 2/pi that matter, in integers (Payne and
Hanek, "Radian reduction for trigonometric functions", 1983).
"""

from __future__ import annotations

from itertools import pairwise

from gizml_tile.lowering.math.arithmetic import (
    INFINITY,
    NAN,
    ROUNDING,
    SIGN,
    Arithmetic,
    V,
    polynomial,
)

LARGE = 2.0**16
_TWO_OVER_PI = 0.6366197466850281
# pi/2 as a sum of three floats; of the first two also as it is.
_HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
# 2/pi in units of 2^-215, which makes its first 32 bits those of 2^8 to 2^-23.
_TWO_OVER_PI_BITS = 0x517CC1B727220A94FE13ABE8FA9A6EE06DB14ACC9E21C820FF28B1
# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4 in r^2, r to 1.012 pi / 4, to 0.07 and 0.003 of 2^-24.
_SIN = (-0.16666653752326965, 0.008332105353474617, -0.00019507647084537894)
_COS = (0.04166664555668831, -0.001388729433529079, 2.4429469704045914e-05)


def sin(e: Arithmetic[V], x: V) -> V:
    """The sine; at most 1.56 ulp off, signed zeros kept, NaN of infinities."""
    size = e.absolute(x)

    def of_large() -> V:
        rest, quarters = _reduced_large(e, size)
        # Of the opposite argument it is the opposite, which is half a turn further.
        turned = e.bits_add(quarters, e.shift_left(e.shift_right_logical(e.as_bits(x), 31), 1))
        return sine(e, rest, turned)

    usual = sine(e, *_reduced(e, x))
    result = e.seldom(e.greater(size, e.constant(LARGE)), usual, of_large)
    return e.select(e.equal(x, e.constant(0.0)), x, result)


def cos(e: Arithmetic[V], x: V) -> V:
    """The cosine; at most 1.55 ulp off, NaN of infinities."""
    size, quarter = e.absolute(x), e.bits_constant(1)

    def of_large() -> V:
        rest, quarters = _reduced_large(e, size)
        return sine(e, rest, e.bits_add(quarters, quarter))

    rest, quarters = _reduced(e, size)
    usual = sine(e, rest, e.bits_add(quarters, quarter))
    return e.seldom(e.greater(size, e.constant(LARGE)), usual, of_large)


def sine(e: Arithmetic[V], rest: V, quarters: V) -> V:
    """sin(rest + quarters * pi/2), for a rest of at most pi/4; of the quarters two bits matter."""
    square = e.mul(rest, rest)
    odd = e.fma(e.mul(square, polynomial(e, square, _SIN)), rest, rest)
    even = e.fma(square, e.fma(square, polynomial(e, square, _COS), e.constant(-0.5)), e.constant(1.0))
    none = e.bits_less(e.bits_and(quarters, e.bits_constant(1)), e.bits_constant(1))
    result = e.as_bits(e.select(none, odd, even))
    sign = e.shift_left(e.bits_and(quarters, e.bits_constant(2)), 30)
    return e.from_bits(e.bits_xor(result, sign))


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

    size = m * 2^n with an m of 24 bits. Of 2/pi the 96 bits from 2^(1 - n) down matter: those before make
    multiples of four quarters, and those after are below 2^-70 in the product. Of this the upper 64 bits are
    kept, the number of quarters in the first two.
    """
    bits = e.as_bits(size)
    mantissa = e.bits_or(e.bits_and(bits, e.bits_constant(0x7FFFFF)), e.bits_constant(0x800000))
    first = e.bits_sub(e.shift_right_logical(bits, 23), e.bits_constant(143))  # 0 at n = -7
    high, middle, low = _window(e, first)
    second, _ = e.bits_product(mantissa, low)
    upper, lower = e.bits_product(mantissa, middle)
    lower = e.bits_add(lower, second)
    upper = e.bits_add(upper, e.bits_product(mantissa, high)[1])
    flip, one, zero = e.bits_constant(SIGN), e.bits_constant(1), e.bits_constant(0)
    carries = e.bits_less(e.bits_xor(lower, flip), e.bits_xor(second, flip))
    upper = e.bits_add(upper, e.bits_select(carries, one, zero))
    quarters = e.shift_right_logical(e.bits_add(upper, e.bits_constant(1 << 29)), 30)
    upper = e.bits_sub(upper, e.shift_left(quarters, 30))
    # The fraction of a quarter, 62 bits and a sign, as three floats without rounding, then as two.
    next_bits = e.shift_left(e.bits_and(upper, e.bits_constant(0xFF)), 16)
    next_bits = e.bits_or(next_bits, e.shift_right_logical(lower, 16))
    parts = [
        e.mul(e.bits_to_float(part), e.constant(unit))
        for part, unit in (
            (e.shift_right(upper, 8), 2.0**-22),
            (next_bits, 2.0**-46),
            (e.bits_and(lower, e.bits_constant(0xFFFF)), 2.0**-62),
        )
    ]
    total = e.add(parts[0], parts[1])
    lacking = e.add(e.add(e.sub(parts[0], total), parts[1]), parts[2])
    fraction = e.add(total, lacking)
    lacking = e.add(e.sub(total, fraction), lacking)
    rest = e.fma(fraction, e.constant(_HALF_PI[1]), e.mul(lacking, e.constant(_HALF_PI[0])))
    rest = e.fma(fraction, e.constant(_HALF_PI[0]), rest)
    return e.select(e.less(size, e.constant(INFINITY)), rest, e.constant(NAN)), quarters


def _window(e: Arithmetic[V], first: V) -> tuple[V, V, V]:
    """The 96 bits of 2/pi from a number on, 0 to 111."""
    words = [
        (_TWO_OVER_PI_BITS >> 32 * (6 - number) & 0xFFFFFFFF ^ 0x80000000) - 0x80000000 for number in range(7)
    ]
    number, shift = e.shift_right(first, 5), e.bits_and(first, e.bits_constant(31))
    back = e.bits_sub(e.bits_constant(31), shift)
    below = [e.bits_less(number, e.bits_constant(each)) for each in (1, 2, 3)]

    def word(place: int) -> V:
        result = e.bits_constant(words[place + 3])
        for each in (2, 1, 0):
            result = e.bits_select(below[each], e.bits_constant(words[place + each]), result)
        return result

    chosen = [word(place) for place in range(4)]
    high, middle, low = (
        e.bits_or(
            e.shift_left_by(upper, shift),
            e.shift_right_logical_by(e.shift_right_logical(lower, 1), back),
        )
        for upper, lower in pairwise(chosen)
    )
    return high, middle, low
