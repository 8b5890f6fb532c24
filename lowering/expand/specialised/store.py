"""Tiles on their way to tensors by the copy engine, panel by panel through workgroup memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from gizml_tile.dtypes import I32
from gizml_tile.layout import Linear
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.fragments import fragment_reads
from gizml_tile.lowering.expand.memory import read_part
from gizml_tile.lowering.expand.places import crossed
from gizml_tile.lowering.expand.shared import store_shared
from gizml_tile.lowering.expand.specialised.boxes import corner, panel
from gizml_tile.lowering.expand.specialised.clusters import columns_further, parts_of_columns
from gizml_tile.lowering.expand.specialised.ring import GROUP_BARRIER, GROUP_THREADS, leads
from gizml_tile.lowering.expand.specialised.some import some_registers
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import BulkWait, MatrixAccess
from gizml_tile.lowering.planning.plan import BulkStore, TileLayout
from gizml_tile.nodes import Node, View

_WHOLE_BYTES = 1024
# Registers of a tile that are computed together.
_AT_ONCE = 32
_GROUP_BITS = 2  # of a warp's number in its group


def store_in_bulk(x: Expansion, node: Node, store: BulkStore) -> None:
    """Store a tile: each group of warps its own part, without waiting for others.

    While the copy engine reads one piece of memory the next panel goes to another.
    """
    build, view = x.build, node.attr
    assert isinstance(view, View)
    assert x.plan.specialised is not None
    groups, width = x.plan.specialised.groups, store.tile.shape[1]
    rows, columns = store.own(groups)
    chosen = list(_panels(store, rows, columns))
    chosen = chosen[: len(chosen) // parts_of_columns(x)]
    buffer = x.pieces[store.tile.dtype]
    # Of the groups of stores in flight the newest may still be reading: not the one that used this piece.
    # Another put has used the pieces in an order of its own, so after one nothing may.
    unread = store.buffers - 1 if len(chosen) % store.buffers == 0 else 0
    alone = len(x.plan.specialised.stores) == 1
    group = build.map("ushr", build.thread(), build.constant(GROUP_THREADS.bit_length() - 1, I32))
    *before, row, column = corner(x, node)
    further = columns_further(x, view.shape[1])
    column = build.add(column, further)
    if store.turned:
        column = build.add(column, build.mul(group, build.constant(columns, I32)))
    else:
        row = build.add(row, build.mul(group, build.constant(rows, I32)))
    # A panel is wider than a row that the copy engine takes where a group's columns are.
    taken = store.span // store.tile.dtype.bytes
    own = build.mul(group, build.constant(store.rows * taken, I32))
    first = build.constant(x.team * store.buffers * store.tile.elements, I32)
    if x.neighbour is not None:
        own_pieces = build.constant(store.buffers * store.tile.elements, I32)
        first = build.add(first, build.mul(x.neighbour, own_pieces))
    bulk = panel(view, len(node.args) - 1, buffer, store.rows, taken, store.span)
    part = _first_panel(store)

    def wait(unread: int) -> None:
        build.emit("bulk_wait", attr=BulkWait(unread, True))

    values = _rounded(x, node, store, [registers for _, _, registers in chosen])
    for number, (down, across, _) in enumerate(chosen):
        rounded = next(values)
        piece = build.add(first, build.constant(number % store.buffers * store.tile.elements, I32))
        build.when(leads(x), partial(wait, unread if number or alone else 0))
        build.barrier(GROUP_BARRIER, GROUP_THREADS, each=True)
        _to_memory(x, store, buffer, piece, rounded, part)
        build.emit("fence_async")
        build.barrier(GROUP_BARRIER, GROUP_THREADS, each=True)
        source = build.add(piece, own)
        down_there = build.add(row, build.constant(down, I32))

        def send(source: Value = source, down: Value = down_there, across: int = across) -> None:
            for start in range(0, width, taken):
                where = [*before, down, build.add(column, build.constant(across + start, I32))]
                there = build.constant(start * store.tile.shape[0], I32)
                build.bulk_store(bulk, build.add(source, there), where)
            build.bulk_commit()

        build.when(leads(x), send)


def _rounded(x: Expansion, put: Node, store: BulkStore, panels: Sequence[Sequence[int]]) -> Iterator[Value]:
    """The registers of each panel as they are stored, some at a time, what they rest on being read before."""
    pieces = [
        (panel[first : first + _AT_ONCE], first + _AT_ONCE >= len(panel))
        for panel in panels
        for first in range(0, len(panel), _AT_ONCE)
    ]
    ahead = _fetched(x, put, store.layout, pieces[0][0])
    made: list[Value] = []
    for number, (registers, ends) in enumerate(pieces):
        fetched = ahead
        if number + 1 < len(pieces):
            ahead = _fetched(x, put, store.layout, pieces[number + 1][0])
        value = x.build.spread(
            some_registers(x, put.args[0], store.layout, registers, fetched), len(registers)
        )
        made.append(storage.convert(x.build, x.target, value, store.tile.dtype))
        if ends:
            yield x.build.join(made)
            made = []


def _fetched(x: Expansion, put: Node, layout: TileLayout, registers: Sequence[int]) -> dict[Node, Value]:
    """The deferred reads that a put rests on, for some of its registers, on their way before their use."""
    specialised = x.plan.specialised
    assert specialised is not None
    found: dict[Node, Value] = {}

    def visit(node: Node) -> None:
        if node in found or node not in specialised.deferred:
            return
        if node.op == "read":
            linear = layout.linear if node.shape == layout.linear.shape else layout.linear.slice(0)
            with x.at(node):
                further = columns_further(x, layout.linear.shape[1])
                found[node] = read_part(x, node, linear, registers, further)
        for arg in node.args:
            visit(arg)

    visit(put.args[0])
    return found


def open_pieces(x: Expansion) -> None:
    """The pieces of memory that all stores of a type share, whichever program they are for."""
    assert x.plan.specialised is not None
    for dtype, elements in x.plan.specialised.pieces().items():
        name = f"panels of {dtype.text} on their way to tensors"
        x.pieces[dtype] = x.memory.allocate(name, dtype, elements, _WHOLE_BYTES)


def _panels(store: BulkStore, rows: int, columns: int) -> Iterator[tuple[int, int, list[int]]]:
    """The panels of a group's part: where each begins, and the registers whose elements are in it."""
    places, width = store.layout.linear.table("register"), store.tile.shape[1]
    for down in range(0, rows, store.rows):
        for across in range(0, columns, width):
            yield (
                down,
                across,
                [
                    register
                    for register, (row, column) in enumerate(places)
                    if row // store.rows * store.rows == down and column // width * width == across
                ],
            )


