"""Accesses of a thread to tensors and to threadgroup memory, up to 16 bytes at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gizml_tile.dtypes import DType
from gizml_tile.lowering.emit.literals import bits
from gizml_tile.lowering.emit.metal.spelling import literal, type_name
from gizml_tile.lowering.emit.metal.words import Array, Words, registers, spelled, without_brackets
from gizml_tile.lowering.emit.metal.writer import Column, Rule, Writer
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Instruction, Number
from gizml_tile.target import Target

# MSL has vectors of at most four; more elements are 32-bit words.
_WIDEST_VECTOR = 4


@dataclass(frozen=True, slots=True)
class _Moved:
    """What one access moves: elements of a type, or words of ``part`` with ``per`` each."""

    type: str
    element: str
    width: int
    part: str = ""
    per: int = 1

    def value(self, texts: Sequence[str]) -> str:
        """Elements as one value."""
        if self.width == 1:
            return texts[0]
        if not self.part:
            return f"{self.type}({', '.join(texts)})"
        groups = [texts[first : first + self.per] for first in range(0, self.width, self.per)]
        words = [f"word({', '.join(each)})" for each in groups]
        return f"{self.type}({', '.join(words)})"

    def pad(self, number: Number, dtype: DType, target: Target) -> str:
        """One number in all elements."""
        if not self.part:
            text = literal(number, dtype, target)
            return text if self.width == 1 else f"{self.type}({text})"
        pattern = bits(number, dtype)
        return f"{self.type}({sum(pattern << place * dtype.bits for place in range(self.per)):#x})"


def _moved(writer: Writer, dtype: DType, width: int) -> _Moved:
    element = type_name(dtype, writer.target)
    if width <= _WIDEST_VECTOR:
        return _Moved(element if width == 1 else f"{element}{width}", element, width)
    per = 4 // dtype.bytes
    words = width // per
    return _Moved(f"uint{words}", element, width, f"{element}{per}", per)


def _pointer(writer: Writer, access: Access, moved: _Moved, *, reads: bool) -> str:
    """An access's place as text, with room for an offset and a constant."""
    if access.space == GLOBAL:
        name, space = writer.tensors[access.memory], "device"
    else:
        name, space = writer.buffers[access.memory], "threadgroup"
    if moved.width == 1:
        return f"{name}[{{}}]"
    return f"*({'const ' if reads else ''}{space} {moved.type}*)({name} + {{}})"


def places_of(
    writer: Writer, access: Access, offsets: Instruction, masks: Sequence[Instruction]
) -> list[Column]:
    """The columns of an access: the offset, what is added to it, and its mask."""
    words = writer.words(offsets)
    columns: list[Column] = [
        [words[register if len(words) > 1 else 0] for register, _ in access.places],
        [constant for _, constant in access.places],
    ]
    if masks:
        columns.append(writer.stretched(masks[0], len(access.places)))
    return columns


def sum_text(offset: str, constant: str) -> str:
    if constant == "0":
        return offset
    if offset in ("0", "0L"):
        return constant
    return f"{offset} - {constant[1:]}" if constant[0] == "-" else f"{offset} + {constant}"


def _load(writer: Writer, instruction: Instruction) -> Words:
    access, (offsets, *masks), dtype = instruction.attr, instruction.args, instruction.dtype
    assert isinstance(access, Access) and dtype is not None
    moved = _moved(writer, dtype, access.width)
    pointer = _pointer(writer, access, moved, reads=True)
    pad = moved.pad(access.pad, dtype, writer.target) if masks else ""
    columns, count = places_of(writer, access, offsets, masks), len(access.places)
    stem = (writer.tensors if access.space == GLOBAL else writer.buffers)[access.memory]

    def value(offset: str, constant: str, *mask: str) -> str:
        text = pointer.format(sum_text(offset, constant))
        return f"{without_brackets(mask[0])} ? {text} : {pad}" if mask else text

    name = writer.numbered(stem)
    if count == 1:
        texts = [str(each[0]) if isinstance(each[0], int) else spelled(each[0]) for each in columns]
        writer.line(f"const {moved.type} {name} = {value(*texts)};")
        return (name,) if access.width == 1 else registers(_array(name, 1, moved))
    writer.line(f"{moved.type} {name}[{count}];")
    home: Words = registers(Array(name, count))
    writer.each([home, *columns], lambda out, *place: f"{out} = {value(*place)};")
    return registers(_array(name, count, moved))


def _array(name: str, accesses: int, moved: _Moved) -> Array:
    return Array(name, accesses * moved.width, moved.width, moved.part, moved.per)


def _store(writer: Writer, instruction: Instruction) -> Words:
    access, (value, offsets, *masks) = instruction.attr, instruction.args
    assert isinstance(access, Access) and value.dtype is not None
    moved, width = _moved(writer, value.dtype, access.width), access.width
    pointer = _pointer(writer, access, moved, reads=False)
    columns = places_of(writer, access, offsets, masks)
    words = writer.words(value)
    whole = _whole(words, moved)
    if moved.part and not whole:
        writer.helper("word")
    parts: list[Column] = [whole] if whole else [words[place::width] for place in range(width)]

    def store(*texts: str) -> str:
        elements, (offset, constant, *mask) = texts[: len(parts)], texts[len(parts) :]
        stored = elements[0] if whole else moved.value(elements)
        text = f"{pointer.format(sum_text(offset, constant))} = {stored};"
        return f"if ({without_brackets(mask[0])}) {text}" if mask else text

    writer.each([*parts, *columns], store)
    return ()


def _whole(words: Words, moved: _Moved) -> Column:
    """The vectors that a value consists of, where it does, as they were loaded."""
    width, found = moved.width, []
    if width == 1:
        return ()
    for first in range(0, len(words), width):
        start = words[first]
        if isinstance(start, str) or start[0] != _array(start[0].name, start[0].count // width, moved):
            return ()
        array, index = start
        if index % width or words[first : first + width] != tuple((array, index + n) for n in range(width)):
            return ()
        found.append(
            (Array(array.name, array.count // width), index // width) if array.count > width else array.name
        )
    return found


RULES: dict[str, Rule] = {"load": _load, "store": _store}
