"""Writes deep products: chunk after chunk of k, each operand from where it is at hand.

The left operand is read in place where its chunk lies inside its tensor, else it is packed. The right one
is found packed for the launch, or packed by the program, or, for few rows, also read in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gizml_tile.lowering.emit.cpu.access import block_of
from gizml_tile.lowering.emit.cpu.builder import Value
from gizml_tile.lowering.emit.cpu.dot import micro_product
from gizml_tile.lowering.emit.cpu.packing import FEW_ROWS_DEPTH, Pack
from gizml_tile.lowering.emit.cpu.packs import (
    chunk_count,
    pack_call,
    reads_in_place,
    staged_block,
    total_depth,
)
from gizml_tile.lowering.emit.cpu.schedule import DeepItem, DeepTerm
from gizml_tile.lowering.emit.cpu.scope import Scope
from gizml_tile.lowering.emit.cpu.shapes import TILE_PRODUCTS, Ahead, DotShape, Finish, depth_step
from gizml_tile.nodes import tensor_of

# Does something with a block of a product: see ``Finish``.
Write = Callable[[str, Value, int, Value, int], None]


@dataclass
class Operand:
    """One operand of a term: its staged block or null, memory for a packed chunk, its block in the tensor.

    An operand that may be read in place has a ``pointer`` to its first element; it lies inside the tensor
    where ``inside`` holds, up to ``length`` steps of k.
    """

    pack: Pack
    staged: str
    local: str
    pointer: str = ""
    row_stride: Value = 0
    inside: str = "false"
    length: Value = 0


@dataclass
class Term:
    """A term with its operands and its depth."""

    term: DeepTerm
    left: Operand
    right: Operand
    depth: Value


@dataclass
class DeepWriter:
    """Writes the deep products of one function."""

    scope: Scope
    memory: Callable[[int], str]
    configure: Callable[[DotShape], None]

    def write(self, item: DeepItem, finish: Write | None = None) -> None:
        """``finish`` is what happens to the last product's blocks; the product is gone afterwards."""
        function = self.scope.function
        terms = []
        for planned in item.terms:
            depth = total_depth(self.scope, planned.left)
            left, right = self._operand(planned.left, 1), self._operand(planned.right, 0)
            terms.append(Term(planned, left, right, depth))

        def thick() -> list[str]:
            for term in terms:
                function.come_from(term.term.place)
                self._chunks(term, finish if term is terms[-1] else None)
            return []

        if not all(term.right.pointer for term in terms):
            thick()
            return

        def thin() -> list[str]:
            for term in terms:
                function.come_from(term.term.place)
                self._thin(term)
            return []

        checks = []
        for term in terms:
            checks.append(term.right.inside)
            checks.append(function.compare("sle", term.depth, term.right.length))
            checks.append(function.emit(f"icmp eq ptr {term.right.staged}, null"))
        function.when(function.all_of(checks), thin, thick)

    def _operand(self, pack: Pack, axis: int) -> Operand:
        """``axis`` is the axis of the source's block along which k runs."""
        scope, function = self.scope, self.scope.function
        staged, _, _ = staged_block(scope, pack)
        operand = Operand(pack, staged, self.memory(pack.packing.chunk_bytes))
        if not reads_in_place(scope.unit, pack):
            return operand
        assert pack.turn is not None and pack.start is not None
        scope.scalars[pack.turn] = scope.scalar(pack.start)
        scope.signs[pack.turn] = scope.is_nonnegative(pack.start)
        block = block_of(scope, pack.packing.source)
        along, across = (block.columns, block.rows) if axis == 1 else (block.rows, block.columns)
        checks = [] if block.inside == "true" else [block.inside]
        for side in (along, across):
            if not side.nonnegative:
                checks.append(function.compare("sge", side.start, 0))
        size = pack.packing.source.shape[1 - axis]
        checks.append(function.compare("sle", function.add(across.start, size), across.size))
        offset = function.add(
            function.mul(block.rows.start, block.rows.stride_bytes),
            function.mul(block.columns.start, block.columns.stride_bytes),
        )
        operand.pointer = function.offset(block.pointer, offset)
        operand.row_stride = scope.tensors[tensor_of(pack.packing.source)].strides[-2]
        operand.inside = function.all_of(checks)
        operand.length = function.sub(along.size, along.start)
        return operand

    def _chunks(self, term: Term, finish: Write | None) -> None:
        function = self.scope.function
        shape = term.left.pack.packing.shape
        count = self._count(term)

        def chunk(number: Value, _: list[str]) -> Sequence[str]:
            base = function.mul(number, shape.kc)
            rest = self._rest(term, base)
            a, stride = self._left(term, number, base, rest)
            b = self._packed(term.right, term.depth, number)
            first = function.compare("eq", number, 0) if term.term.from_zero else "false"
            self.configure(shape)
            total = self.scope.address(term.term.buffer, 0, 0, 0)
            here = replace(shape, a_row_stride=stride)
            last = finish and Finish(function.compare("eq", number, function.sub(count, 1)), finish)
            micro_product(function, here, a, b, total, rest, first, self._ahead(term, b), last)
            return ()

        function.loop(0, count, 1, chunk)

    def _count(self, term: Term) -> Value:
        """Chunks of a term: one even of an empty product, which is its start."""
        function = self.scope.function
        return function.maximum(chunk_count(function, term.term.left, term.depth), 1)

    def _rest(self, term: Term, base: Value) -> Value:
        """Steps of k in the chunk that starts at ``base``, with the zeros that fill it up."""
        function = self.scope.function
        shape = term.left.pack.packing.shape
        rest = function.minimum(function.sub(term.depth, base), shape.kc)
        step = depth_step(shape)
        if term.term.left.depth % step == 0:
            return rest
        rounded = function.add(rest, step - 1)
        return function.sub(rounded, function.remainder(rounded, step))

    def _left(self, term: Term, number: Value, base: Value, rest: Value) -> tuple[str, Value]:
        """Address and row stride of a chunk of the left operand."""
        function, left = self.scope.function, term.left
        packing = left.pack.packing
        if not left.pointer:
            return self._packed(left, term.depth, number), packing.row_stride
        ends = function.compare("sle", function.add(base, rest), left.length)

        def in_place() -> list[str]:
            offset = function.mul(base, packing.panels.element_bytes)
            return [function.offset(left.pointer, offset), str(left.row_stride)]

        def packed() -> list[str]:
            return [self._packed(left, term.depth, number), str(packing.row_stride)]

        checks = [left.inside, ends]
        if term.term.left.depth % depth_step(packing.shape):
            # What lies behind the product's depth may be infinite, which zeros on the right do not silence.
            checks.append(function.compare("sle", function.add(base, rest), term.depth))
        if left.staged != "null":
            checks.append(function.emit(f"icmp eq ptr {left.staged}, null"))
        ready = function.all_of(checks)
        address, stride = function.when(ready, in_place, packed, ["ptr", "i64"])
        return address, stride

    def _packed(self, operand: Operand, depth: Value, number: Value) -> str:
        """A chunk among the staged ones, or packed here."""
        function = self.scope.function

        def here() -> list[str]:
            pack_call(self.scope, operand.pack, operand.local, depth, number, function.add(number, 1))
            return [operand.local]

        if operand.staged == "null":
            return here()[0]

        def there() -> list[str]:
            offset = function.mul(number, operand.pack.packing.chunk_bytes)
            return [function.offset(operand.staged, offset)]

        missing = function.emit(f"icmp eq ptr {operand.staged}, null")
        return function.when(missing, here, there, ["ptr"])[0]

    def _ahead(self, term: Term, chunk: str) -> Sequence[Ahead]:
        """What is fetched while a chunk is used: the next chunk, which is harmless behind the last."""
        packing = term.right.pack.packing
        if packing.shape.mode in TILE_PRODUCTS or term.right.staged == "null":
            return ()
        following = self.scope.function.offset(chunk, packing.chunk_bytes)
        return (Ahead(following, 1, packing.chunk_bytes, packing.chunk_bytes),)

    def _thin(self, term: Term) -> None:
        """A product of few rows: all columns for a few steps of k, so that memory is read in long rows."""
        function = self.scope.function
        kc = term.left.pack.packing.shape.kc
        lane_bytes = term.right.pack.packing.shape.lane_bytes
        thin = replace(term.right.pack.packing.shape, kc=FEW_ROWS_DEPTH, b_row_stride=term.right.row_stride)
        total = self.scope.address(term.term.buffer, 0, 0, 0)

        def chunk(number: Value, _: list[str]) -> Sequence[str]:
            base = function.mul(number, kc)
            rest = self._rest(term, base)
            a, stride = self._left(term, number, base, rest)

            def slices(k: Value, _: list[str]) -> Sequence[str]:
                place = function.add(base, k)
                first = function.compare("eq", place, 0) if term.term.from_zero else "false"
                micro_product(
                    function,
                    replace(thin, a_row_stride=stride),
                    function.offset(a, function.mul(k, lane_bytes)),
                    function.offset(
                        term.right.pointer,
                        function.mul(place, function.mul(term.right.row_stride, lane_bytes)),
                    ),
                    total,
                    function.minimum(function.sub(rest, k), FEW_ROWS_DEPTH),
                    first,
                )
                return ()

            function.loop(0, rest, FEW_ROWS_DEPTH, slices, runs=True)
            return ()

        function.loop(0, self._count(term), 1, chunk)
