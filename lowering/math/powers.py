"""Powers, and remainders of division."""

from __future__ import annotations

from gizml_tile.lowering.math.arithmetic import (
    INFINITY,
    NAN,
    ROUNDING,
    Arithmetic,
    V,
    polynomial,
    rounded,
    with_sign,
)
from gizml_tile.lowering.math.exponentials import EXP2, power_of_two
from gizml_tile.lowering.math.logarithms import parts_of_number

# log2((1 + s) / (1 - s)) = s * (c0 + s^2 * (c1 + s^2 * P(s^2))): c0 and c1, 2 / ln(2) and a third of it, as
# sums of two floats; P for s up to that of sqrt(2), to 2^-36 of the whole.
_C0 = (2.885390043258667, 3.851926067000022e-08)
_C1 = (0.9617967009544373, -7.028461812552678e-09)
_LOG2 = (0.5770801901817322, 0.41184961795806885, 0.3378295302391052)


def pow(e: Arithmetic[V], x: V, y: V) -> V:
    """x^y as C's ``pow`` defines it; at most 1.9 ulp off.

    2^(y * log2|x|), where the logarithm and the product are sums of two floats: of an exponent as large as
    128 the 32nd bit still matters.
    """
    high, low = _log2_of(e, e.absolute(x))
    product = e.mul(y, high)
    lacking = e.fma(y, low, e.fma(y, high, e.negate(product)))
    # Beyond, the power is 0 or infinite, and what the product lacks may be no number.
    inside = e.less(e.absolute(product), e.constant(200.0))
    lacking = e.select(inside, lacking, e.constant(0.0))
    exponent = e.clamp(product, -200.0, 200.0)
    whole, bits = rounded(e, e.add(exponent, e.constant(ROUNDING)))
    rest = e.add(e.sub(exponent, whole), lacking)
    return signed_power(e, x, y, e.scale(power_of_two(e, rest, EXP2), whole, bits))


def signed_power(e: Arithmetic[V], x: V, y: V, size: V) -> V:
    """x^y from ``size``, which is \\|x\\|^y but where \\|x\\| is 1 or y is 0.

    A negative x has powers with integers alone, negative ones with odd integers; 1^y and x^0 are 1, also of
    NaN.
    """
    one, magnitude, least = e.constant(1.0), e.absolute(x), e.absolute(y)
    size = e.select(e.equal(magnitude, one), one, size)
    # Below 2^23 a sum with that has the integral part in its last bits; above, all numbers are integers, and
    # from 2^24 on all are even.
    fraction = e.less(least, e.constant(2.0**23))
    sum = e.add(least, e.constant(2.0**23))
    nearest = e.select(fraction, e.sub(sum, e.constant(2.0**23)), least)
    last = e.bits_and(e.as_bits(e.select(fraction, sum, least)), e.bits_constant(1))
    odd = e.bits_select(e.less(least, e.constant(2.0**24)), last, e.bits_constant(0))
    sign = e.bits_and(e.as_bits(x), e.shift_left(odd, 31))
    result = e.from_bits(e.bits_xor(e.as_bits(size), sign))
    # Of other exponents the infinite and the zero base have powers, the finite negative ones have none.
    other = e.select(e.less(magnitude, e.constant(INFINITY)), e.constant(NAN), size)
    other = e.select(e.less(x, e.constant(0.0)), other, size)
    result = e.select(e.equal(nearest, least), result, other)
    return e.select(e.equal(y, e.constant(0.0)), one, result)


def _log2_of(e: Arithmetic[V], x: V) -> tuple[V, V]:
    """log2 of a number that is not negative, as a sum of two floats: its error is below 2^-34 of it."""
    n, f = parts_of_number(e, x)
    # s = f / (2 + f) of the mantissa 1 + f: what the divisor and the quotient lack are floats.
    divisor = e.add(f, e.constant(2.0))
    divisor_low = e.sub(f, e.sub(divisor, e.constant(2.0)))
    inverse = e.reciprocal(divisor)
    s = e.mul(f, inverse)
    left = e.fma(e.negate(s), divisor_low, e.fma(e.negate(s), divisor, f))
    s_low = e.mul(left, inverse)
    square = e.mul(s, s)
    square_low = e.fma(e.add(s, s), s_low, e.fma(s, s, e.negate(square)))
    # c1 + s^2 * P, then c0 + s^2 times that, then s times that.
    term = e.mul(square, polynomial(e, square, _LOG2))
    inner, inner_low = _sum(e, e.constant(_C1[0]), term, e.constant(_C1[1]))
    term = e.mul(square, inner)
    lacking = e.fma(square, inner_low, e.fma(square_low, inner, e.fma(square, inner, e.negate(term))))
    outer, outer_low = _sum(e, e.constant(_C0[0]), term, e.add(lacking, e.constant(_C0[1])))
    term = e.mul(s, outer)
    lacking = e.fma(s, outer_low, e.fma(s_low, outer, e.fma(s, outer, e.negate(term))))
    high, low = _sum(e, n, term, lacking)
    # Of 0 it is infinite, of infinity and NaN they are.
    high = e.select(e.equal(x, e.constant(0.0)), e.constant(-INFINITY), high)
    return e.select(e.less(x, e.constant(INFINITY)), high, x), low


