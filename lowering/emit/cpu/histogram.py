"""Writes histograms: each element adds to one of a few rows of counts, which are summed at the end.

Equal elements often follow one another, and an addition in memory waits for the one before it at the same
place: neighbours count in rows of their own. A place behind each row takes what is no bin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from gizml_tile.dtypes import I32
from gizml_tile.lowering.emit.cpu.builder import Value, vector
from gizml_tile.lowering.emit.cpu.evaluate import Pass, RowPlace, store_buffer
from gizml_tile.lowering.emit.cpu.schedule import AlongItem, Buffer
from gizml_tile.lowering.emit.cpu.scope import Scope, register_dtype
from gizml_tile.lowering.emit.cpu.storage import register_kind
from gizml_tile.nodes import Node

# Rows of counts, and the most bins of which there are as many: more would leave the first cache.
_ROWS, _FEW_BINS = 4, 1024


@dataclass
class HistogramWriter:
    """Writes one histogram; ``memory`` gives room for the rows of counts."""

    scope: Scope
    buffers: dict[Node, Buffer]
    memory: Callable[[int], str]

    def write(self, item: AlongItem) -> None:
        (operand,), bins, (home, *_) = item.node.args, item.node.shape[1], item.buffers
        if home is None:
            return
        rows = _ROWS if bins <= _FEW_BINS else 1
        width = min(self.scope.unit.lanes, bins)
        stride = (bins + width) * I32.bytes
        counts = self.memory(rows * stride)
        self._clear(counts, rows * stride // I32.bytes // width, width)
        self._count(operand, bins, counts, rows, stride)

        def total(bin: Value, _: list[str]) -> Sequence[str]:
            arithmetic = self.scope.arithmetic(width)
            function = self.scope.function
            place = function.offset(counts, function.mul(bin, I32.bytes))
            parts = [
                function.load(arithmetic.type(I32), function.offset(place, row * stride), I32.bytes)
                for row in range(rows)
            ]
            while len(parts) > 1:
                pairs = zip(parts[::2], parts[1::2], strict=True)
                parts = [arithmetic.binary("add", I32, *pair) for pair in pairs]
            store_buffer(self.scope, home, self.scope.address(home, 0, 0, bin), parts[0], width)
            return ()

        self.scope.function.loop(0, bins, width, total)

    def _clear(self, counts: str, vectors: int, width: int) -> None:
        function, of = self.scope.function, vector("i32", width)
        zero = "0" if width == 1 else "zeroinitializer"

        def clear(number: Value, _: list[str]) -> Sequence[str]:
            place = function.offset(counts, function.mul(number, width * I32.bytes))
            function.store(of, zero, place, I32.bytes)
            return ()

        function.loop(0, vectors, 1, clear)

    def _count(self, operand: Node, bins: int, counts: str, rows: int, stride: int) -> None:
        shared, function = Pass(self.scope, self.buffers), self.scope.function
        shared.prepare((operand,))
        height, columns = operand.shape
        width = min(self.scope.unit.lanes, columns)
        arithmetic = self.scope.arithmetic(width)
        kind = register_kind(register_dtype(operand))

        def in_row(row: Value, _: list[str]) -> Sequence[str]:
            place = RowPlace(shared, row, row, width)
            place.prepare((operand,))

            def in_columns(column: Value, _: list[str], *, inside: bool) -> Sequence[str]:
                value = place.at(column, inside=inside).value(operand)
                limit = arithmetic.vectors.integer(kind, bins)
                # Of numbers without a sign, those below 0 are the largest.
                bounded = arithmetic.vectors.intrinsic("umin", kind, value, limit)
                for lane in range(width):
                    one = bounded
                    if width > 1:
                        one = function.emit(f"extractelement {vector(kind, width)} {bounded}, i64 {lane}")
                    wide = one if kind == "i64" else function.emit(f"zext i32 {one} to i64")
                    offset = function.add(function.mul(wide, I32.bytes), lane % rows * stride)
                    where = function.offset(counts, offset)
                    before = function.load("i32", where, I32.bytes)
                    function.store("i32", function.emit(f"add i32 {before}, 1"), where, I32.bytes)
                return ()

            # What is read without masks the hardware fetches ahead: 64 MB of bytes 1.8 times as fast.
            edge = place.inside(columns, width, ())
            function.loop(0, edge, width, partial(in_columns, inside=True))
            function.loop(edge, columns, width, partial(in_columns, inside=False))
            return ()

        function.loop(0, height, 1, in_row)
