"""Storage types to F32 and back, from the same operations as :mod:`math <gizml_tile.lowering.math>`.

Bit patterns stand in the low bits of a 32-bit integer, zeros above. Every rounding is to nearest even
and keeps subnormals, the sign of zero, and NaN.
"""

from __future__ import annotations

from gizml_tile.lowering.math import Arithmetic, V

_SIZE = 0x7FFFFFFF
_INFINITY = 0x7F800000


def bfloat16_value(e: Arithmetic[V], bits: V) -> V:
    """The value of BF16 bits; what stands above the low 16 bits is ignored."""
    return e.from_bits(e.shift_left(bits, 16))


def bfloat16_bits(e: Arithmetic[V], x: V) -> V:
    """The BF16 nearest to x, infinity where it overflows."""
    bits = e.as_bits(x)
    rounded = e.shift_right_logical(_rounded_to_even(e, bits, 16), 16)
    # A NaN could carry into infinity or lose all its payload: set the quiet bit instead of rounding.
    quiet = e.bits_or(e.shift_right_logical(bits, 16), e.bits_constant(0x40))
    return e.bits_select(_is_nan(e, _size(e, bits)), quiet, rounded)


def half_value(e: Arithmetic[V], bits: V) -> V:
    """The value of F16 bits."""
    size = e.bits_and(bits, e.bits_constant(0x7FFF))
    # The exponent's bias grows by 112; infinity and NaN need as much again to reach the top.
    normal = e.bits_add(e.shift_left(size, 13), e.bits_constant(112 << 23))
    top = e.bits_less(e.bits_constant(0x7BFF), size)
    normal = e.bits_select(top, e.bits_add(normal, e.bits_constant(112 << 23)), normal)
    subnormal = e.as_bits(e.mul(e.bits_to_float(size), e.constant(2.0**-24)))
    chosen = e.bits_select(e.bits_less(size, e.bits_constant(0x400)), subnormal, normal)
    sign = e.shift_left(e.bits_and(bits, e.bits_constant(0x8000)), 16)
    return e.from_bits(e.bits_or(chosen, sign))


def half_bits(e: Arithmetic[V], x: V) -> V:
    """The F16 nearest to x, infinity where it overflows."""
    return _bits_of_half(e, x, 10)


def e5m2_value(e: Arithmetic[V], bits: V) -> V:
    """The value of E5M2 bits, which are the upper ones of an F16."""
    return half_value(e, e.shift_left(bits, 8))


def e5m2_bits(e: Arithmetic[V], x: V) -> V:
    """The E5M2 nearest to x, infinity where it overflows."""
    return _bits_of_half(e, x, 2)


def _bits_of_half(e: Arithmetic[V], x: V, digits: int) -> V:
    """The nearest to x of the floats with F16's exponents and so many bits after the point."""
    bits = e.as_bits(x)
    size, dropped = _size(e, bits), 23 - digits
    rounded = e.shift_right_logical(_rounded_to_even(e, size, dropped), dropped)
    normal = e.bits_sub(rounded, e.bits_constant(112 << digits))
    # Beside 2^(9 - digits) a float's last bit is the unit of subnormals, for F16 2^-24 beside 0.5.
    anchor = 2.0 ** (9 - digits)
    anchor_bits = 127 + 9 - digits << 23
    subnormal = e.bits_sub(
        e.as_bits(e.add(e.from_bits(size), e.constant(anchor))), e.bits_constant(anchor_bits)
    )
    small = e.bits_less(size, e.bits_constant(0x38800000))
    chosen = e.bits_select(small, subnormal, normal)
    infinity = e.bits_constant(31 << digits)
    chosen = e.bits_select(e.bits_less(infinity, chosen), infinity, chosen)
    quiet = e.bits_constant((31 << digits) + (1 << digits - 1))
    chosen = e.bits_select(_is_nan(e, size), quiet, chosen)
    sign = e.bits_and(e.shift_right_logical(bits, 26 - digits), e.bits_constant(32 << digits))
    return e.bits_or(chosen, sign)


def float8_value(e: Arithmetic[V], bits: V) -> V:
    """The value of FP8 (OCP E4M3) bits."""
    size = e.bits_and(bits, e.bits_constant(0x7F))
    normal = e.bits_add(e.shift_left(size, 20), e.bits_constant(120 << 23))
    subnormal = e.as_bits(e.mul(e.bits_to_float(size), e.constant(2.0**-9)))
    chosen = e.bits_select(e.bits_less(size, e.bits_constant(8)), subnormal, normal)
    top = e.bits_less(e.bits_constant(0x7E), size)
    chosen = e.bits_select(top, e.bits_constant(0x7FC00000), chosen)
    sign = e.shift_left(e.bits_and(bits, e.bits_constant(0x80)), 24)
    return e.from_bits(e.bits_or(chosen, sign))


def float8_bits(e: Arithmetic[V], x: V) -> V:
    """The FP8 (OCP E4M3) nearest to x; beyond 448, infinities included, 448 of its sign."""
    bits = e.as_bits(x)
    size = e.absolute(x)
    size = e.select(e.greater(size, e.constant(448.0)), e.constant(448.0), size)
    size_bits = e.as_bits(size)
    normal = e.bits_sub(
        e.shift_right_logical(_rounded_to_even(e, size_bits, 20), 20), e.bits_constant(120 << 3)
    )
    # Beside 2^14 a float's last bit is 2^-9, the unit of FP8's subnormals.
    subnormal = e.bits_sub(e.as_bits(e.add(size, e.constant(2.0**14))), e.bits_constant(0x46800000))
    small = e.bits_less(size_bits, e.bits_constant(0x3C800000))
    chosen = e.bits_select(small, subnormal, normal)
    chosen = e.bits_select(_is_nan(e, size_bits), e.bits_constant(0x7F), chosen)
    sign = e.bits_and(e.shift_right_logical(bits, 24), e.bits_constant(0x80))
    return e.bits_or(chosen, sign)


def integer_bits(e: Arithmetic[V], x: V, low: int, high: int) -> V:
    """x truncated toward zero and held between ``low`` and ``high`` (of at most 32 bits); NaN gives 0."""
    bottom = e.constant(float(low))
    if high == 2**31 - 1:
        # The bound is no float: what reaches 2^31 is replaced after the conversion.
        limit = e.constant(2.0**31)
        inside = e.select(e.less(x, limit), x, e.constant(0.0))
        inside = e.select(e.greater(inside, bottom), inside, bottom)
        above = e.greater(x, e.constant(2.0**31 - 128))
        return e.bits_select(above, e.bits_constant(high), e.float_to_bits(inside))
    top = e.constant(float(high))
    inside = e.select(e.greater(x, top), top, e.select(e.less(x, bottom), bottom, x))
    return e.float_to_bits(e.select(e.equal(x, x), inside, e.constant(0.0)))


def _size(e: Arithmetic[V], bits: V) -> V:
    return e.bits_and(bits, e.bits_constant(_SIZE))


def _is_nan(e: Arithmetic[V], size: V) -> V:
    return e.bits_less(e.bits_constant(_INFINITY), size)


def _rounded_to_even(e: Arithmetic[V], bits: V, dropped: int) -> V:
    """``bits`` with half a unit of what stays added, less one where the unit's last bit is even."""
    last = e.bits_and(e.shift_right_logical(bits, dropped), e.bits_constant(1))
    return e.bits_add(bits, e.bits_add(last, e.bits_constant((1 << (dropped - 1)) - 1)))
