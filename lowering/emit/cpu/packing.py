"""What a product's operands look like in memory, and where they are packed.

An operand that is a function of tensors alone is packed by a function of its own. If at least a few
programs of a launch use the same block, every block is packed once for the launch, in parallel, before the
programs run; else each program packs what it needs where it needs it. An operand that is computed from other
tiles is packed by a task of the group that computes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.dtypes import BF16, E5M2, F32, F64, FP8, I8, I16, I32, U8, DType
from gizml_tile.lowering.emit.cpu.normalise import ELEMENTWISE
from gizml_tile.lowering.emit.cpu.shapes import (
    STEPS_TOGETHER,
    TILE_PRODUCTS,
    DotShape,
    Element,
    Mode,
    PanelLayout,
    panel_layout,
)
from gizml_tile.nodes import Node, Tensor, View

# Steps of k that are multiplied between two visits of the accumulators, and the memory that a chunk of the
# right operand may take of the second cache. The matrix unit loses more by the visits.
CHUNK_DEPTH: dict[Mode, int] = {"amx": 512, "bf16_dot": 512, "fma": 256, "int": 256, "i16_dot": 512}
CHUNK_DEPTH["fma_f64"] = 128
# The matrix unit's products of bytes, by whether the left and the right ones have signs.
_BYTES: dict[tuple[bool, bool], Mode] = {
    (True, True): "amx_ss",
    (True, False): "amx_su",
    (False, True): "amx_us",
    (False, False): "amx_uu",
}
CHUNK_DEPTH |= dict.fromkeys(_BYTES.values(), 1024)
# Those of vectors.
_FOURS: dict[tuple[bool, bool], Mode] = {
    (True, True): "i8_dot_ss",
    (True, False): "i8_dot_su",
    (False, True): "i8_dot_us",
    (False, False): "i8_dot_uu",
}
CHUNK_DEPTH |= dict.fromkeys(_FOURS.values(), 1024)
_ELEMENTS: dict[Mode, Element] = {
    **dict.fromkeys((*_BYTES.values(), *_FOURS.values()), "i8"),
    "amx": "bf16",
    "bf16_dot": "bf16",
    "fma": "f32",
    "fma_f64": "f64",
    "int": "i32",
    "i16_dot": "i16",
}
# The storage types whose elements lie as a product reads them.
_READY: dict[Element, frozenset[DType]] = {
    "f64": frozenset({F64}),
    "f32": frozenset({F32}),
    "bf16": frozenset({BF16}),
    "i32": frozenset({I32}),
    "i16": frozenset({I16}),
    "i8": frozenset({I8, U8}),
}
CHUNK_BYTES = 512 << 10
# With so few rows a right operand that only one program uses is not worth packing: it is read where it
# lies, a few of its rows at a time.
FEW_ROWS = 16
FEW_ROWS_DEPTH = 16
# Shorter rows defeat the fetching ahead of the hardware.
LONG_ROW = 512
# Rows of the matrix unit's accumulators start in different cache sets.
TOTAL_PADDING = 16
# Blocks are packed for the whole launch from this many uses on.
STAGE_REUSE = 3
# The index operations whose value is the same in every program of a launch.
INVARIANT = ELEMENTWISE | frozenset({"index", "size", "count", "scalar", "const"})
PACKABLE = ELEMENTWISE | frozenset({"transpose", "const", "iota", "scalar"})


@dataclass(frozen=True, slots=True)
class Machine:
    """What the planner of products and loops needs to know about the CPU."""

    vector: int  # F32 lanes of a vector register
    bf16_dot: bool
    amx: bool
    i16_dot: bool = False  # products of pairs of I16, added to I32
    i8_dot: bool = False  # products of fours of U8 and I8, added to I32
    stream_bytes: int = 0  # tensors of more bytes are stored past the caches; 0 is for never


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """How one operand of a product is packed: rows in chunks of k (left) or panels (right)."""

    side: str
    shape: DotShape
    source: Node
    # the source is the operand's transpose: it is read along its rows and turned in registers
    turned: bool

    @property
    def panels(self) -> PanelLayout:
        return panel_layout(self.shape)

    @property
    def row_stride(self) -> int:
        """Elements from row to row of a packed left operand."""
        return self.shape.kc

    @property
    def chunk_bytes(self) -> int:
        if self.side == "right":
            return self.panels.chunk_bytes
        return self.shape.rows * self.row_stride * self.panels.element_bytes


@dataclass(frozen=True, slots=True)
class Leaf:
    """A coordinate that tells an operand's blocks apart, and the tensor axis whose blocks it counts."""

    index: Node
    tensor: int
    axis: int
    block: int


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """A packing function: of the coordinates ``leaves`` and, for a deep product, a range of chunks.

    ``ranged`` leaves have a known number of blocks, so that all blocks can be packed before the launch.
    """

    number: int
    packing: Packing
    leaves: tuple[Leaf, ...]
    ranged: bool
    turn: Node | None = None
    start: Node | None = None
    stop: Node | None = None
    depth: int = 0

    @property
    def is_deep(self) -> bool:
        return self.turn is not None


