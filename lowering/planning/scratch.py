"""Workgroup memory that products take for operands which are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gizml_tile.layout import Renaming, Unchanged, conversion
from gizml_tile.lowering.planning.operands import operand, used_by_products_only
from gizml_tile.lowering.planning.plan import Dot, TileLayout
from gizml_tile.nodes import Node

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning


def scratch_bytes(state: Planning, loop: Node | None) -> int:
    """The most bytes that one product of a loop takes for its operands, beside the blocks that are staged."""
    if loop is None:
        return 0
    inside = [node for node in loop.regions[0].walk() if node in state.dots]
    return max((_of_product(state, node) for node in inside), default=0)


def _of_product(state: Planning, node: Node) -> int:
    dot = state.dots[node]
    total = 0
    for arg, layout in zip(node.args[:2], (dot.a, dot.b), strict=True):
        found = operand(arg).node
        if _is_buffered(state, dot, arg, layout):
            assert found.dtype is not None
            total += found.shape[0] * found.shape[1] * found.dtype.bytes
    return total


def _is_buffered(state: Planning, dot: Dot, arg: Node, layout: TileLayout) -> bool:
    """Whether an operand is neither a block in workgroup memory nor in the fragments' registers."""
    found = operand(arg)
    if found.is_block and used_by_products_only(found.node, state.uses):
        return False
    if dot.atom is None:
        return True
    if found.node not in state.classes:
        return False  # made in the fragments
    home = state.layouts[state.classes[found.node]]
    there = home.transposed() if found.transposed else home
    assert found.node.dtype is not None
    way = conversion(there.linear, layout.linear, found.node.dtype.bytes, banks=state.target.facts.banks)
    return not isinstance(way, Unchanged | Renaming)
