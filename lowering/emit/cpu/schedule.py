"""What a plan of a region is made of.

A *task* computes one tile that needs a home in memory, reduces one, or stores one to a tensor. Tasks whose
row r needs only row r of each other form a *group*: one loop over blocks of a few rows, in which each
*step* is one pass over the columns. All other values are *virtual*: computed again where they are used.
So softmax is one group of three steps (max; exp and sum; divide and store), whose rows stay in the L1.

Items (groups, loops, branches, deep products) run one after another. Scalars, that is indices and
[1, 1] tiles, are computed right after the last item they depend on, and so are packed operands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gizml_tile.dtypes import DType
from gizml_tile.errors import Place
from gizml_tile.lowering.emit.cpu.packing import Pack, Packing, is_thin
from gizml_tile.lowering.emit.cpu.shapes import TILE_PRODUCTS, DotShape
from gizml_tile.lowering.emit.cpu.storage import register_kind
from gizml_tile.nodes import Node

# Elements of a block of rows. Passes that compute much want a block's rows fetched while the one before is
# computed; passes that compute little keep up with memory best if they read and write in short turns.
HEAVY_BLOCK_ELEMENTS = 2048
LIGHT_BLOCK_ELEMENTS = 1024
BLOCK_ROWS = 16
MATRIX_BLOCK_ROWS = 32  # two tiles of the matrix unit


@dataclass(eq=False)
class Buffer:
    """A tile's home in a thread's arena, row by row.

    A full home has all rows, else only those of the current block. A ``moving`` home is one of the two of a
    carried value, which change roles every turn. ``packed`` are the bytes of an element for products
    that take pairs or fours of them; 0 where elements are as in registers.
    """

    rows: int
    columns: int
    dtype: DType
    stride: int = 0  # elements from row to row; 0 is the number of columns
    full: bool = False
    moving: bool = False
    packed: int = 0
    merged: Buffer | None = None

    def home(self) -> Buffer:
        """The buffer that really holds the value."""
        buffer = self
        while buffer.merged is not None:
            buffer = buffer.merged
        return buffer

    @property
    def row_stride(self) -> int:
        return self.stride or self.columns

    @property
    def element_bytes(self) -> int:
        return self.packed or {"float": 4, "double": 8, "i32": 4, "i64": 8, "i1": 1}[kind_of(self.dtype)]


@dataclass(eq=False)
class Task:
    """One thing a group does; ``node`` is the value (kind "store") or the operation itself."""

    kind: str  # store put scatter reduce column_reduce dot turn pack
    node: Node
    rows: int
    columns: int
    inputs: tuple[Node, ...]
    buffer: Buffer | None = None
    right: Pack | Packing | None = None  # a product's right operand, or what a pack task packs
    left: Buffer | None = None
    makes: bool = False  # whether the buffer becomes the node's home
    partial: Buffer | None = None  # the running totals of a reduction over rows
    after: tuple[Task, ...] = ()
    group: int = -1
    step: int = -1

    @property
    def shape(self) -> DotShape:
        """The product's form for the micro-kernel."""
        assert self.right is not None
        return (self.right.packing if isinstance(self.right, Pack) else self.right).shape

    @property
    def key(self) -> tuple[object, ...]:
        """Tasks with equal keys can share a pass over the block."""
        if self.kind in ("store", "put", "scatter", "reduce"):
            return ("wide", self.columns) if self.columns > 1 else ("tall",)
        if self.kind == "column_reduce":
            return ("columns", self.columns)
        return (self.kind, self)


@dataclass(eq=False)
class Step:
    key: tuple[object, ...]
    tasks: list[Task] = field(default_factory=list)
    streams: bool = False  # it only stores, and past the caches where the tensors are larger than these


@dataclass(eq=False)
class Group:
    rows: int
    steps: list[Step] = field(default_factory=list)
    heavy: bool = False  # passes after the first compute longer than memory takes

    @property
    def tasks(self) -> Iterator[Task]:
        for step in self.steps:
            yield from step.tasks

    @property
    def block_rows(self) -> int:
        """Rows that one turn of the group's loop computes."""
        widest = max((task.columns for task in self.tasks), default=1)
        kinds = {task.kind for task in self.tasks}
        if "dot" in kinds and self._matrix_units():
            return min(self.rows, MATRIX_BLOCK_ROWS)
        if kinds & {"dot", "turn", "column_reduce", "pack"}:
            return min(self.rows, BLOCK_ROWS)
        elements = HEAVY_BLOCK_ELEMENTS if self.heavy else LIGHT_BLOCK_ELEMENTS
        return min(self.rows, max(1, min(BLOCK_ROWS, elements // widest)))

    def _matrix_units(self) -> bool:
        # Two by two tiles of 16 rows each.
        return any(task.kind == "dot" and task.shape.mode in TILE_PRODUCTS for task in self.tasks)


@dataclass(eq=False)
class Carried:
    """The homes of a carried tile: two places, and which of them holds it when.

    A turn reads ``current`` and writes ``following``; after the loop the value is in ``final``.
    """

    start: Buffer
    other: Buffer
    current: Buffer
    following: Buffer
    final: Buffer


@dataclass(eq=False)
class LoopItem:
    node: Node
    body: RegionPlan
    carried: tuple[Carried | None, ...]  # None for a scalar
    results: tuple[Node, ...]


@dataclass(eq=False)
class CondItem:
    node: Node
    arms: tuple[RegionPlan, RegionPlan]
    homes: tuple[Buffer | None, ...]
    results: tuple[Node, ...]


@dataclass(eq=False)
class DeepTerm:
    """One product of a deep loop; ``from_zero`` says that it does not start from what is in its home.

    ``place`` is where the person wrote it.
    """

    left: Pack
    right: Pack
    buffer: Buffer
    from_zero: bool
    place: Place | None


@dataclass(eq=False)
class DeepItem:
    """A loop that only accumulates products of what it reads: one product of the whole depth each."""

    node: Node
    terms: tuple[DeepTerm, ...]


@dataclass(eq=False)
class AlongItem:
    """An operation whose elements meet along an axis by a function, with a home for each value it gives.

    None stands for a value that nobody uses.
    """

    node: Node
    buffers: tuple[Buffer | None, ...]


Item = Group | LoopItem | CondItem | DeepItem | AlongItem


@dataclass(eq=False)
class RegionPlan:
    items: list[Item]
    # ready[i] is computed before item i, the last entry after all
    ready: list[list[Node | Pack]]
    buffers: dict[Node, Buffer]
    results: tuple[Node, ...]

    def stored_by(self, number: int) -> Group | None:
        """The group that only stores what deep products give, if these have no other use.

        Then each block can be stored as soon as it is whole, while it is in the first cache.
        """
        deep, group = self.items[number], self.items[-1]
        if number + 2 != len(self.items) or self.results or any(self.ready[number + 1 :]):
            return None
        if not isinstance(deep, DeepItem) or not isinstance(group, Group) or len(group.steps) != 1:
            return None
        shape = deep.terms[-1].left.packing.shape
        wanted = (shape.rows, max(shape.columns, 2))
        fits = all(task.kind == "put" and (task.rows, task.columns) == wanted for task in group.tasks)
        return group if fits and not is_thin(shape) else None


def kind_of(dtype: DType | None) -> str:
    """The LLVM type that an element has in a register."""
    assert dtype is not None
    return register_kind(dtype)


def is_scalar(node: Node) -> bool:
    """Whether a value is uniform: an index or a [1, 1] tile."""
    return node.shape in ((), (1, 1))
