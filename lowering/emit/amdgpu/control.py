"""Leaves, loops and branches."""

from __future__ import annotations

from gizml_tile.lowering.emit.amdgpu.writer import Rule, Words, Writer, kind_of, phi
from gizml_tile.lowering.kernel_ir.instructions import Block, Instruction, Parameter

_AXES = "xyz"
# A loop is kept from being unrolled where its turns wait for others, or where one turn has so many
# registers' worth of instructions that there is nothing left to gain.
_LARGE = 256
# Where the launch's description has the grid's sizes, in threads (HSA's kernel dispatch packet).
_GRID_SIZES = (12, 16, 20)


# Leaves


def _thread(writer: Writer) -> str:
    return writer.leaf("llvm.amdgcn.workitem.id.x")


def _leaf(writer: Writer, instruction: Instruction) -> Words:
    lanes = writer.kernel.target.facts.lanes
    if instruction.op == "thread":
        return (_thread(writer),)
    if instruction.op == "lane":
        return (writer.once(("lane",), f"and i32 {_thread(writer)}, {lanes - 1}"),)
    if instruction.op == "warp":
        return (_warp(writer, lanes),)
    axis = instruction.attr
    assert isinstance(axis, int)
    if instruction.op == "workgroup":
        return (writer.leaf(f"llvm.amdgcn.workgroup.id.{_AXES[axis]}"),)
    return (_workgroups(writer, axis),)


def _warp(writer: Writer, lanes: int) -> str:
    """Through the first lane, so that LLVM knows that all lanes have the same number."""
    name = "llvm.amdgcn.readfirstlane"
    writer.declare(name, "i32")
    shift = f"lshr i32 {_thread(writer)}, {lanes.bit_length() - 1}"
    return writer.once(("warp",), shift, f"call i32 @{name}(i32 {{}})")


def _workgroups(writer: Writer, axis: int) -> str:
    packet, threads = writer.leaf("llvm.amdgcn.dispatch.ptr"), writer.kernel.threads if axis == 0 else 1
    return writer.once(
        ("workgroups", axis),
        f"getelementptr i8, ptr addrspace(4) {packet}, i64 {_GRID_SIZES[axis]}",
        "load i32, ptr addrspace(4) {}, align 4",
        f"udiv i32 {{}}, {threads}",
    )


def _parameter(writer: Writer, instruction: Instruction) -> Words:
    assert isinstance(instruction.attr, Parameter) and instruction.dtype is not None
    return (writer.parameter(instruction.attr, instruction.dtype),)


# Structure


def _loop(writer: Writer, instruction: Instruction) -> Words:
    """A block that decides whether there is a turn, with what is carried, and the turn's own blocks."""
    start, stop, step, *inits = instruction.args
    (block,) = instruction.blocks
    firsts = [writer.words(start)] + [
        writer.stretched(init, param.count) for init, param in zip(inits, block.params[1:], strict=True)
    ]
    before = writer.label
    again, turn, end = (writer.fresh_label(kind) for kind in ("loop", "turn", "end"))
    writer.jump(again)
    writer.start(again)
    place = len(writer.lines)
    for param in block.params:
        writer.values[param] = tuple([writer.name() for _ in range(param.count)])
    homes = [writer.values[param] for param in block.params]
    counter, kind = homes[0][0], kind_of(block.params[0])
    words = writer.words(stop)[0], writer.words(step)[0]
    goes = _in_range(writer, kind, counter, *words)
    if isinstance(instruction.attr, int):
        flag = block.params[1 + instruction.attr]
        more = writer.value(f"icmp ne {kind_of(flag)} {writer.words(flag)[0]}, 0")
        goes = writer.value(f"and i1 {goes}, {more}")
    writer.fork(goes, turn, end)
    writer.start(turn)
    writer.block(block)
    following = writer.value(f"add {kind} {counter}, {words[1]}")
    after = writer.label
    writer.jump(again, note=writer.locations.rolled() if _stays_rolled(block) else "")
    lasts = [(following,), *(writer.words(result) for result in block.results)]
    phis = [
        f"  {name} = {phi(kind_of(param), [(first, before), (last, after)])}"
        for param, *columns in zip(block.params, homes, firsts, lasts, strict=True)
        for name, first, last in zip(*columns, strict=True)
    ]
    writer.lines.insert_all(place, phis)
    writer.start(end)
    writer.results[instruction] = tuple(homes[1:])
    return ()


def _in_range(writer: Writer, kind: str, number: str, stop: str, step: str) -> str:
    """Whether a counter has not come to its end. A step of zero is there from the start."""
    if step[0] != "%":
        relation = "slt" if int(step) > 0 else "sgt"
        return writer.value(f"icmp {relation} {kind} {number}, {stop}")
    sides = []
    for relation, direction in (("slt", "sgt"), ("sgt", "slt")):
        inside = writer.value(f"icmp {relation} {kind} {number}, {stop}")
        way = writer.value(f"icmp {direction} {kind} {step}, 0")
        sides.append(writer.value(f"and i1 {inside}, {way}"))
    return writer.value(f"or i1 {sides[0]}, {sides[1]}")


def _stays_rolled(block: Block) -> bool:
    size = 0
    for instruction in block.walk():
        size += max(instruction.count, 1)
        if instruction.op == "barrier" or size > _LARGE:
            return True
    return False


def _branch(writer: Writer, instruction: Instruction) -> Words:
    condition = writer.words(instruction.args[0])[0]
    labels = [writer.fresh_label(kind) for kind in ("then", "otherwise")]
    end = writer.fresh_label("end")
    writer.fork(condition, *labels)
    arms: list[tuple[list[Words], str]] = []
    for label, block in zip(labels, instruction.blocks, strict=True):
        writer.start(label)
        writer.block(block)
        arms.append(([writer.words(result) for result in block.results], writer.label))
        writer.jump(end)
    writer.start(end)
    (yes, after_yes), (no, after_no) = arms
    writer.results[instruction] = tuple(
        [
            tuple(
                [
                    writer.phi(kind_of(value), [(one, after_yes), (other, after_no)])
                    for one, other in zip(ones, others, strict=True)
                ]
            )
            for value, ones, others in zip(instruction.blocks[0].results, yes, no, strict=True)
        ]
    )
    return ()


def _when(writer: Writer, instruction: Instruction) -> Words:
    end = writer.enter(writer.words(instruction.args[0])[0])
    writer.block(instruction.blocks[0])
    writer.leave(end)
    return ()


def _result(writer: Writer, instruction: Instruction) -> Words:
    assert isinstance(instruction.attr, int)
    return writer.results[instruction.args[0]][instruction.attr]


RULES: dict[str, Rule] = {
    **dict.fromkeys("thread lane warp workgroup workgroups".split(), _leaf),
    "parameter": _parameter,
    "loop": _loop,
    "branch": _branch,
    "when": _when,
    "result": _result,
}
