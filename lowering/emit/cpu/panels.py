"""Packs the operands of products: the left one in rows, the right one in panels.

A chunk holds up to ``kc`` steps of k. Where an operand's depth is not a multiple of the micro-kernel's step,
zeros fill the rest; evaluating beyond the operand is harmless, for every read is masked at its tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from gizml_tile.dtypes import BF16, E5M2, FP8
from gizml_tile.lowering import rounding
from gizml_tile.lowering.emit.cpu import storage
from gizml_tile.lowering.emit.cpu.access import broadcast, numbers
from gizml_tile.lowering.emit.cpu.builder import Function, Value, splat, vector
from gizml_tile.lowering.emit.cpu.evaluate import Pass, Place, RowPlace
from gizml_tile.lowering.emit.cpu.packing import Packing
from gizml_tile.lowering.emit.cpu.scope import Scope, register_dtype
from gizml_tile.lowering.emit.cpu.shapes import CACHE_LINE_BYTES, depth_step
from gizml_tile.lowering.emit.cpu.vectors import Vectors
from gizml_tile.nodes import Node, View

# Vectors of a row that are written without a loop.
UNROLLED_VECTORS = 16
# FP8 codes that one look-up decodes.
CODES = 32
# Vectors of a row of a left operand in one turn.
LEFT_VECTORS = 4
# Rows of a right operand that are on their way from memory while one is packed.
ROWS_AHEAD = 16
# Longer rows the hardware itself sees coming.
SHORT_ROW_BYTES = 4096


@dataclass
class Packer:
    """Writes one operand. ``unit`` is what the depth is a multiple of, ``depth`` the depth itself."""

    scope: Scope
    packing: Packing
    node: Node
    shared: Pass
    unit: int
    depth: Value

    @property
    def kind(self) -> str:
        """The LLVM type of a packed element."""
        if self.packing.panels.pair > 1:
            return f"i{8 * self.element_bytes}"
        return self.scope.arithmetic(1).type(register_dtype(self.node))

    @property
    def element_bytes(self) -> int:
        return self.packing.panels.element_bytes

    @property
    def lanes(self) -> int:
        """The elements of a vector register while they are turned."""
        return self.scope.unit.lanes * 4 // self.packing.shape.lane_bytes

    @property
    def step(self) -> int:
        return depth_step(self.packing.shape)

    @property
    def ragged(self) -> bool:
        """Whether there may be zeros behind the operand's depth."""
        return self.unit % self.step != 0

    def chunk(self, target: str, base: Value) -> Value:
        """Writes the chunk that starts at step ``base`` of k; gives its depth with the zeros."""
        function = self.scope.function
        rest = function.minimum(function.sub(self.depth, base), self.packing.shape.kc)
        if self.ragged:
            rounded = function.add(rest, self.step - 1)
            rest = function.sub(rounded, function.remainder(rounded, self.step))
        if self.packing.side == "left":
            (self._left_turned if self.packing.turned else self._left)(target, base, rest)
        elif self.packing.turned:
            self._right_turned(target, base, rest)
        else:
            pair = self.packing.panels.pair
            function.loop(0, rest, pair, lambda k, _: self.right_rows(target, base, k), runs=True)
        return rest

    def _left(self, target: str, base: Value, depth: Value) -> None:
        function = self.scope.function
        shape = self.packing.shape
        width = min(CODES if self.by_table else self.scope.unit.lanes, shape.kc)
        vectors = min(LEFT_VECTORS, shape.kc // width)

        def in_rows(row: Value, _: list[str]) -> Sequence[str]:
            place = RowPlace(self.shared, row, row, width)
            place.prepare((self.node,))
            line = function.offset(target, function.mul(row, self.packing.row_stride * self.element_bytes))

            def in_depth(k: Value, _: list[str], *, vectors: int, inside: bool) -> Sequence[str]:
                for step in range(0, vectors * width, width):
                    here = function.add(k, step)
                    column = function.add(base, here)
                    at = place.at(column, inside=inside)
                    if self.by_table:
                        value = self._looked_up([self._codes(at)], "i16")
                    else:
                        value = self._encode(self._lanes(at.value(self.node), column, width), width)
                    self._write(value, width, line, here)
                return ()

            edge = place.inside(function.add(base, depth), vectors * width, ())
            edge = function.maximum(function.sub(edge, base), 0)
            function.loop(0, edge, vectors * width, partial(in_depth, vectors=vectors, inside=True))
            function.loop(edge, depth, width, partial(in_depth, vectors=1, inside=False))
            return ()

        function.loop(0, shape.rows, 1, in_rows)

    def _left_turned(self, target: str, base: Value, depth: Value) -> None:
        """The source's rows are steps of k."""
        function = self.scope.function
        shape = self.packing.shape
        side = min(self.lanes, shape.rows, self.unit)

        def in_depth(k: Value, _: list[str]) -> Sequence[str]:
            def in_rows(row: Value, _: list[str]) -> Sequence[str]:
                lines = []
                for lane in range(side):
                    step = function.add(base, function.add(k, lane))
                    lines.append(self._row_value(step, row, side))
                for lane, line in enumerate(transpose_block(function, self.kind, lines)):
                    place = function.add(function.mul(function.add(row, lane), self.packing.row_stride), k)
                    self._write(line, side, target, place)
                return ()

            function.loop(0, shape.rows, side, in_rows)
            return ()

        function.loop(0, depth, side, in_depth, runs=True)

    def right_rows(self, target: str, base: Value, k: Value, local: Value = 0) -> Sequence[str]:
        """One row of the right operand, or those that are taken together, into all panels of a chunk."""
        function, layout = self.scope.function, self.packing.panels
        columns = self.node.shape[1]
        width = min(self.scope.unit.lanes, layout.width, columns)
        places = []
        for lane in range(layout.pair):
            row = function.add(function.add(base, k), lane)
            places.append((RowPlace(self.shared, row, function.add(local, lane), width), row))
        for place, _ in places:
            place.prepare((self.node,))
            self._fetch_ahead(place)
        line = function.offset(target, function.mul(function.divide(k, layout.pair), layout.row_bytes))

        def write(panel: Value, inner: int, inside: bool) -> None:
            column = function.add(function.mul(panel, layout.width), inner)
            values = ["zeroinitializer"] * layout.pair
            if inner < columns and self.by_table:
                values = [self._codes(place.at(column, inside=inside)) for place, _ in places]
            elif inner < columns:
                values = [
                    self._inside(place.at(column, inside=inside).value(self.node), row, width)
                    for place, row in places
                ]
            if self.by_table:
                value, kind = self._looked_up(values, "i32"), "i32"
            elif layout.pair > 1:
                value, kind = self._together(values, width), "i32"
            else:
                value, kind = values[0], self.kind
            start = function.offset(line, function.mul(panel, layout.panel_bytes))
            address = function.offset(start, inner * layout.pair * layout.element_bytes)
            function.store(vector(kind, width), value, address, 4)

        def in_panels(panel: Value, _: list[str], *, inside: bool) -> Sequence[str]:
            for inner in range(0, layout.width, width):
                write(panel, inner, inside)
            return ()

        def free() -> Sequence[str]:
            if layout.columns // width <= UNROLLED_VECTORS:
                for panel in range(layout.panels):
                    in_panels(panel, [], inside=True)
            else:
                function.loop(0, layout.panels, 1, partial(in_panels, inside=True))
            return ()

        def masked() -> Sequence[str]:
            function.loop(0, layout.panels, 1, partial(in_panels, inside=False))
            return ()

        edges = [place.inside(columns, columns, ()) for place, _ in places if place.lines]
        whole = function.all_of([function.compare("eq", edge, columns) for edge in edges])
        function.when(whole, free, masked)
        return ()

    def _fetch_ahead(self, place: RowPlace) -> None:
        """Brings rows near that are packed soon: they are short and far apart, which defeats the hardware."""
        function = self.scope.function
        for node, line in place.lines.items():
            if node.op != "read":
                continue
            element_bytes = line.block.dtype.bytes
            row_bytes = node.shape[1] * element_bytes
            if line.stride_bytes != element_bytes or node.shape[0] == 1 or row_bytes > SHORT_ROW_BYTES:
                continue
            name = "llvm.prefetch.p0"
            function.module.declare(name, f"void @{name}(ptr, i32 immarg, i32 immarg, i32 immarg)")
            ahead = function.offset(line.pointer, function.mul(line.block.rows.stride_bytes, ROWS_AHEAD))
            for start in range(0, row_bytes, CACHE_LINE_BYTES):
                address = function.offset(ahead, start)
                function.call_void(name, f"ptr {address}", "i32 0", "i32 3", "i32 1")

    def _right_turned(self, target: str, base: Value, depth: Value) -> None:
        """The source's rows are columns of the operand; steps taken together lie in its rows already."""
        function, layout = self.scope.function, self.packing.panels
        columns = self.node.shape[0]
        pair = layout.pair
        side = min(self.lanes, layout.width, columns, max(1, self.unit // pair))
        # Masks of narrow lanes take longer than all the rest, and without AVX-512 there are none: what may
        # lie outside is read a step at a time.
        least = side if pair == 1 else 1

        def in_columns(column: Value, _: list[str]) -> Sequence[str]:
            panel, inner = function.divide(column, layout.width), function.remainder(column, layout.width)
            start = function.offset(
                target,
                function.add(
                    function.mul(panel, layout.panel_bytes),
                    function.mul(inner, pair * layout.element_bytes),
                ),
            )
            places = self._places(column, side, side * pair)
            others = places if least == side else self._places(column, side, least * pair)
            edge: Value = 0
            if least < side:
                end: Value = function.add(base, depth)
                for place in places:
                    end = function.minimum(end, place.inside(end, side * pair, ()))
                edge = function.maximum(function.sub(end, base), 0)
            whole = partial(self._turn, start, base, places, inside=True)
            function.loop(0, edge, side * pair, whole)
            rest = partial(self._turn, start, base, others, inside=False)
            function.loop(edge, depth, least * pair, rest)
            return ()

        function.loop(0, columns, side, in_columns)
        if columns < layout.columns:
            self._clear_columns(target, columns, depth)

    def _places(self, first: Value, rows: int, width: int) -> list[RowPlace]:
        """Neighbouring rows of the source, taken ``width`` columns at a time."""
        places = []
        for lane in range(rows):
            row = self.scope.function.add(first, lane)
            places.append(RowPlace(self.shared, row, row, width))
            places[-1].prepare((self.node,))
        return places

    def _turn(
        self, target: str, base: Value, places: Sequence[RowPlace], k: Value, _: list[str], *, inside: bool
    ) -> Sequence[str]:
        """Writes the steps from ``k`` on of neighbouring columns, each of which has a row of the source."""
        function, layout = self.scope.function, self.packing.panels
        width, pair = places[0].width, layout.pair
        kind, of = "i32" if pair > 1 else self.kind, vector(self.kind, width)
        step = function.add(base, k)
        lines = []
        for place in places:
            value = self._lanes(place.at(step, inside=inside).value(self.node), step, width)
            value = self._encode(value, width)
            if pair > 1:
                value = function.emit(f"bitcast {of} {value} to {vector(kind, width // pair)}")
            lines.append(value)
        line_start = function.offset(target, function.mul(function.divide(k, pair), layout.row_bytes))
        if width == pair:
            for column, value in enumerate(lines):
                address = function.offset(line_start, column * pair * layout.element_bytes)
                function.store(kind, value, address, 4)
            return ()
        for row, value in enumerate(transpose_block(function, kind, lines)):
            address = function.offset(line_start, row * layout.row_bytes)
            function.store(vector(kind, len(lines)), value, address, 4)
        return ()

    def _clear_columns(self, target: str, first: int, depth: Value) -> None:
        """Zeros in the columns that only the matrix units' full width asks for."""
        function, layout = self.scope.function, self.packing.panels

        def in_depth(k: Value, _: list[str]) -> Sequence[str]:
            line = function.offset(target, function.mul(function.divide(k, layout.pair), layout.row_bytes))
            for column in range(first, layout.columns):
                address = function.offset(line, column * layout.pair * layout.element_bytes)
                function.store("i32", "0", address, 4)
            return ()

        function.loop(0, depth, layout.pair, in_depth, runs=True)

    def _row_value(self, row: Value, column: Value, width: int) -> str:
        place = RowPlace(self.shared, row, row, width)
        place.prepare((self.node,))
        return self._encode(self._inside(place.at(column).value(self.node), row, width), width)

    def _inside(self, value: str, step: Value, width: int) -> str:
        """A row of k that may lie behind the operand."""
        if not self.ragged:
            return value
        function = self.scope.function
        kind = vector(self.scope.arithmetic(1).type(register_dtype(self.node)), width)
        inside = function.compare("slt", step, self.depth)
        return function.emit(f"select i1 {inside}, {kind} {value}, {kind} zeroinitializer")

    def _lanes(self, value: str, first: Value, width: int) -> str:
        """Lanes along k, some of which may lie behind the operand."""
        if not self.ragged:
            return value
        function = self.scope.function
        kind = vector(self.scope.arithmetic(1).type(register_dtype(self.node)), width)
        of = vector("i64", width)
        steps = function.emit(
            f"add {of} {broadcast(function, 'i64', str(first), width)}, {numbers('i64', width)}"
        )
        limit = broadcast(function, "i64", str(self.depth), width)
        inside = function.emit(f"icmp slt {of} {steps}, {limit}")
        return function.emit(f"select {vector('i1', width)} {inside}, {kind} {value}, {kind} zeroinitializer")

    def _encode(self, value: str, width: int) -> str:
        if self.packing.panels.pair > 1:
            vectors = self.scope.arithmetic(width).vectors
            return vectors.cast("trunc", "i32", self.kind, self._bits(value, width))
        return value

    def _bits(self, value: str, width: int) -> str:
        """A number in the low bits of 32: the BF16 that it rounds to, a byte as it is, or that in I16."""
        vectors = self.scope.arithmetic(width).vectors
        if self.packing.shape.element in ("i16", "i8"):
            return vectors.bits_and(value, vectors.bits_constant((1 << 8 * self.element_bytes) - 1))
        if self.node.op in ("read", "to") and self.node.dtype in (BF16, FP8, E5M2):  # which needs no rounding
            return vectors.shift_right_logical(vectors.as_bits(value), 16)
        return rounding.bfloat16_bits(vectors, value)

    @property
    def by_table(self) -> bool:
        """Whether BF16 is looked up for FP8: for whole vectors of neighbouring bytes, with zeros around."""
        scope, view = self.scope, self.node.attr
        if self.node in self.shared.buffers:
            return False  # what is kept in a home is decoded already
        if self.node.op != "read" or self.node.dtype is not FP8 or self.packing.shape.element != "bf16":
            return False
        if self.node in self.shared.buffers:  # a block that is kept is there as numbers
            return False
        assert isinstance(view, View)
        left = self.packing.side == "left"
        whole = (
            self.packing.shape.kc >= CODES if left else min(self.packing.panels.width, view.shape[1]) >= 16
        )
        plain = scope.tensors[view.tensor].strides[-1] == 1 and view.pad == 0
        return scope.unit.avx512 and whole and plain and not self.ragged and not self.packing.turned

    def _codes(self, place: Place) -> str:
        return place.parent.lines[self.node].codes(place.width, place.column, place.masks)

    def _looked_up(self, codes: Sequence[str], lanes: str) -> str:
        """BF16 of FP8 codes: of 32, or of two times 16 side by side."""
        function = self.scope.function
        wide = Vectors(function, CODES)
        count = CODES // len(codes)
        kind = vector(lanes, count)
        total = function.emit(f"zext {vector('i8', count)} {codes[0]} to {kind}")
        if len(codes) == 2:
            second = function.emit(f"zext {vector('i8', count)} {codes[1]} to {kind}")
            second = function.emit(f"shl {kind} {second}, {splat(lanes, '16', count)}")
            total = function.emit(f"or {kind} {total}, {second}")
            total = function.emit(f"bitcast {kind} {total} to {vector('i16', CODES)}")
        bits = storage.float8_as_bfloat16(wide, total)
        return bits if len(codes) == 1 else function.emit(f"bitcast {vector('i16', CODES)} {bits} to {kind}")

    def _together(self, values: Sequence[str], width: int) -> str:
        """Steps of k side by side in 32 bits, the first in the lowest ones."""
        vectors = self.scope.arithmetic(width).vectors
        total, *others = (self._bits(value, width) for value in values)
        for number, bits in enumerate(others, 1):
            total = vectors.bits_or(total, vectors.shift_left(bits, 8 * self.element_bytes * number))
        return total

    def _write(self, value: str, lanes: int, target: str, place: Value) -> None:
        function = self.scope.function
        address = function.offset(target, function.mul(place, self.element_bytes))
        function.store(vector(self.kind, lanes), value, address, self.element_bytes)


def transpose_block(function: Function, kind: str, rows: Sequence[str]) -> list[str]:
    """The transpose of a square block whose rows are vectors, by log2(n) rounds of shuffles.

    Each round exchanges, between rows that differ in one bit of their number, the halves that differ in
    the same bit of the lane.
    """
    size, values = len(rows), list(rows)
    of, bit = vector(kind, size), 1
    while bit < size:
        low = ", ".join(f"i32 {lane - bit + size if lane & bit else lane}" for lane in range(size))
        high = ", ".join(f"i32 {lane + size if lane & bit else lane + bit}" for lane in range(size))
        for number in range(size):
            if not number & bit:
                shuffle = f"shufflevector {of} {values[number]}, {of} {values[number | bit]}, <{size} x i32>"
                values[number] = function.emit(f"{shuffle} <{low}>")
                values[number | bit] = function.emit(f"{shuffle} <{high}>")
        bit *= 2
    return values