def _sum(e: Arithmetic[V], a: V, b: V, c: V) -> tuple[V, V]:
    """a + b + c as a float and what it lacks, for an ``a`` that is 0 or larger than b, and a small c."""
    total = e.add(a, b)
    return total, e.add(e.add(e.sub(a, total), b), c)


# So many bits of the quotient are taken off in one step: then the rounded one is at most one off, the
# remainder less than the divisor, and exact.
_STEP = 20
_STEPS = 14  # for exponents as different as any two of F32


def remainder(e: Arithmetic[V], a: V, b: V) -> V:
    """a - b * trunc(a / b), exactly; with the sign of a, NaN where a is infinite or b is 0.

    The mantissa of a, shifted up by the exponents' difference, modulo that of b, some bits after the other.
    """
    dividend, divisor = e.absolute(a), e.absolute(b)
    exponent_a, mantissa_a = _split_number(e, dividend)
    exponent_b, mantissa_b = _split_number(e, divisor)
    inverse = e.reciprocal(mantissa_b)
    step, zero = e.bits_constant(_STEP), e.bits_constant(0)

    def shifted(rest: V, left: V) -> V:
        """(rest * 2^k) modulo the divisor, between plus and minus it, with k of the bits that are left."""
        bits = e.bits_select(e.bits_less(left, step), left, step)
        bits = e.bits_select(e.bits_less(bits, zero), zero, bits)
        factor = e.from_bits(e.shift_left(e.bits_add(bits, e.bits_constant(127)), 23))
        rest = e.mul(rest, factor)
        quotient = e.sub(e.fma(rest, inverse, e.constant(ROUNDING)), e.constant(ROUNDING))
        return e.fma(e.negate(quotient), mantissa_b, rest)

    distance = e.bits_sub(exponent_a, exponent_b)
    first = shifted(mantissa_a, distance)

    def others() -> V:
        rest, left = first, distance
        for _ in range(1, _STEPS):
            left = e.bits_sub(left, step)
            rest = shifted(rest, left)
        return rest

    rest = e.seldom(e.bits_less(step, distance), first, others)
    rest = e.select(e.less(rest, e.constant(0.0)), e.add(rest, mantissa_b), rest)
    exponent = e.bits_sub(exponent_b, e.bits_constant(150))
    rest = e.scale(e.absolute(rest), e.bits_to_float(exponent), exponent)
    rest = e.select(e.less(dividend, divisor), a, with_sign(e, rest, a))
    rest = e.select(e.less(dividend, e.constant(INFINITY)), rest, e.constant(NAN))
    return e.select(e.greater(divisor, e.constant(0.0)), rest, e.constant(NAN))


def floor_modulo(e: Arithmetic[V], a: V, b: V) -> V:
    """The remainder with the sign of b, as Python's ``%``: where signs differ the rounded sum with b."""
    rest = remainder(e, a, b)
    apart = e.bits_less(e.bits_xor(e.as_bits(rest), e.as_bits(b)), e.bits_constant(0))
    result = e.select(apart, e.add(rest, b), rest)
    return e.select(e.equal(rest, e.constant(0.0)), with_sign(e, e.constant(0.0), b), result)


def _split_number(e: Arithmetic[V], size: V) -> tuple[V, V]:
    """A positive number as an exponent and a mantissa from 2^23 to 2^24: mantissa * 2^(exponent - 150)."""
    small = e.less(size, e.constant(2.0**-126))
    bits = e.as_bits(e.select(small, e.mul(size, e.constant(2.0**24)), size))
    lowered = e.bits_select(small, e.bits_constant(24), e.bits_constant(0))
    exponent = e.bits_sub(e.shift_right_logical(bits, 23), lowered)
    mantissa = e.bits_or(e.bits_and(bits, e.bits_constant(0x7FFFFF)), e.bits_constant(150 << 23))
    return exponent, e.from_bits(mantissa)
