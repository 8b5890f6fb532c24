"""Accesses that nothing comes between: to tensors in the scope of the device, to buffers of the workgroup."""

from __future__ import annotations

from gizml_tile.lowering.emit.amdgpu.addresses import SPACES, address
from gizml_tile.lowering.emit.amdgpu.memory import guards_of
from gizml_tile.lowering.emit.amdgpu.writer import Rule, Words, Writer, kind_of, phi
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Instruction

_SCOPE, _WITHIN = 'syncscope("agent") monotonic', 'syncscope("workgroup") monotonic'
# Tensors lie in the device's own memory, and its unit for F32 may take subnormals for 0.
_NOTES = ("amdgpu.no.fine.grained.memory", "amdgpu.no.remote.memory", "amdgpu.ignore.denormal.mode")


def _atomic(writer: Writer, instruction: Instruction) -> Words:
    access, (value, offsets, *masks) = instruction.attr, instruction.args
    assert isinstance(access, Access) and value.dtype is not None and access.width == 1
    words = writer.stretched(value, len(access.places))
    kind, combine = kind_of(value), access.combine
    if value.dtype.is_float:
        combine = "fadd"
    elif value.dtype.is_unsigned and combine != "add":
        combine = f"u{combine}"
    notes, scope = "", _WITHIN
    if access.space == GLOBAL:
        empty = writer.locations.add("!{}")
        notes, scope = "".join(f", !{note} !{empty}" for note in _NOTES), _SCOPE
    guards = guards_of(writer, masks, access)
    for guard, word, place in zip(guards, words, access.places, strict=True):
        end = writer.enter(guard) if guard else ""
        where = address(writer, access.space, access.memory, offsets, place)
        pointer = SPACES[access.space]
        writer.value(f"atomicrmw {combine} {pointer} {where}, {kind} {word} {scope}{notes}")
        if end:
            writer.leave(end)
    return ()


def _update(writer: Writer, instruction: Instruction) -> Words:
    access, (offset, *masks), (block,) = instruction.attr, instruction.args, instruction.blocks
    assert isinstance(access, Access)
    param, result = block.params[0], block.results[0]
    assert param.dtype is not None
    kind, bits = kind_of(param), f"i{param.dtype.bits}"
    end = writer.enter(writer.words(masks[0])[0]) if masks else ""
    where = f"{SPACES[access.space]} {address(writer, access.space, access.memory, offset, access.places[0])}"
    first = writer.value(f"load atomic {bits}, {where} {_SCOPE}, align {param.dtype.bytes}")
    before, again, after = writer.label, writer.fresh_label("again"), writer.fresh_label("swapped")
    writer.jump(again)
    writer.start(again)
    place = len(writer.lines)
    old = writer.name()
    writer.values[param] = (_cast(writer, old, bits, kind),)
    writer.block(block)
    new = _cast(writer, writer.words(result)[0], kind, bits)
    pair = writer.value(f"cmpxchg {where}, {bits} {old}, {bits} {new} {_SCOPE} monotonic")
    found = writer.value(f"extractvalue {{ {bits}, i1 }} {pair}, 0")
    done = writer.value(f"extractvalue {{ {bits}, i1 }} {pair}, 1")
    writer.lines.insert_all(place, [f"  {old} = {phi(bits, [(first, before), (found, writer.label)])}"])
    writer.fork(done, after, again)
    writer.start(after)
    if end:
        writer.leave(end)
    return ()


def _cast(writer: Writer, word: str, source: str, target: str) -> str:
    return word if source == target else writer.value(f"bitcast {source} {word} to {target}")


RULES: dict[str, Rule] = {"atomic": _atomic, "update": _update}
