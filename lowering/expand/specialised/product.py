"""Products by groups of four warps, asynchronously, from blocks in workgroup memory."""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.dtypes import F32, I32, DType
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.sources import Shared
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import GroupMatrix, Operand
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.lowering.planning.panels import span_of
from gizml_tile.lowering.planning.plan import Promotion
from gizml_tile.nodes import Node

ROWS = 64
GROUP_WARPS, GROUP_THREADS = 4, 128
# Rows of a span that the unit takes together, and what it ignores where a distance does not matter.
_ROWS_TOGETHER = 8
_NO_DISTANCE = 16


def expand_group_product(x: Expansion, node: Node) -> Value:
    """``c + a @ b`` in the layout of the groups' result; it is there when this returns, or after the loop."""
    build, dot = x.build, x.plan.dots[node]
    (rows, columns), depth = node.shape, node.args[0].shape[1]
    left, right = side(x, node.args[0], 1), side(x, node.args[1], 0)
    if dot.turned:
        rows, columns, left, right = columns, rows, right, left
    total = x.registers(node.args[2], dot.c) if len(node.args) == 3 else None
    group = build.map("ushr", build.warp(), build.constant(GROUP_WARPS.bit_length() - 1, I32))
    rows //= dot.groups
    own = build.mul(group, build.constant(left.across(rows), I32))
    if dot.promotion is not None:
        return _in_parts(x, node, dot.promotion, left, right, own, total)
    if total is None:
        total = _zeros(x, dot.operand, dot.c.registers)
    piece = min(left.piece, right.piece, depth)
    build.emit("group_fence")
    for first in range(0, depth, piece):
        matrix = GroupMatrix(columns, piece, dot.operand, left.operand, right.operand, m=rows // ROWS)
        a = build.add(build.add(left.base, own), build.constant(left.along(first), I32))
        b = build.add(right.base, build.constant(right.along(first), I32))
        total = build.group_mma(matrix, a, b, total)
    assert x.plan.specialised is not None
    if x.loop not in x.plan.specialised.flowing:
        build.emit("group_commit")
        build.emit("group_wait", attr=0)
    return total


def _zeros(x: Expansion, operand: DType, count: int) -> Value:
    zero = x.build.constant(0.0, F32) if operand.is_float else x.build.constant(0, I32)
    return x.build.spread(zero, count)


def _in_parts(
    x: Expansion,
    node: Node,
    promotion: Promotion,
    left: Side,
    right: Side,
    own: Value,
    total: Value | None,
) -> Value:
    """A product of whose sums registers add one part after the other to the total.

    What other groups multiply meanwhile hides the additions.
    """
    build, (rows, columns) = x.build, node.shape
    each = ROWS * promotion.columns // GROUP_THREADS
    again = _zeros(x, x.plan.dots[node].operand, each)
    done: list[Value] = []
    for down in range(0, rows // x.plan.dots[node].groups, ROWS):
        for across in range(0, columns, promotion.columns):
            first = each * len(done)
            part = None if total is None else build.pick(total, range(first, first + each))
            for start in range(0, node.args[0].shape[1], promotion.depth):
                a = build.add(build.add(left.base, own), build.constant(left.across(down), I32))
                b = build.add(right.base, build.constant(right.across(across), I32))
                sums = _part(x, node, promotion, (left, a), (right, b), start, again)
                again = sums if promotion.one_set else again
                part = sums if part is None else build.add(part, sums)
            assert part is not None
            done.append(part)
    return build.join(done)


def _part(
    x: Expansion,
    node: Node,
    promotion: Promotion,
    left: tuple[Side, Value],
    right: tuple[Side, Value],
    start: int,
    sums: Value,
) -> Value:
    """The unit's sums of the elements of k from ``start`` on, with each side's first row (or column).

    They may take over the registers of ``sums``.
    """
    build, operand = x.build, x.plan.dots[node].operand
    piece = min(left[0].piece, right[0].piece, promotion.depth)
    build.emit("group_fence")
    for first in range(start, start + promotion.depth, piece):
        a, b = (build.add(base, build.constant(side.along(first), I32)) for side, base in (left, right))
        matrix = GroupMatrix(
            promotion.columns, piece, operand, left[0].operand, right[0].operand, fresh=first == start
        )
        sums = build.group_mma(matrix, a, b, sums)
    build.emit("group_commit")
    build.emit("group_wait", attr=0)
    return sums


@dataclass(frozen=True, slots=True)
class Side:
    """An operand: ``piece`` is how much of k one instruction reaches, in elements.

    ``width`` elements of a row are in a panel, and ``lines`` rows; ``by_k`` tells that rows run along k.
    """

    operand: Operand
    base: Value
    piece: int
    width: int
    lines: int
    by_k: bool

    def along(self, k: int) -> int:
        """The offset of a step of k: a multiple of the piece, or of 32 bytes inside a row."""
        if self.by_k:
            return k // self.width * self.lines * self.width + k % self.width
        return k * self.width

    def across(self, number: int) -> int:
        """The offset of a row of a (or a column of b), a multiple of 64."""
        if self.by_k:
            return number * self.width
        return number // self.width * self.lines * self.width


def side(x: Expansion, arg: Node, k_axis: int) -> Side:
    found = operand(arg)
    shared: Shared = x.shared(found.node)
    # What is computed and stays is in rows.
    fast = x.plan.stages[found.node].axis if found.node in x.plan.stages else 1
    by_k = (k_axis == fast) != found.transposed
    lines, extent = found.node.shape[1 - fast], found.node.shape[fast]
    dtype = shared.tile.dtype
    span = span_of(dtype, extent)
    stride = _ROWS_TOGETHER * span
    assert shared.base is not None
    if by_k:
        described = Operand(shared.buffer, span, _NO_DISTANCE, stride)
    else:
        described = Operand(shared.buffer, span, lines * span, stride, transposed=True)
    width = span // dtype.bytes
    return Side(described, shared.base, width if by_k else lines, width, lines, by_k)
