"""Writes the items of a region's plan: groups, loops, branches and deep products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gizml_tile.lowering.emit.cpu.along import AlongWriter
from gizml_tile.lowering.emit.cpu.builder import Value
from gizml_tile.lowering.emit.cpu.deep_writer import DeepWriter
from gizml_tile.lowering.emit.cpu.evaluate import load_buffer
from gizml_tile.lowering.emit.cpu.finish import finisher
from gizml_tile.lowering.emit.cpu.histogram import HistogramWriter
from gizml_tile.lowering.emit.cpu.packing import Pack, Packing
from gizml_tile.lowering.emit.cpu.packs import find_block
from gizml_tile.lowering.emit.cpu.schedule import (
    AlongItem,
    Buffer,
    CondItem,
    Group,
    LoopItem,
    RegionPlan,
    kind_of,
)
from gizml_tile.lowering.emit.cpu.scope import Scope
from gizml_tile.lowering.emit.cpu.shapes import TILE_PRODUCTS, DotShape
from gizml_tile.lowering.emit.cpu.sort import SortWriter
from gizml_tile.lowering.emit.cpu.steps import GroupWriter
from gizml_tile.lowering.emit.cpu.tiles import begin_tiles, tile_configuration
from gizml_tile.nodes import EARLY

LINE = 64


@dataclass
class Arena:
    """A thread's private memory, handed out in cache lines."""

    bytes: int = 0

    def take(self, size: int) -> int:
        place = self.bytes
        # Buffers that follow one another at multiples of 4 KB would meet in the same cache sets.
        self.bytes += -(-size // LINE) * LINE + LINE
        return place


@dataclass
class RegionWriter:
    """Writes regions into one function; ``configured`` is the tile configuration that is loaded."""

    scope: Scope
    arena: Arena
    base: str = "%arena"
    packings: dict[Packing, str] = field(default_factory=dict)
    configurations: set[bytes] = field(default_factory=set)

    def write(self, plan: RegionPlan) -> None:
        for number, item in enumerate(plan.items):
            self._ready(plan, number)
            around = self.scope.function.come_from(None if isinstance(item, Group) else item.node.place)
            if isinstance(item, Group):
                self._homes(item)
                GroupWriter(self.scope, plan.buffers, self.packings, self._configure).write(item)
            elif isinstance(item, AlongItem):
                for buffer in filter(None, item.buffers):
                    self._home(buffer)
                if item.node.op == "sort":
                    SortWriter(self.scope, plan.buffers, self._memory).write(item)
                elif item.node.op == "histogram":
                    HistogramWriter(self.scope, plan.buffers, self._memory).write(item)
                else:
                    AlongWriter(self.scope, plan.buffers).write(item)
            elif isinstance(item, LoopItem):
                self._loop(item)
            elif isinstance(item, CondItem):
                self._cond(item)
            else:
                for term in item.terms:
                    self._home(term.buffer)
                deep = DeepWriter(self.scope, self._memory, self._configure)
                group = plan.stored_by(number)
                if group is not None:
                    buffer = item.terms[-1].buffer
                    deep.write(item, finisher(self.scope, plan.buffers, group, buffer))
                    self.scope.function.come_from(around)
                    break
                deep.write(item)
            self.scope.function.come_from(around)
        self._ready(plan, len(plan.items))

    def _ready(self, plan: RegionPlan, number: int) -> None:
        for entry in plan.ready[number]:
            if isinstance(entry, Pack):
                chunks = -(-entry.depth // entry.packing.shape.kc)
                local = self._memory(chunks * entry.packing.chunk_bytes)
                self.scope.packs[entry] = find_block(self.scope, entry, local)
            elif entry in plan.buffers:
                buffer = plan.buffers[entry]
                address = self.scope.address(buffer, 0, 0, 0)
                self.scope.scalars[entry] = load_buffer(self.scope, buffer, address, 1)
            else:
                self.scope.scalar(entry)

    def _memory(self, size: int) -> str:
        return self.scope.function.offset(self.base, self.arena.take(size))

    def _home(self, buffer: Buffer, block_rows: int = 0) -> None:
        """Gives a buffer its place in the arena, once."""
        buffer = buffer.home()
        if buffer in self.scope.homes or buffer.moving:
            return
        rows = buffer.rows if buffer.full or not block_rows else min(block_rows, buffer.rows)
        place = self.arena.take(rows * buffer.row_stride * buffer.element_bytes)
        self.scope.homes[buffer] = self.scope.entry_address(self.base, place)

    def _homes(self, group: Group) -> None:
        for task in group.tasks:
            for buffer in (task.buffer, task.left):
                if buffer is not None:
                    self._home(buffer, group.block_rows)
            if task.kind == "column_reduce" and task.partial is not None:
                self._home(task.partial)
            if task.kind == "pack" and isinstance(task.right, Packing):
                chunks = -(-task.rows // task.right.shape.kc)
                place = self.arena.take(chunks * task.right.chunk_bytes)
                self.packings[task.right] = self.scope.entry_address(self.base, place)

    def _configure(self, shape: DotShape) -> None:
        """Loads the matrix unit's configuration for a product that needs one."""
        if shape.mode not in TILE_PRODUCTS:
            return
        configuration = tile_configuration(shape)
        self.configurations.add(configuration)
        text = ", ".join(f"i8 {byte}" for byte in configuration)
        address = self.scope.function.module.constant("[64 x i8]", f"[{text}]")
        begin_tiles(self.scope.function, address)

    # Structure.

    def _loop(self, item: LoopItem) -> None:
        scope, node = self.scope, item.node
        start, stop, step = (scope.scalar(arg) for arg in node.args[:3])
        region = node.regions[0]
        turn, *params = region.params
        initial: list[tuple[str, str]] = []
        for param, carried, before in zip(params, item.carried, node.args[3:], strict=True):
            if carried is None:
                initial.append((kind_of(param.dtype), str(scope.scalar(before))))
                continue
            for home in (carried.start, carried.other):
                self._home(home)
                initial.append(("ptr", scope.homes[home]))

        def body(index: Value, values: list[str]) -> Sequence[str]:
            scope.scalars[turn] = index
            scope.signs[turn] = step == 1 and scope.is_nonnegative(node.args[0])
            rest = list(values)
            for param, carried in zip(params, item.carried, strict=True):
                if carried is None:
                    scope.scalars[param] = rest.pop(0)
                else:
                    scope.homes[carried.current] = rest.pop(0)
                    scope.homes[carried.following] = rest.pop(0)
            self.write(item.body)
            results: list[str] = []
            for result, carried in zip(region.results, item.carried, strict=True):
                if carried is None:
                    results.append(str(scope.scalar(result)))
                else:
                    results += [scope.homes[carried.following], scope.homes[carried.current]]
            return results

        # The last of what is carried.
        flag = len(initial) - 1 if node.attr == EARLY else None
        values = self._turns(start, stop, step, body, initial, flag)
        for number, carried in enumerate(item.carried):
            value = values.pop(0)
            if carried is not None:
                values.pop(0)
                scope.homes[carried.final] = value
            for result in item.results:
                if result.attr == number and carried is None:
                    scope.scalars[result] = value

    def _turns(
        self,
        start: Value,
        stop: Value,
        step: Value,
        body: Callable[[Value, list[str]], Sequence[str]],
        initial: list[tuple[str, str]],
        flag: int | None,
    ) -> list[str]:
        """A loop whose step may be negative, or not known before the launch; step 0 gives no turn."""
        function = self.scope.function
        if step == 1:
            return function.loop(start, stop, 1, body, initial, flag=flag)
        distance = function.sub(stop, start)
        if isinstance(step, int):
            size = abs(step)
            length = distance if step > 0 else function.sub(0, distance)
            length = function.maximum(length, 0)
            count = function.divide(function.add(length, size - 1), size)
        else:
            up = function.compare("sgt", step, 0)
            size_text = function.choose(up, step, function.sub(0, step))
            none = function.compare("eq", step, 0)
            safe = function.choose(none, 1, size_text)
            length = function.maximum(function.choose(up, distance, function.sub(0, distance)), 0)
            quotient = function.emit(f"udiv i64 {function.add(length, function.sub(safe, 1))}, {safe}")
            count = function.choose(none, 0, quotient)

        def numbered(number: Value, values: list[str]) -> Sequence[str]:
            return body(function.add(start, function.mul(number, step)), values)

        return function.loop(0, count, 1, numbered, initial, flag=flag)

    def _cond(self, item: CondItem) -> None:
        scope, function = self.scope, self.scope.function
        for home in item.homes:
            if home is not None:
                self._home(home)
        results = item.node.regions[0].results
        scalars = [number for number, home in enumerate(item.homes) if home is None]
        kinds = [kind_of(results[number].dtype) for number in scalars]

        def arm(number: int) -> list[str]:
            self.write(item.arms[number])
            region = item.node.regions[number]
            return [str(scope.scalar(region.results[place])) for place in scalars]

        condition = str(scope.scalar(item.node.args[0]))
        values = function.when(condition, lambda: arm(0), lambda: arm(1), kinds)
        for result in item.results:
            for place, value in zip(scalars, values, strict=True):
                if result.attr == place:
                    scope.scalars[result] = value
