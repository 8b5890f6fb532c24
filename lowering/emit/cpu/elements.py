"""Reading and writing single elements of tensors: hardware gathers and scatters, and runs of neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gizml_tile.dtypes import I64, DType, math_dtype
from gizml_tile.lowering.emit.cpu.access import Along, Block, Line, Masks, broadcast, raw_text
from gizml_tile.lowering.emit.cpu.accumulate import (
    accumulator,
    combined,
    give_lock,
    is_alone,
    locks_rows,
    rounded,
    row_lock,
    take_lock,
)
from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.builder import Function, Value, splat, suffix, vector
from gizml_tile.lowering.emit.cpu.scope import Scope
from gizml_tile.lowering.emit.cpu.storage import register_kind
from gizml_tile.lowering.steps import is_masked_along, run_axis
from gizml_tile.nodes import Elements, Node, places

# Instructions that gather and scatter take elements of so many bytes at least.
_GATHERED_BYTES = 4


@dataclass
class Addresses:
    """Where a gather's or scatter's elements are; what is uniform of it is computed before a pass's loops.

    ``pointer`` is where the elements would be with all tiles 0, ``inside`` whether the axes that have no tile
    are inside the tensor; ``axes`` are the others with their tiles. ``run`` is the one of them along which
    neighbours in a row of the tile are neighbours, if there is one.
    """

    scope: Scope
    node: Node
    pointer: str
    inside: str
    axes: tuple[tuple[Along, Node], ...]
    mask: Node | None
    run: int | None

    @staticmethod
    def of(scope: Scope, node: Node) -> Addresses:
        """The addresses of a node whose indices are known scalars."""
        elements = node.attr
        assert isinstance(elements, Elements)
        function, tensor = scope.function, scope.tensors[elements.tensor]
        element_bytes = scope.unit.program.tensors[elements.tensor].dtype.bytes
        found = places(node)
        pointer, checks = tensor.pointer, []
        axes: list[tuple[Along, Node]] = []
        run: int | None = None
        for axis, (index, tile) in enumerate(zip(found.indices, found.tiles, strict=True)):
            place = scope.scalar(index)
            stride = function.mul(tensor.strides[axis], element_bytes)
            pointer = function.offset(pointer, function.mul(place, stride))
            along = Along(place, tensor.sizes[axis], stride, scope.is_nonnegative(index))
            if tile is None:
                checks.append(function.compare("ult", place, along.size))
            else:
                if axis == run_axis(node, 1):
                    run = len(axes)
                axes.append((along, tile))
        return Addresses(scope, node, pointer, function.all_of(checks), tuple(axes), found.mask, run)

    @property
    def dtype(self) -> DType:
        """The tensor's storage type."""
        assert isinstance(self.node.attr, Elements)
        return self.scope.unit.program.tensors[self.node.attr.tensor].dtype

    @property
    def pad(self) -> float | int | bool:
        """What is read outside."""
        assert isinstance(self.node.attr, Elements)
        return self.node.attr.pad

    @property
    def tiles(self) -> tuple[Node, ...]:
        """The tiles that give places, and the mask."""
        tiles = tuple(tile for _, tile in self.axes)
        return tiles if self.mask is None else (*tiles, self.mask)

    @property
    def chooses(self) -> bool:
        """Whether the mask may differ along a run."""
        return is_masked_along(self.node, 1)

    def line(self, first: Callable[[Node], str], width: int) -> Line:
        """A row of the tile whose elements are neighbours; ``first`` gives a tile's element at its start."""
        assert self.run is not None
        function, pointer = self.scope.function, self.pointer
        checks = [] if self.inside == "true" else [self.inside]
        for number, (along, tile) in enumerate(self.axes):
            place = self._wide(tile, first(tile), 1)
            pointer = function.offset(pointer, function.mul(place, along.stride_bytes))
            where = function.add(along.start, place)
            if number == self.run:
                start = where
            else:
                checks.append(function.compare("ult", where, along.size))
        if self.mask is not None and not self.chooses:
            checks.append(first(self.mask))
        along = self.axes[self.run][0]
        rows = Along(0, 1, 0, True)
        columns = Along(start, along.size, along.stride_bytes, False)
        block = Block(self.scope, self.dtype, self.pad, pointer, function.all_of(checks), rows, columns)
        return block.run(width)

    def load(self, arithmetic: Arithmetic, value: Callable[[Node], str]) -> str:
        """Elements wherever they are, as they are in registers; ``value`` gives the tiles' elements."""
        function, dtype, width = self.scope.function, self.dtype, arithmetic.width
        single = arithmetic.with_width(1)
        kind, storage = single.storage_type(dtype), arithmetic.storage_type(dtype)
        pointers, mask = self._pointers(value, width)
        pad = raw_text(dtype, self.pad)
        if width > 1 and dtype.bytes >= _GATHERED_BYTES:
            name = f"llvm.masked.gather.{suffix(kind, width)}.v{width}p0"
            of, bits = vector("ptr", width), vector("i1", width)
            function.module.declare(name, f"{storage} @{name}({of}, i32 immarg, {bits}, {storage})")
            arguments = [f"{of} {pointers}", f"i32 {dtype.bytes}", f"{bits} {mask}"]
            raw = function.call(storage, name, *arguments, f"{storage} {splat(kind, pad, width)}")
            return arithmetic.decode(dtype, raw)
        # One after the other, and from a constant what is outside, so that nothing branches.
        outside = function.module.constant(kind, pad)
        of, bits = vector("ptr", width), vector("i1", width)
        elsewhere = broadcast(function, "ptr", outside, width)
        pointers = function.emit(f"select {bits} {mask}, {of} {pointers}, {of} {elsewhere}")
        if width == 1:
            return arithmetic.decode(dtype, function.load(kind, pointers, dtype.bytes))
        raw = "poison"
        for lane in range(width):
            pointer = function.emit(f"extractelement {of} {pointers}, i64 {lane}")
            element = function.load(kind, pointer, dtype.bytes)
            raw = function.emit(f"insertelement {storage} {raw}, {kind} {element}, i64 {lane}")
        return arithmetic.decode(dtype, raw)

    def combine_line(
        self,
        arithmetic: Arithmetic,
        stored: str,
        place: Value,
        masks: Masks,
        chosen: str | None = None,
        *,
        line: Line,
        locked: bool = False,
    ) -> None:
        """Combines elements of a row with those from ``place`` on: by vectors where no thread is beside, or
        the row is ``locked`` or can be, else one by one.
        """
        function, width, dtype = self.scope.function, arithmetic.width, self.dtype
        given = rounded(arithmetic, dtype, stored)

        def alone() -> list[str]:
            old = line.load(arithmetic, place, masks if masks is None else {}, chosen)
            new = combined(arithmetic, self.combine, dtype, old, given)
            line.store(arithmetic, new, place, masks if masks is None else {}, chosen)
            return []

        def beside() -> list[str]:
            if locks_rows(self.scope.unit.program):
                lock = row_lock(self.scope, line)
                take_lock(function, lock)
                alone()
                give_lock(function, lock)
                return []
            pointers, mask = line.each(place, chosen)
            self._one_by_one(arithmetic, pointers, mask, given, width)
            return []

        if locked:
            alone()
        else:
            function.when(is_alone(self.scope), alone, beside)

    def _combine(self, arithmetic: Arithmetic, stored: str, value: Callable[[Node], str]) -> None:
        function, width = self.scope.function, arithmetic.width
        given = rounded(arithmetic, self.dtype, stored)
        pointers, mask = self._pointers(value, width)

        def alone() -> list[str]:
            # What is outside goes to a place of the function's own, so that nothing branches.
            elsewhere = self.scope.entry_room(8)
            of = vector("ptr", width)
            aside = broadcast(function, "ptr", elsewhere, width)
            inside = function.emit(f"select {vector('i1', width)} {mask}, {of} {pointers}, {of} {aside}")
            self._one_by_one(arithmetic, inside, None, given, width)
            return []

        def beside() -> list[str]:
            self._one_by_one(arithmetic, pointers, mask, given, width)
            return []

        function.when(is_alone(self.scope), alone, beside)

    def _one_by_one(
        self, arithmetic: Arithmetic, pointers: str, mask: str | None, given: str, width: int
    ) -> None:
        """Lane by lane: atomically those of a mask, or, where no other thread is beside, all."""
        function, kind = self.scope.function, arithmetic.with_width(1).type(math_dtype(self.dtype))
        name = accumulator(self.scope, self.combine, self.dtype, atomic=mask is not None)

        def lane_of(of: str, values: str, lane: int) -> str:
            if width == 1:
                return values
            return function.emit(f"extractelement {vector(of, width)} {values}, i64 {lane}")

        for lane in range(width):
            pointer, element = lane_of("ptr", pointers, lane), lane_of(kind, given, lane)

            def change(pointer: str = pointer, element: str = element) -> list[str]:
                function.call_void(name, f"ptr {pointer}", f"{kind} {element}")
                return []

            if mask is None:
                change()
            else:
                function.when(lane_of("i1", mask, lane), change)

    @property
    def combine(self) -> str:
        """What a scatter makes of what is there and its own; nothing where it overwrites."""
        assert isinstance(self.node.attr, Elements)
        return self.node.attr.combine

    def store(self, arithmetic: Arithmetic, stored: str, value: Callable[[Node], str]) -> None:
        """Writes elements wherever they belong, or combines them with what is there."""
        if self.combine:
            self._combine(arithmetic, stored, value)
            return
        function, dtype, width = self.scope.function, self.dtype, arithmetic.width
        storage = arithmetic.storage_type(dtype)
        raw = arithmetic.encode(dtype, stored)
        pointers, mask = self._pointers(value, width)
        if width == 1:

            def write() -> list[str]:
                function.store(storage, raw, pointers, dtype.bytes)
                return []

            function.when(mask, write)
            return
        kind = arithmetic.with_width(1).storage_type(dtype)
        name = f"llvm.masked.scatter.{suffix(kind, width)}.v{width}p0"
        of, bits = vector("ptr", width), vector("i1", width)
        function.module.declare(name, f"void @{name}({storage}, {of}, i32 immarg, {bits})")
        size = f"i32 {dtype.bytes}"
        function.call_void(name, f"{storage} {raw}", f"{of} {pointers}", size, f"{bits} {mask}")

    def _pointers(self, value: Callable[[Node], str], width: int) -> tuple[str, str]:
        """The address of each lane's element, and which lanes have one inside the tensor."""
        function = self.scope.function
        checks = [] if self.inside == "true" else [broadcast(function, "i1", self.inside, width)]
        if self.mask is not None:
            checks.append(value(self.mask))
        tiles = [value(tile) for _, tile in self.axes]
        checks += [
            self._fits(along, tile, text, width)
            for (along, tile), text in zip(self.axes, tiles, strict=True)
        ]
        return self._moved(tiles, width), _all_of(function, checks, width)

    def _moved(self, tiles: Sequence[str], width: int) -> str:
        function, dtype = self.scope.function, self.dtype
        if len(self.axes) == 1 and self.axes[0][0].stride_bytes == dtype.bytes:
            # Addressing modes of gathers take the number of an element of 32 bits.
            kind = vector(_kind(self.axes[0][1]), width)
            stored = f"i{8 * dtype.bytes}"
            return function.emit(f"getelementptr {stored}, ptr {self.pointer}, {kind} {tiles[0]}")
        lanes = vector("i64", width)
        total = ""
        for (along, tile), text in zip(self.axes, tiles, strict=True):
            place = self._wide(tile, text, width)
            stride = broadcast(function, "i64", str(along.stride_bytes), width)
            part = function.emit(f"mul {lanes} {place}, {stride}")
            total = function.emit(f"add {lanes} {total}, {part}") if total else part
        if not total:
            return broadcast(function, "ptr", self.pointer, width)
        return function.emit(f"getelementptr i8, ptr {self.pointer}, {lanes} {total}")

    def _fits(self, along: Along, tile: Node, text: str, width: int) -> str:
        """Whether places are inside: less than the size as unsigned numbers."""
        function = self.scope.function
        if along.start == 0 and tile.dtype is not I64:
            size = function.emit(f"trunc i64 {function.minimum(along.size, 2**31)} to i32")
            return function.emit(
                f"icmp ult {vector('i32', width)} {text}, {broadcast(function, 'i32', size, width)}"
            )
        lanes = vector("i64", width)
        place = self._wide(tile, text, width)
        if along.start != 0:
            start = broadcast(function, "i64", str(along.start), width)
            place = function.emit(f"add {lanes} {place}, {start}")
        size = broadcast(function, "i64", str(along.size), width)
        return function.emit(f"icmp ult {lanes} {place}, {size}")

    def _wide(self, tile: Node, text: str, width: int) -> str:
        """A tile's elements in 64 bits."""
        if tile.dtype is I64:
            return text
        return self.scope.function.emit(f"sext {vector('i32', width)} {text} to {vector('i64', width)}")


def _kind(tile: Node) -> str:
    assert tile.dtype is not None
    return register_kind(math_dtype(tile.dtype))


def _all_of(function: Function, masks: Sequence[str], width: int) -> str:
    if not masks:
        return splat("i1", "true", width)
    result = masks[0]
    for mask in masks[1:]:
        result = function.emit(f"and {vector('i1', width)} {result}, {mask}")
    return result
