"""Exponentials of arguments whose results are ordinary numbers, in fewer steps."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.lowering.math.arithmetic import ABOVE_ONE, LOG2_E, Arithmetic, V, polynomial
from gizml_tile.lowering.math.error_functions import GELU_EXP2, gelu_factor, gelu_rest
from gizml_tile.lowering.math.exponentials import (
    EXP2_FINE,
    SHIFT,
    STEP,
    STEP_E,
    exponent_rest,
    lifted_power,
)

# Where an exponent rounds to one of 128 integers, from -52 for exp, its power of two and all that leads
# there are normal numbers. In steps of 2^-22 upon 2 + 52 * 2^-22 the rounding sum's bits are then INSIDE_BITS
# but for the last 7. What is added is never just the opposite, so of other numbers some bit is set that
# INSIDE_BITS has not: bits of many sums joined by ``or`` tell whether all are inside.
_LEAST, _SIGMOID_LEAST, _GELU_LEAST = -52, -64, -26
_GRID = 2.0**-22
INSIDE_BITS, INSIDE_MASK = 0x40000000, -128
INSIDE_LOW, INSIDE_HIGH = 2.0**-53, 2.0**76
# What z is scaled by: its fifth power takes back the 2^3 that z^5 has and the 2^52 of the sum's last bits.
_UNIT = 2.0**-11


def _inside_rounding(least: int) -> float:
    return 2.0 - least * _GRID


def exp_exponent(e: Arithmetic[V], x: V) -> V:
    """The rounding sum that ``exp_inside`` starts with."""
    return e.fma(x, e.constant(LOG2_E * _GRID), e.constant(_inside_rounding(_LEAST)))


def exp_inside(e: Arithmetic[V], x: V, exponent: V) -> V:
    """:func:`exp` of x bit for bit, from INSIDE_LOW to INSIDE_HIGH: its exponent is a sum of two."""
    return _power_inside(e, x, exponent, STEP_E)


def exp2_exponent(e: Arithmetic[V], x: V) -> V:
    """The rounding sum that ``exp2_inside`` starts with."""
    return e.fma(x, e.constant(ABOVE_ONE * _GRID), e.constant(_inside_rounding(_LEAST)))


def exp2_inside(e: Arithmetic[V], x: V, exponent: V) -> V:
    """:func:`exp2` of x, bit for bit, likewise."""
    return _power_inside(e, x, exponent, STEP)


def _power_inside(e: Arithmetic[V], x: V, exponent: V, step: float) -> V:
    """2^x where x times ``step`` is as many steps; the steps up to the exponent are one exact fma."""
    zero = _inside_rounding(_LEAST) / _GRID * STEP + SHIFT
    steps = e.fma(exponent, e.constant(STEP / _GRID * _UNIT), e.constant(-zero * _UNIT))
    power = lifted_power(e, e.fma(x, e.constant(step * _UNIT), e.negate(steps)), _UNIT)
    return e.from_bits(e.bits_add(e.as_bits(power), e.shift_left(e.as_bits(exponent), 23)))


def _with_exponent(e: Arithmetic[V], rest: V, exponent: V, coefficients: Sequence[float], least: int) -> V:
    """2^(rest / _GRID) times the power of two whose exponent, less ``least``, is in the sum's last 9 bits."""
    scaled = [
        coefficient * 2.0**least / _GRID**number for number, coefficient in enumerate([1.0, *coefficients])
    ]
    power = polynomial(e, rest, scaled)
    return e.from_bits(e.bits_add(e.as_bits(power), e.shift_left(e.as_bits(exponent), 23)))


def sigmoid_exponent(e: Arithmetic[V], x: V) -> V:
    """The rounding sum that ``sigmoid_inside`` starts with."""
    return e.fma(x, e.constant(-LOG2_E * _GRID), e.constant(_inside_rounding(_SIGMOID_LEAST)))


def sigmoid_inside(e: Arithmetic[V], x: V, exponent: V) -> V:
    """:func:`sigmoid` of x bit for bit, where the exponent is inside."""
    whole = e.sub(exponent, e.constant(_inside_rounding(_SIGMOID_LEAST)))
    rest = exponent_rest(e, e.negate(x), whole, _GRID)
    power = _with_exponent(e, rest, exponent, EXP2_FINE, _SIGMOID_LEAST)
    return e.reciprocal(e.add(power, e.constant(1.0)))


def silu_inside(e: Arithmetic[V], x: V, exponent: V) -> V:
    """:func:`silu` of x bit for bit, where the exponent is inside: it is that of ``sigmoid``."""
    return e.mul(x, sigmoid_inside(e, x, exponent))


# From here on gelu is x: 1 + e^-2u is rounded to 1.
_GELU_SAME = 5.0


def gelu_exponent(e: Arithmetic[V], x: V) -> V:
    """The rounding sum that ``gelu_inside`` starts with."""
    x = e.at_most(x, _GELU_SAME)
    return e.fma(x, gelu_factor(e, x, _GRID)[0], e.constant(_inside_rounding(_GELU_LEAST)))


def gelu_inside(e: Arithmetic[V], x: V, exponent: V) -> V:
    """:func:`gelu` of x bit for bit, where the exponent is inside."""
    whole, near = e.sub(exponent, e.constant(_inside_rounding(_GELU_LEAST))), e.at_most(x, _GELU_SAME)
    rest = gelu_rest(e, near, gelu_factor(e, near, _GRID), whole)
    power = _with_exponent(e, rest, exponent, GELU_EXP2, _GELU_LEAST)
    return e.mul(x, e.reciprocal(e.add(power, e.constant(1.0))))
