"""Vector accesses of a thread to tensors and to workgroup memory.

A masked read is not a branch: where the mask is not set, it reads zeros of the code's own, or the
beginning of its buffer, so that reads stay together. A masked write is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.dtypes import MASK, DType
from gizml_tile.lowering.emit.amdgpu.addresses import SPACES, address, base, element_type
from gizml_tile.lowering.emit.amdgpu.literals import literal, vector_literal, vector_type
from gizml_tile.lowering.emit.amdgpu.writer import ZEROS, Rule, Words, Writer, type_of
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Instruction


def _load(writer: Writer, instruction: Instruction) -> Words:
    access, dtype = instruction.attr, instruction.dtype
    assert isinstance(access, Access) and dtype is not None
    offsets, *masks = instruction.args
    stored = element_type(writer, access.space, access.memory)
    element = type_of(stored)
    kind = vector_type(element, access.width)
    found: list[str] = []
    for mask, place in zip(guards_of(writer, masks, access), access.places, strict=True):
        where = address(writer, access.space, access.memory, offsets, place)
        if mask:
            where = _harmless(writer, access, mask, where)
        size = access.width * stored.bytes
        whole = writer.value(f"load {kind}, {SPACES[access.space]} {where}, align {size}")
        if mask:
            whole = _padded(writer, access, stored, mask, whole)
        found += writer.elements(whole, element, access.width)
    return tuple([writer.value(f"icmp ne i8 {word}, 0") for word in found]) if dtype is MASK else tuple(found)


def guards_of(writer: Writer, masks: Sequence[Instruction], access: Access) -> Words:
    """The predicate of each access; none where all are done."""
    if not masks:
        return ("",) * len(access.places)
    return writer.stretched(masks[0], len(access.places))


def _harmless(writer: Writer, access: Access, mask: str, where: str) -> str:
    """The place of a masked read: its own, or one that may always be read."""
    pointer = SPACES[access.space]
    key = ("harmless", mask, where)
    found = writer.cached(key)
    if found is not None:
        return found
    instead = ZEROS if access.space == GLOBAL else base(writer, access.space, access.memory)
    writer.uses_zeros |= access.space == GLOBAL
    return writer.keep(key, writer.value(f"select i1 {mask}, {pointer} {where}, {pointer} {instead}"))


def _padded(writer: Writer, access: Access, stored: DType, mask: str, whole: str) -> str:
    """What a masked read gives: what it read, or the pad."""
    pad, element = literal(access.pad, stored), type_of(stored)
    if access.space == GLOBAL and pad == literal(0, stored):
        return whole
    kind = vector_type(element, access.width)
    pads = vector_literal(element, (pad,) * access.width)
    return writer.value(f"select i1 {mask}, {kind} {whole}, {kind} {pads}")


def _store(writer: Writer, instruction: Instruction) -> Words:
    access, (value, offsets, *masks) = instruction.attr, instruction.args
    assert isinstance(access, Access) and value.dtype is not None
    words = writer.stretched(value, access.width * len(access.places))
    if value.dtype is MASK:
        words = tuple([writer.value(f"zext i1 {word} to i8") for word in words])
    guards = guards_of(writer, masks, access)
    together = len(set(guards)) == 1
    runs = [range(len(guards))] if together else [range(n, n + 1) for n in range(len(guards))]
    for run in runs:
        guard = guards[run[0]]
        end = writer.enter(guard) if guard else ""
        for number in run:
            piece = words[number * access.width : (number + 1) * access.width]
            _store_one(writer, access, piece, offsets, access.places[number])
        if end:
            writer.leave(end)
    return ()


def _store_one(
    writer: Writer, access: Access, words: Words, offsets: Instruction, place: tuple[int, int]
) -> None:
    stored = element_type(writer, access.space, access.memory)
    element, size = type_of(stored), access.width * stored.bytes
    whole = writer.vector(words, element)
    where = address(writer, access.space, access.memory, offsets, place)
    kind = vector_type(element, access.width)
    writer.line(f"store {kind} {whole}, {SPACES[access.space]} {where}, align {size}")


RULES: dict[str, Rule] = {"load": _load, "store": _store}
