"""Some registers of a tile: elementwise operations made for a part of it, where it is wanted."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.lowering.expand.elementwise import expand_elementwise
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.nodes import Node


def some_registers(
    x: Expansion, node: Node, layout: TileLayout, registers: Sequence[int], known: dict[Node, Value]
) -> Value:
    """Some registers of a tile in a layout; what is made in parts is computed for them now.

    ``known`` has what is there of other tiles, and gets what is made.
    """
    assert x.plan.specialised is not None
    if node in known:
        return known[node]
    if node in x.plan.specialised.deferred or node in x.plan.specialised.computed:
        with x.at(node):
            args = [some_registers(x, arg, layout, registers, known) for arg in node.args]
            known[node] = expand_elementwise(x.build, x.target, node, args)
    else:
        value = x.operand(node, layout)
        known[node] = value if value.count == 1 else x.build.pick(value, registers)
    return known[node]
