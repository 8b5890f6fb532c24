"""Accesses that nothing comes between: functions on atomic words, and compare-and-exchange."""

from __future__ import annotations

from gizml_tile.dtypes import F32, I32, U32
from gizml_tile.lowering.emit.metal.memory import places_of, sum_text
from gizml_tile.lowering.emit.metal.spelling import type_name
from gizml_tile.lowering.emit.metal.words import Words, spelled, without_brackets
from gizml_tile.lowering.emit.metal.writer import Rule, Writer
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access, Instruction

_WORDS = {F32: "atomic_float", I32: "atomic_int", U32: "atomic_uint"}


def _atomic(writer: Writer, instruction: Instruction) -> Words:
    access, (value, offsets, *masks) = instruction.attr, instruction.args
    assert isinstance(access, Access) and value.dtype is not None and access.width == 1
    within = access.space == WORKGROUP
    name, combine = (writer.buffers if within else writer.tensors)[access.memory], access.combine
    if value.dtype.bits == 64:
        assert combine == "add", combine
        text = f"{writer.helper('add_long')}((device long*)({name} + {{}}), long({{}}));"
    else:
        place = f"({'threadgroup' if within else 'device'} {_WORDS[value.dtype]}*)({name} + {{}})"
        text = f"atomic_fetch_{combine}_explicit({place}, {{}}, memory_order_relaxed);"
    words = writer.stretched(value, len(access.places))

    def add(element: str, offset: str, constant: str, *mask: str) -> str:
        line = text.format(sum_text(offset, constant), element)
        return f"if ({without_brackets(mask[0])}) {line}" if mask else line

    writer.each([words, *places_of(writer, access, offsets, masks)], add)
    return ()


def _update(writer: Writer, instruction: Instruction) -> Words:
    access, (offset, *masks), (block,) = instruction.attr, instruction.args, instruction.blocks
    assert isinstance(access, Access)
    param, result = block.params[0], block.results[0]
    assert param.dtype is not None and param.dtype.bits <= 32
    narrow, type = param.dtype.bits < 32, type_name(param.dtype, writer.target)
    columns = places_of(writer, access, offset, masks)
    texts = [str(each[0]) if isinstance(each[0], int) else spelled(each[0]) for each in columns]
    first, constant, *mask = texts
    place = f"{writer.tensors[access.memory]} + {sum_text(first, constant)}"
    word, seen, old = (writer.numbered(stem) for stem in ("word", "seen", "old"))
    writer.line(f"if ({without_brackets(mask[0])}) {{" if mask else "{")
    with writer.indented():
        where = f"{writer.helper('word_of')}({place})" if narrow else f"(device atomic_uint*)({place})"
        writer.line(f"device atomic_uint* {word} = {where};")
        shift = writer.numbered("shift") if narrow else ""
        if narrow:
            writer.line(f"const uint {shift} = {writer.helper('shift_in_word')}({place});")
        writer.line(f"uint {seen} = atomic_load_explicit({word}, memory_order_relaxed);")
        writer.line("while (true) {")
        with writer.loop():
            held = f"ushort({seen} >> {shift})" if narrow else seen
            writer.line(f"const {type} {old} = as_type<{type}>({held});")
            writer.values[param] = (old,)
            writer.block(block)
            new = f"as_type<{'ushort' if narrow else 'uint'}>({writer.text(result)})"
            if narrow:
                new = f"({seen} & ~(0xffffu << {shift})) | uint({new}) << {shift}"
            order = "memory_order_relaxed"
            swap = f"atomic_compare_exchange_weak_explicit({word}, &{seen}, {new}, {order}, {order})"
            writer.line(f"if ({swap}) break;")
        writer.line("}")
    writer.line("}")
    return ()


RULES: dict[str, Rule] = {"atomic": _atomic, "update": _update}
