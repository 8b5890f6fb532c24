"""Products by a unit whose sums keep few bits: registers add the sums of one part of k after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gizml_tile.dtypes import F32, I32, I64
from gizml_tile.lowering.expand.dot import by_halves
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.sources import Shared
from gizml_tile.lowering.expand.specialised.ring import GROUP_BARRIER, GROUP_THREADS
from gizml_tile.lowering.expand.specialised.side import Side
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import GroupMatrix
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.lowering.planning.plan import Promotion
from gizml_tile.nodes import Node

_ROWS = 64


@dataclass(frozen=True, slots=True)
class Promoted:
    """A product in pieces of 64 rows of a group, from offset ``own`` of ``left``, and some columns."""

    x: Expansion
    node: Node
    promotion: Promotion
    left: Side
    right: Side
    own: Value
    total: Value | None

    def expand(self) -> Value:
        """The product by the unit where the loop's turns are enough, and else by atoms that sum in F32."""
        if self.promotion.otherwise is None:
            return self._by_unit()
        (total,) = self.x.build.branch(self._is_long(), lambda: [self._by_unit()], lambda: [self._by_atoms()])
        return total

    def _is_long(self) -> Value:
        """Whether all turns of the loop have the elements of k that make up for what the unit loses."""
        build, loop = self.x.build, self.x.loop
        assert loop is not None
        start, stop, step = (self.x.index(arg) for arg in loop.args[:3])
        assert isinstance(step.attr, int)
        way = build.sub(stop, start) if step.attr > 0 else build.sub(start, stop)
        turns = -(-self.promotion.least // self._depth)
        return build.map("ge", way, build.constant(turns * abs(step.attr), I64))

    @property
    def _depth(self) -> int:
        return self.node.args[0].shape[1]

    def _pieces(self, registers: int) -> Iterator[tuple[int, int, Value | None]]:
        """The first row and column of pieces of so many registers, and what each adds to."""
        build, (rows, columns) = self.x.build, self.node.shape
        first = 0
        for down in range(0, rows // self.x.plan.dots[self.node].groups, _ROWS):
            for across in range(0, columns, registers * GROUP_THREADS // _ROWS):
                last = first + registers
                yield down, across, None if self.total is None else build.pick(self.total, range(first, last))
                first = last

    def _by_unit(self) -> Value:
        """While the unit makes one part's sums, registers add those of the part before.

        With one set of registers they add before the unit goes on, and what other groups multiply hides it.
        """
        build, registers = self.x.build, _ROWS * self.promotion.columns // GROUP_THREADS
        made = build.spread(build.constant(0.0, F32), registers)
        own = build.add(self.left.base, self.own)
        totals: list[Value | None] = []
        begun: list[tuple[int, Value]] = []
        for down, across, total in self._pieces(registers):
            totals.append(total)
            a = build.add(own, build.constant(self.left.across(down), I32))
            b = build.add(self.right.base, build.constant(self.right.across(across), I32))
            for start in range(0, self._depth, self.promotion.depth):
                sums = self._begin(a, b, start, made)
                begun.append((len(totals) - 1, sums))
                if self.promotion.one_set:
                    made = sums
                self._add(totals, begun, 0 if self.promotion.one_set else 1)
        self._add(totals, begun, 0)
        return build.join([total for total in totals if total is not None])

    def _begin(self, a: Value, b: Value, start: int, made: Value) -> Value:
        """The unit's sums of elements of k from ``start`` on, maybe in the registers of ``made``."""
        build, left, right = self.x.build, self.left, self.right
        columns, depth = self.promotion.columns, self.promotion.depth
        dtypes = self.x.plan.dots[self.node].given
        piece = min(left.piece, right.piece, depth)
        build.emit("group_fence")
        for first in range(start, start + depth, piece):
            matrix = GroupMatrix(columns, piece, dtypes, left.operand, right.operand, first == start)
            along = [build.constant(side.along(first), I32) for side in (left, right)]
            made = build.group_mma(matrix, build.add(a, along[0]), build.add(b, along[1]), made)
        build.emit("group_commit")
        return made

    def _add(self, totals: list[Value | None], begun: list[tuple[int, Value]], left: int) -> None:
        """Wait until only so many parts are still made, and add the others' sums to their totals."""
        if len(begun) > left:
            self.x.build.emit("group_wait", attr=left)
        while len(begun) > left:
            number, sums = begun.pop(0)
            total = totals[number]
            totals[number] = sums if total is None else self.x.build.add(total, sums)

    def _by_atoms(self) -> Value:
        """Warps have the same rows and columns as by the unit."""
        build, dot = self.x.build, self.promotion.otherwise
        assert dot is not None
        done = []
        for down, across, total in self._pieces(dot.c.registers):
            assert total is not None
            a = self._source(self.node.args[0], self.left, down)
            b = self._source(self.node.args[1], self.right, across)
            done.append(by_halves(self.x, dot, a, b, total))
        # One thread of a group tells that all of it have read their blocks.
        build.barrier(GROUP_BARRIER, GROUP_THREADS, each=True)
        return build.join(done)

    def _source(self, arg: Node, side: Side, number: int) -> Shared:
        """An operand from a row of a (or a column of b) on."""
        build, found = self.x.build, operand(arg)
        shared: Shared = self.x.shared(found.node)
        assert shared.base is not None
        # In elements, where a side counts in chunks.
        further = build.constant(side.across(number) * side.each, I32)
        moved = replace(shared, base=build.add(shared.base, further))
        return moved.transposed() if found.transposed else moved
