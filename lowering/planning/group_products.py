"""Products by groups of four warps: who has which elements of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gizml_tile.layout import Linear
from gizml_tile.layout.bits import bit_length
from gizml_tile.lowering.planning.boxes import is_once
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.lowering.planning.plan import UNIFORM, Candidate, Choice, Dot, TileLayout
from gizml_tile.nodes import Node

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

_ROWS = 64  # of a product by four warps


def group_dot(state: Planning, node: Node) -> Dot:
    """How groups of four warps make a product: PTX ISA, "wgmma: register fragments"."""
    assert state.specialised is not None
    groups = state.specialised.groups
    rows, columns = node.shape
    left = operand(node.args[0]).node
    dtype = left.dtype
    assert dtype is not None
    a, told = UNIFORM, "operands in workgroup memory"
    if left.op != "read" and not is_once(state, left):
        # Pairs of 8 x 8 pieces of a result lie as the left operand of a product wants them.
        a, told = _group_layout(groups, rows, left.shape[1]), "the left operand in registers"
    made = Dot(None, dtype, (4 * groups, 1), a, UNIFORM, _group_layout(groups, rows, columns), groups)
    told = f"asynchronous, 64 x {columns} by each four warps, {told}"
    state.chose(node, "dot", Choice((Candidate("group_matrix", True, told),), "group_matrix"))
    return made


def _group_layout(groups: int, rows: int, columns: int) -> TileLayout:
    across = [(0, 8 << bit) for bit in range(bit_length(columns // 8))]
    own = rows // groups
    warp = [(16, 0), (32, 0), *((own << bit, 0) for bit in range(bit_length(groups)))]
    lane = [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]
    down = [(_ROWS << bit, 0) for bit in range(bit_length(own // _ROWS))]
    linear = Linear.of((rows, columns), register=[(0, 1), (8, 0), *across, *down], lane=lane, warp=warp)
    return TileLayout(f"result of {groups} x 4 warps" if groups > 1 else "result of 4 warps", linear)
