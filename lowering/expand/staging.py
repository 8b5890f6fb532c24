"""Blocks on their way from tensors to workgroup memory, some turns of a loop ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gizml_tile.dtypes import I32, I64
from gizml_tile.lowering.expand.blocks import copy_block, load_block, move_block
from gizml_tile.lowering.expand.expansion import Expansion, Turns
from gizml_tile.lowering.expand.memory import meet
from gizml_tile.lowering.expand.shared import store_shared
from gizml_tile.lowering.expand.sources import Shared
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.plan import Plan, Stage
from gizml_tile.nodes import ALONG, Node


def stage_here(x: Expansion, node: Node) -> None:
    """Copy a block to workgroup memory where its read stands."""
    stage = x.plan.stages[node]
    with x.at(node):
        meet(x, node)
        buffer = x.memory.allocate(f"block of {_name(x, node)}", stage.tile.dtype, stage.tile.elements)
        x.memory.before_write(buffer)
        base = x.build.constant(0, I32)
        if stage.asynchronous:
            copy_block(x, node, stage, buffer, base)
            x.build.copy_commit()
            x.build.copy_wait(0)
        elif stage.fitted:
            store_shared(x, buffer, stage.tile, base, load_block(x, node, stage), stage.layout)
        else:
            move_block(x, node, stage, buffer, base)
        x.memory.before_read(buffer)
        x.define_shared(node, Shared(buffer, stage.tile, base))


def last_uses(plan: Plan, nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """The blocks that are staged where they stand among nodes, by the last node that takes of them."""
    ends: dict[Node, list[Node]] = {}
    if plan.specialised is not None:
        return ends
    for read in nodes:
        if read not in plan.stages or plan.stages[read].loop is not None or read in plan.chains:
            continue
        # What is made of a block where it is wanted takes it there.
        last, made = read, {read}
        for node in nodes:
            if made.isdisjoint(_taken(node)):
                continue
            last = node
            if node.is_tile and node.op not in ("dot", "part", *ALONG):
                made.add(node)
        ends.setdefault(last, []).append(read)
    return ends


def _taken(node: Node) -> Iterator[Node]:
    yield from node.args
    for region in node.regions:
        yield from region.results
        for inner in region.walk():
            yield from inner.args


def _name(x: Expansion, node: Node) -> str:
    return x.program.tensors[node.attr.tensor].name  # type: ignore[union-attr]


@dataclass(slots=True)
class Ring:
    """The buffers of one loop's staged reads, each with as many slots as turns are under way."""

    x: Expansion
    loop: Node
    nodes: Sequence[Node]
    buffers: Sequence[int]

    @property
    def slots(self) -> int:
        """Blocks that each buffer holds."""
        return self.x.plan.stages[self.nodes[0]].slots

    @property
    def asynchronous(self) -> bool:
        """Whether all copies go around the registers."""
        return all(self.x.plan.stages[node].asynchronous for node in self.nodes)

    def begin(self, start: Value, stop: Value, step: Value) -> Value:
        """Copy the first turns' blocks, before the loop, which begins with the first slot."""
        if not self.x.meetings.isdisjoint(self.nodes):
            self.x.memory.barrier()
        counter = start
        for slot in range(self.slots - 1):
            self._copy(counter, stop, step, self.x.build.constant(slot, I32))
            counter = self.x.build.add(counter, step)
        return self.x.build.constant(0, I32)

    def turn(self, counter: Value, stop: Value, step: Value, slot: Value) -> None:
        """At the beginning of a turn: its blocks are there, and a later turn's are on their way."""
        x, build = self.x, self.x.build
        if self.asynchronous:
            build.copy_wait(self.slots - 2)
        x.memory.barrier()
        ahead = build.add(counter, build.mul(step, build.constant(self.slots - 1, I64)))
        if self.asynchronous:
            self._copy(ahead, stop, step, self.before(slot))
        for node, buffer in zip(self.nodes, self.buffers, strict=True):
            stage = x.plan.stages[node]
            base = build.mul(slot, build.constant(stage.tile.elements, I32))
            x.define_shared(node, Shared(buffer, stage.tile, base))

    def load(self, counter: Value, stop: Value, step: Value) -> list[Value]:
        """The next turn's blocks in registers, where copies cannot go around them."""
        x, build = self.x, self.x.build
        ahead = build.add(counter, step)

        def loaded() -> list[Value]:
            with x.block():
                x.define_index(self.loop.regions[0].params[0], ahead)
                return [self._load(node) for node in self.nodes]

        def nothing() -> list[Value]:
            return [
                build.spread(
                    build.constant(0, x.plan.stages[node].tile.dtype), x.plan.stages[node].layout.registers
                )
                for node in self.nodes
            ]

        return list(build.branch(self._runs(ahead, stop, step), loaded, nothing))

    def store(self, values: Sequence[Value], slot: Value) -> None:
        """Put what was loaded into the other slot, at the end of a turn."""
        for node, buffer, value in zip(self.nodes, self.buffers, values, strict=True):
            self._store(node, buffer, value, self.before(slot))

    def next(self, slot: Value) -> Value:
        """The slot of the next turn."""
        build = self.x.build
        following = build.add(slot, build.constant(1, I32))
        last = build.map("eq", following, build.constant(self.slots, I32))
        return build.select(last, build.constant(0, I32), following)

    def end(self, slot: Value) -> None:
        """Let others have the buffers' bytes; the last turn's blocks may still be being read."""
        for buffer in self.buffers:
            self.x.memory.before_read(buffer)
            self.x.memory.release(buffer)

    def before(self, slot: Value) -> Value:
        """The slot of the turn before, which is free for the block that is copied next."""
        build = self.x.build
        first = build.map("eq", slot, build.constant(0, I32))
        return build.select(
            first, build.constant(self.slots - 1, I32), build.sub(slot, build.constant(1, I32))
        )

    def _copy(self, counter: Value, stop: Value, step: Value, slot: Value) -> None:
        x, build = self.x, self.x.build

        def copies() -> None:
            with x.block():
                x.define_index(self.loop.regions[0].params[0], counter)
                for node, buffer in zip(self.nodes, self.buffers, strict=True):
                    stage = x.plan.stages[node]
                    if stage.asynchronous:
                        base = build.mul(slot, build.constant(stage.tile.elements, I32))
                        with x.at(node):
                            copy_block(x, node, stage, buffer, base)
                    else:
                        self._store(node, buffer, self._load(node), slot)

        build.when(self._runs(counter, stop, step), copies)
        if self.asynchronous:
            build.copy_commit()

    def _load(self, node: Node) -> Value:
        with self.x.at(node):
            return load_block(self.x, node, self.x.plan.stages[node])

    def _store(self, node: Node, buffer: int, value: Value, slot: Value) -> None:
        x, stage = self.x, self.x.plan.stages[node]
        base = x.build.mul(slot, x.build.constant(stage.tile.elements, I32))
        with x.at(node):
            store_shared(x, buffer, stage.tile, base, value, stage.layout)

    def _runs(self, counter: Value, stop: Value, step: Value) -> Value:
        """Whether the loop has a turn with this counter."""
        assert isinstance(step.attr, int)
        return self.x.build.map("lt" if step.attr > 0 else "gt", counter, stop)


def open_ring(x: Expansion, loop: Node) -> Turns | None:
    """The ring of a loop's staged reads; None where it has none."""
    if loop in x.rings:
        return x.rings[loop]
    nodes = [node for node, stage in x.plan.stages.items() if stage.loop is loop]
    if not nodes:
        return None
    buffers = []
    for node in nodes:
        stage: Stage = x.plan.stages[node]
        name = f"{stage.slots} stages of {_name(x, node)}"
        buffers.append(x.memory.allocate(name, stage.tile.dtype, stage.slots * stage.tile.elements))
        x.memory.before_write(buffers[-1])
    return Ring(x, loop, nodes, buffers)
