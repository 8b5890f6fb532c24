"""Boxes of tensors: where a panel of a block begins, as the copy engine counts."""

from __future__ import annotations

from gizml_tile.dtypes import I32, I64
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.memory import first_element, view_of
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import Bulk
from gizml_tile.nodes import ACCESSES, Node, View

# Beyond the end of every tensor that has boxes, and with room for a block in an I32.
_FAR = 1 << 30


def corner(x: Expansion, node: Node) -> list[Value]:
    """The first element of a read's or put's block along each of the tensor's axes, I32s.

    A block that begins further outside than an I32 can tell begins as far outside as it can.
    """
    view = view_of(node)
    coordinates = node.args[node.op == "put" :]
    first = len(coordinates) - len(view.block)
    found = []
    for axis, (coordinate, inside) in enumerate(zip(coordinates, _inside(x, node), strict=True)):
        start = x.index(coordinate)
        if axis >= first and view.mode == "at":
            start = first_element(x, coordinate, view.own[axis - first])
        if not inside:
            start = x.build.map("min", start, x.build.constant(_FAR, I64))
            if coordinate not in x.nonnegative:
                start = x.build.map("max", start, x.build.constant(-_FAR, I64))
        found.append(x.build.convert(start, I32))
    return found


def _inside(x: Expansion, node: Node) -> list[bool]:
    """Along which of the tensor's axes a block surely is inside it."""
    accesses = [each for each in x.program.body.walk() if each.op in ACCESSES]
    facts = x.plan.signature.facts[accesses.index(node)]
    before = len(node.args[node.op == "put" :]) - len(facts.inside)
    return [*[facts.leading] * before, *facts.inside]


def panel(view: View, rank: int, buffer: int, lines: int, width: int, span: int, axis: int = 1) -> Bulk:
    """A panel of a block: lines of a ``width`` along an axis of the tile.

    It has one element along the tensor's axes before the block's.
    """
    sides = (lines, width) if axis == 1 else (width, lines)
    return Bulk(view.tensor, buffer, (*[1] * (rank - 2), *sides), span, turned=axis == 0)
