"""Exponentials of F64, and what is made of one: exp, exp2, expm1, tanh, sigmoid, silu."""

from __future__ import annotations

from gizml_tile.lowering.math.arithmetic import DOUBLE, Arithmetic, V, polynomial, with_sign
from gizml_tile.lowering.math.doubles.common import (
    ROUNDING,
    power_of_two,
    scaled,
    split_exponent,
    whole_bits_of,
    within,
)

# (e^r - 1 - r) / r^2 on [-ln(2)/2, ln(2)/2], weighted for e^r and for e^r - 1.
EXP = (0.5000000000000011, 0.16666666666666424, 0.04166666666652663, 0.008333333333486799,
        0.0013888888944493132, 0.00019841269523598786, 2.4801492243184014e-05, 2.7557570727195008e-06,
        2.763054529643586e-07, 2.5005167387847666e-08)  # fmt: skip
EXPM1 = (0.5, 0.16666666666666677, 0.04166666666666664, 0.008333333333321506, 0.0013888888888910268,
          0.00019841269886356925, 2.4801587261421565e-05, 2.7557244011416494e-06, 2.7557334705755794e-07,
          2.5109102067897317e-08, 2.089456186063454e-09)  # fmt: skip
# (2^r - 1) / r on [-1/2, 1/2].
EXP2 = (0.6931471805599453, 0.2402265069591011, 0.05550410866482173, 0.009618129107600626,
         0.001333355814654261, 0.00015403530450164903, 1.5252733639125172e-05, 1.3215438309253925e-06,
         1.0178157380935794e-07, 7.073319059281363e-09, 4.439326790042169e-10)  # fmt: skip


def exp(e: Arithmetic[V], x: V) -> V:
    """e^x; at most 0.99 ulp from the true value."""
    split = split_exponent(e, within(e, x, -760.0, 710.0))
    square = e.mul(split.rest, split.rest)
    power = e.add(e.constant(1.0), e.fma(square, polynomial(e, split.rest, EXP), split.rest))
    return scaled(e, power, split.whole_bits)


def exp2(e: Arithmetic[V], x: V) -> V:
    """2^x; at most 0.81 ulp off, exact where x is an integer."""
    x = within(e, x, -1080.0, 1025.0)
    shifted = e.add(x, e.constant(ROUNDING))
    rest = e.sub(x, e.sub(shifted, e.constant(ROUNDING)))
    return scaled(e, polynomial(e, rest, (1.0, *EXP2)), whole_bits_of(e, shifted))


def expm1(e: Arithmetic[V], x: V) -> V:
    """e^x - 1; at most 1.9 ulp off, signed zeros kept."""
    split = split_exponent(e, within(e, x, -50.0, 710.0))  # beyond, it is -1 or infinite
    square = e.mul(split.rest, split.rest)
    rest = e.fma(square, polynomial(e, split.rest, EXPM1), split.rest)
    # Half of the power of two, which may be 2^1024.
    half = power_of_two(e, e.bits_sub(split.whole_bits, e.bits_constant(1)))
    result = e.fma(rest, half, e.sub(half, e.constant(0.5)))
    small = e.less(e.absolute(x), e.constant(2.0**-54))
    return e.select(small, x, e.add(result, result))


def sigmoid(e: Arithmetic[V], x: V) -> V:
    """1 / (1 + e^-x), which for a negative x is e^x / (1 + e^x); at most 2.35 ulp off."""
    power = exp(e, e.negate(e.absolute(x)))
    above = e.select(e.less(x, e.constant(0.0)), power, e.constant(1.0))
    return e.div(above, e.add(e.constant(1.0), power))


def silu(e: Arithmetic[V], x: V) -> V:
    """x / (1 + e^-x); at most 2.6 ulp off, -0 for -infinity."""
    size, kept = sizes(e, x, 800.0)  # beyond, it is x or 0
    split = split_exponent(e, e.negate(size))
    square = e.mul(split.rest, split.rest)
    grown = e.fma(square, polynomial(e, split.rest, EXP), split.rest)
    return over_one_and_power(e, kept, grown, split.whole_bits)


def over_one_and_power(e: Arithmetic[V], a: V, grown: V, whole_bits: V) -> V:
    """a / (1 + p), times p where a is negative, for a p = 2^whole * (1 + grown) of at most 1.

    The power of two is applied last to what may be so small that it rounds.
    """
    vanishing = e.bits_constant(-100)
    seen = power_of_two(e, e.bits_select(e.bits_less(whole_bits, vanishing), vanishing, whole_bits))
    below = e.less(a, e.constant(0.0))
    above = e.select(below, e.fma(a, grown, a), a)
    quotient = e.div(above, e.fma(grown, seen, e.add(e.constant(1.0), seen)))
    return scaled(e, quotient, e.bits_select(below, whole_bits, e.bits_constant(0)))


def sizes(e: Arithmetic[V], x: V, limit: float) -> tuple[V, V]:
    """\\|x\\|, at most a limit, and x, at least its opposite; of NaN the second is NaN."""
    size, most, least = e.absolute(x), e.constant(limit), e.constant(-limit)
    return e.select(e.less(size, most), size, most), e.select(e.less(x, least), least, x)


def tanh(e: Arithmetic[V], x: V) -> V:
    """The hyperbolic tangent, from (e^2x - 1) / (e^2x + 1); at most 2.6 ulp off, signed zeros kept."""
    size = e.absolute(x)
    size = e.select(e.greater(size, e.constant(20.0)), e.constant(20.0), size)
    split = split_exponent(e, e.add(size, size))
    square = e.mul(split.rest, split.rest)
    rest = e.fma(square, polynomial(e, split.rest, EXPM1), split.rest)
    power = power_of_two(e, split.whole_bits)
    grown = e.fma(rest, power, e.sub(power, e.constant(1.0)))
    return with_sign(e, e.div(grown, e.add(grown, e.constant(2.0))), x, DOUBLE)
