"""The tile IR: what a program says, as frozen nodes in structured regions.

A node's operands are the nodes that made them, so a pattern is matched directly::

    match node:
        case Node("add", (c, Node("dot", (a, b)))): ...

Three kinds of values share the form. An *index* has shape ``()`` and type I64: a uniform 64-bit
integer. A *tile* has shape ``(rows, columns)``, which passes make powers of two, and a storage type; a mask
is a tile of type MASK. A node without a value (``put``, ``loop``, ``print``, ...) has shape ``()`` and
type None.

========================  ===============================  =============================================
op                        operands                         attribute, meaning
========================  ===============================  =============================================
index                     -                                int: a constant
id, count                 -                                axis: this program's position, the grid's size
size                      -                                (tensor, axis): a tensor's size
scalar                    -                                Scalar: a run-time number
param                     -                                a region's parameter: number
const                     -                                (shape, dtype, value)
iota                      -                                (shape, axis, dtype): row or column number
value                     index                            dtype: the index as a [1, 1] tile
random                    seed, counters                   Random: four columns for each counter
read                      coordinates                      View
put                       tile, coordinates                View
gather                    indices, tiles, [mask]           Elements: any elements of a tensor, as a tile
scatter                   tile, indices, tiles, [mask]     Elements: a tile to any elements of a tensor
element                   indices                          Elements: one of an integer tensor, as an index
neg abs                   a                                (a may be an index)
exp exp2 log log2 sin cos a                                approx: bool
sigmoid tanh silu gelu
reciprocal
expm1 log1p softplus erf  a                                floats, in F32 (F64 in F64)
gelu_erf relu sqrt rsqrt
floor ceil trunc round
popcount clz              a                                integers: bits that are set, zeros before the first
to                        a                                dtype
bitcast                   a                                dtype of the same width: the same bits
transpose                 a
reshape                   a                                (rows, columns), row by row as NumPy; or Reflow
slice                     a                                Slice: Steps along the rows and the columns
concat interleave         a, b                             axis: one after the other, or in turn
sum max min               a                                axis; on masks sum counts, max is any, min is all
reduce, scan              a...                             Combining: the first value; tiles of one shape
sort                      a                                Sorting; part 1: where each was, in I32
histogram                 a                                how many of 0, 1, ... are counted, as I32 [1, n]
part                      reduce, scan or sort             which of its further values
add sub mul div           a, b                             indices: div and rem truncate
maximum minimum           a, b                             (indices too)
rem floormod              a, b                             (indices too); of floats exact
floordiv                  a, b                             integers and indices
pow                       a, b                             approx: bool; floats
mulhi                     a, b                             unsigned: bool; the upper half, of I32 or U32
and_ or_ xor              a, b                             masks, or the bits of integers
not_                      a                                likewise
shl shr                   a, b                             integers; shr keeps the sign (unsigned: zero)
lt le gt ge eq ne         a, b                             a mask; of two indices a uniform [1, 1] mask
select                    mask, yes, no                    (of two indices: an index; the mask is [1, 1])
fma                       a, b, c                          (negate_product, negate_c): one rounding
print                     values...                        Message: for a person who looks for a mistake
check                     mask, [value]                    Message: where the mask is false is a mistake
dot                       a, b  or  a, b, c                precision: "f32" or "tf32"; c + a @ b
loop                      start, stop, step, inits...      one region (k, carried...) -> carried...;
                                                           EARLY: goes on only while the last carried
                                                           value, an index, is not 0
cond                      [1, 1] mask                      two regions () -> values...
result                    loop or cond                     which of its values
========================  ===============================  =============================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gizml_tile.dtypes import F32, F64, I32, I64, MASK, U32, U64, DType, math_dtype
from gizml_tile.errors import Place

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class View:
    """How a block of a tensor is addressed.

    ``block`` has the sizes of the last one or two dimensions. With mode ``"at"`` coordinates of those
    dimensions count blocks, with ``"window"`` elements; coordinates of the dimensions before count
    elements in both. ``pad`` is what a read gives outside the tensor, already rounded to its type. Of a
    block that was made larger only the sizes ``visible`` belong to it: coordinates count these, and what is
    beyond them counts as outside of the tensor.
    """

    tensor: int
    block: tuple[int, ...]
    mode: str = "at"
    pad: float | int | bool = 0
    visible: tuple[int, ...] = ()

    @property
    def own(self) -> tuple[int, ...]:
        """The sizes of the block as it was written."""
        return self.visible or self.block

    @property
    def shape(self) -> tuple[int, int]:
        """The tile that a block is: a one-dimensional block is a row."""
        return (1, self.block[0]) if len(self.block) == 1 else (self.block[0], self.block[1])

    @property
    def pads_with_zeros(self) -> bool:
        """Whether a read gives bytes of zeros outside the tensor, which -0.0 is not."""
        return self.pad == 0 and math.copysign(1, self.pad) > 0


# Additions whose order leaves no trace.
EXACT = "exact"


@dataclass(frozen=True, slots=True)
class Elements:
    """How single elements of a tensor of so many axes are addressed, one for each element of a tile.

    The place along each axis is an index, and along the ``tiled`` axes that plus an element of an integer
    tile, as a sum of 64 bits: with tiled axes (0, 2) the operands are ``i0 i1 i2 t0 t2``, and a mask after
    them where only some elements are addressed. The tiles and the mask broadcast to ``shape``. ``pad`` is
    what a gather gives outside the tensor and where the mask is false. ``combine`` tells how a scatter makes
    what the tensor holds of that and its own: ``"add"``, ``"max"`` or ``"min"``, or it overwrites. To add
    `EXACT` is for floats, and made of others before a program is lowered (tile_passes/exact_sums.py).
    """

    tensor: int
    shape: tuple[int, int]
    rank: int
    tiled: tuple[int, ...]
    pad: float | int | bool = 0
    combine: str = ""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor parameter: its name in the person's source (or made up), storage type and rank."""

    name: str
    dtype: DType
    rank: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A run-time number: an index, or a [1, 1] F32 tile."""

    name: str
    dtype: DType

    @property
    def shape(self) -> Shape:
        return () if self.dtype is I64 else (1, 1)


@dataclass(frozen=True, slots=True)
class Steps:
    """Elements of an axis: ``size`` of them, from ``start`` on, each ``step`` after the last (or before)."""

    start: int
    step: int
    size: int

    def __post_init__(self) -> None:
        if self.size == 1:
            # Of one element no step is taken: equal choices compare equal.
            object.__setattr__(self, "step", 1)

    @staticmethod
    def whole(size: int) -> Steps:
        """All elements of an axis in their order."""
        return Steps(0, 1, size)

    def of(self, other: Steps) -> Steps:
        """These elements of the elements that ``other`` takes."""
        return Steps(other.start + self.start * other.step, self.step * other.step, self.size)


@dataclass(frozen=True, slots=True)
class Slice:
    """The attribute of ``slice``: what it takes of the rows, and of these what of the columns."""

    rows: Steps
    columns: Steps


@dataclass(frozen=True, slots=True)
class Reflow:
    """The attribute of a ``reshape`` of tiles that are larger than what is seen of them.

    Rows of ``before`` elements are read on as rows of ``after``: the element at (r, c) of the result is
    number n = r * after + c, and that of the operand at (n // before modulo its rows, n % before).
    """

    shape: tuple[int, int]
    before: int
    after: int

    @property
    def run(self) -> int:
        """How many neighbours, from a multiple of their number on, are neighbours in both: a power of two."""
        together = self.before | self.after
        return together & -together


@dataclass(frozen=True, slots=True)
class Const:
    """The attribute of ``const`` and ``iota``: shape, type, and the value or the axis."""

    shape: tuple[int, int]
    dtype: DType
    value: float | int | bool


# What can be drawn.
RANDOM = ("bits", "uniform", "normal")


@dataclass(frozen=True, slots=True)
class Random:
    """The attribute of ``random``: the shape, and which of `RANDOM` is drawn."""

    shape: tuple[int, int]
    kind: str


@dataclass(frozen=True, slots=True)
class Combining:
    """How values of one or several tiles are combined along an axis.

    ``function`` takes the values of two places as [1, 1] tiles, all of the earlier place first, and gives
    those that stand for both. It is associative; a ``commutative`` one gives the same bits in any order.
    ``reverse`` scans from the last place to the first, which then is the earlier one.
    """

    axis: int
    function: Region
    reverse: bool = False
    commutative: bool = False


@dataclass(frozen=True, slots=True)
class Sorting:
    """Sorting along an axis, of which the first ``keep`` elements are kept.

    Elements are ordered as by ``maximum``: -0 stands before +0, and NaN after all numbers whether ascending
    or ``descending``. Equal ones keep the order that they had.
    """

    axis: int
    descending: bool
    keep: int


@dataclass(frozen=True, slots=True)
class Message:
    """What ``print`` says in words, with None for each value; what ``check`` says of a mistake."""

    words: tuple[str | None, ...]


Attr = (
    None
    | int
    | float
    | str
    | bool
    | DType
    | tuple[int, int]
    | tuple[bool, bool]
    | Slice
    | Reflow
    | View
    | Elements
    | Const
    | Scalar
    | Combining
    | Sorting
    | Message
    | Random
)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operation. Nodes compare by identity; two programs compare by their text."""

    op: str
    args: tuple[Node, ...]
    attr: Attr
    shape: Shape
    dtype: DType | None
    place: Place | None = None
    regions: tuple[Region, ...] = ()

    @property
    def is_index(self) -> bool:
        return self.shape == () and self.dtype is I64

    @property
    def is_tile(self) -> bool:
        return len(self.shape) == 2

    def __repr__(self) -> str:
        return f"<{self.op} {list(self.shape)} {self.dtype}>"


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Nodes in program order, what they take and what they give."""

    params: tuple[Node, ...]
    nodes: tuple[Node, ...]
    results: tuple[Node, ...]

    def walk(self) -> Iterator[Node]:
        """Every node of this region and of the regions inside, in program order."""
        for node in self.nodes:
            yield node
            for region in node.regions:
                yield from region.walk()


@dataclass(frozen=True, slots=True, eq=False)
class TileProgram:
    """A traced kernel: tensors and scalars it takes, which tensor each ``write`` named, the body.

    ``variants`` are pairs of an operation and the variant that the person wants of it on GPUs. ``records``
    is the number of the tensor that the launch brings for what ``print`` and ``check`` tell, where there are.
    ``fused`` says that it is decided which products and sums are one operation. ``written`` has the shapes
    that the person wrote of tiles which are computed in larger ones, by their place and the larger shape.
    """

    name: str
    tensors: tuple[Tensor, ...]
    scalars: tuple[Scalar, ...]
    writes: tuple[int, ...]
    body: Region
    warps: int = 0
    stages: int = 0
    approx: bool = False
    variants: tuple[tuple[str, str], ...] = ()
    records: int | None = None
    fused: bool = False
    written: Mapping[tuple[Place | None, Shape], Shape] = field(default_factory=dict)

    def written_shape(self, node: Node) -> Shape:
        """The shape that the person wrote of a tile."""
        return self.written.get((node.place, node.shape), node.shape)


APPROXIMABLE = frozenset("exp exp2 log log2 sin cos sigmoid tanh silu gelu reciprocal".split())
UNARY_FLOAT = APPROXIMABLE | frozenset(
    "expm1 log1p softplus erf gelu_erf relu sqrt rsqrt floor ceil trunc round".split()
)
COUNTS = frozenset({"popcount", "clz"})
MOVES = frozenset("reshape slice concat interleave".split())
UNARY = UNARY_FLOAT | COUNTS | frozenset("neg abs not_ to bitcast transpose".split())
ARITHMETIC = frozenset("add sub mul div rem floordiv floormod maximum minimum".split())
BITWISE = frozenset("and_ or_ xor shl shr".split())
COMPARISONS = frozenset("lt le gt ge eq ne".split())
ELEMENTWISE_BINARY = ARITHMETIC | BITWISE | {"pow", "mulhi"}
ELEMENTWISE = (UNARY - {"transpose"}) | ELEMENTWISE_BINARY | COMPARISONS | {"select", "fma"}
REDUCTIONS = frozenset("sum max min".split())
COMBINING = frozenset("reduce scan".split())
# The operations in which elements of a tile meet.
ALONG = REDUCTIONS | COMBINING | {"sort", "histogram"}
COMMUTATIVE = frozenset("add mul maximum minimum and_ or_ xor eq ne".split())
STRUCTURED = frozenset("loop cond".split())
# The attribute of a loop that may end before its last turn.
EARLY = "while"
READS = frozenset({"read", "gather", "element"})
EFFECTS = frozenset({"put", "scatter"})
# What stands for a store into a launch's records (see lowering/tile_passes/records.py).
RECORDS = frozenset({"print", "check"})
ACCESSES = READS | EFFECTS


def axis_of(node: Node) -> int | None:
    """The axis along which a node's operands meet; None for other operations."""
    if isinstance(node.attr, Combining | Sorting):
        return node.attr.axis
    return node.attr if node.op in REDUCTIONS and isinstance(node.attr, int) else None


def part_dtype(node: Node, number: int) -> DType:
    """The type of one of the values of a node that has several."""
    if node.op == "sort" and number:
        return I32
    dtype = node.args[number].dtype if number else node.dtype
    assert dtype is not None
    return dtype


def parts(node: Node) -> int:
    """How many values a node has: 1 for all but those whose further ones are its parts."""
    return 2 if node.op == "sort" else len(node.args) if node.op in COMBINING else 1


def broadcast(*shapes: Shape) -> Shape | None:
    """The common shape of operands whose size 1 stretches to any size; None where they do not fit."""
    if all(shape == () for shape in shapes):
        return ()
    result = [1, 1]
    for shape in shapes:
        for axis, size in enumerate(shape):
            if size != 1:
                if result[axis] not in (1, size):
                    return None
                result[axis] = size
    return (result[0], result[1])


# Where two different types of mathematics meet.
_MEETING = {frozenset({F32, F64}): F64, frozenset({I32, I64}): I64, frozenset({U32, U64}): U64}


def promote(a: DType, b: DType) -> DType | None:
    """The type that mathematics on two types gives; None where they do not mix without ``to``.

    F32 and F64 meet in F64. Integers with a sign, and those of 8 and 16 bits, meet in I32 or I64; U32 and U64
    meet in U64. Neither of those two mixes with the others: no type of 64 bits holds the values of both.
    """
    left, right = math_dtype(a), math_dtype(b)
    if left is right:
        return left
    return _MEETING.get(frozenset({left, right}))


def make(
    op: str,
    args: tuple[Node, ...] = (),
    attr: Attr = None,
    place: Place | None = None,
    regions: tuple[Region, ...] = (),
    *,
    tensors: Sequence[Tensor] = (),
) -> Node:
    """A node whose shape and type follow from its operands; ``tensors`` is needed for reads alone.

    The operands are assumed to fit (the tracing methods check them for the person, ``check`` for us).
    """
    shape, dtype = _value(op, args, attr, tensors)
    return Node(op, args, attr, shape, dtype, place, regions)


@dataclass(frozen=True, slots=True)
class Places:
    """The operands of a gather or scatter: for each axis of the tensor an index and a tile or None."""

    indices: tuple[Node, ...]
    tiles: tuple[Node | None, ...]
    mask: Node | None


def places(node: Node) -> Places:
    """Where the elements of a gather or scatter are."""
    elements = node.attr
    assert isinstance(elements, Elements), node
    operands = node.args[node.op in EFFECTS :]
    indices, rest = operands[: elements.rank], operands[elements.rank :]
    tiles = dict(zip(elements.tiled, rest, strict=False))
    mask = rest[-1] if len(rest) > len(elements.tiled) else None
    return Places(indices, tuple(tiles.get(axis) for axis in range(elements.rank)), mask)


def with_places(node: Node, found: Places) -> Node:
    """A gather or scatter of the same elements of a tile, at other places."""
    elements = node.attr
    assert isinstance(elements, Elements), node
    tiled = tuple(axis for axis, tile in enumerate(found.tiles) if tile is not None)
    tiles = [tile for tile in found.tiles if tile is not None]
    mask = () if found.mask is None else (found.mask,)
    stored = node.args[: node.op in EFFECTS]
    args = (*stored, *found.indices, *tiles, *mask)
    return Node(node.op, args, replace(elements, tiled=tiled), node.shape, node.dtype, node.place)


def tensor_of(node: Node) -> int:
    """The number of the tensor that a node reads or writes."""
    assert isinstance(node.attr, View | Elements), node
    return node.attr.tensor


def has_exact_sums(program: TileProgram) -> bool:
    """Whether a program adds to a tensor in an order that must leave no trace."""
    return any(isinstance(node.attr, Elements) and node.attr.combine == EXACT for node in program.body.walk())


def param(shape: Shape, dtype: DType, number: int) -> Node:
    """A region's parameter: the loop index (an index) or a carried value."""
    return Node("param", (), number, shape, dtype)


def rebuild(node: Node, args: tuple[Node, ...], regions: tuple[Region, ...] = ()) -> Node:
    """The same operation on other operands of the same shapes and types."""
    return Node(node.op, args, node.attr, node.shape, node.dtype, node.place, regions)


def _value(
    op: str, args: tuple[Node, ...], attr: Attr, tensors: Sequence[Tensor]
) -> tuple[Shape, DType | None]:
    match op:
        case "index" | "id" | "count" | "size" | "element":
            return (), I64
        case "scalar":
            assert isinstance(attr, Scalar)
            return attr.shape, attr.dtype
        case "const" | "iota":
            assert isinstance(attr, Const)
            return attr.shape, attr.dtype
        case "random":
            assert isinstance(attr, Random)
            return attr.shape, U32 if attr.kind == "bits" else F32
        case "value" | "to" | "bitcast":
            assert isinstance(attr, DType)
            return (1, 1) if op == "value" else args[0].shape, attr
        case "read":
            assert isinstance(attr, View)
            return attr.shape, tensors[attr.tensor].dtype
        case "gather":
            assert isinstance(attr, Elements)
            return attr.shape, tensors[attr.tensor].dtype
        case "put" | "scatter" | "loop" | "cond" | "print" | "check":
            return (), None
        case "result":
            assert isinstance(attr, int)
            result = args[0].regions[0].results[attr]
            return result.shape, result.dtype
        case "transpose":
            return args[0].shape[::-1], args[0].dtype
        case "reshape":
            assert isinstance(attr, tuple | Reflow)
            rows, columns = attr.shape if isinstance(attr, Reflow) else attr
            return (rows, columns), args[0].dtype
        case "slice":
            along_rows, along_columns = slices(attr)
            return (along_rows.size, along_columns.size), args[0].dtype
        case "concat" | "interleave":
            rows, columns = args[0].shape
            if attr == 0:
                return (rows + args[1].shape[0], columns), args[0].dtype
            return (rows, columns + args[1].shape[1]), args[0].dtype
        case "sum" | "max" | "min":
            rows, columns = args[0].shape
            counts = args[0].dtype is MASK and op == "sum"
            return (1, columns) if attr == 0 else (rows, 1), I32 if counts else _math_dtype(args[0])
        case "reduce" | "scan":
            assert isinstance(attr, Combining)
            return _combined(args[0], op, attr), args[0].dtype
        case "sort":
            assert isinstance(attr, Sorting)
            rows, columns = args[0].shape
            return (attr.keep, columns) if attr.axis == 0 else (rows, attr.keep), args[0].dtype
        case "histogram":
            assert isinstance(attr, int)
            return (1, attr), I32
        case "part":
            assert isinstance(attr, int)
            return args[0].shape, part_dtype(args[0], attr)
        case "dot":
            return (args[0].shape[0], args[1].shape[1]), _promoted(args[:2])
        case "select":
            same = args[1].dtype is args[2].dtype
            shape = () if args[1].is_index else _broadcast(args)
            return shape, args[1].dtype if same else _promoted(args[1:])
        case _ if op in COMPARISONS:
            return _broadcast(args) or (1, 1), MASK
        case _:
            return _broadcast(args), _promoted(args)


def _combined(tile: Node, op: str, how: Combining) -> Shape:
    if op == "scan":
        return tile.shape
    return (1, tile.shape[1]) if how.axis == 0 else (tile.shape[0], 1)


def slices(attr: Attr) -> tuple[Steps, Steps]:
    """What the attribute of a ``slice`` takes along each axis."""
    assert isinstance(attr, Slice)
    return attr.rows, attr.columns


def _broadcast(args: tuple[Node, ...]) -> Shape:
    shape = broadcast(*(arg.shape for arg in args))
    assert shape is not None, args
    return shape


def _math_dtype(node: Node) -> DType:
    assert node.dtype is not None
    return math_dtype(node.dtype)


def _promoted(args: tuple[Node, ...]) -> DType:
    dtype = _math_dtype(args[0])
    for other in args[1:]:
        common = promote(dtype, _math_dtype(other))
        assert common is not None, args
        dtype = common
    return dtype
