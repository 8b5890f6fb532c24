"""The micro-kernel of AMX, the matrix unit: blocks of two by two tiles of accumulators."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.lowering.emit.cpu.builder import Function, Value
from gizml_tile.lowering.emit.cpu.shapes import (
    TILE_PRODUCTS,
    TILE_ROW_BYTES,
    TILE_ROWS,
    DotShape,
    Finish,
    block_target,
    depth_step,
    finish_block,
    panel_layout,
)


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


def tile_blocks(
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
            a_rows = b.offset(a, b.mul(row, b.mul(shape.a_row_stride, layout.element_bytes)))
            c_rows = b.offset(c_column, b.mul(row, shape.c_row_stride * 4))
            target = block_target(b, finish, c, c_rows)
            _tile_product(b, shape, down, across, a_rows, panel_start, c_rows, target, depth, first)
            column, columns = b.mul(panel, layout.width), across * layout.width
            finish_block(b, shape, finish, c, row, tile_rows * down, column, columns)
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
    a_stride, c_stride = b.mul(shape.a_row_stride, layout.element_bytes), shape.c_row_stride * 4
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
        a_step = b.offset(a, b.mul(k, layout.element_bytes))
        b_step = b.offset(panel, b.mul(k, layout.row_bytes // layout.pair))

        def load_left(row: int) -> None:
            _tile(b, load_a, 4 + row, b.offset(a_step, b.mul(a_stride, row * tile_rows)), a_stride)

        def load_right(column: int) -> None:
            address = b.offset(b_step, column * layout.panel_bytes)
            _tile(b, load_b, 6 + column, address, layout.row_bytes)

        # The first product waits for two tiles only.
        load_left(0)
        load_right(0)
        _tile_multiply_add(b, shape, 0, 4, 6)
        for column in range(1, across):
            load_right(column)
        for row in range(1, down):
            load_left(row)
        for row, column in places[1:]:
            _tile_multiply_add(b, shape, 2 * row + column, 4 + row, 6 + column)
        return ()

    b.loop(0, depth, depth_step(shape), at_depth)
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


def _tile_multiply_add(b: Function, shape: DotShape, total: int, left: int, right: int) -> None:
    name = f"llvm.x86.{TILE_PRODUCTS[shape.mode]}"
    b.module.declare(name, f"void @{name}(i8 immarg, i8 immarg, i8 immarg)")
    b.call_void(name, f"i8 {total}", f"i8 {left}", f"i8 {right}")
