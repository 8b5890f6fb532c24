"""Reading and writing blocks of tensors: addresses, edges, strides, storage types."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gizml_tile.dtypes import DType, math_dtype, to_numpy
from gizml_tile.index_bits import farthest
from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.builder import Function, Value, float_text, splat, suffix, vector
from gizml_tile.lowering.emit.cpu.scope import Scope
from gizml_tile.lowering.emit.cpu.storage import storage_kind
from gizml_tile.nodes import Node, View

Masks = dict[object, str] | None


@dataclass(frozen=True, slots=True)
class Along:
    """One axis of a block: where it starts in the tensor, the tensor's size, the stride in bytes."""

    start: Value
    size: Value
    stride_bytes: Value
    nonnegative: bool  # the start is not before the tensor


@dataclass
class Block:
    """A block of a tensor as a function addresses it, row ``r`` and column ``c`` counting from its start."""

    scope: Scope
    dtype: DType
    pad: float | int | bool
    pointer: str
    inside: str  # whether the leading coordinates are
    rows: Along
    columns: Along

    def holds(self, row: Value, rows: int, column: Value, columns: int) -> str:
        """Whether all of a part of the block lies inside the tensor."""
        function = self.scope.function
        checks = [] if self.inside == "true" else [self.inside]
        for along, first, count in ((self.rows, row, rows), (self.columns, column, columns)):
            start = function.add(along.start, first)
            if not along.nonnegative:
                checks.append(function.compare("sge", start, 0))
            checks.append(function.compare("sle", function.add(start, count), along.size))
        return function.all_of(checks)

    def row(self, row: Value, width: int) -> Line:
        """The block's row, whose elements are taken ``width`` at a time along the columns."""
        return self._line(self.rows, self.columns, row, width)

    def column(self, column: Value, width: int) -> Line:
        """The block's column, whose elements are taken ``width`` at a time along the rows."""
        return self._line(self.columns, self.rows, column, width)

    def _line(self, across: Along, along: Along, place: Value, width: int) -> Line:
        function = self.scope.function
        where = function.add(across.start, place)
        offset = function.add(
            function.mul(where, across.stride_bytes), function.mul(along.start, along.stride_bytes)
        )
        checks = [self.inside] if self.inside != "true" else []
        if not across.nonnegative:
            checks.append(function.compare("sge", where, 0))
        checks.append(function.compare("slt", where, across.size))
        return self._cut(function.offset(self.pointer, offset), function.all_of(checks), along, width)

    def run(self, width: int) -> Line:
        """The columns from the block's pointer on, taken ``width`` at a time."""
        return self._cut(self.pointer, self.inside, self.columns, width)

    def _cut(self, pointer: str, inside: str, along: Along, width: int) -> Line:
        """A line from a pointer on, up to the tensor's end."""
        function = self.scope.function
        length = function.choose(inside, function.maximum(function.sub(along.size, along.start), 0), 0)
        start: Value = 0
        if not along.nonnegative:
            # A start that lies further back than any tile is long must not look near in 32 bits.
            start = function.minimum(function.maximum(function.sub(0, along.start), 0), 2**30)
            length = function.maximum(function.sub(length, start), 0)
        limit = ""
        if width > 1:
            # Places count in 32 bits: no tile is longer than 2^20.
            shortened = function.emit(f"trunc i64 {function.minimum(length, 2**30)} to i32")
            limit = broadcast(function, "i32", shortened, width)
        return Line(self, pointer, start, length, along.stride_bytes, width, limit)


