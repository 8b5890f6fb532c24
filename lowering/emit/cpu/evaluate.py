"""The values of a pass at one place: virtual tiles are computed, the others loaded from their homes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gizml_tile.dtypes import BF16, F32, I8, I16, I32, MASK
from gizml_tile.lowering.emit.cpu.access import Block, Line, Masks, block_of, broadcast, numbers
from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.builder import Value, float_text, splat, vector
from gizml_tile.lowering.emit.cpu.elements import Addresses
from gizml_tile.lowering.emit.cpu.moves import Neighbours, column_value, row_value
from gizml_tile.lowering.emit.cpu.random import draw, neighbours
from gizml_tile.lowering.emit.cpu.schedule import Buffer, is_scalar
from gizml_tile.lowering.emit.cpu.scope import Scope, apply, register_dtype
from gizml_tile.nodes import MOVES, Const, Node

# Operands of these are needed at another place than the result, where they are prepared.
_ELSEWHERE = MOVES | {"transpose"}


@dataclass
class Pass:
    """What all places of a pass share: the blocks it reads, addressed once before its loops."""

    scope: Scope
    buffers: dict[Node, Buffer]
    blocks: dict[Node, Block] = field(default_factory=dict)
    addresses: dict[Node, Addresses] = field(default_factory=dict)

    def prepare(self, roots: tuple[Node, ...], made: frozenset[Node] = frozenset()) -> None:
        """Addresses every block that values will be read from; ``made`` are computed, not loaded."""
        for node in self.virtual(roots, made):
            around = self.scope.function.come_from(node.place)
            if node.op == "read" and node not in self.blocks:
                self.blocks[node] = block_of(self.scope, node)
            elif node.op == "gather" and node not in self.addresses:
                self.addresses[node] = Addresses.of(self.scope, node)
            self.scope.function.come_from(around)

    def without(self, made: frozenset[Node]) -> Pass:
        """The same pass, where what it makes itself is computed also at places that it has not come to."""
        buffers = {node: buffer for node, buffer in self.buffers.items() if node not in made}
        return replace(self, buffers=buffers)

    def row_of(self, node: Node, row: Value, local: Value) -> Neighbours:
        """A row of a tile, of which neighbours are taken anywhere."""

        def take(column: Value, width: int) -> str:
            place = RowPlace(self, row, local, width, stretches=node.shape[1] > 1)
            place.prepare((node,))
            return place.look(column).value(node)

        return take

    def column_of(self, node: Node) -> Neighbours:
        """A tile with one column, of which neighbouring rows are taken anywhere."""
        return lambda row, width: ColumnPlace(self, row, row, width).value(node)

    def virtual(self, roots: tuple[Node, ...], made: frozenset[Node] = frozenset()) -> list[Node]:
        """The nodes that are computed to get ``roots``, and the leaves that are loaded."""
        found: list[Node] = []
        pending, seen = list(roots), set[Node]()
        while pending:
            node = pending.pop()
            if node in seen or node.shape == ():
                continue
            seen.add(node)
            found.append(node)
            if node not in made and (is_scalar(node) or node in self.buffers):
                continue
            pending.extend(arg for arg in node.args if arg.is_tile)
        return found


@dataclass
class RowPlace:
    """A row of a tile; its vectors of columns are ``at`` places. ``local`` counts in the row block.

    ``stretches`` tells that tiles with one column are the same in all of the row.
    """

    shared: Pass
    row: Value
    local: Value
    width: int
    stretches: bool = False
    uniform: dict[Node, str] = field(default_factory=dict)
    lines: dict[Node, Line] = field(default_factory=dict)
    reciprocals: dict[Node, tuple[str, str, str]] = field(default_factory=dict)
    # Where the counters of random numbers are, a quarter as many columns.
    draws: dict[Node, RowPlace] = field(default_factory=dict)

    def prepare(self, roots: tuple[Node, ...], made: frozenset[Node] = frozenset()) -> None:
        """Computes what is the same in the whole row, before the loop over its columns."""
        shared = self.shared
        pending, seen = list(roots), set[Node]()
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            if is_scalar(node) or (node.shape[1] == 1 and (self.width > 1 or self.stretches)):
                self._uniform(node)
            elif node in shared.buffers and node not in made:
                continue
            elif node.op == "read":
                row = 0 if node.shape[0] == 1 else self.row
                self.lines[node] = shared.blocks[node].row(row, self.width)
            elif node.op == "gather" and self.width > 1 and shared.addresses[node].run is not None:
                self.lines[node] = self.run(shared.addresses[node], made)
                if shared.addresses[node].chooses:
                    pending.append(node.args[-1])
            elif node.op == "random":
                width = max(1, self.width // 4)
                quarter = RowPlace(shared, self.row, self.local, width, stretches=node.shape[1] > 4)
                quarter.prepare(node.args)
                self.draws[node] = quarter
            elif node.op not in _ELSEWHERE:
                if node.op == "div" and (reciprocal := self._reciprocal(node)):
                    self.reciprocals[node] = reciprocal
                pending.extend(arg for arg in node.args if arg.is_tile)

    def _uniform(self, node: Node) -> str:
        if node not in self.uniform:
            scope = self.shared.scope
            if is_scalar(node):
                value = str(scope.scalar(node))
            else:
                value = ColumnPlace(self.shared, self.row, self.local, 1).value(node)
            kind = scope.arithmetic(1).type(register_dtype(node))
            self.uniform[node] = broadcast(scope.function, kind, value, self.width)
        return self.uniform[node]

    def run(self, addresses: Addresses, made: frozenset[Node] = frozenset()) -> Line:
        """A row of a gather or scatter whose elements are neighbours in memory."""
        first = RowPlace(self.shared.without(made), self.row, self.local, 1)
        first.prepare(addresses.tiles)
        return addresses.line(first.at(0).value, self.width)

    def at(self, column: Value, *, inside: bool = False) -> Place:
        """The vector of columns from ``column`` on; ``inside`` promises that no edge crosses it."""
        return Place(
            self.shared, self.row, self.local, column, self.width, self, masks=None if inside else {}
        )

    def look(self, column: Value) -> Place:
        """The vector of columns from ``column`` on, whose reads look whether an edge crosses them."""
        return replace(self.at(column), looks=True)

    def inside(self, columns: Value, step: int, more: Iterable[Line]) -> Value:
        """How many columns, a multiple of ``step``, lie inside all tensors that the row touches."""
        function = self.shared.scope.function
        count: Value = columns
        for line in (*self.lines.values(), *more):
            length = line.length
            if line.start != 0:
                length = function.choose(function.compare("eq", line.start, 0), length, 0)
            count = function.minimum(count, length)
        return function.sub(count, function.remainder(count, step))

    def _reciprocal(self, node: Node) -> tuple[str, str, str] | None:
        """For a division by what is the same in the row: divisor, reciprocal, whether they serve.

        With the rounded reciprocal r of s, the quotient x / s is q = x * r made better twice by
        q + (x - q * s) * r. The first step leaves q next to the quotient, the second rounds it right, if
        nothing underflows or overflows on the way (Markstein 1990, theorem 2).
        """
        divisor = node.args[1]
        scalar = divisor.shape[1] == 1
        worth = node.shape[1] >= 4 * self.width and self.width >= 8
        if node.dtype is not F32 or not scalar or not worth:
            return None
        function = self.shared.scope.function
        splat_value = self._uniform(divisor)
        of = vector("float", self.width)
        value = function.emit(f"extractelement {of} {splat_value}, i64 0")
        reciprocal = function.emit(f"fdiv float {float_text(1.0)}, {value}")
        size = self.shared.scope.arithmetic(1).unary("abs", F32, value)
        serves = function.all_of(
            [
                function.emit(f"fcmp oge float {size}, {float_text(2.0**-20)}"),
                function.emit(f"fcmp ole float {size}, {float_text(2.0**20)}"),
            ]
        )
        return splat_value, broadcast(function, "float", reciprocal, self.width), serves


@dataclass
class Place:
    """``width`` neighbouring columns of one row."""

    shared: Pass
    row: Value
    local: Value
    column: Value
    width: int
    parent: RowPlace
    masks: Masks
    looks: bool = False  # whether reads look if they are inside, where no edge tells
    memo: dict[Node, str] = field(default_factory=dict)

    @property
    def arithmetic(self) -> Arithmetic:
        return self.shared.scope.arithmetic(self.width)

    def value(self, node: Node) -> str:
        """The node's value here, loaded where it has a home."""
        if node in self.memo:
            return self.memo[node]
        if node in self.parent.uniform:
            return self.parent.uniform[node]
        if is_scalar(node) or (node.shape[1] == 1 and self.width > 1):
            raise AssertionError(f"{node} was not prepared for its row")
        buffer = self.shared.buffers.get(node)
        if buffer is not None:
            address = self.shared.scope.address(buffer, self.row, self.local, self.column)
            self.memo[node] = load_buffer(self.shared.scope, buffer, address, self.width)
            return self.memo[node]
        return self.compute(node)

    def compute(self, node: Node) -> str:
        """The node's value here, computed from its operands."""
        function = self.shared.scope.function
        around = function.come_from(node.place)
        self.memo[node] = self._compute(node)
        function.come_from(around)
        return self.memo[node]

    def _compute(self, node: Node) -> str:
        arithmetic = self.arithmetic
        if node.op == "const" and isinstance(node.attr, Const):
            return arithmetic.constant(register_dtype(node), node.attr.value)
        if node.op == "iota" and isinstance(node.attr, Const):
            return count(self.shared.scope, node, self.row, self.column, self.width, axis=1)
        if node.op == "read":
            if self.looks and self.width > 1:
                return self._looked(self.parent.lines[node], node)
            return self.parent.lines[node].load(arithmetic, self.column, self.masks)
        if node.op == "gather":
            addresses = self.shared.addresses[node]
            line = self.parent.lines.get(node)
            if line is None:
                return addresses.load(arithmetic, self.value)
            chosen = self.value(node.args[-1]) if addresses.chooses else None
            return line.load(arithmetic, self.column, self.masks, chosen)
        if node.op == "random":
            quarter = self.parent.draws[node].at(self.shared.scope.function.divide(self.column, 4))
            drawn = draw(quarter.arithmetic, node, *(quarter.value(arg) for arg in node.args))
            return neighbours(quarter.arithmetic, node, drawn, self.column, self.width)
        if node.op == "transpose":
            if node.shape[1] == 1:  # a row standing up, one element at a time
                return ColumnPlace(self.shared, self.row, self.local, self.width).value(node)
            # A column lying on its side.
            inner = ColumnPlace(self.shared, self.column, self.column, self.width)
            return inner.value(node.args[0])
        if node.op in MOVES:
            kind = self.shared.scope.arithmetic(1).type(register_dtype(node))
            # A single row is the same one in every row that it stretches to.
            row, local = (0, 0) if node.shape[0] == 1 else (self.row, self.local)
            place = (row, local, self.column)
            return row_value(self.shared.scope.function, kind, node, place, self.width, self.shared.row_of)
        if node in self.parent.reciprocals:
            return self._quotient(node, self.value(node.args[0]))
        return apply(arithmetic, node, [self.value(arg) for arg in node.args])

    def _looked(self, line: Line, node: Node) -> str:
        """A read without masks where all of it is inside.

        With masks it waits for stores of which the last bits of the address are the same, and the hardware
        fetches nothing ahead.
        """
        arithmetic = self.arithmetic

        def free() -> list[str]:
            return [line.load(arithmetic, self.column, None)]

        def masked() -> list[str]:
            return [line.load(arithmetic, self.column, {})]

        kind = arithmetic.type(register_dtype(node))
        return self.shared.scope.function.when(line.holds(self.column), free, masked, [kind])[0]

    def _quotient(self, node: Node, value: str) -> str:
        """Division by the row's reciprocal; vectors with very large or small elements divide after all."""
        divisor, reciprocal, serves = self.parent.reciprocals[node]
        arithmetic, function = self.arithmetic, self.shared.scope.function
        of, bits, mask = (vector(kind, self.width) for kind in ("float", "i32", "i1"))
        small, range_ = (27 << 23), (200 << 23)  # 2^-100, and the exponents from there to 2^100
        pattern = function.emit(f"bitcast {of} {value} to {bits}")
        size = function.emit(f"and {bits} {pattern}, {splat('i32', str(0x7FFFFFFF), self.width)}")
        above = function.emit(f"sub {bits} {size}, {splat('i32', str(small), self.width)}")
        odd = function.emit(f"icmp ugt {bits} {above}, {splat('i32', str(range_), self.width)}")
        # +0 is common and comes out right; the second step would lose the sign of -0.
        nonzero = function.emit(f"icmp ne {bits} {pattern}, zeroinitializer")
        odd = function.emit(f"and {mask} {odd}, {nonzero}")
        flags = function.emit(f"bitcast {mask} {odd} to i{self.width}")
        none = function.emit(f"icmp eq i{self.width} {flags}, 0")

        def fast() -> list[str]:
            quotient = arithmetic.binary("mul", F32, value, reciprocal)
            for _ in range(2):
                rest = arithmetic.fma(F32, quotient, divisor, value, negate_product=True)
                quotient = arithmetic.fma(F32, rest, reciprocal, quotient)
            return [quotient]

        def slow() -> list[str]:
            return [arithmetic.binary("div", F32, value, divisor)]

        return function.when(function.all_of([none, serves]), fast, slow, [of])[0]


