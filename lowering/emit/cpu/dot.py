"""Micro-kernels of the CPU's matrix products: LLVM text for one packed chunk of a dot.

A product of a program is cut along k into chunks of ``kc``. For each chunk the operands lie packed, A as
rows of ``a_row_stride`` elements and B as panels (``panel_layout``), and ``micro_product`` adds their
product to an accumulator tile C in memory; inside a chunk the accumulators stay in registers. Every element
of an f32 product is one chain of fused multiply-adds in the order of k, so its bits do not depend on kc, on
blocks or on the width of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from gizml_tile.lowering.emit.cpu.builder import Function, Value

Element = Literal["f32", "bf16", "i32"]
Mode = Literal["fma", "bf16_dot", "amx", "int"]

# A tile register of AMX holds 16 rows of 64 bytes; its product takes 32 bf16 of k at a time.
TILE_ROWS = 16
TILE_ROW_BYTES = 64
TILE_DEPTH = 32
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
        return "i32" if self.mode == "int" else "float"


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
        """Bytes of one row of a panel: one step of k, or one pair of steps."""
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


# Rows of accumulators two vectors wide, by lanes. 16 registers of 8 lanes hold 6 x 2, 17 % faster than 4 x 2;
# with 32 registers 8 x 2 is within 1 % of 12 x 2, 14 x 2 and 8 x 3. A machine of 4 lanes has 32 of them.
BLOCK_ROWS = {16: 8, 8: 6, 4: 8}
OTHER_BLOCK_ROWS = 4


def register_block(rows: int, columns: int, vector: int) -> RegisterBlock:
    """The accumulators for a product of ``rows`` x ``columns`` with vectors of ``vector`` lanes."""
    most = 2 * BLOCK_ROWS.get(vector, OTHER_BLOCK_ROWS)
    vectors = min(2, columns // vector)
    block_rows = min(rows, most // vectors)
    while block_rows * vectors * 2 <= most and vectors * 2 * vector <= columns:
        vectors *= 2
    return RegisterBlock(block_rows, vectors, 4)


def row_blocks(rows: int, most: int) -> tuple[tuple[int, int, int], ...]:
    """(first row, end, height) of the blocks that rows are cut into: of ``most`` rows, a few at the end of 4.

    128 rows by 6 are 20 blocks of 6 and 2 of 4.
    """
    rest = next(rest for rest in range(0, rows + 1, min(4, rows)) if (rows - rest) % most == 0)
    cuts = ((0, rows - rest, most), (rows - rest, rows, min(4, rows)))
    return tuple(cut for cut in cuts if cut[0] < cut[1])


def depth_step(shape: DotShape) -> int:
    """What the depth of a chunk is a multiple of; zeros in A and B pad the product to it."""
    if shape.mode == "amx":
        return TILE_DEPTH
    return 4 * panel_layout(shape).pair


def panel_layout(shape: DotShape) -> PanelLayout:
    """The layout of B that ``micro_product`` reads."""
    if shape.mode == "amx":
        return PanelLayout(shape.columns, shape.kc, TILE_ROWS, 2, 2)
    width = register_block(shape.rows, shape.columns, shape.vector).vectors * shape.vector
    if shape.mode == "bf16_dot":
        return PanelLayout(shape.columns, shape.kc, width, 2, 2)
    return PanelLayout(shape.columns, shape.kc, width, 1, 4)


def micro_product(
    b: Function,
    shape: DotShape,
    a: str,
    panels: str,
    c: str,
    depth: Value,
    first: str,
    ahead: Sequence[Ahead] = (),
    finish: Finish | None = None,
) -> None:
    """Writes C (+)= A x B for one chunk: ``depth`` steps of k, C read as zero where ``first`` (i1) holds.

    ``ahead`` are the memory that the next chunk will read; it is fetched into the second cache meanwhile.
    """
    if shape.mode == "amx":
        _tile_blocks(b, shape, a, panels, c, depth, first, finish)
    else:
        _vector_blocks(b, shape, a, panels, c, depth, first, ahead, finish)


def _vector_blocks(
    b: Function,
    shape: DotShape,
    a: str,
    panels: str,
    c: str,
    depth: Value,
    first: str,
    ahead: Sequence[Ahead],
    finish: Finish | None,
) -> None:
    """Panels outside and rows inside: a panel stays in the first cache while A comes from the second."""
    block = register_block(shape.rows, shape.columns, shape.vector)
    layout = panel_layout(shape)
    cuts = row_blocks(shape.rows, block.rows)
    blocks = sum((end - begin) // height for begin, end, height in cuts)
    panel_stride = layout.panel_bytes if shape.b_row_stride == 0 else layout.width * layout.element_bytes

    steps = shape.kc // (block.unroll * layout.pair)

    def at_panel(panel: Value, _: list[str]) -> Sequence[str]:
        panel_start = b.offset(panels, b.mul(panel, panel_stride))
        c_column = b.offset(c, b.mul(panel, layout.width * 4))

        def at_rows(row: Value, height: int, turn: Value) -> Sequence[str]:
            a_rows = b.offset(a, b.mul(row, b.mul(shape.a_row_stride, layout.element_bytes)))
            c_rows = b.offset(c_column, b.mul(row, shape.c_row_stride * 4))

            def fetch(step: Value) -> None:
                for memory in ahead:
                    _fetch(b, memory, turn, layout.panels * blocks, step, steps)

            here = replace(block, rows=height)
            target = _target(b, finish, c, c_rows)
            _vector_product(b, shape, here, a_rows, panel_start, c_rows, target, depth, first, fetch)
            _finish(b, shape, finish, c, row, height, b.mul(panel, layout.width), layout.width)
            return ()

        turn = b.mul(panel, blocks)
        for begin, end, height in cuts:

            def at_block(number: Value, _: list[str], begin: int, height: int, turn: Value) -> Sequence[str]:
                return at_rows(b.add(b.mul(number, height), begin), height, b.add(turn, number))

            count = (end - begin) // height
            b.loop(0, count, 1, partial(at_block, begin=begin, height=height, turn=turn))
            turn = b.add(turn, count)
        return ()

    b.loop(0, layout.panels, 1, at_panel)


def _target(b: Function, finish: Finish | None, c: str, block: str) -> str:
    """Where a block of C is written: whole ones at the start of C."""
    return block if finish is None else b.emit(f"select i1 {finish.last}, ptr {c}, ptr {block}")


def _finish(
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
        place = b.mul(b.add(b.mul(row, shape.c_row_stride), column), -4)
        write(b.offset(c, place), row, rows, column, columns)
        return ()

    b.when(finish.last, whole)


def _fetch(b: Function, memory: Ahead, turn: Value, turns: int, step: Value, steps: int) -> None:
    """Fetches into the second cache what falls to one of ``turns`` times ``steps`` steps, evenly spread."""
    name = "llvm.prefetch.p0"
    b.module.declare(name, f"void @{name}(ptr, i32 immarg, i32 immarg, i32 immarg)")
    row_lines = memory.row_bytes // CACHE_LINE_BYTES
    at_once = -(-memory.lines // (turns * steps))
    number = b.add(b.mul(turn, steps), step)
    line = b.divide(b.mul(number, memory.lines), turns * steps)
    for extra in range(at_once):
        place = b.add(line, extra)
        row_start = b.mul(b.divide(place, row_lines), memory.row_stride_bytes)
        offset = b.add(row_start, b.mul(b.remainder(place, row_lines), CACHE_LINE_BYTES))
        b.call_void(name, f"ptr {b.offset(memory.start, offset)}", "i32 0", "i32 2", "i32 1")


def _vector_product(
    b: Function,
    shape: DotShape,
    block: RegisterBlock,
    a: str,
    panel: str,
    c: str,
    target: str,
    depth: Value,
    first: str,
    fetch: Callable[[Value], None],
) -> None:
    """One register block over the whole chunk, written to ``target``."""
    layout = panel_layout(shape)
    kind = f"<{shape.vector} x {shape.lane}>"
    align = shape.vector * 4
    in_place = shape.b_row_stride != 0
    b_row_bytes = b.mul(shape.b_row_stride, layout.element_bytes) if in_place else layout.row_bytes
    places = [(row, column) for row in range(block.rows) for column in range(block.vectors)]
    offsets = [(row * shape.c_row_stride + column * shape.vector) * 4 for row, column in places]
    a_row_bytes = b.mul(shape.a_row_stride, layout.element_bytes)
    # constant strides become displacements of one address; others need an address for each row
    spread = not isinstance(a_row_bytes, int)
    a_rows = [b.offset(a, b.mul(a_row_bytes, row)) if spread else a for row in range(block.rows)]
    start = b.when(
        first,
        lambda: ["zeroinitializer"] * len(places),
        lambda: [b.load(kind, b.offset(c, offset), align) for offset in offsets],
        [kind] * len(places),
    )

    def at_depth(k: Value, carried: list[str]) -> Sequence[str]:
        totals = list(carried)
        a_bytes = b.mul(k, layout.element_bytes)
        a_steps = [b.offset(a_row, a_bytes) for a_row in (a_rows if spread else [a])]
        b_step = b.offset(panel, b.mul(b.divide(k, layout.pair), b_row_bytes))
        fetch(b.divide(k, block.unroll * layout.pair))
        for step in range(block.unroll):
            b_row = b.offset(b_step, b.mul(b_row_bytes, step))
            right = [
                b.load(kind, b.offset(b_row, column * align), layout.element_bytes if in_place else align)
                for column in range(block.vectors)
            ]
            for row in range(block.rows):
                along = step * layout.pair * layout.element_bytes
                if spread:
                    address = b.offset(a_steps[row], along)
                else:
                    address = b.offset(a_steps[0], b.add(b.mul(a_row_bytes, row), along))
                left = _broadcast(b, address, shape)
                for column in range(block.vectors):
                    place = row * block.vectors + column
                    totals[place] = _multiply_add(b, shape, left, right[column], totals[place])
        return totals

    totals = b.loop(0, depth, block.unroll * layout.pair, at_depth, [(kind, value) for value in start])
    for offset, total in zip(offsets, totals, strict=True):
        b.store(kind, total, b.offset(target, offset), align)


def _broadcast(b: Function, address: str, shape: DotShape) -> str:
    """The 32 bits at an address, a number or a pair of bf16, in every lane."""
    kind = f"<{shape.vector} x {shape.lane}>"
    scalar = b.load(shape.lane, address, 4)
    lane = b.emit(f"insertelement {kind} poison, {shape.lane} {scalar}, i64 0")
    return b.emit(f"shufflevector {kind} {lane}, {kind} poison, <{shape.vector} x i32> zeroinitializer")


def _multiply_add(b: Function, shape: DotShape, left: str, right: str, total: str) -> str:
    kind = f"<{shape.vector} x {shape.lane}>"
    if shape.mode == "int":
        return b.emit(f"add {kind} {total}, {b.emit(f'mul {kind} {left}, {right}')}")
    if shape.mode == "fma":
        name = f"llvm.fma.v{shape.vector}f32"
        b.module.declare(name, f"{kind} @{name}({kind}, {kind}, {kind})")
        return b.call(kind, name, f"{kind} {left}", f"{kind} {right}", f"{kind} {total}")
    pairs = f"<{shape.vector * 2} x bfloat>"
    name = f"llvm.x86.avx512bf16.dpbf16ps.{shape.vector * 32}"
    b.module.declare(name, f"{kind} @{name}({kind}, {pairs}, {pairs})")
    x = b.emit(f"bitcast {kind} {left} to {pairs}")
    y = b.emit(f"bitcast {kind} {right} to {pairs}")
    return b.call(kind, name, f"{kind} {total}", f"{pairs} {x}", f"{pairs} {y}")


def tile_configuration(shape: DotShape) -> bytes:
    """The 64 bytes that ``begin_tiles`` reads: tiles of C and A are as high as the block, up to 16 rows."""
    rows = min(TILE_ROWS, shape.rows)
    heights = (rows,) * 6 + (TILE_ROWS,) * 2
    widths = b"".join(TILE_ROW_BYTES.to_bytes(2, "little") for _ in heights)
    return bytes([1]) + bytes(15) + widths + bytes(16) + bytes(heights) + bytes(8)


def begin_tiles(b: Function, configuration: str) -> None:
    """Writes the loading of a tile configuration, once before the products of a function."""
    b.module.declare("llvm.x86.ldtilecfg", "void @llvm.x86.ldtilecfg(ptr)")
    b.call_void("llvm.x86.ldtilecfg", f"ptr {configuration}")


def end_tiles(b: Function) -> None:
    """Writes the release of the tiles, once after the products of a function."""
    b.module.declare("llvm.x86.tilerelease", "void @llvm.x86.tilerelease()")
    b.call_void("llvm.x86.tilerelease")


def _tile_blocks(
    b: Function,
    shape: DotShape,
    a: str,
    panels: str,
    c: str,
    depth: Value,
    first: str,
    finish: Finish | None,
) -> None:
    """Two by two accumulator tiles, so that each loaded tile enters two products."""
    layout = panel_layout(shape)
    tile_rows = min(TILE_ROWS, shape.rows)
    down = min(2, shape.rows // tile_rows)
    across = min(2, layout.panels)

    def at_panel(panel: Value, _: list[str]) -> Sequence[str]:
        panel_start = b.offset(panels, b.mul(panel, layout.panel_bytes))
        c_column = b.offset(c, b.mul(panel, layout.width * 4))

        def at_rows(row: Value, _: list[str]) -> Sequence[str]:
            a_rows = b.offset(a, b.mul(row, b.mul(shape.a_row_stride, 2)))
            c_rows = b.offset(c_column, b.mul(row, shape.c_row_stride * 4))
            target = _target(b, finish, c, c_rows)
            _tile_product(b, shape, down, across, a_rows, panel_start, c_rows, target, depth, first)
            column, columns = b.mul(panel, layout.width), across * layout.width
            _finish(b, shape, finish, c, row, tile_rows * down, column, columns)
            return ()

        b.loop(0, shape.rows, tile_rows * down, at_rows)
        return ()

    b.loop(0, layout.panels, across, at_panel)


def _tile_product(
    b: Function,
    shape: DotShape,
    down: int,
    across: int,
    a: str,
    panel: str,
    c: str,
    target: str,
    depth: Value,
    first: str,
) -> None:
    """One block of tiles over the whole chunk: C in tiles 0-3, A in 4-5, B in 6-7, written to ``target``."""
    layout = panel_layout(shape)
    tile_rows = min(TILE_ROWS, shape.rows)
    a_stride, c_stride = b.mul(shape.a_row_stride, 2), shape.c_row_stride * 4
    # The operand that passes by once for each turn must not push the other out of the first cache: with a
    # chunk of 512 a panel pair fills 32 KB of it. 1680 instead of 1450 GF/s.
    passing = "tileloaddt164"
    load_a, load_b = (passing, "tileloadd64") if shape.rows > tile_rows * down else ("tileloadd64", passing)
    places = [(row, column) for row in range(down) for column in range(across)]
    tiles = [2 * row + column for row, column in places]
    offsets = [row * tile_rows * c_stride + column * TILE_ROW_BYTES for row, column in places]

    def clear() -> Sequence[str]:
        for tile in tiles:
            _tile(b, "tilezero", tile)
        return ()

    def reload() -> Sequence[str]:
        for tile, offset in zip(tiles, offsets, strict=True):
            _tile(b, "tileloadd64", tile, b.offset(c, offset), c_stride)
        return ()

    b.when(first, clear, reload)

    def at_depth(k: Value, _: list[str]) -> Sequence[str]:
        a_step = b.offset(a, b.mul(k, 2))
        b_step = b.offset(panel, b.mul(k, layout.row_bytes // 2))

        def load_left(row: int) -> None:
            _tile(b, load_a, 4 + row, b.offset(a_step, b.mul(a_stride, row * tile_rows)), a_stride)

        def load_right(column: int) -> None:
            address = b.offset(b_step, column * layout.panel_bytes)
            _tile(b, load_b, 6 + column, address, layout.row_bytes)

        # The first product waits for two tiles only.
        load_left(0)
        load_right(0)
        _tile_multiply_add(b, 0, 4, 6)
        for column in range(1, across):
            load_right(column)
        for row in range(1, down):
            load_left(row)
        for row, column in places[1:]:
            _tile_multiply_add(b, 2 * row + column, 4 + row, 6 + column)
        return ()

    b.loop(0, depth, TILE_DEPTH, at_depth)
    for tile, offset in zip(tiles, offsets, strict=True):
        _tile(b, "tilestored64", tile, b.offset(target, offset), c_stride)


def _tile(b: Function, operation: str, tile: int, address: str = "", stride_bytes: Value = 0) -> None:
    name = f"llvm.x86.{operation}"
    if not address:
        b.module.declare(name, f"void @{name}(i8 immarg)")
        b.call_void(name, f"i8 {tile}")
        return
    b.module.declare(name, f"void @{name}(i8 immarg, ptr, i64)")
    b.call_void(name, f"i8 {tile}", f"ptr {address}", f"i64 {stride_bytes}")


def _tile_multiply_add(b: Function, total: int, left: int, right: int) -> None:
    name = "llvm.x86.tdpbf16ps"
    b.module.declare(name, f"void @{name}(i8 immarg, i8 immarg, i8 immarg)")
    b.call_void(name, f"i8 {total}", f"i8 {left}", f"i8 {right}")
