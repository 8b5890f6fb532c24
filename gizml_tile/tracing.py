"""A trace in progress: the regions that are open, the nodes recorded in them, and who may use them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from gizml_tile.arguments import ScalarArgument, TensorArgument
from gizml_tile.dtypes import I64, MASK, DType
from gizml_tile.errors import Place, TileError, here
from gizml_tile.foreign import Foreign, Unread
from gizml_tile.helpful import Fixed
from gizml_tile.nodes import COMPARISONS, Attr, Node, Region, Scalar, Shape, Tensor, make, param

MAX_ELEMENTS = 1 << 20
_LOGICAL = frozenset({"and_", "or_", "not_", "eq", "ne", "select"})

_state = threading.local()


def held(shape: Sequence[int]) -> int:
    """The elements that a tile is computed in: each of its sizes as the next power of two."""
    return math.prod(1 << (size - 1).bit_length() for size in shape)


def grown(shape: Sequence[int]) -> str:
    """How a tile is computed, where that is larger than it is."""
    sizes = [1 << (size - 1).bit_length() for size in shape]
    return "" if sizes == list(shape) else f" (computed as {sizes})"


def fail(message: str) -> NoReturn:
    """Raise a TileError at the person's expression."""
    raise TileError(message, here())


class Block:
    """A region while it is traced: its values may be used until it is closed."""

    __slots__ = ("nodes", "open", "params", "trace")

    _makes_values = True

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.nodes: list[Node] = []
        self.params: tuple[Node, ...] = ()
        self.open = True

    def region(self, results: tuple[Node, ...]) -> Region:
        """What was recorded, as a frozen region."""
        return Region(self.params, tuple(self.nodes), results)


class Value(Foreign):
    """What a traced program computes with; it belongs to the region in which it was made."""

    __slots__ = ("_block", "_node")
    _node: Node
    _block: Block

    __hash__ = object.__hash__

    def _instead(self, name: str, it: str) -> str:
        return f"; {it}.to(dtype) gives another type" if name == "dtype" else "; give the new value a name"


class Many(Foreign):
    """Several values that operations take one by one: a batch of tiles."""

    __slots__ = ()

    def each(self, function: Callable[[Any], Any]) -> Any:
        """What a function gives for each of the values."""
        raise NotImplementedError

    def repeated(self, value: Any) -> Any:
        """As many times one value."""
        return self.each(lambda _: value)


