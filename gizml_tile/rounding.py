"""Numbers rounded once, to nearest even, to the float storage types."""

from __future__ import annotations

import math

from gizml_tile.dtypes import BF16, E5M2, F16, F32, F64, FP8, DType

Number = int | float | bool

# Bits of the significand, the exponent of the smallest subnormal, the largest finite value.
FLOAT_FORMATS = {
    F64: (53, -1074, float.fromhex("0x1.fffffffffffffp1023")),
    F32: (24, -149, float.fromhex("0x1.fffffep127")),
    F16: (11, -24, 65504.0),
    BF16: (8, -133, float.fromhex("0x1.fep127")),
    FP8: (4, -9, 448.0),
    E5M2: (3, -16, 57344.0),
}


def round_to(value: Number, dtype: DType) -> float:
    """A number rounded once, to nearest even, to a float storage type, as ``Tile.to`` treats it."""
    digits, smallest, largest = FLOAT_FORMATS[dtype]
    if isinstance(value, int):
        rounded = _round_integer(int(value), digits)
    elif value == 0 or not math.isfinite(value):
        rounded = value
    else:
        exponent = max(math.frexp(value)[1] - digits, smallest)
        # Scaling by a power of two is exact, and round() goes to the even neighbour.
        units = round(math.ldexp(value, -exponent))
        # Rounded up, the largest float64 has no power of two of its own.
        beyond = exponent + units.bit_length() > 1024
        rounded = math.copysign(math.inf if beyond else math.ldexp(units, exponent), value)
    if abs(rounded) <= largest or math.isnan(rounded):
        return rounded
    return math.copysign(largest if dtype is FP8 else math.inf, rounded)


def _round_integer(value: int, digits: int) -> float:
    shift = value.bit_length() - digits
    if shift > 0:
        floor, rest, half = value >> shift, value & ((1 << shift) - 1), 1 << (shift - 1)
        value = (floor + (rest > half or (rest == half and floor & 1 == 1))) << shift
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)
