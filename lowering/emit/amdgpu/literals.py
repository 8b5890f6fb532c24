"""Types and numbers as LLVM IR writes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    F64,
    FP8,
    I8,
    I16,
    I32,
    I64,
    MASK,
    U8,
    U16,
    U32,
    U64,
    DType,
)
from gizml_tile.lowering.emit.literals import bits, signed
from gizml_tile.lowering.kernel_ir.instructions import Number
from gizml_tile.rounding import round_to

# BF16 and floats of 8 bits are integers: not every version of LLVM that drivers carry computes with their
# own types.
TYPES = {
    MASK: "i1",
    F32: "float",
    F64: "double",
    F16: "half",
    BF16: "i16",
    FP8: "i8",
    E5M2: "i8",
    I8: "i8",
    U8: "i8",
    I16: "i16",
    I32: "i32",
    I64: "i64",
    U16: "i16",
    U32: "i32",
    U64: "i64",
}


def literal(number: Number, dtype: DType) -> str:
    """A number as an operand; LLVM writes floats by the bits of the double that equals them."""
    if dtype is MASK:
        return "true" if number else "false"
    if dtype in (F32, F64):
        return f"0x{struct.pack('>d', round_to(number, dtype)).hex().upper()}"
    if dtype is F16:
        return f"0xH{bits(number, dtype):04X}"
    return str(signed(number, dtype))


def vector_type(element: str, count: int) -> str:
    """The type of several elements; one is no vector."""
    return element if count == 1 else f"<{count} x {element}>"


def vector_literal(element: str, words: Sequence[str]) -> str:
    """Several literals as one operand."""
    if len(words) == 1:
        return words[0]
    return f"<{', '.join(f'{element} {word}' for word in words)}>"
