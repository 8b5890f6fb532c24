"""Blocks of tensors that go to workgroup memory, around the registers or through them."""

from __future__ import annotations

from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.memory import (
    Moves,
    block_of,
    inside,
    leading_inside,
    offsets_of,
    view_of,
)
from gizml_tile.lowering.expand.places import crossed, holder
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, WORKGROUP, Access, Copy
from gizml_tile.lowering.planning.plan import Stage
from gizml_tile.nodes import Node

# Registers that go from a tensor to workgroup memory at once.
_AT_ONCE = 32


def copy_block(x: Expansion, node: Node, stage: Stage, buffer: int, base: Value) -> None:
    """Copy a read's block to workgroup memory asynchronously; what is outside the tensor lands as zeros."""
    view, moves = view_of(node), Moves.of(stage.layout.linear, stage.axis, stage.vector)
    source, from_places, mask = _from(x, node, stage, moves)
    to, to_places = _to(x, stage, moves, base)
    copy = Copy(view.tensor, buffer, moves.width, to_places, from_places)
    linear = stage.layout.linear
    alone = holder(x.build, linear.free_bits("lane"), linear.free_bits("warp"))
    x.build.when(alone, lambda: x.build.copy(copy, to, source, mask))


def load_block(x: Expansion, node: Node, stage: Stage) -> Value:
    """A read's block in the registers of its stage's layout, as it lies in the tensor."""
    view, moves = view_of(node), Moves.of(stage.layout.linear, stage.axis, stage.vector)
    offsets, places, mask = _from(x, node, stage, moves)
    access = Access(GLOBAL, view.tensor, moves.width, places, view.pad)
    loaded = x.build.load(access, offsets, stage.tile.dtype, mask)
    return x.build.pick(loaded, moves.found)


def move_block(x: Expansion, node: Node, stage: Stage, buffer: int, base: Value) -> None:
    """Copy a read's block to workgroup memory through registers, a few of them at once."""
    view, moves = view_of(node), Moves.of(stage.layout.linear, stage.axis, stage.vector)
    source, from_places, mask = _from(x, node, stage, moves)
    to, to_places = _to(x, stage, moves, base)
    linear = stage.layout.linear
    alone = holder(x.build, linear.free_bits("lane"), linear.free_bits("warp"))
    step = max(1, _AT_ONCE // moves.width)
    for first in range(0, len(from_places), step):
        part = slice(first, first + step)
        numbers = range(len(from_places))[part]
        memory = Access(GLOBAL, view.tensor, moves.width, from_places[part], view.pad)
        inside_part = mask if mask is None or mask.count == 1 else x.build.pick(mask, numbers)
        loaded = x.build.load(memory, source, stage.tile.dtype, inside_part)
        x.build.store(Access(WORKGROUP, buffer, moves.width, to_places[part]), loaded, to, alone)


def _from(
    x: Expansion, node: Node, stage: Stage, moves: Moves
) -> tuple[Value, tuple[tuple[int, int], ...], Value | None]:
    """Each access's offset in the tensor, and which of them are inside."""
    block = block_of(x, view_of(node), node.args)
    offsets, places = offsets_of(x, block, moves)
    leading = leading_inside(x, block) if stage.leading else None
    return offsets, places, x.build.both(leading, inside(x, block, moves, stage.masked))


def _to(x: Expansion, stage: Stage, moves: Moves, base: Value) -> tuple[Value, tuple[tuple[int, int], ...]]:
    """Each access's offset in workgroup memory."""
    tile, linear = stage.tile, moves.layout
    lane = [tile.offset(*basis) for basis in linear.bases("lane")]
    warp = [tile.offset(*basis) for basis in linear.bases("warp")]
    starts = [tile.offset(*place) for place in linear.table("register")[:: moves.width]]
    return crossed(x.build, lane, warp, starts, base)