class Trace:
    """One run of a kernel's body: everything it recorded and what it was given."""

    __slots__ = (
        "_approximable",
        "_tensor_numbers",
        "approx",
        "blocks",
        "debugging",
        "ended",
        "grid_rank",
        "name",
        "objects",
        "program",
        "records",
        "scalars",
        "stages",
        "tensors",
        "values",
        "variants",
        "warps",
        "writes",
    )

    _makes_values = True

    def __init__(self, name: str, grid_rank: int) -> None:
        self.name = name
        self.grid_rank = grid_rank
        self.program: Any = None
        self.tensors: list[Tensor] = []
        self.objects: list[object] = []
        self._tensor_numbers: dict[int, int] = {}
        self.scalars: list[Scalar] = []
        self.values: list[int | float | ScalarArgument] = []
        self.writes: list[int] = []
        self.warps = 0
        self.stages = 0
        self.variants: dict[str, str] = {}
        self.approx = False
        # Whether programs print and check, and the tensor of what they tell.
        self.debugging = False
        self.records: int | None = None
        self._approximable = False
        self.ended = False
        self.blocks = [Block(self)]

    def record(
        self, op: str, args: tuple[Node, ...] = (), attr: Attr = None, place: Place | None = None
    ) -> Node:
        """Append an operation to the innermost open region, made at ``place`` or at the person's line."""
        node = make(op, args, attr, place or here(), tensors=self.tensors)
        shape = node.shape
        if shape and held(shape) > MAX_ELEMENTS:
            fail(
                f"a tile has at most 2^20 elements, found {list(shape)}{grown(shape)} from {op}; "
                "use smaller blocks and a loop"
            )
        self.blocks[-1].nodes.append(node)
        return node

    def record_node(self, node: Node) -> Node:
        """Append a node that was made elsewhere (one with regions)."""
        self.blocks[-1].nodes.append(node)
        return node

    def use(self, value: Value) -> Node:
        """The node of a value that this trace may use here; another's is an error."""
        block = value._block
        if block.open and block.trace is self:
            return value._node
        if block.trace is not self:
            fail(
                f"mixed programs: this {noun(value._node)} was made in another program "
                f"({block.trace.name}); make it in the one that uses it"
            )
        if self.ended:
            fail(f"the program {self.name} has ended; its values exist only in its body")
        made = value._node.place
        where = f" (at {made.filename}:{made.line})" if made else ""
        fail(
            f"this {noun(value._node)} was made inside a loop or branch that has ended{where}; "
            "carry it: start it before the loop, or return it from both branches"
        )

    def check_open(self) -> None:
        """Raise where the program is used after its trace."""
        if self.ended:
            fail(f"the program {self.name} has ended; it exists only in its body")

    def tensor_number(self, tensor: object, what: str) -> int:
        """The number of a tensor in this program; the same object always has the same number."""
        number = self._tensor_numbers.get(id(tensor))
        if number is not None:
            return number
        if isinstance(tensor, TensorArgument):
            name, dtype, rank = tensor.name, tensor.dtype, tensor.ndim
        else:
            name, dtype, rank = self._describe(tensor, what)
        taken = {known.name for known in self.tensors}
        self.tensors.append(Tensor(unique(name, taken), dtype, rank))
        self.objects.append(tensor)
        number = self._tensor_numbers[id(tensor)] = len(self.tensors) - 1
        return number

    def debugs(self) -> bool:
        """Whether a ``print`` or ``check`` is recorded, for which the program then has a tensor."""
        if self.debugging and self.records is None:
            taken = {known.name for known in self.tensors}
            self.tensors.append(Tensor(unique("records", taken), I64, 2))
            self.objects.append(None)
            self.records = len(self.tensors) - 1
        return self.debugging

    def _describe(self, tensor: object, what: str) -> tuple[str, DType, int]:
        # Loaded here: a trace from a signature alone needs no tensor library.
        from gizml_tile.runtime.tensors import describe

        if isinstance(tensor, Value):
            attr = tensor._node.attr
            found = f"the number {attr.name}" if isinstance(attr, Scalar) else article(noun(tensor._node))
            fail(
                f"{what} takes a tensor, found {found}, which is computed with as it is"
            )
        if isinstance(tensor, Fixed):
            way = "; its blocks are taken by it already, as in A[i, k]" if isinstance(tensor, Unread) else ""
            fail(f"{what} takes a tensor, found {tensor._told()}{way}")
        info = describe(tensor, f"the tensor given to {what}")
        return f"t{len(self.tensors)}", info.dtype, len(info.shape)

    def scalar(self, value: int | float | ScalarArgument, name: str, dtype: DType) -> Node:
        """A run-time number; the same argument is the same scalar."""
        number = place = None
        if isinstance(value, ScalarArgument):
            place = value.place
            number = next((n for n, known in enumerate(self.values) if known is value), None)
        if number is None:
            self.scalars.append(Scalar(unique(name, {each.name for each in self.scalars}), dtype))
            self.values.append(value)
            number = len(self.scalars) - 1
        return self.record("scalar", (), self.scalars[number], place)

    @contextmanager
    def open_block(self) -> Iterator[Block]:
        """A new innermost region, closed at the end."""
        block = Block(self)
        self.blocks.append(block)
        try:
            yield block
        finally:
            self.blocks.pop()
            block.open = False

    @contextmanager
    def reopened(self, block: Block) -> Iterator[None]:
        """A closed region made innermost again, to append what joins it with another."""
        self.blocks.append(block)
        block.open = True
        try:
            yield
        finally:
            self.blocks.pop()
            block.open = False

    def add_params(self, types: list[tuple[Shape, DType]]) -> tuple[Node, ...]:
        """The parameters of the innermost region: the loop's index and the carried values."""
        block = self.blocks[-1]
        index = param((), I64, 0)
        block.params = (
            index,
            *(param(shape, dtype, number) for number, (shape, dtype) in enumerate(types, 1)),
        )
        return block.params

    def approximate(self) -> None:
        """Let the device use its own functions from here on; must come before the first of them."""
        if self._approximable and not self.approx:
            fail("p.approx() holds for the whole program: call it before the first exp or log")
        self.approx = True

    def approximation(self, asked: bool) -> bool:
        """Whether a function may be the device's own."""
        self._approximable = True
        return asked or self.approx


def is_uniform(node: Node, operands: tuple[Value, ...]) -> bool:
    """Whether a mask is known to depend on indices and constants alone, so that a branch may take it."""
    if node.dtype is not MASK or node.shape != (1, 1):
        return False
    if node.op == "const" or (node.op in COMPARISONS and node.args[0].is_index):
        return True
    return node.op in _LOGICAL and all(getattr(each, "_uniform", False) for each in operands)


def unique(name: str, taken: set[str]) -> str:
    """``name``, or it with the first number that makes it new."""
    if name not in taken:
        return name
    return next(new for n in range(2, len(taken) + 3) if (new := f"{name}_{n}") not in taken)


def noun(node: Node) -> str:
    """What a person calls the value of a node."""
    if node.is_index:
        return "index"
    if node.dtype is MASK:
        return f"mask {list(node.shape)}"
    return f"{node.dtype} tile {list(node.shape)}"


def article(text: str) -> str:
    """The text with ``a`` or ``an`` before it."""
    # F64, F32 and F16 are spoken with a vowel first.
    vowel = text[:1].lower() in "aeio" or text.startswith(("F64", "F32", "F16", "FP8"))
    return f"{'an' if vowel else 'a'} {text}"


def active() -> Trace | None:
    """The trace in progress on this thread."""
    return getattr(_state, "trace", None)


def activate(trace: Trace | None) -> None:
    """Make a trace the one in progress on this thread."""
    _state.trace = trace
