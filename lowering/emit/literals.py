"""The bits of numbers as storage types hold them."""

from __future__ import annotations

import math
import struct

from gizml_tile.dtypes import BF16, E5M2, F16, F32, F64, DType
from gizml_tile.lowering.kernel_ir.instructions import Number
from gizml_tile.rounding import round_to


def bits(number: Number, dtype: DType) -> int:
    """The bits of a number stored as a type, without sign."""
    if not dtype.is_float:
        return int(number) & ((1 << dtype.bits) - 1)
    value = round_to(number, dtype)
    if dtype is F64:
        return int.from_bytes(struct.pack(">d", value), "big")
    if dtype is F32:
        return int.from_bytes(struct.pack(">f", value), "big")
    if dtype is BF16:
        return int.from_bytes(struct.pack(">f", value)[:2], "big")
    if dtype is F16:
        return int.from_bytes(struct.pack(">e", value), "big")
    if dtype is E5M2:
        # The upper half of an F16.
        return struct.pack(">e", value)[0]
    return _e4m3(value)


def signed(number: Number, dtype: DType) -> int:
    """The bits of a number stored as a type, as an integer with a sign."""
    pattern = bits(number, dtype)
    return pattern - ((pattern >> dtype.bits - 1) << dtype.bits)


def _e4m3(value: float) -> int:
    """The byte of a number that E4M3 holds exactly, or of NaN."""
    sign = 0x80 if math.copysign(1, value) < 0 else 0
    if math.isnan(value):
        return 0x7F
    # In units of the smallest subnormal, 2^-9, normal numbers have a significand of 8 to 15.
    units = int(abs(value) * 512)
    shift = max(units.bit_length() - 4, 0)
    return sign | (shift << 3) + (units >> shift)
