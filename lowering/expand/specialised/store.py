"""Tiles on their way to tensors by the copy engine, panel by panel through workgroup memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from gizml_tile.dtypes import I32
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.fragments import fragment_reads
from gizml_tile.lowering.expand.memory import read_part
from gizml_tile.lowering.expand.places import crossed
from gizml_tile.lowering.expand.shared import store_shared
from gizml_tile.lowering.expand.specialised.boxes import corner, panel
from gizml_tile.lowering.expand.specialised.clusters import columns_further, parts_of_columns
from gizml_tile.lowering.expand.specialised.pieces import first_panel, group_of, panels, piece
from gizml_tile.lowering.expand.specialised.ring import GROUP_BARRIER, GROUP_THREADS, leads
from gizml_tile.lowering.expand.specialised.some import some_registers
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import BulkWait, MatrixAccess
from gizml_tile.lowering.planning.plan import BulkStore, TileLayout
from gizml_tile.nodes import Node, View

# Registers of a tile that are computed together.
_AT_ONCE = 32
# So many such parts before their use reads begin.
PARTS_AHEAD = 1


def store_in_bulk(x: Expansion, node: Node, store: BulkStore) -> None:
    """Store a tile: each group of warps its own part, without waiting for others.

    While the copy engine reads one piece of memory the next panel goes to another. Where a block that the
    tile is computed with lies in the pieces, its panels make room for the results.
    """
    build, view = x.build, node.attr
    assert isinstance(view, View)
    assert x.plan.specialised is not None
    groups, width = x.plan.specialised.groups, store.tile.shape[1]
    rows, columns = store.own(groups)
    chosen = list(panels(store, groups))
    chosen = chosen[: len(chosen) // parts_of_columns(x)]
    buffer = x.pieces[store.tile.dtype]
    # Of the groups of stores in flight the newest may still be reading: not the one that used this piece.
    # Another put has used the pieces in an order of its own, so after one nothing may.
    unread = store.buffers - 1 if len(chosen) % store.buffers == 0 else 0
    alone = len(x.plan.specialised.stores) == 1
    group = group_of(x)
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
    bulk = panel(view, len(node.args) - 1, buffer, store.rows, taken, store.span)
    part = first_panel(store)

    def wait(unread: int) -> None:
        build.emit("bulk_wait", attr=BulkWait(unread, True))

    values = _rounded(x, node, store, [registers for _, _, registers in chosen])
    for number, (down, across, _) in enumerate(chosen):
        rounded = next(values)
        where = piece(x, store, number)
        if store.block is None:
            build.when(leads(x), partial(wait, unread if number or alone else 0))
            build.barrier(GROUP_BARRIER, GROUP_THREADS, each=True)
        _to_memory(x, store, buffer, where, rounded, part)
        build.emit("fence_async")
        build.barrier(GROUP_BARRIER, GROUP_THREADS, each=True)
        source = build.add(where, own)
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
    parts = _parts(panels)
    if store.block is not None:
        assert x.ahead is not None
        x.ahead.wait()
    fetched = [_fetched(x, put, store, part) for part in parts[:PARTS_AHEAD]]
    made: list[Value] = []
    for number, part in enumerate(parts):
        fetched += [_fetched(x, put, store, each) for each in parts[number + PARTS_AHEAD :][:1]]
        value = some_registers(x, put.args[0], store.layout, part.registers, fetched[number])
        value = x.build.spread(value, len(part.registers))
        made.append(storage.convert(x.build, x.target, value, store.tile.dtype))
        if part.ends:
            yield x.build.join(made)
            made = []


@dataclass(frozen=True, slots=True)
class _Part:
    """Some registers of a panel, from the ``first`` of its own on; whether it ``ends`` with them."""

    panel: int
    first: int
    registers: Sequence[int]
    ends: bool


def fetch_early(x: Expansion, loop: Node) -> None:
    """Begin the reads of rows for the first panel of each result, before the loop that comes last."""
    found = x.plan.specialised
    if found is None or not found.early or loop is not _last_loop(x):
        return
    for put, store in found.stores.items():
        first = _parts([registers for _, _, registers in panels(store, found.groups)])[0]
        x.fetched[put] = _fetched(x, put, store, first, early=True)


def _last_loop(x: Expansion) -> Node | None:
    assert x.plan.specialised is not None
    loops = [node for node in x.program.body.nodes if node in x.plan.specialised.loops]
    return loops[-1] if loops else None


def _parts(panels: Sequence[Sequence[int]]) -> list[_Part]:
    return [
        _Part(number, first, registers[first : first + _AT_ONCE], first + _AT_ONCE >= len(registers))
        for number, registers in enumerate(panels)
        for first in range(0, len(registers), _AT_ONCE)
    ]


def _fetched(
    x: Expansion, put: Node, store: BulkStore, part: _Part, *, early: bool = False
) -> dict[Node, Value]:
    """The deferred reads that a put rests on, for some of its registers, on their way before their use.

    Those that are done ``early``, or the others.
    """
    specialised, layout = x.plan.specialised, store.layout
    assert specialised is not None
    found: dict[Node, Value] = {} if early else x.fetched.pop(put, {})

    def visit(node: Node) -> None:
        if node in found or node not in specialised.deferred:
            return
        if node.op == "read" and early and node not in specialised.early:
            return
        if node is store.block:
            assert x.ahead is not None
            there = range(part.first, part.first + len(part.registers))
            found[node] = x.build.pick(x.ahead.registers(part.panel), there)
        elif node.op == "read":
            linear = layout.linear if node.shape == layout.linear.shape else layout.linear.slice(0)
            with x.at(node):
                further = columns_further(x, layout.linear.shape[1])
                found[node] = read_part(x, node, linear, part.registers, further)
        for arg in node.args:
            visit(arg)

    visit(put.args[0])
    return found


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
