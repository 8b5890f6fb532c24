"""What is known while a function is written: arguments, scalars, addresses of homes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gizml_tile.dtypes import I64, DType, math_dtype
from gizml_tile.index_bits import MOST_BITS, Starts, index_bits, starts
from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.builder import Function, Value
from gizml_tile.lowering.emit.cpu.normalise import Storage
from gizml_tile.lowering.emit.cpu.packing import Pack
from gizml_tile.lowering.emit.cpu.random import draw
from gizml_tile.lowering.emit.cpu.schedule import Buffer
from gizml_tile.nodes import COMPARISONS, Const, Node, Scalar, TileProgram, promote


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor's values in a function: address, sizes, and strides in elements (0 and 1 where known)."""

    pointer: str
    sizes: tuple[Value, ...]
    strides: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class ArgumentLayout:
    """Where each of a launch's values stands in the array of 64-bit slots that functions are given.

    Per argument tensor: address, sizes, strides in elements; then scalars; then the grid's three sizes;
    then for every packing function the address of the blocks it packed in advance, or 0.
    """

    ranks: tuple[int, ...]
    scalars: int
    packs: int

    def tensor(self, number: int) -> int:
        return sum(1 + 2 * rank for rank in self.ranks[:number])

    def size(self, number: int, axis: int) -> int:
        return self.tensor(number) + 1 + axis

    def stride(self, number: int, axis: int) -> int:
        return self.tensor(number) + 1 + self.ranks[number] + axis

    def scalar(self, number: int) -> int:
        return self.tensor(len(self.ranks)) + number

    def grid(self, axis: int) -> int:
        return self.scalar(self.scalars) + axis

    def pack(self, number: int) -> int:
        return self.grid(3) + number

    @property
    def threads(self) -> int:
        """Where the number of threads that run programs of the launch is."""
        return self.pack(self.packs)

    @property
    def locks(self) -> int:
        """Where the address of the launch's locks is."""
        return self.threads + 1

    @property
    def slots(self) -> int:
        return self.locks + 1


@dataclass(frozen=True, slots=True)
class Unit:
    """The compilation unit that functions belong to."""

    program: TileProgram
    storage: tuple[Storage, ...]
    # per argument tensor and axis: "unit", "zero" or "any"
    layouts: tuple[tuple[str, ...], ...]
    arguments: ArgumentLayout
    lanes: int
    avx512: bool
    half: bool
    stream_bytes: int


