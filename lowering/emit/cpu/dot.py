"""Micro-kernels of the CPU's matrix products: LLVM text for one packed chunk of a dot.

A product of a program is cut along k into chunks of ``kc``. For each chunk the operands lie packed, A as
rows of ``a_row_stride`` elements and B as panels (``panel_layout``), and ``micro_product`` adds their
product to an accumulator tile C in memory; inside a chunk the accumulators stay in registers. Every element
of an F32 or F64 product is one chain of fused multiply-adds in the order of k, so its bits do not depend on
kc, on blocks or on the width of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from gizml_tile.lowering.emit.cpu.builder import Function, Value
from gizml_tile.lowering.emit.cpu.shapes import (
    CACHE_LINE_BYTES,
    TILE_PRODUCTS,
    Ahead,
    DotShape,
    Finish,
    RegisterBlock,
    block_target,
    finish_block,
    panel_layout,
    register_block,
)
from gizml_tile.lowering.emit.cpu.tiles import tile_blocks
from gizml_tile.lowering.emit.cpu.together import TURNED, multiply_add_together, turned


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
    if shape.mode in TILE_PRODUCTS:
        tile_blocks(b, shape, a, panels, c, depth, first, finish)
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
    block = register_block(shape)
    layout = panel_layout(shape)
    cuts = row_blocks(shape.rows, block.rows)
    blocks = sum((end - begin) // height for begin, end, height in cuts)
    panel_stride = layout.panel_bytes if shape.b_row_stride == 0 else layout.width * layout.element_bytes

    steps = shape.kc // (block.unroll * layout.pair)

    def at_panel(panel: Value, _: list[str]) -> Sequence[str]:
        panel_start = b.offset(panels, b.mul(panel, panel_stride))
        c_column = b.offset(c, b.mul(panel, layout.width * shape.lane_bytes))
        excess = _excess(b, shape, block, panel_start, depth) if shape.turns_bits else []

        def at_rows(row: Value, height: int, turn: Value) -> Sequence[str]:
            a_rows = b.offset(a, b.mul(row, b.mul(shape.a_row_stride, layout.element_bytes)))
            c_rows = b.offset(c_column, b.mul(row, shape.c_row_stride * shape.lane_bytes))

            def fetch(step: Value) -> None:
                for memory in ahead:
                    _fetch(b, memory, turn, layout.panels * blocks, step, steps)

            here = replace(block, rows=height)
            target = block_target(b, finish, c, c_rows)
            _vector_product(b, shape, here, a_rows, panel_start, c_rows, target, depth, first, fetch, excess)
            finish_block(b, shape, finish, c, row, height, b.mul(panel, layout.width), layout.width)
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


def row_blocks(rows: int, most: int) -> tuple[tuple[int, int, int], ...]:
    """(first row, end, height) of the blocks that rows are cut into: of ``most`` rows, a few at the end of 4.

    128 rows by 6 are 20 blocks of 6 and 2 of 4.
    """
    rest = next(rest for rest in range(0, rows + 1, min(4, rows)) if (rows - rest) % most == 0)
    cuts = ((0, rows - rest, most), (rows - rest, rows, min(4, rows)))
    return tuple(cut for cut in cuts if cut[0] < cut[1])


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
    excess: Sequence[str],
) -> None:
    """One register block over the whole chunk, written to ``target``; totals start lower by ``excess``."""
    layout = panel_layout(shape)
    kind = f"<{shape.vector} x {shape.lane}>"
    align = shape.vector * shape.lane_bytes
    in_place = shape.b_row_stride != 0
    b_row_bytes = b.mul(shape.b_row_stride, layout.element_bytes) if in_place else layout.row_bytes
    places = [(row, column) for row in range(block.rows) for column in range(block.vectors)]
    offsets = [
        (row * shape.c_row_stride + column * shape.vector) * shape.lane_bytes for row, column in places
    ]
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
    if excess:
        pairs = zip(start, places, strict=True)
        start = [b.emit(f"sub {kind} {value}, {excess[column]}") for value, (_, column) in pairs]

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
                if shape.turns_bits:
                    left = turned(b, shape, left)
                for column in range(block.vectors):
                    place = row * block.vectors + column
                    totals[place] = _multiply_add(b, shape, left, right[column], totals[place])
        return totals

    totals = b.loop(0, depth, block.unroll * layout.pair, at_depth, [(kind, value) for value in start])
    for offset, total in zip(offsets, totals, strict=True):
        b.store(kind, total, b.offset(target, offset), align)


def _excess(b: Function, shape: DotShape, block: RegisterBlock, panel: str, depth: Value) -> list[str]:
    """What turned bits add to every row of a panel's product: the byte 0x80 times each column."""
    layout = panel_layout(shape)
    kind, align = f"<{shape.vector} x i32>", shape.vector * shape.lane_bytes
    places = [(step, column) for step in range(block.unroll) for column in range(block.vectors)]

    def at_depth(k: Value, carried: list[str]) -> Sequence[str]:
        rows = b.offset(panel, b.mul(b.divide(k, layout.pair), layout.row_bytes))
        totals = []
        for (step, column), total in zip(places, carried, strict=True):
            right = b.load(kind, b.offset(rows, step * layout.row_bytes + column * align), align)
            totals.append(_multiply_add(b, shape, f"splat (i32 {TURNED})", right, total))
        return totals

    start = [(kind, "zeroinitializer")] * len(places)
    totals = b.loop(0, depth, block.unroll * layout.pair, at_depth, start)
    while len(totals) > block.vectors:
        half = len(totals) // 2
        totals = [b.emit(f"add {kind} {x}, {y}") for x, y in zip(totals[:half], totals[half:], strict=True)]
    return totals


def _broadcast(b: Function, address: str, shape: DotShape) -> str:
    """What is at an address, a number or a pair of bf16, in every lane."""
    kind = f"<{shape.vector} x {shape.lane}>"
    scalar = b.load(shape.lane, address, shape.lane_bytes)
    lane = b.emit(f"insertelement {kind} poison, {shape.lane} {scalar}, i64 0")
    return b.emit(f"shufflevector {kind} {lane}, {kind} poison, <{shape.vector} x i32> zeroinitializer")


def _multiply_add(b: Function, shape: DotShape, left: str, right: str, total: str) -> str:
    kind = f"<{shape.vector} x {shape.lane}>"
    if shape.mode == "int":
        return b.emit(f"add {kind} {total}, {b.emit(f'mul {kind} {left}, {right}')}")
    if shape.mode in ("fma", "fma_f64"):
        name = f"llvm.fma.v{shape.vector}f{8 * shape.lane_bytes}"
        b.module.declare(name, f"{kind} @{name}({kind}, {kind}, {kind})")
        return b.call(kind, name, f"{kind} {left}", f"{kind} {right}", f"{kind} {total}")
    return multiply_add_together(b, shape, left, right, total)
