"""What functions of F64 have in common: rounding sums, splitting and scaling by powers of two."""

from __future__ import annotations

from gizml_tile.lowering.math.arithmetic import DOUBLE, Arithmetic, Split, V, normal_power, scale_in_two_steps

# 1.5 * 2^52: adding it leaves the nearest integer in the low bits of the sum.
ROUNDING = DOUBLE.rounding
ROUNDING_BITS = 0x4338000000000000
_LN_2, _LN_2_REST = 0.6931471805599453, 2.3190468138462996e-17
LOG2_E, LOG2_E_REST = 1.4426950408889634, 2.0355273740931033e-17


def within(e: Arithmetic[V], x: V, low: float, high: float) -> V:
    """x within bounds; NaN stays."""
    x = e.select(e.greater(x, e.constant(high)), e.constant(high), x)
    return e.select(e.less(x, e.constant(low)), e.constant(low), x)


def whole_bits_of(e: Arithmetic[V], shifted: V) -> V:
    """The integer in the last bits of a rounding sum."""
    return e.bits_sub(e.as_bits(shifted), e.bits_constant(ROUNDING_BITS))


def split_exponent(e: Arithmetic[V], x: V) -> Split[V]:
    """x = whole * ln(2) + rest, for \\|x\\| below 2^11."""
    shifted = e.fma(x, e.constant(LOG2_E), e.constant(ROUNDING))
    whole = e.sub(shifted, e.constant(ROUNDING))
    rest = e.fma(whole, e.constant(-_LN_2), x)
    rest = e.fma(whole, e.constant(-_LN_2_REST), rest)
    return Split(whole, whole_bits_of(e, shifted), rest)


def power_of_two(e: Arithmetic[V], exponent_bits: V) -> V:
    """2^exponent, a normal number."""
    return normal_power(e, exponent_bits, DOUBLE)


def scaled(e: Arithmetic[V], a: V, exponent_bits: V) -> V:
    """``a * 2^exponent`` as two products, of which only the second can round."""
    return scale_in_two_steps(e, a, exponent_bits, DOUBLE)


def float_of(e: Arithmetic[V], whole_bits: V) -> V:
    """A small integer as a float: the last bits of a rounding sum."""
    return e.sub(e.from_bits(e.bits_add(whole_bits, e.bits_constant(ROUNDING_BITS))), e.constant(ROUNDING))
