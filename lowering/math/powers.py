"""Powers, and remainders of division."""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.lowering.math.arithmetic import (
    INFINITY,
    NAN,
    ROUNDING,
    SINGLE,
    Arithmetic,
    Format,
    V,
    normal_power,
    polynomial,
    rounded,
    scale_in_two_steps,
    with_sign,
)
from gizml_tile.lowering.math.exponentials import EXP2, power_of_two
from gizml_tile.lowering.math.logarithms import parts_of_number


@dataclass(frozen=True, slots=True)
class Log2:
    """Coefficients of log2((1 + s) / (1 - s)) = s * (first + s^2 * (second + s^2 * P(s^2))).

    The first two are 2 / ln(2) and a third of it, as sums of two floats.
    """

    first: tuple[float, float]
    second: tuple[float, float]
    others: tuple[float, ...]


# For s up to that of sqrt(2), to 2^-36 of the whole.
_LOG2 = Log2(
    (2.885390043258667, 3.851926067000022e-08),
    (0.9617967009544373, -7.028461812552678e-09),
    (0.5770801901817322, 0.41184961795806885, 0.3378295302391052),
)


def pow(e: Arithmetic[V], x: V, y: V) -> V:
    """x^y as C's ``pow`` defines it; at most 1.9 ulp off.

    2^(y * log2|x|), where the logarithm and the product are sums of two floats: of an exponent as large as
    128 the 32nd bit still matters.
    """
    size = e.absolute(x)
    high, low = log2_of(e, size, *parts_of_number(e, size), _LOG2)
    product = e.mul(y, high)
    lacking = e.fma(y, low, e.fma(y, high, e.negate(product)))
    # Beyond, the power is 0 or infinite, and what the product lacks may be no number.
    inside = e.less(e.absolute(product), e.constant(200.0))
    lacking = e.select(inside, lacking, e.constant(0.0))
    exponent = e.clamp(product, -200.0, 200.0)
    whole, bits = rounded(e, e.add(exponent, e.constant(ROUNDING)))
    rest = e.add(e.sub(exponent, whole), lacking)
    return signed_power(e, x, y, e.scale(power_of_two(e, rest, EXP2), whole, bits))


def signed_power(e: Arithmetic[V], x: V, y: V, size: V, form: Format = SINGLE) -> V:
    """x^y from ``size``, which is \\|x\\|^y but where \\|x\\| is 1 or y is 0.

    A negative x has powers with integers alone, negative ones with odd integers; 1^y and x^0 are 1, also of
    NaN.
    """
    one, magnitude, least = e.constant(1.0), e.absolute(x), e.absolute(y)
    size = e.select(e.equal(magnitude, one), one, size)
    # Below 2^23 (2^52) a sum with that has the integral part in its last bits; above, all numbers are
    # integers, and from twice that on all are even.
    whole = 2.0**form.fraction
    fraction = e.less(least, e.constant(whole))
    sum = e.add(least, e.constant(whole))
    nearest = e.select(fraction, e.sub(sum, e.constant(whole)), least)
    last = e.bits_and(e.as_bits(e.select(fraction, sum, least)), e.bits_constant(1))
    odd = e.bits_select(e.less(least, e.constant(2 * whole)), last, e.bits_constant(0))
    sign = e.bits_and(e.as_bits(x), e.shift_left(odd, form.bits - 1))
    result = e.from_bits(e.bits_xor(e.as_bits(size), sign))
    # Of other exponents the infinite and the zero base have powers, the finite negative ones have none.
    other = e.select(e.less(magnitude, e.constant(INFINITY)), e.constant(NAN), size)
    other = e.select(e.less(x, e.constant(0.0)), other, size)
    result = e.select(e.equal(nearest, least), result, other)
    return e.select(e.equal(y, e.constant(0.0)), one, result)


def log2_of(e: Arithmetic[V], x: V, n: V, f: V, series: Log2) -> tuple[V, V]:
    """log2 of x = (1 + f) * 2^n, which is not negative, as a sum of two floats."""
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
    term = e.mul(square, polynomial(e, square, series.others))
    inner, inner_low = _sum(e, e.constant(series.second[0]), term, e.constant(series.second[1]))
    term = e.mul(square, inner)
    lacking = e.fma(square, inner_low, e.fma(square_low, inner, e.fma(square, inner, e.negate(term))))
    outer, outer_low = _sum(e, e.constant(series.first[0]), term, e.add(lacking, e.constant(series.first[1])))
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


