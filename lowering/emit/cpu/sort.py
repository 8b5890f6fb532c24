"""Writes sorting along an axis: bitonic networks on vectors of keys, a row at a time or several columns.

Keys are integers whose order is that of the elements; where the elements' places are asked for, they are the
lower half of 64 bits. Of a row neighbours lie in the lanes of vectors; of columns each lane has its own, so
that no lane ever looks at another. Every comparison leaves the lesser first: blocks in order are merged by
comparing the first with the last of the other, the second with the one before it and so on, which leaves
bitonic halves (Batcher's network without directions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gizml_tile.dtypes import F32, I32, I64, DType
from gizml_tile.lowering.emit.cpu.access import broadcast, numbers
from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.builder import Value
from gizml_tile.lowering.emit.cpu.evaluate import Pass, RowPlace, store_buffer
from gizml_tile.lowering.emit.cpu.panels import transpose_block
from gizml_tile.lowering.emit.cpu.schedule import AlongItem, Buffer
from gizml_tile.lowering.emit.cpu.scope import Scope, register_dtype
from gizml_tile.nodes import Node, Sorting

# Vectors that are compared in registers before they go back to memory.
_TOGETHER = 8
_LARGEST = 0x7FFFFFFF

Keys = list[str]


@dataclass
class SortWriter:
    """Writes one sort; ``memory`` gives room for the keys of a row or of a few columns."""

    scope: Scope
    buffers: dict[Node, Buffer]
    memory: Callable[[int], str]

    def write(self, item: AlongItem) -> None:
        how, (operand,) = item.node.attr, item.node.args
        assert isinstance(how, Sorting)
        shared = Pass(self.scope, self.buffers)
        shared.prepare((operand,))
        rows, columns = operand.shape
        kinds = _key_types(item)
        # Half as many keys of 64 bits fill a register.
        lanes = self.scope.unit.lanes * I32.bytes // kinds[0].bytes
        width = min(max(lanes, 1), columns)
        vectors = columns // width if how.axis == 1 else rows
        arrays = [self.memory(vectors * width * dtype.bytes) for dtype in kinds]
        network = _Network(self.scope.arithmetic(width), kinds, arrays, lanes_meet=how.axis == 1)
        write = _Along(self, item, how, shared, network)
        if how.axis == 1:
            self.scope.function.loop(0, rows, 1, write.row)
        else:
            self.scope.function.loop(0, columns, width, write.columns)


def _key_types(item: AlongItem) -> list[DType]:
    dtype = register_dtype(item.node.args[0])
    if item.buffers[1] is None:
        return [I64 if dtype is I64 else I32]
    return [I64, I32] if dtype is I64 else [I64]


@dataclass
class _Along:
    """Loads the keys of a row or of columns, has them sorted, and stores what they stand for."""

    writer: SortWriter
    item: AlongItem
    how: Sorting
    shared: Pass
    network: _Network

    def row(self, row: Value, _: list[str]) -> Sequence[str]:
        scope, width, (operand,) = self.writer.scope, self.network.width, self.item.node.args
        place = RowPlace(self.shared, row, row, width)
        place.prepare((operand,))
        columns, keep = operand.shape[1], self.how.keep

        def load(column: Value, _: list[str]) -> Sequence[str]:
            value = place.look(column).value(operand)
            indices = scope.function.emit(
                f"add {self._of(I32)} {self._splat(column)}, {numbers('i32', width)}"
            )
            number = scope.function.divide(column, width)
            self.network.store(number, self._keys(value, indices if width > 1 else self._splat(column)))
            return ()

        scope.function.loop(0, columns, width, load)
        self.network.sort(columns // width, max(keep // width, 1))

        def store(column: Value, _: list[str]) -> Sequence[str]:
            keys = self.network.load(scope.function.divide(column, width))
            self._store(row, column, keys, min(width, keep))
            return ()

        scope.function.loop(0, keep, min(width, keep), store)
        return ()

    def columns(self, column: Value, _: list[str]) -> Sequence[str]:
        scope, width, (operand,) = self.writer.scope, self.network.width, self.item.node.args
        rows, keep = operand.shape[0], self.how.keep

        def load(row: Value, _: list[str]) -> Sequence[str]:
            place = RowPlace(self.shared, row, row, width)
            place.prepare((operand,))
            self.network.store(row, self._keys(place.look(column).value(operand), self._splat(row)))
            return ()

        def store(row: Value, _: list[str]) -> Sequence[str]:
            self._store(row, column, self.network.load(row), width)
            return ()

        scope.function.loop(0, rows, 1, load)
        self.network.sort(rows, keep)
        scope.function.loop(0, keep, 1, store)
        return ()

    def _of(self, dtype: DType) -> str:
        return self.network.arithmetic.type(dtype)

    def _splat(self, number: Value) -> str:
        function = self.writer.scope.function
        text = str(number) if isinstance(number, int) else function.emit(f"trunc i64 {number} to i32")
        return broadcast(function, "i32", text, self.network.width)

    def _keys(self, value: str, places: str) -> Keys:
        vectors = self.network.arithmetic.vectors
        dtype = register_dtype(self.item.node.args[0])
        kind = "i64" if dtype is I64 else "i32"
        key = value
        if dtype is F32:
            key = self._reordered(vectors.as_bits(value))
        if self.how.descending:
            key = vectors.operation("xor", kind, key, vectors.integer(kind, -1))
        if dtype is F32:
            nan = vectors.operation("fcmp uno", "float", value, value)
            key = vectors.choose("i32", nan, vectors.integer("i32", _LARGEST), key)
        if self.item.buffers[1] is None:
            return [key]
        if dtype is I64:
            return [key, places]
        high = vectors.operation(
            "shl", "i64", vectors.cast("sext", "i32", "i64", key), vectors.integer("i64", 32)
        )
        return [vectors.operation("or", "i64", high, vectors.cast("zext", "i32", "i64", places))]

    def _reordered(self, bits: str) -> str:
        """The bits of floats as integers of the same order, and back."""
        vectors = self.network.arithmetic.vectors
        sign = vectors.shift_right(bits, 31)
        return vectors.operation("xor", "i32", bits, vectors.bits_and(sign, vectors.integer("i32", _LARGEST)))

    def _store(self, row: Value, column: Value, keys: Keys, width: int) -> None:
        scope, vectors = self.writer.scope, self.network.arithmetic.vectors
        dtype = register_dtype(self.item.node.args[0])
        key, places = keys[0], keys[-1]
        if self.item.buffers[1] is not None and dtype is not I64:
            high = vectors.operation("ashr", "i64", key, vectors.integer("i64", 32))
            key, places = (vectors.cast("trunc", "i64", "i32", each) for each in (high, key))
        if self.how.descending:
            kind = "i64" if dtype is I64 else "i32"
            key = vectors.operation("xor", kind, key, vectors.integer(kind, -1))
        value = vectors.from_bits(self._reordered(key)) if dtype is F32 else key
        for buffer, found, kind_ in zip(self.item.buffers, (value, places), (dtype, I32), strict=True):
            if buffer is not None:
                first = _lanes(self.network.arithmetic, kind_, found, range(width))
                store_buffer(scope, buffer, scope.address(buffer, row, row, column), first, width)


@dataclass
class _Network:
    """Keys in arrays of vectors, which are compared at each step as the position's bits say.

    ``lanes_meet`` tells that the lanes of a vector are neighbours; else each is sorted by itself.
    """

    arithmetic: Arithmetic
    kinds: Sequence[DType]
    arrays: Sequence[str]
    lanes_meet: bool

    @property
    def width(self) -> int:
        return self.arithmetic.width

    @property
    def lanes(self) -> int:
        """The neighbours in one vector."""
        return self.width if self.lanes_meet else 1

    def load(self, number: Value) -> Keys:
        function = self.arithmetic.vectors.function
        return [
            function.load(self.arithmetic.type(kind), self._address(kind, array, number), kind.bytes)
            for kind, array in zip(self.kinds, self.arrays, strict=True)
        ]

    def store(self, number: Value, keys: Keys) -> None:
        function = self.arithmetic.vectors.function
        for kind, array, key in zip(self.kinds, self.arrays, keys, strict=True):
            function.store(self.arithmetic.type(kind), key, self._address(kind, array, number), kind.bytes)

    def _address(self, kind: DType, array: str, number: Value) -> str:
        function = self.arithmetic.vectors.function
        return function.offset(array, function.mul(number, self.width * kind.bytes))

    def sort(self, vectors: int, keep: int) -> None:
        """The least ``keep`` vectors of so many, in order, to the front."""
        together, run = min(_TOGETHER, keep), 1
        if self.lanes_meet and vectors >= self.width:
            self._runs(vectors)
            run = self.width
        self._units(vectors, together, list(_all_steps(together * self.lanes, run)))
        block = 2 * together
        while block <= keep:
            self._pairs(vectors, block // 2, mirrored=True)
            self._finish(vectors, together, block // 4)
            block *= 2
        while vectors > keep:
            vectors //= 2
            self._halve(vectors, keep)
            self._finish(vectors, together, keep // 2)

    def _runs(self, vectors: int) -> None:
        """Each vector in order: as many as it has lanes are sorted lane by lane, and then turned.

        Comparing whole vectors needs no moves: 1024 numbers are sorted 1.08 times as fast with 16 lanes.
        """
        function, apart = self.arithmetic.vectors.function, replace(self, lanes_meet=False)

        def unit(first: Value, _: list[str]) -> Sequence[str]:
            keys = [self.load(function.add(first, number)) for number in range(self.width)]
            for mask in _all_steps(self.width):
                keys = apart._step(keys, mask)
            turned = [
                transpose_block(function, f"i{8 * kind.bytes}", [each[number] for each in keys])
                for number, kind in enumerate(self.kinds)
            ]
            for number, each in enumerate(zip(*turned, strict=True)):
                self.store(function.add(first, number), list(each))
            return ()

        function.loop(0, vectors, self.width, unit)

    def _finish(self, vectors: int, together: int, distance: int) -> None:
        """Bitonic blocks in order, from a distance in vectors on."""
        while distance >= together:
            self._pairs(vectors, distance, mirrored=False)
            distance //= 2
        self._units(vectors, together, list(_merge_steps(together * self.lanes)))

    def _units(self, vectors: int, together: int, masks: Sequence[int]) -> None:
        """Steps within a few vectors, all in registers."""
        function = self.arithmetic.vectors.function

        def unit(first: Value, _: list[str]) -> Sequence[str]:
            keys = [self.load(function.add(first, number)) for number in range(together)]
            for mask in masks:
                keys = self._step(keys, mask)
            for number, each in enumerate(keys):
                self.store(function.add(first, number), each)
            return ()

        function.loop(0, vectors, together, unit)

    def _step(self, keys: list[Keys], mask: int) -> list[Keys]:
        """Places compared with those whose position differs in a mask, by the mask's highest bit."""
        among, within = divmod(mask, self.lanes)
        if not among:
            return [self._within(each, within) for each in keys]
        high, given = 1 << among.bit_length() - 1, list(keys)
        for number, each in enumerate(keys):
            if not number & high:
                lesser, larger = self.in_order(each, self._moved(keys[number ^ among], within))
                given[number], given[number ^ among] = lesser, self._moved(larger, within)
        return given

    def _within(self, keys: Keys, mask: int) -> Keys:
        lesser, larger = self.in_order(keys, self._moved(keys, mask))
        high = 1 << mask.bit_length() - 1
        order = ", ".join(f"i32 {lane + self.width * bool(lane & high)}" for lane in range(self.width))
        given = []
        for kind, low, top in zip(self.kinds, lesser, larger, strict=True):
            of = self.arithmetic.type(kind)
            given.append(
                self.arithmetic.vectors.function.emit(
                    f"shufflevector {of} {low}, {of} {top}, <{self.width} x i32> <{order}>"
                )
            )
        return given

    def _moved(self, keys: Keys, mask: int) -> Keys:
        """Each lane has what the lane has whose number differs in a mask."""
        if not mask:
            return keys
        lanes = [lane ^ mask for lane in range(self.width)]
        return [_lanes(self.arithmetic, kind, key, lanes) for kind, key in zip(self.kinds, keys, strict=True)]

    def _pairs(self, vectors: int, distance: int, *, mirrored: bool) -> None:
        """Vectors a distance apart, or those of each block of twice that, the first with the last."""
        function = self.arithmetic.vectors.function

        def pair(number: Value, _: list[str]) -> Sequence[str]:
            block, place = function.divide(number, distance), function.remainder(number, distance)
            first = function.mul(block, 2 * distance)
            low = function.add(first, place)
            high = function.add(low, distance)
            if mirrored:
                high = function.sub(function.add(first, 2 * distance - 1), place)
            turn = self.lanes - 1 if mirrored else 0
            lesser, larger = self.in_order(self.load(low), self._moved(self.load(high), turn))
            self.store(low, lesser)
            self.store(high, self._moved(larger, turn))
            return ()

        function.loop(0, vectors // 2, 1, pair)

    def _halve(self, vectors: int, block: int) -> None:
        """The lesser of each block's places and of the mirrored ones of a block as many vectors behind."""
        function = self.arithmetic.vectors.function

        def pair(number: Value, _: list[str]) -> Sequence[str]:
            place = function.remainder(number, block)
            mirrored = function.sub(function.add(function.sub(number, place), vectors + block - 1), place)
            other = self._moved(self.load(mirrored), self.lanes - 1)
            self.store(number, self.in_order(self.load(number), other)[0])
            return ()

        function.loop(0, vectors, 1, pair)

    def in_order(self, a: Keys, b: Keys) -> tuple[Keys, Keys]:
        """The lesser and the larger keys, lane by lane."""
        arithmetic = self.arithmetic
        if len(self.kinds) == 1:
            lesser, larger = (
                arithmetic.binary(op, self.kinds[0], a[0], b[0]) for op in ("minimum", "maximum")
            )
            return [lesser], [larger]
        less = arithmetic.compare("lt", self.kinds[-1], a[-1], b[-1])
        tie = arithmetic.compare("eq", self.kinds[0], a[0], b[0])
        first = arithmetic.compare("lt", self.kinds[0], a[0], b[0])
        function, mask = arithmetic.vectors.function, arithmetic.vectors.type("i1")
        less = function.emit(f"and {mask} {tie}, {less}")
        less = function.emit(f"or {mask} {first}, {less}")
        pairs = list(zip(self.kinds, a, b, strict=True))
        return (
            [arithmetic.select(kind, less, one, other) for kind, one, other in pairs],
            [arithmetic.select(kind, less, other, one) for kind, one, other in pairs],
        )


def _all_steps(places: int, run: int = 1) -> Iterator[int]:
    """The steps that sort so many places, each as the mask by which compared positions differ.

    ``run`` neighbours are in order already.
    """
    block = 2 * run
    while block <= places:
        yield block - 1
        yield from _merge_steps(block // 2)
        block *= 2


def _merge_steps(places: int) -> Iterator[int]:
    """The steps that put so many bitonic places in order."""
    while places > 1:
        places //= 2
        yield places


def _lanes(arithmetic: Arithmetic, dtype: DType, value: str, lanes: Sequence[int]) -> str:
    """Chosen lanes of a vector; one alone is a scalar."""
    if arithmetic.width == 1 or list(lanes) == list(range(arithmetic.width)):
        return value
    of, function = arithmetic.type(dtype), arithmetic.vectors.function
    if len(lanes) == 1:
        return function.emit(f"extractelement {of} {value}, i64 {lanes[0]}")
    order = ", ".join(f"i32 {lane}" for lane in lanes)
    return function.emit(f"shufflevector {of} {value}, {of} poison, <{len(lanes)} x i32> <{order}>")
