"""The state of an expansion: which value each node of the tile program has, in which layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from gizml_tile.dtypes import F32, I32, I64, DType
from gizml_tile.errors import Place
from gizml_tile.lowering.expand.sources import Shared
from gizml_tile.lowering.expand.workgroup import WorkgroupMemory
from gizml_tile.lowering.kernel_ir.builder import Builder, Value
from gizml_tile.lowering.kernel_ir.instructions import Parameter
from gizml_tile.lowering.planning.bounds import nonnegative
from gizml_tile.lowering.planning.order import meetings
from gizml_tile.lowering.planning.plan import UNIFORM, Plan, TileLayout
from gizml_tile.nodes import Node, TileProgram
from gizml_tile.target import Target


@dataclass(frozen=True, slots=True)
class Move:
    """A tile that was moved to another layout: on which line, and how in words.

    ``user`` is the operation that it was moved for, and ``moved`` the tile where it is another one's, else
    it is the user's own. Through workgroup memory all threads together take so many ``turns`` of its banks,
    of which ``ideal`` would do without conflicts.
    """

    place: Place | None
    text: str
    user: Node | None = None
    moved: Node | None = None
    turns: int = 0
    ideal: int = 0


_SIGNAL_BYTES = 8

MakeTile = Callable[["Expansion", Node, TileLayout], Value]
MakeIndex = Callable[["Expansion", Node], Value]
Convert = Callable[["Expansion", Value, TileLayout, TileLayout], Value]


class Turns(Protocol):
    """The blocks of a loop's staged reads, turn by turn; one I32 that the loop carries tells where it is."""

    @property
    def asynchronous(self) -> bool:
        """Whether nothing goes through the registers of the threads that compute."""
        ...

    def begin(self, start: Value, stop: Value, step: Value) -> Value:
        """Before the loop: what it carries at first."""
        ...

    def turn(self, counter: Value, stop: Value, step: Value, slot: Value) -> None:
        """At the beginning of a turn: its blocks are there."""
        ...

    def load(self, counter: Value, stop: Value, step: Value) -> list[Value]:
        """Blocks of a later turn in registers, if not asynchronous."""
        ...

    def store(self, values: Sequence[Value], slot: Value) -> None:
        """What was loaded goes to its place."""
        ...

    def next(self, slot: Value) -> Value:
        """At the end of a turn: what the next one has."""
        ...

    def end(self, slot: Value) -> None:
        """After the loop, with what it carried at last."""
        ...


class Ahead(Protocol):
    """A block that what follows a loop takes, and that comes while the loop runs."""

    loop: Node

    def request(self) -> None:
        """Ask for it; by the leading thread of each group."""
        ...

    def wait(self) -> None:
        """Until it is there."""
        ...

    def registers(self, number: int) -> Value:
        """The registers of one of its panels."""
        ...

    def prepare(self) -> None:
        """Set it up; by one thread."""
        ...


