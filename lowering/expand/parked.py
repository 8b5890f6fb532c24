"""Tiles of which a part waits in workgroup memory for its threads, so that few registers hold the rest."""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.dtypes import F32, I32
from gizml_tile.lowering.expand.elementwise import expand_elementwise
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.kernel_ir.builder import Promise, Value
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.nodes import Node

# Elements that a thread moves at once, and registers that are made before some of them are parked.
_VECTOR, _AT_ONCE = 4, 8


@dataclass(frozen=True, slots=True)
class Parked:
    """The registers that stayed, and the buffer with the others: thread by thread, vector by vector."""

    kept: Value
    buffer: int
    offsets: Value
    count: int
    threads: int
    promise: Promise | None

    def value(self, x: Expansion) -> Value:
        """All registers, those in the buffer anew."""
        access = _access(self.buffer, range(0, self.count, _VECTOR), self.threads)
        whole = x.build.join([self.kept, x.build.load(access, self.offsets, F32)])
        if self.promise is not None:
            x.build.promises[whole] = self.promise
        return whole


def park(x: Expansion, node: Node, layout: TileLayout) -> Parked:
    """Make a tile in parts, of which the first registers stay and the others go to a buffer."""
    build, threads = x.build, x.plan.threads
    stay, count = x.plan.parked[node], layout.registers - x.plan.parked[node]
    buffer = x.memory.allocate("elements that wait", F32, count * threads)
    x.memory.before_write(buffer)
    offsets = build.mul(build.thread(), build.constant(_VECTOR, I32))
    parts: dict[int, Value] = {}
    for first in [*range(stay, layout.registers, _AT_ONCE), *range(0, stay, _AT_ONCE)]:
        registers = range(first, first + _AT_ONCE)
        parts[first] = _part(x, node, layout, registers)
        if first >= stay:
            access = _access(buffer, range(first - stay, first - stay + _AT_ONCE, _VECTOR), threads)
            build.store(access, parts[first], offsets)
    kept = build.join([parts[first] for first in range(0, stay, _AT_ONCE)])
    promises = [build.promises.get(part) for part in parts.values()]
    return Parked(kept, buffer, offsets, count, threads, _joined(x, promises))


def _joined(x: Expansion, promises: list[Promise | None]) -> Promise | None:
    """What all parts promise alike."""
    known = [promise for promise in promises if promise is not None]
    if len(known) < len(promises):
        return None
    mask = x.build.both(*(promise.mask for promise in known))
    return Promise(mask, min(promise.low for promise in known), max(promise.high for promise in known))


def _access(buffer: int, elements: range, threads: int) -> Access:
    return Access(WORKGROUP, buffer, _VECTOR, tuple((0, first * threads) for first in elements))


def _part(x: Expansion, node: Node, layout: TileLayout, registers: range) -> Value:
    """Some registers of a tile, from those of what is cheap to make again."""
    args = [_operand(x, arg, layout, registers) for arg in node.args]
    with x.at(node):
        return expand_elementwise(x.build, x.target, node, args)


def _operand(x: Expansion, node: Node, layout: TileLayout, registers: range) -> Value:
    if node in x.plan.again and node.op != "read":
        return _part(x, node, layout, registers)
    value = x.operand(node, layout)
    return value if value.count == 1 else x.build.pick(value, registers)
