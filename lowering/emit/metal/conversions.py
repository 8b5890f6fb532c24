"""Conversions between storage types, and the same bits as another type."""

from __future__ import annotations

from gizml_tile.dtypes import BF16, E5M2, F16, F32, I8, I16, I32, I64, U8, U16, U32, U64, DType, integer_range
from gizml_tile.lowering.emit.metal.spelling import has_bfloat, literal, type_name
from gizml_tile.lowering.emit.metal.words import Words
from gizml_tile.lowering.emit.metal.writer import Rule, Writer
from gizml_tile.lowering.kernel_ir.instructions import Instruction

# Integers extend their sign (unsigned ones zeros) and wrap; floats and integers round to the nearest even
# float.
_PLAIN = {
    (F16, F32),
    (F32, F16),
    (I32, F32),
    (I64, F32),
    (U32, F32),
    (U64, F32),
    (U32, I64),
    *((each, I32) for each in (I8, U8, I16, U16, I64)),
    *((I32, each) for each in (I8, U8, I16, U16, I64)),
}


_TRUNCATIONS = {I64: "truncated_long", U32: "truncated_uint", U64: "truncated_ulong"}


def _convert(writer: Writer, instruction: Instruction) -> Words:
    (value,) = instruction.args
    assert value.dtype is not None and instruction.dtype is not None
    text = _conversion(writer, value.dtype, instruction.dtype)
    return writer.made(instruction, [writer.words(value)], text.format)


def _conversion(writer: Writer, source: DType, to: DType) -> str:
    """A conversion as a text with a place for the value."""
    type = type_name(to, writer.target)
    if (source, to) in _PLAIN or (has_bfloat(writer.target) and {source, to} == {F32, BF16}):
        return f"{type}({{}})"
    if (source, to) == (BF16, F32):
        return "as_type<float>(uint({}) << 16)"
    if (source, to) == (E5M2, F16):
        return "as_type<half>(ushort({} << 8))"
    if source is F32 and to in _TRUNCATIONS:
        return f"{writer.helper(_TRUNCATIONS[to])}({{}})"
    if source is F32 and to.is_integer:
        low, high = (literal(number, I32, writer.target) for number in integer_range(to))
        inside = f"{writer.helper('truncated')}({{}}, {low}, {high})"
        return inside if to is I32 else f"{type}({inside})"
    raise LookupError(f"Metal has no entry for the instruction 'convert' from {source} to {to}")


def _bitcast(writer: Writer, instruction: Instruction) -> Words:
    (value,) = instruction.args
    assert value.dtype is not None and instruction.dtype is not None
    source, to = (type_name(each, writer.target) for each in (value.dtype, instruction.dtype))
    if source == to:
        return writer.renamed(instruction)
    return writer.made(instruction, [writer.words(value)], f"as_type<{to}>({{}})".format)


RULES: dict[str, Rule] = {"convert": _convert, "bitcast": _bitcast}
