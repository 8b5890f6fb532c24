"""Conversions between storage types, register by register."""

from __future__ import annotations

from gizml_tile.dtypes import BF16, E5M2, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, DType
from gizml_tile.lowering.emit.amdgpu.writer import Rule, Words, Writer, type_of
from gizml_tile.lowering.kernel_ir.instructions import Instruction

# Nearest even, and subnormals stay, as the functions' mode is unless they say otherwise.
_CASTS = {
    (F16, F32): "fpext",
    (F32, F16): "fptrunc",
    (F32, F64): "fpext",
    (F64, F32): "fptrunc",
    **{(each, floats): "sitofp" for each in (I32, I64) for floats in (F32, F64)},
    (I32, I64): "sext",
    **{(each, I32): "sext" for each in (I8, I16)},
    **{(each, floats): "uitofp" for each in (U32, U64) for floats in (F32, F64)},
    **{(each, I32): "zext" for each in (U8, U16)},
    (U32, I64): "zext",
    **{(I32, each): "trunc" for each in (I8, U8, I16, U16)},
    (I64, I32): "trunc",
}


def _convert(writer: Writer, instruction: Instruction) -> Words:
    value, to = instruction.args[0], instruction.dtype
    assert value.dtype is not None and to is not None
    return tuple([_converted(writer, word, value.dtype, to) for word in writer.words(value)])


def _converted(writer: Writer, word: str, source: DType, to: DType) -> str:
    cast = _CASTS.get((source, to))
    if cast is not None:
        return writer.value(f"{cast} {type_of(source)} {word} to {type_of(to)}")
    if source in (F32, F64) and to.is_integer:
        # Truncates and saturates, and gives 0 for a NaN.
        sign = "u" if to.is_unsigned else "s"
        name = f"llvm.fpto{sign}i.sat.{type_of(to)}.{source.text}"
        return writer.call(name, (type_of(source), word))
    if (source, to) == (BF16, F32):
        wide = writer.value(f"zext i16 {word} to i32")
        return writer.bitcast(writer.value(f"shl i32 {wide}, 16"), "i32", "float")
    if (source, to) == (E5M2, F16):
        wide = writer.value(f"zext i8 {word} to i16")
        return writer.bitcast(writer.value(f"shl i16 {wide}, 8"), "i16", "half")
    if (source, to) == (F32, BF16) and writer.kernel.target.can("bf16_convert"):
        return writer.bitcast(writer.value(f"fptrunc float {word} to bfloat"), "bfloat", "i16")
    raise LookupError(
        f"LLVM IR for {writer.arch} has no entry for the instruction 'convert' from {source} to {to}"
    )


RULES: dict[str, Rule] = {"convert": _convert}
