"""Rows and columns that a turn of a loop computes with, on their way while the turn before computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.memory import expand_read
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.nodes import Node


@dataclass(frozen=True, slots=True)
class TurnAhead:
    """What a loop carries of its next turn's reads: registers as they were loaded.

    The last turn has no next one, and reads its own elements again.
    """

    x: Expansion
    loop: Node
    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, x: Expansion, loop: Node) -> TurnAhead:
        """Those of a loop, if warps have roles there and it has such reads."""
        found = frozenset() if x.plan.specialised is None else x.plan.specialised.turn_ahead
        return cls(x, loop, tuple(node for node in loop.regions[0].nodes if node in found))

    def first(self, start: Value, stop: Value, step: Value) -> list[Value]:
        """What the first turn takes, if there is one."""
        if not self.nodes:
            return []
        x, build = self.x, self.x.build

        def nothing() -> list[Value]:
            counts = [x.plan.accesses[node].layout.registers for node in self.nodes]
            dtypes = [node.dtype for node in self.nodes]
            return [
                build.spread(build.constant(0.0 if dtype.is_float else 0, dtype), count)  # type: ignore[union-attr, arg-type]
                for dtype, count in zip(dtypes, counts, strict=True)
            ]

        return list(build.branch(self._is_before(start, stop, step), lambda: self._read(start), nothing))

    def next(self, counter: Value, stop: Value, step: Value) -> list[Value]:
        """What the turn after this one takes."""
        if not self.nodes:
            return []
        build = self.x.build
        later = build.add(counter, step)
        return self._read(build.select(self._is_before(later, stop, step), later, counter))

    def define(self, values: Sequence[Value]) -> None:
        """Say what a turn takes."""
        for node, value in zip(self.nodes, values, strict=True):
            self.x.define(node, value, self.x.plan.accesses[node].layout)

    def _is_before(self, counter: Value, stop: Value, step: Value) -> Value:
        assert isinstance(step.attr, int)
        return self.x.build.map("lt" if step.attr > 0 else "gt", counter, stop)

    def _read(self, counter: Value) -> list[Value]:
        x = self.x
        values = []
        with x.block():
            x.define_index(self.loop.regions[0].params[0], counter)
            for node in self.nodes:
                with x.at(node):
                    layout = x.plan.accesses[node].layout
                    values.append(x.build.spread(expand_read(x, node, layout), layout.registers))
        return values
