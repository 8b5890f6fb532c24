"""Products by groups of four warps of an operand that they compute from a block in workgroup memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gizml_tile.dtypes import F32, I32
from gizml_tile.layout.bits import combine
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.fragments import Fragments
from gizml_tile.lowering.expand.specialised.side import side
from gizml_tile.lowering.expand.specialised.some import some_registers
from gizml_tile.lowering.expand.storage import convert
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import GroupMatrix
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.nodes import Node

_ROWS = 64
_SETS = 2  # of registers for pieces


def expand_computed_product(x: Expansion, node: Node) -> Value:
    """``c + a @ b`` in the layout of the groups' result; it is there when this returns, or after the loop.

    While the unit multiplies a piece of k the next one is computed, in registers of its own, which the unit
    may still read for the piece before that. So all but the newest piece are waited for first, also those of
    the turn before:

        compute piece 0, begin it; compute piece 1, begin it; wait for piece 0, compute piece 2, begin it; ...
    """
    build, dot, depth = x.build, x.plan.dots[node], node.args[0].shape[1]
    assert x.plan.specialised is not None
    rows, columns = reversed(node.shape) if dot.turned else node.shape
    number = int(dot.turned)
    other, made = side(x, node.args[1 - number], number), _Operand.of(x, node, number)
    total = x.registers(node.args[2], dot.c) if len(node.args) == 3 else None
    if total is None:
        total = build.spread(build.constant(0.0, F32), dot.c.registers)
    flowing = x.loop in x.plan.specialised.flowing
    assert x.loop is not None or not flowing
    commits = x.plan.specialised.flowing[x.loop] if flowing else depth // dot.piece  # type: ignore[index]
    piece = min(dot.piece, other.piece)
    for number, held in enumerate(made.pieces(min(commits, _SETS) - 1)):
        build.emit("group_fence")
        each = held.count * piece // dot.piece
        for first in range(0, dot.piece, piece):
            start = first * held.count // dot.piece
            a = build.pick(held, range(start, start + each))
            b = build.add(other.base, build.constant(other.along(number * dot.piece + first), I32))
            matrix = GroupMatrix(
                columns, piece, dot.given, None, other.operand, m=rows // dot.groups // _ROWS
            )
            total = build.group_mma(matrix, a, b, total)
        build.emit("group_commit")
    if not flowing:
        build.emit("group_wait", attr=0)
    return total


@dataclass(frozen=True, slots=True)
class _Operand:
    """A computed operand in the layout of the product's fragments, made a piece of k at a time."""

    x: Expansion
    product: Node
    node: Node
    layout: TileLayout
    axis: int

    @classmethod
    def of(cls, x: Expansion, product: Node, number: int) -> _Operand:
        """The left operand of a product, or with 1 the right one."""
        dot, found = x.plan.dots[product], operand(product.args[number])
        layout = (dot.a, dot.b)[number]
        axis = 1 - number
        if found.transposed:
            layout, axis = layout.transposed(), 1 - axis
        return cls(x, product, found.node, layout, axis)

    def pieces(self, left: int) -> Iterator[Value]:
        """The registers of one piece after the other, when all but so many groups of products have ended.

        The blocks' next elements are on their way before.
        """
        x, dot = self.x, self.x.plan.dots[self.product]
        count = self.layout.linear.shape[self.axis] // dot.piece
        reads = self._reads(dot.piece, count)
        places = self.layout.linear.table("register")
        ahead = {node: read.read(0) for node, read in reads.items()}
        for number in range(count):
            known = ahead
            if number + 1 < count:
                ahead = {node: read.read(number + 1) for node, read in reads.items()}
            x.build.emit("group_wait", attr=left)
            chosen = [
                register
                for register, place in enumerate(places)
                if place[self.axis] // dot.piece == number
            ]
            value = some_registers(x, self.node, self.layout, chosen, known)
            value = x.build.spread(value, len(chosen))
            yield convert(x.build, x.target, value, dot.given[0])

    def _reads(self, piece: int, count: int) -> dict[Node, Fragments]:
        """The accesses of each block in workgroup memory, piece by piece."""
        x, linear = self.x, self.layout.linear
        bases = linear.bases("register")
        own = linear.with_bases("register", [basis for basis in bases if basis[self.axis] < piece])
        steps = [basis for basis in bases if basis[self.axis] >= piece]
        found = {}
        for node in self._blocks(self.node):
            shared = x.shared(node)
            offsets = [shared.tile.offset(*basis) for basis in steps]
            starts = [combine(offsets, number) for number in range(count)]
            found[node] = Fragments(x, shared, own, starts)
        return found

    def _blocks(self, node: Node) -> Iterator[Node]:
        assert self.x.plan.specialised is not None
        if node in self.x.plan.specialised.computed:
            if node.op == "read":
                yield node
            for arg in node.args:
                yield from self._blocks(arg)
