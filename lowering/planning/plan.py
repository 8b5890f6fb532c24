"""A plan: everything that is decided about a program for one GPU before its code is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gizml_tile.dtypes import DType
from gizml_tile.layout import Linear
from gizml_tile.lowering.kernel_ir.instructions import Atom
from gizml_tile.lowering.planning.signature import Signature
from gizml_tile.lowering.planning.variants import Choice
from gizml_tile.nodes import Node, TileProgram
from gizml_tile.target import Target


@dataclass(frozen=True, slots=True)
class TileLayout:
    """Where the elements of a tile are: a linear layout (register, lane, warp) and the name it goes by."""

    name: str
    linear: Linear

    @property
    def registers(self) -> int:
        """How many elements each thread holds."""
        return self.linear.size("register")

    def slice(self, axis: int) -> TileLayout:
        """The layout of the [rows, 1] or [1, columns] tile that a reduction along ``axis`` leaves."""
        return TileLayout(
            f"slice of {self.name} along axis {axis}", self.linear.slice(axis).without_replicas()
        )

    def transposed(self) -> TileLayout:
        """The layout after a transpose."""
        return TileLayout(f"transposed {self.name}", self.linear.transposed())


# Four, so that the roles can trade registers, though one thread alone brings blocks.
_BRINGING_WARPS = 4

UNIFORM = TileLayout("uniform", Linear.of((1, 1), register=(), lane=(), warp=()))


@dataclass(frozen=True, slots=True)
class SharedTile:
    """How a tile lies in workgroup memory: offset in elements = XOR of a basis per bit of row and column.

    ``name`` says it in words, such as ``"rows of 128 bytes, 16-byte chunks swizzled by row"``.
    """

    dtype: DType
    shape: tuple[int, int]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    name: str

    @property
    def elements(self) -> int:
        """Elements of memory that it takes."""
        return self.shape[0] * self.shape[1]

    def offset(self, row: int, column: int) -> int:
        """The offset of an element."""
        total = 0
        for number, bases in ((row, self.rows), (column, self.columns)):
            for bit, basis in enumerate(bases):
                if number >> bit & 1:
                    total ^= basis
        return total


@dataclass(frozen=True, slots=True)
class Access:
    """How a ``read`` or ``put`` moves its block between the tensor and registers.

    A thread moves ``vector`` neighbours along ``axis`` of the tile at once. ``masked`` says for each axis
    of the tile whether its coordinate is compared with the tensor's end; ``leading`` likewise for the
    axes before. ``branch`` tells that whole blocks inside the tensor take the wide path and only ragged
    ones go element by element. Of a gather or scatter ``compared`` says for each axis of the tensor whether
    its coordinates are compared with its ends.
    """

    layout: TileLayout
    axis: int
    vector: int
    masked: tuple[bool, bool]
    leading: bool
    branch: bool = False
    compared: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Overlap:
    """Reads of one tensor at places a few elements apart, in the order of the program, made together.

    ``shifts`` are their rows and columns from ``base``, one of them. Where that begins vectors may, of
    ``vector`` neighbours along ``axis`` of the tile.
    """

    reads: tuple[Node, ...]
    shifts: tuple[tuple[int, int], ...]
    base: Node
    axis: int = 1
    vector: int = 1


@dataclass(frozen=True, slots=True)
class Promotion:
    """The unit sums ``depth`` elements of k for ``columns`` at a time, then registers add that in F32.

    While registers add the next part's sums are made, unless there is only ``one_set`` for them. A product of
    fewer than ``least`` elements of k is made as ``otherwise`` tells, its columns at a time.
    """

    depth: int
    columns: int
    one_set: bool = False
    least: int = 0
    otherwise: Dot | None = None


@dataclass(frozen=True, slots=True)
class Dot:
    """How a product is made.

    ``atom`` is None for fused multiply-adds. ``operands`` are the types that a and b have in fragments
    (products of them are exact). ``a``, ``b`` and ``c`` are the layouts of the whole operand and result
    tiles; warps form a grid of ``warps[0]`` along the rows by ``warps[1]`` along the columns. With ``groups``
    so many times four warps make it asynchronously, each 64 rows, from operands in workgroup memory; with
    a ``promotion`` they sum a part of k at a time. If ``turned`` they make b' @ a', whose rows are the
    product's columns. Of an operand that is computed from blocks which are brought they make ``piece``
    elements of k at a time.
    """

    atom: Atom | None
    operands: tuple[DType, DType]
    warps: tuple[int, int]
    a: TileLayout
    b: TileLayout
    c: TileLayout
    groups: int = 0
    promotion: Promotion | None = None
    turned: bool = False
    piece: int = 0

    @property
    def given(self) -> tuple[DType, DType]:
        """The types of the left and of the right operand as the unit is given them."""
        return self.operands[::-1] if self.turned else self.operands


@dataclass(frozen=True, slots=True)
class Stage:
    """A ``read`` whose block products take from workgroup memory.

    In a ``loop`` it is copied ``slots - 1`` turns ahead; without one where it stands. Each thread copies
    pieces of ``vector`` neighbours along ``axis`` as ``layout`` says; ``asynchronous`` copies go around the
    registers. ``masked`` and ``leading`` are as for an `Access`. With a ``span`` the copy engine brings it in
    panels of so many bytes of each row. A ``fitted`` block lies in workgroup memory as its fragments want it,
    whatever it is like in the tensor.
    """

    tile: SharedTile
    loop: Node | None
    slots: int
    layout: TileLayout
    axis: int
    vector: int
    asynchronous: bool
    masked: tuple[bool, bool]
    leading: bool
    span: int = 0
    fitted: bool = False


@dataclass(frozen=True, slots=True)
class BulkStore:
    """A put whose tile goes through workgroup memory to the copy engine, a panel of columns after the other.

    ``layout`` is where the tile is, ``tile`` how a panel of ``rows`` for each four warps lies in one of
    ``buffers`` pieces of memory, in rows of ``span`` bytes. Groups of four warps have rows of their own, or
    columns if ``turned``. The copy engine brings a ``block`` that the tile is computed with to the same
    pieces while the loop before runs; then there is one for each panel.
    """

    layout: TileLayout
    tile: SharedTile
    span: int
    buffers: int
    rows: int
    turned: bool = False
    block: Node | None = None

    def own(self, groups: int) -> tuple[int, int]:
        """The rows and columns of the tile that one of so many groups has."""
        rows, columns = self.layout.linear.shape
        return (rows, columns // groups) if self.turned else (rows // groups, columns)


@dataclass(frozen=True, slots=True)
class Stream:
    """Blocks that come together: in each turn of a ``loop``, in so many slots; without a loop once.

    With ``shares`` each of so many groups of four warps has its own rows of them, and barriers of its own.
    """

    loop: Node | None
    nodes: tuple[Node, ...]
    slots: int
    shares: int = 1


@dataclass(frozen=True, slots=True)
class Rotation:
    """The nodes of a loop whose last product is made in the next turn, beside the first ones of that.

    ``before`` are the first products and what they take, ``between`` what follows from them alone, ``after``
    what also takes the carried tile that ``product`` adds to: the loop's carried value ``number``. Blocks
    ``sooner`` go to registers while these products are made, before their results are waited for.
    """

    before: tuple[Node, ...]
    between: tuple[Node, ...]
    after: tuple[Node, ...]
    product: Node
    number: int
    sooner: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Cluster:
    """Workgroups that share each program: each takes every ``size``th turn of a loop.

    Then they send each other their sums, of which a thread holds ``registers``: with ``columns`` each adds up
    and stores a panel of columns of its own, else the first of them does all that follows.
    """

    loop: Node
    size: int
    columns: bool
    registers: int

    @property
    def sent(self) -> int:
        """The registers of a thread that go to one other workgroup."""
        return self.registers // self.size if self.columns else self.registers

    @property
    def received(self) -> int:
        """The registers of a thread that come from all others."""
        return (self.size - 1) * self.sent

    def received_bytes(self, threads: int) -> int:
        """The bytes that come from all others."""
        return 4 * self.received * threads


@dataclass(frozen=True, slots=True)
class Specialised:
    """A program whose warps have roles: one brings the blocks of tensors, ``groups`` of four multiply.

    With more ``teams`` of such groups each has every second program to itself, and while one multiplies
    the other stores. ``persistent`` workgroups are as many as the device holds, and each runs programs in
    turn; else each runs one, as the hardware gives them out.
    ``loops`` are those whose blocks are brought; in a ``flowing`` one the products of a turn, committed
    in so many groups, are waited for in the next turn. A thread that brings holds ``registers[0]``
    registers and one that multiplies ``registers[1]``, or all the same with 0. ``deferred`` are reads and
    elementwise operations that are done for a panel of columns when the copy engine takes it: few
    registers are in use beside the accumulators; of the ``early`` reads that for the first panel is done
    before the loop. What is ``computed`` of blocks for a product's operand is made where the product
    takes it; rows and columns that it takes beside are read a ``turn_ahead``. Something else is made of
    blocks ``computed_on``, which products take as they are. Operands that are ``kept``
    are computed once, and stay in workgroup memory. In ``chained`` loops a product takes what is computed
    of another's result, and some of them run rotated by one turn. Blocks ``beside`` are brought for what
    else is computed there. ``powers`` are approximate exponentials of differences that are scaled in one
    operation, ``guarded`` selects that first look at the whole mask. ``longest_first`` tells that programs
    later along the first axis take more turns. Groups ``in_order`` begin the products of a turn one after
    the other, so that while one computes the next multiplies. With a ``cluster`` some workgroups share
    each program, of which there are few. ``together`` neighbours along axis ``along`` of the grid share a
    workgroup, each with groups of its own, as their loops take the same blocks; in ``uneven`` loops some
    take other turns than the others.
    """

    teams: int
    groups: int
    loops: tuple[Node, ...]
    registers: tuple[int, int]
    stores: Mapping[Node, BulkStore] = field(default_factory=dict)
    deferred: frozenset[Node] = frozenset()
    early: frozenset[Node] = frozenset()
    turn_ahead: frozenset[Node] = frozenset()
    computed: frozenset[Node] = frozenset()
    computed_on: frozenset[Node] = frozenset()
    flowing: Mapping[Node, int] = field(default_factory=dict)
    streams: tuple[Stream, ...] = ()
    kept: tuple[Node, ...] = ()
    chained: Mapping[Node, Rotation | None] = field(default_factory=dict)
    beside: tuple[Node, ...] = ()
    powers: frozenset[Node] = frozenset()
    guarded: frozenset[Node] = frozenset()
    resident: int = 1
    longest_first: bool = False
    in_order: bool = False
    cluster: Cluster | None = None
    persistent: bool = True
    together: int = 1
    along: int = 0
    uneven: frozenset[Node] = frozenset()

    @property
    def all_groups(self) -> int:
        """The groups of four warps that take the blocks of one ring."""
        return self.groups * self.together

    @property
    def in_boxes(self) -> frozenset[Node]:
        """The puts and reads of results' panels by the copy engine."""
        blocks = (store.block for store in self.stores.values() if store.block is not None)
        return frozenset((*self.stores, *blocks))

    @property
    def requests(self) -> int:
        """The transaction barriers for blocks that are brought to the memory of results: one a group."""
        return self.teams * self.groups * any(store.block is not None for store in self.stores.values())

    def pieces(self) -> dict[DType, int]:
        """The elements of workgroup memory for tiles on their way to tensors, by their type there."""
        found: dict[DType, int] = {}
        for store in self.stores.values():
            dtype, elements = store.tile.dtype, store.buffers * store.tile.elements
            found[dtype] = max(found.get(dtype, 0), self.teams * self.together * elements)
        return found


