"""Writes reductions and scans by a function: along rows in vectors of columns, down columns row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from gizml_tile.dtypes import I32, DType
from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.builder import Value, splat, vector
from gizml_tile.lowering.emit.cpu.evaluate import Pass, Place, RowPlace, load_buffer, store_buffer
from gizml_tile.lowering.emit.cpu.schedule import AlongItem, Buffer
from gizml_tile.lowering.emit.cpu.scope import Scope, apply, register_dtype
from gizml_tile.nodes import Combining, Const, Node, Region

# Vectors of a row that are combined beside one another, to hide how long each takes.
_BESIDE = 4

Lanes = list[str]


@dataclass
class AlongWriter:
    """Writes one operation along an axis, from values that are computed or loaded as its rows are met."""

    scope: Scope
    buffers: dict[Node, Buffer]

    def write(self, item: AlongItem) -> None:
        how = item.node.attr
        assert isinstance(how, Combining)
        shared = Pass(self.scope, self.buffers)
        shared.prepare(item.node.args)
        if how.axis == 0:
            self._rows(item, how, shared)
        elif item.node.op == "scan":
            width = min(self.scope.unit.lanes, item.node.args[0].shape[1])
            self._each_row(item, shared, partial(self._running, masks=self._masks(width, how.reverse)))
        else:
            self._each_row(item, shared, self._reduced)

    def _each_row(self, item: AlongItem, shared: Pass, write: Callable[[AlongItem, RowPlace], None]) -> None:
        rows, columns = item.node.args[0].shape
        width = min(self.scope.unit.lanes, columns)

        def in_row(row: Value, _: list[str]) -> Sequence[str]:
            place = RowPlace(shared, row, row, width)
            place.prepare(item.node.args)
            write(item, place)
            return ()

        self.scope.function.loop(0, rows, 1, in_row)

    # Along a row.

    def _masks(self, width: int, reverse: bool) -> list[str]:
        """For the distances 1, 2, 4, ... which lanes have a place so far before them.

        The lanes' numbers come out of memory, where nobody knows them: of lanes that constants leave out a
        compiler computes on whatever a register holds, and with subnormals that takes a hundred cycles.
        """
        function, of = self.scope.function, vector("i32", width)
        numbers = ", ".join(f"i32 {width - 1 - lane if reverse else lane}" for lane in range(width))
        address = function.module.constant(f"[{width} x i32]", f"[{numbers}]")
        places = function.emit(f"load volatile {of}, ptr {address}, align {I32.bytes}")
        distances = [1 << bit for bit in range(width.bit_length() - 1)]
        return [function.emit(f"icmp uge {of} {places}, {splat('i32', str(d), width)}") for d in distances]

    def _running(self, item: AlongItem, place: RowPlace, *, masks: Sequence[str]) -> None:
        """A vector's own running values in log2 steps, and then with what all vectors before gave."""
        function, how, width = self.scope.function, item.node.attr, place.width
        assert isinstance(how, Combining)
        columns, dtypes = item.node.args[0].shape[1], _dtypes(item)
        arithmetic = self.scope.arithmetic(width)

        def own(number: Value) -> tuple[Value, Lanes]:
            column = function.sub(columns - width, number) if how.reverse else number
            values = _values(item, place.look(column))
            for bit, mask in enumerate(masks):
                lanes = [_before(lane, 1 << bit, width, how.reverse) for lane in range(width)]
                moved = _shuffled(arithmetic, dtypes, values, lanes)
                both = combine(arithmetic, how.function, moved, values)
                values = [
                    arithmetic.select(dtype, mask, yes, no)
                    for dtype, yes, no in zip(dtypes, both, values, strict=True)
                ]
            return column, values

        def finish(column: Value, values: Lanes) -> Lanes:
            for buffer, value in zip(item.buffers, values, strict=True):
                if buffer is not None:
                    address = self.scope.address(buffer, place.row, place.row, column)
                    store_buffer(self.scope, buffer, address, value, width)
            return _shuffled(arithmetic, dtypes, values, [0 if how.reverse else width - 1] * width)

        def turn(number: Value, before: list[str]) -> Sequence[str]:
            column, values = own(number)
            return finish(column, combine(arithmetic, how.function, before, values))

        first = finish(*own(0))
        initial = [(arithmetic.type(dtype), value) for dtype, value in zip(dtypes, first, strict=True)]
        function.loop(width, columns, width, turn, initial)

    def _reduced(self, item: AlongItem, place: RowPlace) -> None:
        how = item.node.attr
        assert isinstance(how, Combining)
        values = self._by_lanes(item, place) if how.commutative else self._in_order(item, place)
        for buffer, value in zip(item.buffers, values, strict=True):
            if buffer is not None:
                address = self.scope.address(buffer, place.row, place.row, 0)
                store_buffer(self.scope, buffer, address, value, 1)

    def _by_lanes(self, item: AlongItem, place: RowPlace) -> Lanes:
        """Each lane of a few vectors combines its own columns, then these meet."""
        how, width, columns = item.node.attr, place.width, item.node.args[0].shape[1]
        assert isinstance(how, Combining)
        dtypes, function, many = _dtypes(item), how.function, len(item.node.args)
        arithmetic, beside = self.scope.arithmetic(width), min(_BESIDE, columns // width)
        add = self.scope.function.add
        first = [_values(item, place.look(number * width)) for number in range(beside)]

        def turn(column: Value, totals: list[str]) -> Sequence[str]:
            given: list[str] = []
            for number in range(beside):
                values = _values(item, place.look(add(column, number * width)))
                given += combine(arithmetic, function, totals[number * many : (number + 1) * many], values)
            return given

        initial = [(arithmetic.type(d), v) for values in first for d, v in zip(dtypes, values, strict=True)]
        totals = self.scope.function.loop(beside * width, columns, beside * width, turn, initial)
        groups = [totals[start : start + many] for start in range(0, len(totals), many)]
        while len(groups) > 1:
            pairs = zip(groups[::2], groups[1::2], strict=True)
            groups = [combine(arithmetic, function, *pair) for pair in pairs]
        return _tree(arithmetic, how.function, dtypes, groups[0], neighbours=False)

    def _in_order(self, item: AlongItem, place: RowPlace) -> Lanes:
        """Neighbours of a vector meet, then their pairs; the vectors follow one another."""
        how, width, columns = item.node.attr, place.width, item.node.args[0].shape[1]
        assert isinstance(how, Combining)
        dtypes, function = _dtypes(item), how.function
        arithmetic = self.scope.arithmetic(width)
        single = arithmetic.with_width(1)

        def whole(column: Value) -> Lanes:
            return _tree(arithmetic, function, dtypes, _values(item, place.look(column)), neighbours=True)

        def turn(column: Value, before: list[str]) -> Sequence[str]:
            return combine(single, function, before, whole(column))

        initial = [(single.type(dtype), value) for dtype, value in zip(dtypes, whole(0), strict=True)]
        return self.scope.function.loop(width, columns, width, turn, initial)

    # Down the columns.

    def _rows(self, item: AlongItem, how: Combining, shared: Pass) -> None:
        """A row after the other, each with what the row before it left in the homes."""
        scope, function = self.scope, self.scope.function
        rows, columns = item.node.args[0].shape
        width = min(scope.unit.lanes, columns)
        arithmetic = scope.arithmetic(width)
        homes = [buffer for buffer in item.buffers if buffer is not None]
        assert len(homes) == len(item.buffers)

        def in_row(number: Value, *, first: bool) -> None:
            row = function.sub(rows - 1, number) if how.reverse else number
            before = function.add(row, 1 if how.reverse else -1)
            place = RowPlace(shared, row, row, width)
            place.prepare(item.node.args)

            def in_columns(column: Value, _: list[str]) -> Sequence[str]:
                values = _values(item, place.look(column))
                if not first:
                    near = [scope.address(home, before, before, column) for home in homes]
                    totals = [load_buffer(scope, *pair, width) for pair in zip(homes, near, strict=True)]
                    values = combine(arithmetic, how.function, totals, values)
                for home, value in zip(homes, values, strict=True):
                    store_buffer(scope, home, scope.address(home, row, row, column), value, width)
                return ()

            function.loop(0, columns, width, in_columns)

        def turn(number: Value, _: list[str]) -> Sequence[str]:
            in_row(number, first=False)
            return ()

        in_row(0, first=True)
        function.loop(1, rows, 1, turn)


def combine(arithmetic: Arithmetic, function: Region, early: Sequence[str], late: Sequence[str]) -> Lanes:
    """A function of an earlier and a later place's values, lane by lane."""
    known: dict[Node, str] = dict(zip(function.params, (*early, *late), strict=True))
    for node in function.nodes:
        if isinstance(node.attr, Const):
            known[node] = arithmetic.constant(register_dtype(node), node.attr.value)
        else:
            known[node] = apply(arithmetic, node, [known[arg] for arg in node.args])
    return [known[result] for result in function.results]


def _dtypes(item: AlongItem) -> list[DType]:
    return [register_dtype(arg) for arg in item.node.args]


def _values(item: AlongItem, here: Place) -> Lanes:
    return [here.value(arg) for arg in item.node.args]


def _before(lane: int, distance: int, width: int, reverse: bool) -> int:
    """The lane whose place is so far before another's, or itself where there is none."""
    found = lane + distance if reverse else lane - distance
    return found if 0 <= found < width else lane


def _shuffled(
    arithmetic: Arithmetic, dtypes: Sequence[DType], values: Sequence[str], lanes: Sequence[int]
) -> Lanes:
    """Chosen lanes of some values; a single one is a scalar."""
    function, width = arithmetic.vectors.function, arithmetic.width
    if width == 1:
        return list(values)
    moved = []
    for dtype, value in zip(dtypes, values, strict=True):
        of = arithmetic.type(dtype)
        if len(lanes) == 1:
            moved.append(function.emit(f"extractelement {of} {value}, i64 {lanes[0]}"))
        else:
            order = ", ".join(f"i32 {lane}" for lane in lanes)
            moved.append(
                function.emit(f"shufflevector {of} {value}, {of} poison, <{len(lanes)} x i32> <{order}>")
            )
    return moved


def _tree(
    arithmetic: Arithmetic, function: Region, dtypes: Sequence[DType], values: Lanes, *, neighbours: bool
) -> Lanes:
    """All lanes of some values combined: first neighbours with each other, or one half with the other."""
    while arithmetic.width > 1:
        half = arithmetic.width // 2
        early = range(0, 2 * half, 2) if neighbours else range(half)
        late = range(1, 2 * half, 2) if neighbours else range(half, 2 * half)
        pair = [_shuffled(arithmetic, dtypes, values, list(lanes)) for lanes in (early, late)]
        arithmetic = arithmetic.with_width(half)
        values = combine(arithmetic, function, *pair)
    return values
