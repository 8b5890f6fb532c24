"""The plan of a program as text: what is fused, kept, packed, and why."""

from __future__ import annotations

from collections.abc import Iterator

from gizml_tile.lowering.emit.cpu.packing import Machine, Pack, Packing, lies_ready
from gizml_tile.lowering.emit.cpu.plan import plan
from gizml_tile.lowering.emit.cpu.schedule import (
    AlongItem,
    Buffer,
    CondItem,
    DeepItem,
    Group,
    LoopItem,
    RegionPlan,
    Task,
)
from gizml_tile.lowering.tile_passes.pad import grown_blocks
from gizml_tile.nodes import TileProgram

_MODES = {
    "fma": "F32 fused multiply-add",
    "fma_f64": "F64 fused multiply-add",
    "bf16_dot": "BF16 pairs",
    "amx": "the BF16 matrix unit",
    "amx_ss": "the I8 matrix unit",
    "amx_su": "the I8 x U8 matrix unit",
    "amx_us": "the U8 x I8 matrix unit",
    "amx_uu": "the U8 matrix unit",
    "int": "I32 multiply and add",
    "i16_dot": "I16 pairs",
    "i8_dot_ss": "fours of I8",
    "i8_dot_su": "fours of I8 x U8",
    "i8_dot_us": "fours of U8 x I8",
    "i8_dot_uu": "fours of U8",
}


def explain_plan(program: TileProgram, machine: Machine, *, may_alias: bool = False) -> tuple[str, ...]:
    """The plan of a simplified program, one decision a line."""
    body, packs = plan(program, machine, may_alias=may_alias)
    lines = [f"vectors of {machine.vector} F32 lanes; programs of the grid run on all threads"]
    lines.extend(grown_blocks(program))
    lines.extend(_region(body, ""))
    for pack in packs:
        lines.append(_pack(pack, program))
    return tuple(lines)


def _region(plan: RegionPlan, indent: str) -> Iterator[str]:
    for number, item in enumerate(plan.items):
        for entry in plan.ready[number]:
            if isinstance(entry, Pack):
                yield f"{indent}operand {entry.number} is found packed"
        if isinstance(item, Group):
            if number and plan.stored_by(number - 1) is item:
                yield f"{indent}each of its blocks, as soon as it is whole:"
            else:
                yield f"{indent}rows of {item.rows}, {item.block_rows} at a time, stay in the first caches:"
            for step in item.steps:
                shared = ", ".join(_task(task) for task in step.tasks)
                past = ", past the caches where the tensors exceed these" if step.streams else ""
                yield f"{indent}  one pass: {shared}{past}"
        elif isinstance(item, DeepItem):
            for term in item.terms:
                shape = term.left.packing.shape
                yield (
                    f"{indent}one product of the loop's whole depth, {shape.rows} x {shape.columns} by "
                    f"{_MODES[shape.mode]}, {shape.kc} steps of k at a time: operands "
                    f"{term.left.number} and {term.right.number}{_line(item.node.place)}"
                )
        elif isinstance(item, AlongItem):
            rows, columns = item.node.args[0].shape
            yield f"{indent}{item.node.op} [{rows}, {columns}] along its axis{_line(item.node.place)}"
        elif isinstance(item, LoopItem):
            kept = sum(1 for carried in item.carried if carried is not None)
            yield f"{indent}loop, {kept} carried tiles in two homes each{_line(item.node.place)}:"
            yield from _region(item.body, indent + "  ")
        elif isinstance(item, CondItem):
            for arm, name in zip(item.arms, ("then", "else"), strict=True):
                yield f"{indent}{name}{_line(item.node.place)}:"
                yield from _region(arm, indent + "  ")


def _task(task: Task) -> str:
    names = {"store": "keep", "column_reduce": task.node.op, "reduce": task.node.op, "turn": "transpose"}
    text = f"{names.get(task.kind, task.kind)} [{task.rows}, {task.columns}]"
    if task.kind == "store":
        text += f" {task.node.op}"
    if task.kind == "dot":
        text += f" by {_MODES[task.shape.mode]}"
    return text + _home(task.buffer) + _line(task.node.place)


def _home(buffer: Buffer | None) -> str:
    if buffer is None:
        return ""
    home = buffer.home()
    return " (all rows)" if home.full and home.rows > 1 else ""


def _pack(pack: Pack, program: TileProgram) -> str:
    packing: Packing = pack.packing
    in_place = pack.is_deep and packing.side == "left" and lies_ready(packing, program.tensors)
    bytes_ = f"{packing.chunk_bytes} bytes a chunk of {packing.shape.kc} steps of k"
    where = (
        "once for the launch where enough programs use a block, else by each program"
        if pack.ranged
        else "by each program, for its blocks cannot be listed before the launch"
    )
    turned = ", transposed on the way" if packing.turned else ""
    first = "read in place where its rows are contiguous, near and inside, else " if in_place else ""
    return f"operand {pack.number}, {packing.side}: {first}packed {where}; {bytes_}{turned}"


def _line(place: object) -> str:
    return f" [{place}]" if place is not None else ""