@dataclass
class Line:
    """A row or column of a block: ``length`` elements from ``start`` on lie inside the tensor."""

    block: Block
    pointer: str
    start: Value
    length: Value
    stride_bytes: Value
    width: int
    limit: str  # the length in every lane

    def load(
        self, arithmetic: Arithmetic, place: Value, masks: Masks, chosen: str | None = None
    ) -> str:
        """Elements from ``place`` on as they are in registers, the pad outside.

        ``masks`` are shared by the reads and stores of one place; None promises that all of it is inside.
        ``chosen`` masks further lanes.
        """
        dtype, pad = self.block.dtype, self.block.pad
        storage = arithmetic.storage_type(dtype)
        single = arithmetic.with_width(1)
        if chosen is not None and masks is None:
            masks = {}
        if masks is None and self.width > 1:
            return self._load_inside(arithmetic, place)
        if self.width == 1:
            return single.decode(dtype, self._load_one(single, place, pad, chosen=chosen))
        assert masks is not None
        if self.stride_bytes == 0:
            value = single.decode(dtype, self._load_one(single, 0, pad, anywhere=True))
            value = broadcast(self._function, single.type(dtype), value, self.width)
            outside = arithmetic.constant(math_dtype(dtype), pad)
            mask = self._mask(place, masks, chosen)
            return arithmetic.select(math_dtype(dtype), mask, value, outside)
        kind = single.storage_type(dtype)
        pads = splat(kind, raw_text(dtype, pad), self.width)
        mask = self._mask(place, masks, chosen)
        raw = self._masked(
            "load", storage, kind, place, [f"{vector('i1', self.width)} {mask}", f"{storage} {pads}"]
        )
        return arithmetic.decode(dtype, raw)

    def each(self, place: Value, chosen: str | None) -> tuple[str, str]:
        """The address of each lane's element from ``place`` on, and which are inside and ``chosen``."""
        if self.width > 1:
            return self._addresses(place), self._mask(place, {}, chosen)
        address = self._function.offset(self.pointer, self._function.mul(place, self.stride_bytes))
        return address, self._inside(place, chosen)

    def codes(self, width: int, place: Value, masks: Masks) -> str:
        """Neighbouring bytes of a row whose elements are bytes, zero outside."""
        of = vector("i8", width)
        if masks is None:
            return self._function.load(of, self._function.offset(self.pointer, place), 1)
        mask = f"{vector('i1', width)} {self._mask(place, masks)}"
        return self._masked("load", of, "i8", place, [mask, f"{of} zeroinitializer"])

    def _load_inside(self, arithmetic: Arithmetic, place: Value) -> str:
        function, dtype = self._function, self.block.dtype
        storage = arithmetic.storage_type(dtype)
        if self.stride_bytes == dtype.bytes:
            address = function.offset(self.pointer, function.mul(place, dtype.bytes))
            return arithmetic.decode(dtype, function.load(storage, address, dtype.bytes))
        single = arithmetic.with_width(1)
        if self.stride_bytes == 0:
            raw = function.load(single.storage_type(dtype), self.pointer, dtype.bytes)
            return broadcast(function, single.type(dtype), single.decode(dtype, raw), self.width)
        kind = single.storage_type(dtype)
        every = f"{vector('i1', self.width)} {splat('i1', 'true', self.width)}"
        raw = self._masked("load", storage, kind, place, [every, f"{storage} poison"])
        return arithmetic.decode(dtype, raw)

    def store(
        self, arithmetic: Arithmetic, value: str, place: Value, masks: Masks, chosen: str | None = None
    ) -> None:
        """Writes ``value`` from ``place`` on, only ``chosen`` lanes, and nothing outside the tensor."""
        dtype = self.block.dtype
        raw = arithmetic.encode(dtype, value)
        storage = arithmetic.storage_type(dtype)
        function = self._function
        if self.width == 1:
            address = function.offset(self.pointer, function.mul(place, self.stride_bytes))

            def write() -> list[str]:
                function.store(storage, raw, address, dtype.bytes)
                return []

            function.when(self._inside(place, chosen), write)
            return
        if chosen is not None and masks is None:
            masks = {}
        if masks is None and self.stride_bytes == dtype.bytes:
            function.store(storage, raw, self.address(place), dtype.bytes)
            return
        kind = arithmetic.with_width(1).storage_type(dtype)
        mask = splat("i1", "true", self.width) if masks is None else self._mask(place, masks, chosen)
        self._masked("store", storage, kind, place, [f"{vector('i1', self.width)} {mask}"], raw)

    def holds(self, place: Value) -> str:
        """Whether all lanes from ``place`` on lie inside."""
        function = self._function
        checks = [] if self.start == 0 else [function.compare("eq", self.start, 0)]
        checks.append(function.compare("sle", function.add(place, self.width), self.length))
        return function.all_of(checks)

    def address(self, place: Value) -> str:
        """Where the element at ``place`` lies."""
        return self._function.offset(self.pointer, self._function.mul(place, self.stride_bytes))

    def _masked(
        self, what: str, storage: str, kind: str, place: Value, rest: list[str], raw: str = ""
    ) -> str:
        """A masked load or store of neighbouring elements, or a gather or scatter of spread ones."""
        function, element_bytes = self._function, self.block.dtype.bytes
        if self.stride_bytes == element_bytes:
            address = function.offset(self.pointer, function.mul(place, element_bytes))
            pointer_type, pointer = "ptr", f"ptr {address}"
            name = f"llvm.masked.{what}.{suffix(kind, self.width)}.p0"
        else:
            what = {"load": "gather", "store": "scatter"}[what]
            pointer_type = vector("ptr", self.width)
            pointer = f"{pointer_type} {self._addresses(place)}"
            name = f"llvm.masked.{what}.{suffix(kind, self.width)}.v{self.width}p0"
        first = [f"{storage} {raw}"] if raw else []
        arguments = [*first, pointer, f"i32 {element_bytes}", *rest]
        types = [*([storage] if raw else []), pointer_type, "i32 immarg", vector("i1", self.width)]
        types += [] if raw else [storage]
        result = "void" if raw else storage
        function.module.declare(name, f"{result} @{name}({', '.join(types)})")
        if raw:
            function.call_void(name, *arguments)
            return ""
        return function.call(storage, name, *arguments)

    @property
    def _function(self) -> Function:
        return self.block.scope.function

    def _load_one(
        self,
        single: Arithmetic,
        place: Value,
        pad: float | int | bool,
        *,
        anywhere: bool = False,
        chosen: str | None = None,
    ) -> str:
        """One element as it is stored, or the pad: its address is chosen, so that nothing branches."""
        function, dtype = self._function, self.block.dtype
        address = function.offset(self.pointer, function.mul(place, self.stride_bytes))
        kind = single.storage_type(dtype)
        inside = function.compare("sgt", self.length, 0) if anywhere else self._inside(place, chosen)
        outside = function.module.constant(kind, raw_text(dtype, pad))
        chosen = function.emit(f"select i1 {inside}, ptr {address}, ptr {outside}")
        return function.load(kind, chosen, dtype.bytes)

    def _inside(self, place: Value, chosen: str | None = None) -> str:
        function = self._function
        inside = function.compare("ult", function.sub(place, self.start), self.length)
        return inside if chosen is None else function.all_of([inside, chosen])

    def _mask(self, place: Value, masks: dict[object, str], chosen: str | None = None) -> str:
        """Which lanes from ``place`` on lie inside; shared by the reads and stores of a pass."""
        if chosen is not None:
            inside = self._mask(place, masks)
            return self._function.emit(f"and {vector('i1', self.width)} {inside}, {chosen}")
        key = (self.limit, self.start, place)
        if key not in masks:
            function = self._function
            lanes = vector("i32", self.width)
            first = function.sub(place, self.start)
            text = str(first) if isinstance(first, int) else function.emit(f"trunc i64 {first} to i32")
            indices = broadcast(function, "i32", text, self.width)
            indices = function.emit(f"add {lanes} {indices}, {numbers('i32', self.width)}")
            masks[key] = function.emit(f"icmp ult {lanes} {indices}, {self.limit}")
        return masks[key]

    def _addresses(self, place: Value) -> str:
        function = self._function
        lanes = vector("i64", self.width)
        indices = broadcast(function, "i64", str(place), self.width)
        indices = function.emit(f"add {lanes} {indices}, {numbers('i64', self.width)}")
        strides = broadcast(function, "i64", str(self.stride_bytes), self.width)
        offsets = function.emit(f"mul {lanes} {indices}, {strides}")
        return function.emit(f"getelementptr i8, ptr {self.pointer}, {lanes} {offsets}")


