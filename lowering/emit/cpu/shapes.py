"""Products as micro-kernels see them: their form, how operands lie, what happens to blocks that are whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gizml_tile.lowering.emit.cpu.builder import Function, Value

Element = Literal["f64", "f32", "bf16", "i32", "i16", "i8"]
Mode = Literal[
    "fma",
    "fma_f64",
    "bf16_dot",
    "amx",
    "amx_ss",
    "amx_su",
    "amx_us",
    "amx_uu",
    "int",
    "i16_dot",
    "i8_dot_ss",
    "i8_dot_su",
    "i8_dot_us",
    "i8_dot_uu",
]

# The steps of k that products take side by side, in 32 bits (of F64 one, in 64).
STEPS_TOGETHER: dict[Element, int] = {"f64": 1, "f32": 1, "bf16": 2, "i32": 1, "i16": 2, "i8": 4}

# A tile register of AMX holds 16 rows of 64 bytes; its product takes 32 bf16 or 64 bytes of k at a time.
TILE_ROWS = 16
TILE_ROW_BYTES = 64
# The products of tiles by mode: of bf16, and of bytes that are signed or unsigned on the left and right.
TILE_PRODUCTS: dict[Mode, str] = {
    "amx": "tdpbf16ps",
    "amx_ss": "tdpbssd",
    "amx_su": "tdpbsud",
    "amx_us": "tdpbusd",
    "amx_uu": "tdpbuud",
}
# The products of fours of bytes in vectors: whether the left ones are those without signs to the
# instruction, and whether they turn their highest bit first (see ``together``).
BYTE_PRODUCTS: dict[Mode, tuple[bool, bool]] = {
    "i8_dot_ss": (True, True),
    "i8_dot_su": (False, False),
    "i8_dot_us": (True, False),
    "i8_dot_uu": (False, True),
}
CACHE_LINE_BYTES = 64


@dataclass(frozen=True, slots=True)
class DotShape:
    """The product of one chunk, C[rows, columns] += A[rows, kc] x B[kc, columns]; strides in elements.

    A is read where it lies, with any row stride; so is B, row by row, if ``b_row_stride`` is not 0. Else it
    lies in panels. The matrix unit reads panels only.
    """

    rows: int
    columns: int
    kc: int
    element: Element
    mode: Mode
    vector: int
    a_row_stride: Value
    c_row_stride: int
    b_row_stride: Value = 0

    @property
    def lane(self) -> str:
        """The LLVM type of an accumulator."""
        if self.element == "f64":
            return "double"
        return "i32" if self.element in ("i32", "i16", "i8") else "float"

    @property
    def lane_bytes(self) -> int:
        """Bytes of an accumulator."""
        return 8 if self.element == "f64" else 4

    @property
    def turns_bits(self) -> bool:
        """Whether the left bytes' highest bits are turned before they are multiplied."""
        return self.mode in BYTE_PRODUCTS and BYTE_PRODUCTS[self.mode][1]


@dataclass(frozen=True, slots=True)
class PanelLayout:
    """How a chunk of B lies in memory: elements [columns / width][kc / pair][width][pair]."""

    columns: int
    kc: int
    width: int
    pair: int
    element_bytes: int

    @property
    def panels(self) -> int:
        return self.columns // self.width

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of a panel: one step of k, or those that are taken together."""
        return self.width * self.pair * self.element_bytes

    @property
    def panel_bytes(self) -> int:
        return self.kc // self.pair * self.row_bytes

    @property
    def chunk_bytes(self) -> int:
        return self.panels * self.panel_bytes


@dataclass(frozen=True, slots=True)
class Ahead:
    """Memory that is read soon: ``rows`` of ``row_bytes``, every ``row_stride_bytes``, from ``start``."""

    start: str
    rows: int
    row_bytes: int
    row_stride_bytes: Value

    @property
    def lines(self) -> int:
        """Cache lines to fetch."""
        return self.rows * self.row_bytes // CACHE_LINE_BYTES


@dataclass(frozen=True, slots=True)
class Finish:
    """What happens to each block of C as soon as it is whole: in the chunk for which ``last`` (i1) holds.

    Whole blocks are written one over the other where C starts, which stays in the first cache.
    ``write(address, row, rows, column, columns)`` is given the address that C would have if all of it
    lay where this block does, and the block.
    """

    last: str
    write: Callable[[str, Value, int, Value, int], None]


@dataclass(frozen=True, slots=True)
class RegisterBlock:
    """The accumulators that stay in registers: rows x vectors, with ``unroll`` steps of k in one turn."""

    rows: int
    vectors: int
    unroll: int


# Rows of accumulators two vectors wide, by bytes. 16 registers of 32 bytes hold 6 x 2, 17 % faster than
# 4 x 2; with 32 registers 8 x 2 is within 1 % of 12 x 2, 14 x 2 and 8 x 3. A machine of 16 bytes has 32.
BLOCK_ROWS = {64: 8, 32: 6, 16: 8}
OTHER_BLOCK_ROWS = 4
# Where bits are turned, which takes a register: 1.9 times as fast as 6 x 2.
TURNED_BLOCK_ROWS = BLOCK_ROWS | {32: 5}


def register_block(shape: DotShape) -> RegisterBlock:
    """The accumulators that a product is computed with."""
    heights = TURNED_BLOCK_ROWS if shape.turns_bits else BLOCK_ROWS
    most = 2 * heights.get(shape.vector * shape.lane_bytes, OTHER_BLOCK_ROWS)
    vectors = min(2, shape.columns // shape.vector)
    block_rows = min(shape.rows, most // vectors)
    while block_rows * vectors * 2 <= most and vectors * 2 * shape.vector <= shape.columns:
        vectors *= 2
    return RegisterBlock(block_rows, vectors, 4)


def depth_step(shape: DotShape) -> int:
    """What the depth of a chunk is a multiple of; zeros in A and B pad the product to it."""
    if shape.mode in TILE_PRODUCTS:
        return TILE_ROW_BYTES // panel_layout(shape).element_bytes
    return 4 * panel_layout(shape).pair


def panel_layout(shape: DotShape) -> PanelLayout:
    """The layout of B that ``micro_product`` reads."""
    together = STEPS_TOGETHER[shape.element]
    width = TILE_ROWS
    if shape.mode not in TILE_PRODUCTS:
        width = register_block(shape).vectors * shape.vector
    return PanelLayout(shape.columns, shape.kc, width, together, shape.lane_bytes // together)


def block_target(b: Function, finish: Finish | None, c: str, block: str) -> str:
    """Where a block of C is written: whole ones at the start of C."""
    return block if finish is None else b.emit(f"select i1 {finish.last}, ptr {c}, ptr {block}")


def finish_block(
    b: Function,
    shape: DotShape,
    finish: Finish | None,
    c: str,
    row: Value,
    rows: int,
    column: Value,
    columns: int,
) -> None:
    """Hands on a block of C that is whole."""
    if finish is None:
        return
    write = finish.write

    def whole() -> Sequence[str]:
        place = b.mul(b.add(b.mul(row, shape.c_row_stride), column), -shape.lane_bytes)
        write(b.offset(c, place), row, rows, column, columns)
        return ()

    b.when(finish.last, whole)
