"""Loops whose last product runs beside the first products of the next turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gizml_tile.lowering.expand.carried import carried, define_carried
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.specialised.issue import issue, left_operand
from gizml_tile.lowering.expand.specialised.masks import foresee
from gizml_tile.lowering.expand.specialised.ring import BulkRing
from gizml_tile.lowering.expand.specialised.turns import enter, leave
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.plan import Rotation
from gizml_tile.nodes import Node

ExpandNodes = Callable[[Expansion, Sequence[Node]], None]


@dataclass(slots=True)
class Rotated:
    """A loop in whose turn the matrix units make the first products, and the last one of the turn before.

    What it carries is what the loop does, but what the last product adds to in place of its result, then that
    product's left operand and the states of the rings.
    """

    x: Expansion
    loop: Node
    rotation: Rotation
    rings: Sequence[BulkRing]
    inits: Sequence[Value]
    expand: ExpandNodes

    def turns(self) -> Sequence[Value]:
        """All turns; gives what the loop carries at last, and the rings' states."""
        x, build = self.x, self.x.build
        start, stop, step = (x.index(arg) for arg in self.loop.args[:3])
        states = [ring.state for ring in self.rings]
        assert isinstance(step.attr, int)
        runs = build.map("lt" if step.attr > 0 else "gt", start, stop)

        def some() -> Sequence[Value]:
            values = build.loop(build.add(start, step), stop, step, self._first(start), self._turn)
            return self._last(values)

        return build.branch(runs, some, lambda: [*self.inits, *states])

    def _first(self, counter: Value) -> Sequence[Value]:
        x = self.x
        with x.block():
            self._define(counter, self.inits)
            self._begin()
            leave(x)
            self.expand(x, self.rotation.sooner)
            x.build.emit("group_wait", attr=0)
            self._give(last=False)
            self.expand(x, self.rotation.between)
            define_carried(x, self._sums, self.inits[self.rotation.number])
            self.expand(x, self.rotation.after)
            return self._carried()

    def _turn(self, counter: Value, values: tuple[Value, ...]) -> Sequence[Value]:
        x, count = self.x, len(self.inits)
        with x.block():
            self._define(counter, values)
            self._resume(values)
            self._begin()
            self._take(last=True)
            total = issue(x, self.rotation.product, values[self.rotation.number], values[count])
            leave(x)
            foresee(x, self.rotation.between)
            self.expand(x, self.rotation.sooner)
            x.build.emit("group_wait", attr=1)
            self._give(last=False)
            self.expand(x, self.rotation.between)
            x.build.emit("group_wait", attr=0)
            self._give(last=True)
            define_carried(x, self._sums, total)
            self.expand(x, self.rotation.after)
            return self._carried()

    def _last(self, values: Sequence[Value]) -> Sequence[Value]:
        """The last product of the last turn."""
        x, count = self.x, len(self.inits)
        with x.block():
            self._resume(values)
            self._take(last=True)
            total = issue(x, self.rotation.product, values[self.rotation.number], values[count])
            x.build.emit("group_wait", attr=0)
            self._give(last=True)
            results = list(values[:count])
            results[self.rotation.number] = total
            return [*results, *(ring.state for ring in self.rings)]

    def _begin(self) -> None:
        """Begin the first products, when it is this group's turn."""
        x = self.x
        self._take(last=False)
        enter(x)
        for node in self.rotation.before:
            if node in x.plan.dots:
                with x.at(node):
                    x.define(node, issue(x, node))
            else:
                self.expand(x, [node])

    @property
    def _sums(self) -> Node:
        return self.loop.regions[0].params[1 + self.rotation.number]

    def _define(self, counter: Value, values: Sequence[Value]) -> None:
        params = self.loop.regions[0].params
        self.x.define_index(params[0], counter)
        for param, value in zip(params[1:], values, strict=False):
            if param is not self._sums:
                define_carried(self.x, param, value)

    def _resume(self, values: Sequence[Value]) -> None:
        for ring, state in zip(self.rings, values[len(self.inits) + 1 :], strict=True):
            ring.state = state

    def _carried(self) -> Sequence[Value]:
        x, rotation, region = self.x, self.rotation, self.loop.regions[0]
        pairs = enumerate(zip(region.results, region.params[1:], strict=True))
        adds = rotation.product.args[2]
        values = [
            x.registers(adds, x.plan.dots[rotation.product].c)
            if number == rotation.number
            else carried(x, result, param)
            for number, (result, param) in pairs
        ]
        return [*values, left_operand(x, rotation.product), *(ring.state for ring in self.rings)]

    def _take(self, *, last: bool) -> None:
        for ring in self._of(last):
            ring.take()

    def _give(self, *, last: bool) -> None:
        for ring in self._of(last):
            ring.give()

    def _of(self, last: bool) -> list[BulkRing]:
        """The rings of the last product, or of the first ones."""
        rings = [ring for ring in self.rings if ring.users]
        return [ring for ring in rings if (ring.users[0] is self.rotation.product) == last]
