"""Constants and registers: other orders, other types of the same bits, selections, and 32-bit words."""

from __future__ import annotations

from gizml_tile.dtypes import MASK, DType
from gizml_tile.lowering.emit.amdgpu.literals import literal, vector_type
from gizml_tile.lowering.emit.amdgpu.writer import Rule, Words, Writer, kind_of, type_of
from gizml_tile.lowering.kernel_ir.instructions import Instruction


def _constant(writer: Writer, instruction: Instruction) -> Words:
    assert instruction.dtype is not None
    numbers = instruction.attr if isinstance(instruction.attr, tuple) else (instruction.attr,)
    return tuple([literal(number, instruction.dtype) for number in numbers])  # type: ignore[arg-type]


def _pick(writer: Writer, instruction: Instruction) -> Words:
    words, chosen = writer.words(instruction.args[0]), instruction.attr
    assert isinstance(chosen, tuple)
    return tuple([words[register] for register in chosen])  # type: ignore[index]


def _join(writer: Writer, instruction: Instruction) -> Words:
    return tuple([word for value in instruction.args for word in writer.words(value)])


def _bitcast(writer: Writer, instruction: Instruction) -> Words:
    (value,) = instruction.args
    source, to = kind_of(value), kind_of(instruction)
    return tuple([writer.bitcast(word, source, to) for word in writer.words(value)])


def _again(writer: Writer, instruction: Instruction) -> Words:
    """Every word through assembly of no instructions, of which LLVM does not know that it changes nothing."""
    value, other = instruction.args
    assert value.dtype is not None
    (after,), after_kind = writer.words(other), kind_of(other)
    words = packed(writer, writer.words(value), value.dtype)
    made = tuple(
        [writer.value(f'call i32 asm "", "=v,0,v"(i32 {word}, {after_kind} {after})') for word in words]
    )
    return unpacked(writer, made, value.dtype, value.count)


def _select(writer: Writer, instruction: Instruction) -> Words:
    kind, count = kind_of(instruction), instruction.count
    columns = [writer.stretched(value, count) for value in instruction.args]
    return tuple(
        [
            writer.value(f"select i1 {mask}, {kind} {yes}, {kind} {no}")
            for mask, yes, no in zip(*columns, strict=True)
        ]
    )


# Words of 32 bits, as exchanges between lanes move them


def packed(writer: Writer, words: Words, dtype: DType) -> Words:
    """Registers as words of 32 bits: several of a small type, half of a large one."""
    kind = type_of(dtype)
    if dtype is MASK:
        return tuple([writer.value(f"zext i1 {word} to i32") for word in words])
    if dtype.bits == 64:
        pairs = [writer.bitcast(word, kind, "<2 x i32>") for word in words]
        return tuple([half for pair in pairs for half in writer.elements(pair, "i32", 2)])
    per = 32 // dtype.bits
    filled = words + (literal(0, dtype),) * (-len(words) % per)
    return tuple(
        [
            writer.bitcast(writer.vector(filled[first : first + per], kind), vector_type(kind, per), "i32")
            for first in range(0, len(filled), per)
        ]
    )


def unpacked(writer: Writer, words: Words, dtype: DType, count: int) -> Words:
    """So many registers from words of 32 bits."""
    kind = type_of(dtype)
    if dtype is MASK:
        return tuple([writer.value(f"trunc i32 {word} to i1") for word in words])
    if dtype.bits == 64:
        return tuple(
            [
                writer.bitcast(writer.vector(words[first : first + 2], "i32"), "<2 x i32>", kind)
                for first in range(0, len(words), 2)
            ]
        )
    per = 32 // dtype.bits
    found: list[str] = []
    for word in words:
        found += writer.elements(writer.bitcast(word, "i32", vector_type(kind, per)), kind, per)
    return tuple(found[:count])


RULES: dict[str, Rule] = {
    "constant": _constant,
    "pick": _pick,
    "join": _join,
    "bitcast": _bitcast,
    "again": _again,
    "select": _select,
}
