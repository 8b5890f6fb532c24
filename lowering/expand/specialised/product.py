"""Products by groups of four warps, asynchronously, from blocks in workgroup memory."""

from __future__ import annotations

from gizml_tile.dtypes import F32, I32
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.specialised.computed import expand_computed_product
from gizml_tile.lowering.expand.specialised.promoted import Promoted
from gizml_tile.lowering.expand.specialised.side import side
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import GroupMatrix
from gizml_tile.lowering.planning.grown import depth_of
from gizml_tile.nodes import Node

ROWS = 64
GROUP_WARPS = 4


def expand_group_product(x: Expansion, node: Node) -> Value:
    """``c + a @ b`` in the layout of the groups' result; it is there when this returns, or after the loop."""
    build, dot = x.build, x.plan.dots[node]
    if dot.piece:
        return expand_computed_product(x, node)
    (rows, columns), depth = node.shape, depth_of(node)
    left, right = side(x, node.args[0], 1), side(x, node.args[1], 0)
    if dot.turned:
        rows, columns, left, right = columns, rows, right, left
    total = x.registers(node.args[2], dot.c) if len(node.args) == 3 else None
    group = build.map("ushr", build.warp(), build.constant(GROUP_WARPS.bit_length() - 1, I32))
    rows //= dot.groups
    own = build.mul(group, build.constant(left.across(rows), I32))
    if dot.promotion is not None:
        return Promoted(x, node, dot.promotion, left, right, own, total).expand()
    if total is None:
        zero = build.constant(0.0, F32) if dot.operands[0].is_float else build.constant(0, I32)
        total = build.spread(zero, dot.c.registers)
    piece = min(left.piece, right.piece, depth)
    build.emit("group_fence")
    for first in range(0, depth, piece):
        size = min(piece, depth - first)
        matrix = GroupMatrix(columns, size, dot.given, left.operand, right.operand, m=rows // ROWS)
        a = build.add(build.add(left.base, own), build.constant(left.along(first), I32))
        b = build.add(right.base, build.constant(right.along(first), I32))
        total = build.group_mma(matrix, a, b, total)
    build.emit("group_commit")
    assert x.plan.specialised is not None
    if x.loop not in x.plan.specialised.flowing:
        build.emit("group_wait", attr=0)
    return total
