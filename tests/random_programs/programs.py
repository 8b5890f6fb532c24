"""Random programs as data: typed operations in regions, tensors with strange strides, and a grid."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gizml_tile.dtypes import F64, DType


@dataclass(frozen=True)
class Type:
    """What a name holds: an index (no dtype), a tile, or a ``batch`` of so many tiles.

    ``uniform`` masks come from comparing indices.
    """

    dtype: DType | None
    shape: tuple[int, int] = (1, 1)
    uniform: bool = False
    batch: int = 0

    @property
    def is_index(self) -> bool:
        return self.dtype is None


INDEX = Type(None)
STORES = frozenset("put scatter scatter_add scatter_exactly scatter_max scatter_min".split())
# What a launch tells of where it is debugged, and what leaves a turn, a loop or a program.
TELLS = frozenset({"print", "check"})
EXITS = frozenset({"continue", "break", "return"})
LOOPS = frozenset({"loop", "fold", "while"})


@dataclass(frozen=True)
class Axis:
    """How one axis of a tensor lies in memory: ``step`` 0 is a broadcast, negative runs backwards."""

    size: int
    step: int = 1
    before: int = 0
    after: int = 0


@dataclass(frozen=True)
class TensorSpec:
    """A tensor: its type, axes, the order of its axes in memory, and what data fill it."""

    name: str
    dtype: DType
    axes: tuple[Axis, ...]
    order: tuple[int, ...]
    seed: int
    wild: bool = False  # infinities, NaN, subnormals and extreme sizes among the data
    alias: str = ""  # the tensor whose memory this one is another array of

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)


@dataclass(frozen=True)
class ViewSpec:
    """A ``p.read`` or ``p.write`` of a tensor."""

    name: str
    tensor: str
    block: tuple[int, ...]
    pad: float | int | bool | None = None
    write: bool = False

    @property
    def tile(self) -> tuple[int, int]:
        """The shape of the tile that a block is, or of those of a batch."""
        return (1, self.block[0]) if len(self.block) == 1 else (self.block[-2], self.block[-1])

    @property
    def batch(self) -> int:
        """How many tiles a block of three sizes has."""
        return self.block[0] if len(self.block) == 3 else 0


@dataclass(frozen=True)
class Literal:
    """A Python number where an operand is due."""

    value: float | int


Arg = str | Literal


@dataclass(frozen=True)
class Op:
    """One operation: the names it binds, what it takes and an attribute; loops and branches have regions."""

    name: str
    results: tuple[str, ...]
    types: tuple[Type, ...]
    args: tuple[Arg, ...]
    attr: object = None
    regions: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Block:
    """A region: what it is given, its operations, what it gives back."""

    params: tuple[str, ...] = ()
    ops: tuple[Op, ...] = ()
    gives: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """A whole random program."""

    seed: int
    grid: tuple[int, ...]
    tensors: tuple[TensorSpec, ...]
    views: tuple[ViewSpec, ...]
    body: Block = field(default_factory=Block)
    ieee: bool = False  # of exactly rounded operations alone, so that every bit is given
    warps: int = 0  # of a GPU's workgroup, and how many stages its loops copy ahead; 0 leaves both open
    stages: int = 0
    variants: tuple[tuple[str, str], ...] = ()  # that a GPU must use, by operation
    debug: bool = False  # whether it prints and checks
    approx: bool = False  # whether a GPU may use its own functions, wherever there are

    def view(self, name: str) -> ViewSpec:
        return next(view for view in self.views if view.name == name)

    def tensor(self, name: str) -> TensorSpec:
        return next(tensor for tensor in self.tensors if tensor.name == name)


def prune(program: Program) -> Program:
    """Without operations, views and tensors that no store needs."""
    body = _prune(program.body)
    used = _views(body)
    views = tuple(view for view in program.views if view.name in used)
    tensors = {view.tensor for view in views}
    tensors |= {program.tensor(name).alias for name in tensors}
    kept = tuple(tensor for tensor in program.tensors if tensor.name in tensors)
    return replace(program, tensors=kept, views=views, body=body)


def _prune(block: Block) -> Block:
    live = set(block.gives)
    kept: list[Op] = []
    for op in reversed(block.ops):
        regions = tuple(_prune(region) for region in op.regions)
        acts = op.name in STORES | TELLS or leaves(op) or any(has_effects(region) for region in regions)
        if not acts and not live.intersection(op.results):
            continue
        op = Op(op.name, op.results, op.types, op.args, op.attr, regions)
        kept.append(op)
        live.update(arg for arg in op.args if isinstance(arg, str))
        for region in regions:
            live.update(names(region))
    return Block(block.params, tuple(reversed(kept)), block.gives)


def has_effects(block: Block) -> bool:
    """Whether something of a region is seen from outside of it, apart from what it gives."""
    return has(block, STORES | TELLS | {"return"})


def has(block: Block, wanted: frozenset[str]) -> bool:
    """Whether a region, or one inside of it, has one of some operations."""
    return any(op.name in wanted or any(has(region, wanted) for region in op.regions) for op in block.ops)


def has_doubles(program: Program) -> bool:
    """Whether any of a program is F64."""
    return any(tensor.dtype is F64 for tensor in program.tensors) or _computes_doubles(program.body)


def _computes_doubles(block: Block) -> bool:
    return any(
        any(each.dtype is F64 for each in op.types) or any(map(_computes_doubles, op.regions))
        for op in block.ops
    )


def is_ordered(program: Program) -> bool:
    """Whether a program gives the same each time: it does not add floats in an order that is undefined."""
    added = {each for each in program.views if program.tensor(each.tensor).dtype.is_float}
    return not _adds(program.body, {each.name for each in added})


def _adds(block: Block, views: set[str]) -> bool:
    return any(
        (op.name == "scatter_add" and op.attr[0] in views) or any(_adds(each, views) for each in op.regions)
        for op in block.ops
    )


def leaves(op: Op, names: frozenset[str] = EXITS) -> bool:
    """Whether an operation, or one in the arms of a branch, leaves what is around it in one of some ways."""
    if op.name in LOOPS:
        return "return" in names and ends_program(op)
    return op.name in names or any(leaves(each, names) for region in op.regions for each in region.ops)


def ends_program(op: Op) -> bool:
    """Whether a loop may end the program."""
    return any(has(region, frozenset({"return"})) for region in op.regions)


def names(block: Block) -> set[str]:
    """Every name that a region mentions."""
    found = set(block.gives)
    for op in block.ops:
        found.update(arg for arg in op.args if isinstance(arg, str))
        for region in op.regions:
            found |= names(region)
    return found


def _views(block: Block) -> set[str]:
    found = set()
    for op in block.ops:
        if op.name in ("read", "gather", "masked") or op.name in STORES:
            found.add(op.attr[0])
        if op.name == "element":
            found.add(op.attr)
        if op.name in ("dim", "blocks"):
            found.add(op.attr[0])
        for region in op.regions:
            found |= _views(region)
    return found


def count_ops(block: Block) -> int:
    return sum(1 + sum(count_ops(region) for region in op.regions) for op in block.ops)