def dot_mode(left: DType | None, right: DType | None, machine: Machine) -> Mode:
    """Which multiplication serves two types: floats of 8 bits are exact in BF16, integers in I16."""
    assert left is not None and right is not None
    if left is F64:
        return "fma_f64"
    if left.is_integer:
        if machine.amx:
            return _BYTES[left is I8, right is I8]
        if machine.i8_dot:
            return _FOURS[left is I8, right is I8]
        return "i16_dot" if machine.i16_dot else "int"
    if {left, right} <= {BF16, FP8, E5M2}:
        if machine.amx:
            return "amx"
        if machine.bf16_dot:
            return "bf16_dot"
    return "fma"


def chunk_depth(mode: Mode, columns: int) -> int:
    """Steps of k in a chunk of a deep product."""
    element_bytes = 8 if mode == "fma_f64" else 4 // STEPS_TOGETHER[_ELEMENTS[mode]]
    depth = CHUNK_DEPTH[mode]
    while depth > 64 and depth * columns * element_bytes > CHUNK_BYTES:
        depth //= 2
    return depth


def is_thin(shape: DotShape) -> bool:
    """Whether a product has so few rows that its right operand is best read where it lies."""
    return shape.mode in ("fma", "fma_f64") and shape.rows <= FEW_ROWS and shape.columns >= LONG_ROW


def lies_ready(packing: Packing, tensors: tuple[Tensor, ...]) -> bool:
    """Whether an operand is a tensor's block of the type that the product reads, to be used in place.

    Its rows must be contiguous, which the caller knows, and the block must lie inside the tensor, which is
    known when the program runs.
    """
    view = packing.source.attr
    if packing.turned or packing.source.op != "read" or not isinstance(view, View):
        return False
    wanted = _READY[packing.shape.element]
    whole = view.mode == "at" and len(view.block) == 2 and not view.visible
    return whole and tensors[view.tensor].dtype in wanted


def packs_left(dot: Node, machine: Machine) -> bool:
    """Whether a product reads its left operand in pairs or fours, and so from a home of its own."""
    return STEPS_TOGETHER[_ELEMENTS[dot_mode(dot.args[0].dtype, dot.args[1].dtype, machine)]] > 1


def dot_shape(
    rows: int, columns: int, depth: int, mode: Mode, machine: Machine, a_row_stride: int
) -> DotShape:
    """The micro-kernel's view of a product; AMX needs tiles of full width."""
    if mode in TILE_PRODUCTS:
        columns = max(columns, 16)
    lanes = machine.vector // 2 if mode == "fma_f64" else machine.vector
    vector = min(lanes, columns)
    return DotShape(rows, columns, depth, _ELEMENTS[mode], mode, vector, a_row_stride, columns)


def is_packable(operand: Node, turn: Node | None = None) -> bool:
    """Whether an operand is a function of tensors alone, so that a packing function can make it."""
    return leaves_of(operand, turn) is not None


def leaves_of(operand: Node, turn: Node | None = None) -> tuple[tuple[Leaf, ...], bool] | None:
    """The coordinates that an operand's blocks depend on; None if it depends on more than tensors.

    The loop's own index ``turn`` of a deep product is not one of them. The second value tells whether
    every coordinate counts blocks of a tensor's axis, so that they can all be packed in advance.
    """
    source, _ = split_transpose(operand)
    leaves: dict[Node, Leaf] = {}
    ranged = True
    seen: set[Node] = set()
    pending = [source]
    while pending:
        node = pending.pop()
        if node in seen or node is turn:
            continue
        seen.add(node)
        if node.op == "read":
            view = node.attr
            assert isinstance(view, View)
            for axis, coordinate in enumerate(node.args):
                if coordinate is turn or is_invariant(coordinate):
                    continue
                blocked = axis - (len(node.args) - len(view.block))
                ranged &= blocked < 0 or view.mode == "at"
                block = view.own[blocked] if blocked >= 0 else 1
                leaves.setdefault(coordinate, Leaf(coordinate, view.tensor, axis, block))
        elif node.op == "transpose" and min(node.shape) > 1:
            return None
        elif node.shape == () or node.op not in PACKABLE:
            if not is_invariant(node):
                return None
        else:
            pending.extend(node.args)
    return tuple(leaves.values()), ranged


def is_invariant(node: Node) -> bool:
    """Whether a scalar is the same in all programs of a launch."""
    pending, seen = [node], set[Node]()
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        if current.op not in INVARIANT:
            return False
        pending.extend(current.args)
    return True


def split_transpose(operand: Node) -> tuple[Node, bool]:
    """An operand as (source, turned): a transpose is read along the rows of what it turns."""
    if operand.op == "transpose" and min(operand.shape) > 1:
        return operand.args[0], True
    return operand, False
