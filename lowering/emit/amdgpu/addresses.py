"""Addresses of tensors' and buffers' elements, each computed once where its offset is at hand."""

from __future__ import annotations

from gizml_tile.dtypes import I64, MASK, U8, DType
from gizml_tile.lowering.emit.amdgpu.writer import Writer, kind_of, type_of
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Instruction, Parameter

SPACES = {GLOBAL: "ptr addrspace(1)", "workgroup": "ptr addrspace(3)"}


def element_type(writer: Writer, space: str, memory: int) -> DType:
    """The storage type of a tensor or of a buffer; masks are bytes."""
    kernel = writer.kernel
    dtype = kernel.tensors[memory].dtype if space == GLOBAL else kernel.buffers[memory].dtype
    return U8 if dtype is MASK else dtype


def base(writer: Writer, space: str, memory: int) -> str:
    """The address of a tensor's element at index 0, or of a buffer's first."""
    if space == GLOBAL:
        return writer.parameter(Parameter("pointer", memory))
    return _moved(writer, writer.memory, "i8", SPACES[space], writer.kernel.buffers[memory].offset)


def address(writer: Writer, space: str, memory: int, offsets: Instruction, place: tuple[int, int]) -> str:
    """The address of an access's place."""
    register, constant = place
    words = writer.words(offsets)
    word = words[register if len(words) > 1 else 0]
    pointer, kind = SPACES[space], type_of(element_type(writer, space, memory))
    start = base(writer, space, memory)
    if word[0] != "%":
        return _moved(writer, start, kind, pointer, int(word) + constant)
    if space != GLOBAL and offsets.dtype is I64:
        word = writer.value(f"trunc i64 {word} to i32")
    index = kind_of(offsets) if space == GLOBAL else "i32"
    key = (space, memory, word)
    found = writer.cached(key)
    if found is None:
        found = writer.keep(key, writer.value(f"getelementptr {kind}, {pointer} {start}, {index} {word}"))
    return _moved(writer, found, kind, pointer, constant)


def _moved(writer: Writer, start: str, kind: str, pointer: str, constant: int) -> str:
    """An address so many elements further."""
    if not constant:
        return start
    key = ("moved", start, kind, constant)
    found = writer.cached(key)
    if found is not None:
        return found
    index = "i64" if pointer == SPACES[GLOBAL] else "i32"
    return writer.keep(key, writer.value(f"getelementptr {kind}, {pointer} {start}, {index} {constant}"))