def remainder(e: Arithmetic[V], a: V, b: V, form: Format = SINGLE) -> V:
    """a - b * trunc(a / b), exactly; with the sign of a, NaN where a is infinite or b is 0.

    The mantissa of a, shifted up by the exponents' difference, modulo that of b: first by what is left of
    steps of so many bits that the rounded quotient is at most one off, the remainder less than the divisor,
    and exact; then by these steps, if any number needs one.
    """
    step = form.fraction - 3
    dividend, divisor = e.absolute(a), e.absolute(b)
    exponent_a, mantissa_a = _split_number(e, dividend, form)
    exponent_b, mantissa_b = _split_number(e, divisor, form)
    inverse, opposite = e.reciprocal(mantissa_b), e.negate(mantissa_b)

    def reduced(rest: V) -> V:
        """A number modulo the divisor, between plus and minus it."""
        quotient = e.sub(e.fma(rest, inverse, e.constant(form.rounding)), e.constant(form.rounding))
        return e.fma(quotient, opposite, rest)

    distance, zero = e.bits_sub(exponent_a, exponent_b), e.bits_constant(0)
    distance = e.bits_select(e.bits_less(distance, zero), zero, distance)
    # The quotient by the step, for distances up to any.
    steps = e.shift_right(e.bits_mul(distance, e.bits_constant((1 << 16) // step + 1)), 16)
    left = e.bits_sub(distance, e.bits_mul(steps, e.bits_constant(step)))
    first = reduced(e.mul(mantissa_a, normal_power(e, left, form)))

    def others() -> V:
        rest = first
        for number in range((2 * form.bias + form.fraction) // step):
            further = reduced(e.mul(rest, e.constant(2.0**step)))
            rest = e.select(e.bits_less(e.bits_constant(number), steps), further, rest)
        return rest

    rest = e.seldom(e.bits_less(zero, steps), first, others)
    rest = e.select(e.less(rest, e.constant(0.0)), e.add(rest, mantissa_b), rest)
    exponent = e.bits_sub(exponent_b, e.bits_constant(form.bias + form.fraction))
    rest = scale_in_two_steps(e, e.absolute(rest), exponent, form)
    rest = e.select(e.less(dividend, divisor), a, with_sign(e, rest, a, form))
    rest = e.select(e.less(dividend, e.constant(INFINITY)), rest, e.constant(NAN))
    return e.select(e.greater(divisor, e.constant(0.0)), rest, e.constant(NAN))


def floor_modulo(e: Arithmetic[V], a: V, b: V, form: Format = SINGLE) -> V:
    """The remainder with the sign of b, as Python's ``%``: where signs differ the rounded sum with b."""
    rest = remainder(e, a, b, form)
    apart = e.bits_less(e.bits_xor(e.as_bits(rest), e.as_bits(b)), e.bits_constant(0))
    result = e.select(apart, e.add(rest, b), rest)
    return e.select(e.equal(rest, e.constant(0.0)), with_sign(e, e.constant(0.0), b, form), result)


def _split_number(e: Arithmetic[V], size: V, form: Format) -> tuple[V, V]:
    """A positive number as an exponent and a mantissa from 2^23 to 2^24: mantissa * 2^(exponent - 150).

    Of F64 from 2^52 to 2^53, less 1075.
    """
    lift = form.fraction + 1
    small = e.less(size, e.constant(form.least_normal))
    bits = e.as_bits(e.select(small, e.mul(size, e.constant(2.0**lift)), size))
    lowered = e.bits_select(small, e.bits_constant(lift), e.bits_constant(0))
    exponent = e.bits_sub(e.shift_right_logical(bits, form.fraction), lowered)
    unit = form.bias + form.fraction << form.fraction
    fraction = e.bits_and(bits, e.bits_constant((1 << form.fraction) - 1))
    return exponent, e.from_bits(e.bits_or(fraction, e.bits_constant(unit)))