class Expansion:
    """Values of nodes while the kernel is built.

    ``make`` gives a node without a home in registers its value in a layout, ``make_index`` an index's,
    and ``convert`` moves a value between layouts; they are passed in so that the parts of the expansion
    stand beside each other.
    """

    def __init__(self, plan: Plan, make: MakeTile, make_index: MakeIndex, convert: Convert) -> None:
        self.plan = plan
        self.build = Builder()
        limit = plan.target.facts.workgroup_memory - _SIGNAL_BYTES * plan.signals
        # Threads that compute meet at a barrier of their own where there are others.
        own = 0 if plan.specialised is None else 1
        self.memory = WorkgroupMemory(self.build, plan.threads, limit, own)
        # Which of several teams of threads, that run beside one another, the code is for.
        self.team = 0
        # Which programs run, as they are numbered in one line, and which of several in this workgroup.
        self.line: Value | None = None
        self.neighbour: Value | None = None
        # The loop whose turns' code is being made, if others bring its blocks.
        self.loop: Node | None = None
        # The rings of loops whose blocks others bring.
        self.rings: dict[Node, Turns] = {}
        # The workgroup memory of tiles on their way to tensors, by the type that they have there.
        self.pieces: dict[DType, int] = {}
        # What comes to that memory before.
        self.ahead: Ahead | None = None
        # What was read before a loop of what tiles are computed with that are put after it.
        self.fetched: dict[Node, dict[Node, Value]] = {}
        # That of sums which come from other workgroups of a cluster.
        self.sums: int | None = None
        # That of operands which are computed once and stay.
        self.kept: dict[Node, int] = {}
        # Whether masks of tiles that are about to be made are set as a whole.
        self.foreseen: dict[Node, Value] = {}
        # What moved between layouts, for the explanation.
        self.moves: list[Move] = []
        # The operation that is being made, and the tile that is moved for it where that is another's.
        self.user: Node | None = None
        self.moving: Node | None = None
        # Accesses before which the workgroup meets, and indices that are never negative.
        self.meetings = meetings(plan.program, plan.accesses, plan.signature.may_alias)
        self.nonnegative = nonnegative(plan.program)
        self._make = make
        self._make_index = make_index
        self._convert = convert
        # One table for each block that is open, the innermost last: what a block makes ends with it.
        self._values: list[dict[tuple[Node, str], Value]] = [{}]
        self._shared: list[dict[Node, Shared]] = [{}]
        # What is made again after each reduction: how many there were, the last one's registers, and blocks
        # as they were read.
        self._reductions = 0
        self._reduced: Value | None = None
        self._blocks: dict[Node, Value] = {}
        # Tiles of which a part waits in workgroup memory.
        self.parked: dict[Node, Callable[[], Value]] = {}
        self._results = {
            (node.args[0], node.attr): node for node in plan.program.body.walk() if node.op == "result"
        }

        self._parts = {
            (node.args[0], node.attr): node for node in plan.program.body.walk() if node.op == "part"
        }

    @property
    def program(self) -> TileProgram:
        return self.plan.program

    @property
    def target(self) -> Target:
        return self.plan.target

    def home(self, node: Node) -> TileLayout | None:
        """The layout that a node's value has; None where it is made in whatever layout is wanted."""
        return UNIFORM if node.shape == (1, 1) else self.plan.layouts.get(node)

    def define(self, node: Node, value: Value, layout: TileLayout | None = None) -> None:
        """Say what a node's value is in its home, or in another layout."""
        where = layout or self.home(node)
        assert where is not None, node
        assert value.count == where.registers, (node, value, where)
        in_home = where.linear == self.plan.layouts.get(node, where).linear
        if node.op == "read" and node in self.plan.again and in_home:
            self._blocks[node] = value
        self._values[-1][node, self._key(node, where)] = value

    def define_index(self, node: Node, value: Value) -> None:
        """Say what an index's value is."""
        self._values[-1][node, ""] = value

    def value(self, node: Node, layout: TileLayout) -> Value:
        """A tile's registers in a layout: found, moved there, or made there.

        A [1, 1] tile is one register, which stretches to any count.
        """
        if node.shape == (1, 1):
            layout = UNIFORM
        found = self._find(node, self._key(node, layout))
        if found is not None:
            return found
        home = self.home(node)
        if node in self.parked and home is not None and home.linear == layout.linear:
            made = self.parked[node]()
        elif home is None or home.linear == layout.linear:
            made = self._made_again(node) or self._make(self, node, layout)
        else:
            value = self.value(node, home)
            outer, self.moving = self.moving, node
            made = self._convert(self, value, home, layout)
            self.moving = outer
        self._values[-1][node, self._key(node, layout)] = made
        return made

    def reduced(self, value: Value) -> None:
        """Say what a reduction gave: what was kept in registers only until then is made again."""
        if (self.plan.again or self.plan.parked) and value.dtype in (F32, I32):
            self._reductions += 1
            self._reduced = self.build.pick(value, (0,))

    def _made_again(self, node: Node) -> Value | None:
        block = self._blocks.get(node)
        if block is None or self._reduced is None:
            return None
        return self.build.again(block, self._reduced)

    def operand(self, node: Node, layout: TileLayout) -> Value:
        """An operand's registers beside a tile in ``layout``: broadcast along axes where it has size 1."""
        if node.shape == (1, 1) or node.shape == layout.linear.shape:
            return self.value(node, layout)
        axis = 0 if node.shape[0] == 1 else 1
        linear = layout.linear.slice(axis)
        return self.value(node, TileLayout(f"slice of {layout.name} along axis {axis}", linear))

    def registers(self, node: Node, layout: TileLayout) -> Value:
        """A tile's registers in a layout, all of them: one that would stretch is repeated."""
        return self.build.spread(self.operand(node, layout), layout.registers)

    def result_of(self, node: Node, number: int) -> Node:
        """The node that is a loop's or branch's value after it; one of its own where nobody uses it."""
        return self._results.get((node, number), node.regions[0].results[number])

    def part_of(self, node: Node, number: int) -> Node | None:
        """The node that is one of the values of a node with several; None where nobody uses it."""
        return node if number == 0 else self._parts.get((node, number))

    def define_shared(self, node: Node, shared: Shared) -> None:
        """Say where in workgroup memory a block is."""
        self._shared[-1][node] = shared

    def shared(self, node: Node) -> Shared:
        """Where in workgroup memory a block is."""
        return next(table[node] for table in reversed(self._shared) if node in table)

    def index(self, node: Node) -> Value:
        """An index's value, an I64."""
        found = self._find(node, "")
        if found is None:
            found = self._make_index(self, node)
            self._values[-1][node, ""] = found
        return found

    def _find(self, node: Node, key: str) -> Value | None:
        for values in reversed(self._values):
            if (node, key) in values:
                return values[node, key]
        return None

    @contextmanager
    def block(self) -> Iterator[None]:
        """Values defined inside are known inside only."""
        self._values.append({})
        self._shared.append({})
        try:
            yield
        finally:
            self._values.pop()
            self._shared.pop()

    @contextmanager
    def afresh(self) -> Iterator[None]:
        """Inside, no value is known yet, and none is known outside that was defined inside."""
        outer, self._values = self._values, [{}]
        try:
            yield
        finally:
            self._values = outer

    @contextmanager
    def at(self, node: Node) -> Iterator[None]:
        """Instructions built inside stand at a node's line."""
        outer, self.build.place = self.build.place, node.place or self.build.place
        user, self.user = self.user, node
        try:
            yield
        finally:
            self.build.place, self.user = outer, user

    def _key(self, node: Node, layout: TileLayout) -> str:
        changes = node in self.plan.again or node in self.parked
        made = f" after {self._reductions}" if changes else ""
        return f"{layout.linear}{made}"

    # Launch parameters

    def size(self, tensor: int, axis: int) -> Value:
        """A tensor's size, an I64."""
        return self.build.parameter(Parameter("size", tensor, axis))

    def stride(self, tensor: int, axis: int) -> Value:
        """A tensor's stride in elements, an I64."""
        kind = self.plan.signature.strides[tensor][axis]
        if kind in ("unit", "zero"):
            return self.build.constant(1 if kind == "unit" else 0, I64)
        return self.build.parameter(Parameter("stride", tensor, axis))

    def scalar(self, number: int, dtype: DType) -> Value:
        """A run-time number: an I64 or an F32."""
        return self.build.parameter(Parameter("scalar", number), dtype)

    def offset_dtype(self) -> DType:
        """The type that offsets of elements into tensors are computed in."""
        return I64 if self.plan.signature.wide else I32