def _first_panel(store: BulkStore) -> TileLayout:
    """The layout of all groups' first panels, one below the other."""
    linear, width = store.layout.linear, store.tile.shape[1]
    kept = [basis for basis in linear.bases("register") if basis[0] < store.rows and basis[1] < width]
    inside, groups = linear.bases("warp")[:_GROUP_BITS], linear.bases("warp")[_GROUP_BITS:]
    warp = [*inside, *((store.rows << bit, 0) for bit in range(len(groups)))]
    panel = Linear.of(store.tile.shape, register=kept, lane=[*linear.bases("lane")], warp=warp)
    return TileLayout(store.layout.name, panel)


def _to_memory(
    x: Expansion, store: BulkStore, buffer: int, piece: Value, value: Value, layout: TileLayout
) -> None:
    """A panel's registers to workgroup memory, as 8x8 matrices where the target and the type have them."""
    build, tile = x.build, store.tile
    wide = x.target.can("matrix_store") and tile.dtype.bytes == 2
    reads = fragment_reads(layout.linear, tile, wide)
    if not reads.matrices:
        store_shared(x, buffer, tile, piece, value, layout)
        return
    offsets, places = crossed(build, reads.lane, reads.warp, [start for start, _ in reads.groups], piece)
    access = MatrixAccess(buffer, reads.matrices, reads.transposed, places)
    build.matrix_store(access, build.pick(value, reads.order), offsets)
