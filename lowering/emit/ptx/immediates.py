"""Numbers as PTX writes them: bit patterns for floats, packed words for what is under 32 bits."""

from __future__ import annotations

from gizml_tile.dtypes import F32, F64, DType
from gizml_tile.lowering.emit.literals import bits, signed
from gizml_tile.lowering.kernel_ir.instructions import Number


def immediate(number: Number, dtype: DType) -> str:
    """A number of 32 or 64 bits as an operand."""
    if dtype is F64:
        return f"0d{bits(number, dtype):016X}"
    return f"0f{bits(number, dtype):08X}" if dtype is F32 else str(signed(number, dtype))


def packed(numbers: tuple[Number, ...], dtype: DType) -> str:
    """Numbers of under 32 bits as a word, the first lowest; what is not given is zero."""
    word = 0
    for slot, number in enumerate(numbers):
        word |= bits(number, dtype) << slot * dtype.bits
    return f"0x{word:08X}"