@dataclass
class ColumnPlace:
    """``width`` neighbouring rows of tiles with one column."""

    shared: Pass
    row: Value
    local: Value
    width: int
    memo: dict[Node, str] = field(default_factory=dict)
    masks: dict[object, str] = field(default_factory=dict)

    @property
    def arithmetic(self) -> Arithmetic:
        return self.shared.scope.arithmetic(self.width)

    def value(self, node: Node) -> str:
        if node in self.memo:
            return self.memo[node]
        scope = self.shared.scope
        buffer = self.shared.buffers.get(node)
        if is_scalar(node):
            kind = scope.arithmetic(1).type(register_dtype(node))
            value = str(scope.scalar(node))
            self.memo[node] = broadcast(scope.function, kind, value, self.width)
        elif buffer is not None:
            self.memo[node] = self._load(buffer)
        else:
            return self.compute(node)
        return self.memo[node]

    def compute(self, node: Node) -> str:
        function = self.shared.scope.function
        around = function.come_from(node.place)
        self.memo[node] = self._compute(node)
        function.come_from(around)
        return self.memo[node]

    def _load(self, buffer: Buffer) -> str:
        scope = self.shared.scope
        if buffer.home().row_stride == 1 or self.width == 1:
            address = scope.address(buffer, self.row, self.local, 0)
            return load_buffer(scope, buffer, address, self.width)
        kind = scope.arithmetic(1).type(buffer.dtype)
        of, total = vector(kind, self.width), "poison"
        for lane in range(self.width):
            function = scope.function
            row, local = function.add(self.row, lane), function.add(self.local, lane)
            value = load_buffer(scope, buffer, scope.address(buffer, row, local, 0), 1)
            total = function.emit(f"insertelement {of} {total}, {kind} {value}, i64 {lane}")
        return total

    def _compute(self, node: Node) -> str:
        scope = self.shared.scope
        if node.op == "const" and isinstance(node.attr, Const):
            return self.arithmetic.constant(register_dtype(node), node.attr.value)
        if node.op == "iota":
            return count(scope, node, self.row, 0, self.width, axis=0)
        if node.op == "read":
            line = self.shared.blocks[node].column(0, self.width)
            return line.load(self.arithmetic, self.row, self.masks)
        if node.op == "gather":
            return self.shared.addresses[node].load(self.arithmetic, self.value)
        if node.op == "random":
            return draw(self.arithmetic, node, *(self.value(arg) for arg in node.args))[0]
        if node.op == "transpose":
            # A row standing up.
            place = RowPlace(self.shared, 0, 0, self.width)
            place.prepare(node.args)
            return place.at(self.row).value(node.args[0])
        if node.op in MOVES:
            kind, shared = scope.arithmetic(1).type(register_dtype(node)), self.shared
            where = (self.row, self.local)
            return column_value(
                scope.function, kind, node, where, self.width, shared.row_of, shared.column_of
            )
        return apply(self.arithmetic, node, [self.value(arg) for arg in node.args])