@dataclass(frozen=True, slots=True)
class Chain:
    """Elementwise operations on tiles in workgroup memory, from staged reads to puts.

    Each thread makes the registers that ``layout`` gives it slice by slice, ``vector`` at once. ``results``
    has for each put the memory that its tile is made in, and the read whose block that overwrites, if any.
    """

    layout: TileLayout
    vector: int
    results: Mapping[Node, tuple[SharedTile, Node | None]]


@dataclass(frozen=True, slots=True)
class Plan:
    """All decisions about a program for one GPU, with their reasons.

    ``resident`` workgroups are meant to share a multiprocessor, which leaves each thread so many registers.
    ``group`` is how many programs along the grid's second axis run for each along the first in turn; 0 is
    the hardware's own order.
    ``layouts`` has every tile node that has a home in registers; the others are made where they are used.
    ``chains`` has the tiles that elementwise operations read and make in workgroup memory.
    ``again`` are tiles that are made again after every reduction, from blocks kept as they were read.
    ``parked`` are tiles of which only so many registers stay; the others wait in workgroup memory.
    ``parts`` are tiles that loops carry as the parts of a sum that each lane has, with the sums in it.
    ``overlaps`` has the reads that are made together with others, each with those.
    ``bypassed`` are transposes and exact conversions that products look behind. ``warps`` are those that
    compute; with ``specialised`` there are others beside.
    """

    program: TileProgram
    target: Target
    signature: Signature
    warps: int
    resident: int
    group: int
    layouts: Mapping[Node, TileLayout]
    accesses: Mapping[Node, Access]
    dots: Mapping[Node, Dot]
    stages: Mapping[Node, Stage]
    bypassed: frozenset[Node]
    choices: Mapping[Node, tuple[tuple[str, Choice], ...]]
    reasons: Mapping[Node, str]
    chains: Mapping[Node, Chain] = field(default_factory=dict)
    specialised: Specialised | None = None
    again: frozenset[Node] = frozenset()
    parked: Mapping[Node, int] = field(default_factory=dict)
    parts: Mapping[Node, tuple[Node, ...]] = field(default_factory=dict)
    overlaps: Mapping[Node, Overlap] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Threads that compute one program."""
        return self.warps * self.target.facts.lanes

    @property
    def launched_threads(self) -> int:
        """Threads of a workgroup, those that bring blocks among them."""
        if self.specialised is None:
            return self.threads
        programs = self.specialised.teams * self.specialised.together
        return programs * self.threads + _BRINGING_WARPS * self.target.facts.lanes

    @property
    def signals(self) -> int:
        """Transaction barriers: two for each slot of a ring of blocks, and one of a cluster."""
        if self.specialised is None:
            return 0
        rings = sum(2 * stream.slots * stream.shares for stream in self.specialised.streams)
        return rings + (self.specialised.cluster is not None) + self.specialised.requests

    @property
    def cluster_size(self) -> int:
        """Workgroups that run each program together."""
        cluster = None if self.specialised is None else self.specialised.cluster
        return 1 if cluster is None else cluster.size

    def layout_name(self, node: Node) -> str:
        """A tile's layout in a word or two: where it lives, or that it is made where it is used."""
        if node in self.chains:
            return self.chains[node].layout.name
        if node in self.stages and node not in self.layouts:
            return f"workgroup memory, {self.stages[node].tile.name}"
        if node.shape == (1, 1):
            return UNIFORM.name
        return self.layouts[node].name if node in self.layouts else "free"