@dataclass
class Scope:
    """A function being written. ``scalars`` hold i64 (also as Python ints), floats, i32 or i1 values."""

    unit: Unit
    function: Function
    slots: str = "%args"
    scalars: dict[Node, Value] = field(default_factory=dict)
    homes: dict[Buffer, str] = field(default_factory=dict)
    packs: dict[Pack, str] = field(default_factory=dict)
    tensors: dict[int, TensorArgument] = field(default_factory=dict)
    ids: tuple[Value, ...] = (0, 0, 0)
    signs: dict[Node, bool] = field(default_factory=dict)
    entry_lines: list[str] = field(default_factory=list)

    @property
    def starts(self) -> Starts:
        """What the program's loops count from."""
        return starts(self.unit.program)

    def arithmetic(self, width: int) -> Arithmetic:
        return Arithmetic(self.function, width, avx512=self.unit.avx512, half=self.unit.half)

    def slot(self, number: int, kind: str = "i64") -> str:
        return self.function.load(kind, self.function.offset(self.slots, 8 * number), 8)

    def entry_address(self, base: str, place: int) -> str:
        """An address ``place`` bytes behind a parameter, computed once at the function's start."""
        name = self.function.temp()
        self.entry_lines.append(f"  {name} = getelementptr i8, ptr {base}, i64 {place}")
        return name

    def entry_room(self, count: int) -> str:
        """Memory of the function's own for so many bytes."""
        name = self.function.temp()
        self.entry_lines.append(f"  {name} = alloca [{count} x i8], align {count}")
        return name

    def finish(self) -> None:
        """Writes what belongs at the function's start, when all else is written."""
        self.function.lines.insert_all(1, self.entry_lines)

    def load_tensors(self, numbers: Iterable[int]) -> None:
        """Loads what is known of tensors of the normalised program, at the start of a function."""
        for number in sorted(set(numbers) - set(self.tensors)):
            storage = self.unit.storage[number]
            layout = self.unit.layouts[storage.argument]
            slots = self.unit.arguments
            rank = len(layout)
            axes = list(range(rank))
            if storage.swapped:
                axes[-2:] = axes[-1], axes[-2]
            known = {"unit": 1, "zero": 0}
            self.tensors[number] = TensorArgument(
                self.slot(slots.tensor(storage.argument), "ptr"),
                tuple(self.slot(slots.size(storage.argument, axis)) for axis in axes),
                tuple(
                    known[layout[axis]]
                    if layout[axis] in known
                    else self.slot(slots.stride(storage.argument, axis))
                    for axis in axes
                ),
            )

    def scalar(self, node: Node) -> Value:
        """The value of an index or a [1, 1] tile, computed here if it was not yet."""
        if node not in self.scalars:
            around = self.function.come_from(node.place)
            self.scalars[node] = self._scalar(node)
            self.function.come_from(around)
        return self.scalars[node]

    def _scalar(self, node: Node) -> Value:
        function = self.function
        match node.op, node.attr:
            case "index", int(value):
                return value
            case "id", int(axis):
                return self.ids[axis]
            case "count", int(axis):
                return self.slot(self.unit.arguments.grid(axis))
            case "size", (number, axis):
                return self.tensors[number].sizes[axis]
            case "scalar", Scalar():
                slot = self.unit.arguments.scalar(self.unit.program.scalars.index(node.attr))
                return self.slot(slot, "i64" if node.attr.dtype is I64 else "float")
            case "const" | "iota", Const(value=value):
                return self.arithmetic(1).constant(
                    math_dtype(node.attr.dtype), 0 if node.op == "iota" else value
                )
            case "read", _:
                # A block's address is made of scalars, so the two modules need each other.
                from gizml_tile.lowering.emit.cpu.access import block_of

                return block_of(self, node).row(0, 1).load(self.arithmetic(1), 0, {})
            case "gather", _:
                from gizml_tile.lowering.emit.cpu.elements import Addresses

                addresses = Addresses.of(self, node)
                return addresses.load(self.arithmetic(1), lambda tile: str(self.scalar(tile)))
            case "element", _:
                from gizml_tile.lowering.emit.cpu.elements import Addresses

                addresses, single = Addresses.of(self, node), self.arithmetic(1)
                loaded = addresses.load(single, lambda tile: str(self.scalar(tile)))
                return single.convert(math_dtype(addresses.dtype), I64, loaded)
            case "random", _:
                seed, counters = (str(self.scalar(arg)) for arg in node.args)
                return draw(self.arithmetic(1), node, seed, counters)[0]
            case "value", DType():
                return self.arithmetic(1).convert(I64, node.attr, str(self.scalar(node.args[0])))
        args = [self.scalar(arg) for arg in node.args]
        if node.is_index and node.op in ("add", "sub", "mul"):
            return getattr(function, node.op)(*args)  # type: ignore[no-any-return]
        if node.is_index and node.op in ("div", "floordiv", "rem", "floormod"):
            divisor = args[1]
            if isinstance(divisor, int) and divisor > 0 and self.is_nonnegative(node.args[0]):
                divide = function.divide if node.op in ("div", "floordiv") else function.remainder
                return divide(args[0], divisor)
        return apply(self.arithmetic(1), node, [str(arg) for arg in args])

    def is_nonnegative(self, node: Node) -> bool:
        """Whether an index is surely not negative, so that what it addresses does not start before 0."""
        if node not in self.signs:
            self.signs[node] = self._is_nonnegative(node)
        return self.signs[node]

    def _is_nonnegative(self, node: Node) -> bool:
        match node.op:
            case "index":
                return isinstance(node.attr, int) and node.attr >= 0
            case "id" | "count" | "size":
                return True
            case "abs":
                return index_bits(node, self.starts) <= MOST_BITS
            case "add" | "mul":
                near = index_bits(node, self.starts) <= MOST_BITS
                return near and all(self.is_nonnegative(arg) for arg in node.args)
            case "minimum" | "div" | "floordiv" | "rem":
                return all(self.is_nonnegative(arg) for arg in node.args)
            case "maximum":
                return any(self.is_nonnegative(arg) for arg in node.args)
            case "floormod":
                return self.is_nonnegative(node.args[1])
            case "select":
                return all(self.is_nonnegative(arg) for arg in node.args[1:])
        return False

    def address(self, buffer: Buffer, row: Value, local: Value, column: Value) -> str:
        """The address of an element: ``row`` counts in the tile, ``local`` in the current block of rows."""
        buffer = buffer.home()
        place = 0 if buffer.rows == 1 else row if buffer.full else local
        function = self.function
        element = function.add(function.mul(place, buffer.row_stride), column)
        return function.offset(self.homes[buffer], function.mul(element, buffer.element_bytes))


def apply(arithmetic: Arithmetic, node: Node, values: list[str]) -> str:
    """One elementwise operation on operands in registers."""
    types = [math_dtype(arg.dtype) for arg in node.args if arg.dtype is not None]
    match node.op:
        case "to":
            assert isinstance(node.attr, DType) and node.args[0].dtype is not None
            return arithmetic.convert(types[0], node.attr, values[0])
        case "bitcast":
            assert isinstance(node.attr, DType) and node.args[0].dtype is not None
            return arithmetic.bitcast(node.args[0].dtype, node.attr, values[0])
        case "mulhi":
            return arithmetic.high(*values, unsigned=node.attr is True or types[0].is_unsigned)
        case "select":
            assert node.dtype is not None
            common = math_dtype(node.dtype)
            yes, no = (
                _as(arithmetic, kind, common, value)
                for kind, value in zip(types[1:], values[1:], strict=True)
            )
            return arithmetic.select(common, values[0], yes, no)
        case "fma":
            assert isinstance(node.attr, tuple)
            negate_product, negate_c = node.attr
            assert node.dtype is not None
            a, b, c = (
                _as(arithmetic, kind, node.dtype, value) for kind, value in zip(types, values, strict=True)
            )
            negations = {"negate_product": bool(negate_product), "negate_c": bool(negate_c)}
            return arithmetic.fma(node.dtype, a, b, c, **negations)
    if len(values) == 1:
        return arithmetic.unary(node.op, types[0], values[0])
    common_type = promote(types[0], types[1])
    assert common_type is not None
    a, b = (_as(arithmetic, kind, common_type, value) for kind, value in zip(types, values, strict=True))
    if node.op in COMPARISONS:
        return arithmetic.compare(node.op, common_type, a, b)
    return arithmetic.binary(node.op, common_type, a, b)


def _as(arithmetic: Arithmetic, source: DType, target: DType, value: str) -> str:
    return value if source is target else arithmetic.convert(source, target, value)


def register_dtype(node: Node) -> DType:
    """The type a value of a node has in registers."""
    assert node.dtype is not None
    return math_dtype(node.dtype)
