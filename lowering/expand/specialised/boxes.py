"""Boxes of tensors: where a panel of a block begins, as the copy engine counts."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.dtypes import I32, I64
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import Bulk
from gizml_tile.nodes import Node, View


def corner(x: Expansion, view: View, coordinates: Sequence[Node]) -> list[Value]:
    """The first element of a block along each of the tensor's axes, I32s."""
    first = len(coordinates) - len(view.block)
    found = []
    for axis, node in enumerate(coordinates):
        start = x.index(node)
        if axis >= first and view.mode == "at":
            start = x.build.mul(start, x.build.constant(view.block[axis - first], I64))
        found.append(x.build.convert(start, I32))
    return found


def panel(view: View, rank: int, buffer: int, rows: int, columns: int, span: int) -> Bulk:
    """A panel of a block: one element along the tensor's axes before the block's."""
    return Bulk(view.tensor, buffer, (*[1] * (rank - 2), rows, columns), span)