def block_of(scope: Scope, node: Node) -> Block:
    """The block that a read or put addresses; its coordinates must be known scalars."""
    view = node.attr
    assert isinstance(view, View)
    coordinates = node.args[1:] if node.op == "put" else node.args
    tensor = scope.tensors[view.tensor]
    element_bytes = scope.unit.program.tensors[view.tensor].dtype.bytes
    function = scope.function
    leading = len(coordinates) - len(view.block)
    pointer, checks = tensor.pointer, []
    for axis in range(leading):
        place = scope.scalar(coordinates[axis])
        stride = function.mul(tensor.strides[axis], element_bytes)
        pointer = function.offset(pointer, function.mul(place, stride))
        checks.append(function.compare("slt", place, tensor.sizes[axis]))
        if not scope.is_nonnegative(coordinates[axis]):
            checks.append(function.compare("sge", place, 0))
    axes = []
    for axis, (extent, own) in enumerate(zip(view.block, view.own, strict=True), leading):
        start = scope.scalar(coordinates[axis])
        if view.mode == "at":
            limit = farthest(coordinates[axis], own, scope.starts)
            if limit is not None:
                start = function.maximum(function.minimum(start, limit), -limit)
            start = function.mul(start, own)
        stride = function.mul(tensor.strides[axis], element_bytes)
        nonnegative = scope.is_nonnegative(coordinates[axis])
        size = tensor.sizes[axis]
        if own < extent:
            # What is beyond the block's own end is as what is beyond the tensor's.
            size = function.minimum(size, function.add(start, own))
        axes.append(Along(start, size, stride, nonnegative))
    if len(axes) == 1:
        axes.insert(0, Along(0, 1, 0, True))
    dtype = scope.unit.program.tensors[view.tensor].dtype
    return Block(scope, dtype, view.pad, pointer, function.all_of(checks), axes[0], axes[1])


def broadcast(function: Function, kind: str, value: str, width: int) -> str:
    """A scalar in every lane."""
    if width == 1:
        return value
    of = vector(kind, width)
    lane = function.emit(f"insertelement {of} poison, {kind} {value}, i64 0")
    return function.emit(f"shufflevector {of} {lane}, {of} poison, <{width} x i32> zeroinitializer")


def numbers(kind: str, width: int) -> str:
    """The lanes' numbers as a constant."""
    return "0" if width == 1 else f"<{', '.join(f'{kind} {lane}' for lane in range(width))}>"


def raw_text(dtype: DType, value: float | int | bool) -> str:
    """A number as it is stored, as an LLVM constant."""
    stored = np.asarray(value).astype(to_numpy(dtype))
    if dtype in (DType.F32, DType.F64):
        return float_text(float(stored), storage_kind(dtype))
    return str(int(stored.view(f"u{dtype.bytes}")))
