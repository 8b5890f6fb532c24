"""Exponentials, and what is made of one: exp, exp2, expm1, tanh, sigmoid, silu."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.lowering.math.arithmetic import (
    ABOVE_ONE,
    LOG2_E,
    LOG2_E_REST,
    ROUNDING,
    ROUNDING_BITS,
    Arithmetic,
    V,
    polynomial,
    rounded,
    split_exponent,
    with_sign,
)

# (e^r - 1 - r) / r^2 on [-ln(2)/2, ln(2)/2], to a hundredth of 2^-24.
EXP_FINE = (0.5, 0.1666666567325592, 0.041666463017463684, 0.008333571255207062,
             0.0013935096794739366, 0.00019739560957532376)  # fmt: skip
# The same function, weighted for e^r - 1.
_EXPM1 = (0.5, 0.1666666567325592, 0.04166649281978607, 0.008333543315529823,
          0.001393234240822494, 0.00019764245371334255)  # fmt: skip
# (2^r - 1) / r on [-0.5, 0.5], to 1.06 ulp and to a hundredth of 2^-24.
EXP2 = (0.693146824836731, 0.24022236466407776, 0.05550896003842354, 0.00967180822044611,
         0.0013224695576354861)  # fmt: skip
EXP2_FINE = (0.6931471824645996, 0.24022646248340607, 0.05550359562039375, 0.009618652984499931,
              0.0013390998356044292, 0.00015291715681087226)  # fmt: skip


# 2^r in four steps: 8 * 2^r is z^5 + c3 z^3 + c2 z^2 + c1 z + c0 with z = STEP r + SHIFT, to 1.15 ulp. STEP
# and SHIFT, 2^18ths of integers, stand for a factor of z^5 and for z^4. So STEP whole - SHIFT is exact; STEP
# log2(e) is within 2^-34 of a float, so x times it needs no second product; and (2^23 + 52) STEP + SHIFT is a
# float, which joins the whole part and its steps where the exponent is inside. Next to the best quintic of
# a z, this was the only pair of the kind.
STEP, SHIFT = 105401 / 2.0**18, 155244 / 2.0**18
STEP_E = 0.5800685882568359
LIFTED = 3  # the exponent of 8
LIFTED_EXP2 = (2.874018907546997, 5.055098533630371, 3.9030723571777344, 3.325148582458496)


def exp(e: Arithmetic[V], x: V) -> V:
    """e^x; at most 2.75 ulp from the true value, 1 for 0."""
    x = e.clamp(x, -160.0, 89.0)  # so far below 0 that ``scale`` need not round
    return _power(e, x, LOG2_E, STEP_E)


def exp2(e: Arithmetic[V], x: V) -> V:
    """2^x; at most 2.75 ulp off, exact where x is an integer."""
    x = e.clamp(x, -200.0, 129.0)
    return _power(e, x, ABOVE_ONE, STEP)


def _power(e: Arithmetic[V], x: V, unit: float, step: float) -> V:
    """2^(x unit), where ``step`` is ``unit`` steps, more precisely."""
    shifted = e.fma(x, e.constant(unit), e.constant(ROUNDING))
    # The whole part and its bits, less that of 8.
    whole = e.sub(shifted, e.constant(ROUNDING + LIFTED))
    bits = e.bits_sub(e.as_bits(shifted), e.bits_constant(ROUNDING_BITS + LIFTED))
    steps = e.fma(whole, e.constant(STEP), e.constant(LIFTED * STEP - SHIFT))
    return e.scale(lifted_power(e, e.fma(x, e.constant(step), e.negate(steps))), whole, bits)


def lifted_power(e: Arithmetic[V], z: V, unit: float = 1.0) -> V:
    """2^(r + LIFTED) from z = STEP r + SHIFT; that times unit^5 from z times unit, a power of two."""
    result = z
    for number, coefficient in enumerate(reversed(LIFTED_EXP2), 2):
        result = e.fma(result, z, e.constant(coefficient * unit**number))
    return result


def exp_by(e: Arithmetic[V], x: V, coefficients: Sequence[float]) -> V:
    """e^x by one of the polynomials of 2^r."""
    x = e.clamp(x, -160.0, 89.0)
    whole, whole_bits = rounded(e, e.fma(x, e.constant(LOG2_E), e.constant(ROUNDING)))
    return e.scale(power_of_two(e, exponent_rest(e, x, whole), coefficients), whole, whole_bits)


def exponent_rest(e: Arithmetic[V], x: V, whole: V, unit: float = 1.0) -> V:
    """x * log2(e) * unit - whole, where that is small; unit is a power of two."""
    rest = e.fma(x, e.constant(LOG2_E * unit), e.negate(whole))
    return e.fma(x, e.constant(LOG2_E_REST * unit), rest)


def power_of_two(e: Arithmetic[V], rest: V, coefficients: Sequence[float]) -> V:
    """2^rest, from -0.5 to 0.5."""
    return polynomial(e, rest, [1.0, *coefficients])


def expm1(e: Arithmetic[V], x: V) -> V:
    """e^x - 1; at most 1.44 ulp off, signed zeros kept."""
    split = split_exponent(e, e.clamp(x, -30.0, 89.0))  # beyond, it is -1 or infinite
    square = e.mul(split.rest, split.rest)
    rest = e.fma(square, polynomial(e, split.rest, _EXPM1), split.rest)
    # Half of the power of two, which may be 2^128.
    half = e.from_bits(e.shift_left(e.bits_add(split.whole_bits, e.bits_constant(126)), 23))
    result = e.fma(rest, half, e.sub(half, e.constant(0.5)))
    small = e.less(e.absolute(x), e.constant(2.0**-25))
    return e.select(small, x, e.add(result, result))


def tanh(e: Arithmetic[V], x: V) -> V:
    """The hyperbolic tangent, from (e^2x - 1) / (e^2x + 1); at most 2.5 ulp off, signed zeros kept."""
    size = e.absolute(x)
    size = e.select(e.greater(size, e.constant(9.5)), e.constant(9.5), size)
    split = split_exponent(e, e.add(size, size))
    square = e.mul(split.rest, split.rest)
    rest = e.fma(square, polynomial(e, split.rest, _EXPM1), split.rest)
    power = e.from_bits(e.shift_left(e.bits_add(split.whole_bits, e.bits_constant(127)), 23))
    grown = e.fma(rest, power, e.sub(power, e.constant(1.0)))
    return with_sign(e, e.div(grown, e.add(grown, e.constant(2.0))), x)


def sigmoid(e: Arithmetic[V], x: V) -> V:
    """1 / (1 + e^-x); at most 2.5 ulp off."""
    bounded = e.negate(e.clamp(x, -120.0, 120.0))  # beyond, it is 0 or 1
    whole, bits = rounded(e, e.fma(bounded, e.constant(LOG2_E), e.constant(ROUNDING)))
    power = power_of_two(e, exponent_rest(e, bounded, whole), EXP2_FINE)
    return over_one_and_power(e, e.constant(1.0), power, whole, bits)


def silu(e: Arithmetic[V], x: V) -> V:
    """x / (1 + e^-x); at most 2.87 ulp off, -0 for -infinity."""
    bounded = e.negate(e.clamp(x, -120.0, 120.0))  # beyond, it is x or 0
    whole, bits = rounded(e, e.fma(bounded, e.constant(LOG2_E), e.constant(ROUNDING)))
    power = power_of_two(e, exponent_rest(e, bounded, whole), EXP2_FINE)
    kept = e.select(e.less(x, e.constant(-120.0)), e.constant(-120.0), x)
    return over_one_and_power(e, kept, power, whole, bits)


def over_one_and_power(e: Arithmetic[V], a: V, power: V, whole: V, bits: V) -> V:
    """a / (1 + 2^whole * power), where the powers of two keep all near 1 until the last of them rounds."""
    above, zero, none = e.greater(whole, e.constant(0.0)), e.constant(0.0), e.bits_constant(0)
    down = e.select(above, e.negate(whole), zero), e.bits_select(above, e.bits_sub(none, bits), none)
    up = e.select(above, zero, whole), e.bits_select(above, none, bits)
    sum = e.add(e.scale(e.constant(1.0), *down), e.scale(power, *up))
    return e.scale(e.mul(a, e.reciprocal(sum)), *down)