def count(scope: Scope, node: Node, row: Value, column: Value, width: int, *, axis: int) -> str:
    """An iota's values where the lanes run along ``axis``."""
    assert isinstance(node.attr, Const)
    function, arithmetic = scope.function, scope.arithmetic(width)
    place = (row, column)[int(node.attr.value)]
    text = str(place) if isinstance(place, int) else function.emit(f"trunc i64 {place} to i32")
    indices = broadcast(function, "i32", text, width)
    if node.attr.value == axis:
        indices = function.emit(f"add {vector('i32', width)} {indices}, {numbers('i32', width)}")
    return arithmetic.convert(I32, node.attr.dtype, indices)


def load_buffer(scope: Scope, buffer: Buffer, address: str, width: int) -> str:
    """Elements of a home as they are in registers."""
    function = scope.function
    arithmetic = scope.arithmetic(width)
    if buffer.dtype is MASK:
        raw = function.load(vector("i8", width), address, 1)
        return arithmetic.decode(MASK, raw)
    return function.load(arithmetic.type(buffer.dtype), address, buffer.element_bytes)


def store_buffer(scope: Scope, buffer: Buffer, address: str, value: str, width: int) -> None:
    """Writes elements from registers to a home."""
    function, arithmetic = scope.function, scope.arithmetic(width)
    if buffer.packed:
        integers = {1: I8, 2: I16}
        stored = integers[buffer.packed] if buffer.dtype.is_integer else BF16
        kind = vector(f"i{8 * buffer.packed}", width)
        function.store(kind, arithmetic.encode(stored, value), address, buffer.packed)
    elif buffer.dtype is MASK:
        function.store(vector("i8", width), arithmetic.encode(MASK, value), address, 1)
    else:
        function.store(arithmetic.type(buffer.dtype), value, address, buffer.element_bytes)
