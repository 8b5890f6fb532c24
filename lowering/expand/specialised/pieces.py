"""The pieces of workgroup memory that panels of tiles lie in, on their way to tensors."""

from __future__ import annotations

from collections.abc import Iterator

from gizml_tile.dtypes import I32
from gizml_tile.layout import Linear
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.specialised.ring import GROUP_THREADS
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.plan import BulkStore, TileLayout

_WHOLE_BYTES = 1024
_GROUP_BITS = 2  # of a warp's number in its group


def open_pieces(x: Expansion) -> None:
    """The pieces of memory that all stores of a type share, whichever program they are for."""
    assert x.plan.specialised is not None
    for dtype, elements in x.plan.specialised.pieces().items():
        name = f"panels of {dtype.text} on their way to tensors"
        x.pieces[dtype] = x.memory.allocate(name, dtype, elements, _WHOLE_BYTES)


def group_of(x: Expansion) -> Value:
    """The number of a thread's group of four warps in its program."""
    return x.build.map("ushr", x.build.thread(), x.build.constant(GROUP_THREADS.bit_length() - 1, I32))


def piece(x: Expansion, store: BulkStore, number: int) -> Value:
    """Where a panel's piece begins that all groups of a program share: the pieces are taken in turn."""
    build, elements = x.build, store.tile.elements
    inside = x.team * store.buffers + number % store.buffers
    found = build.constant(inside * elements, I32)
    if x.neighbour is not None:
        found = build.add(found, build.mul(x.neighbour, build.constant(store.buffers * elements, I32)))
    return found


def panels(store: BulkStore, groups: int) -> Iterator[tuple[int, int, list[int]]]:
    """The panels of a group's part: where each begins, and the registers whose elements are in it."""
    rows, columns = store.own(groups)
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


def first_panel(store: BulkStore) -> TileLayout:
    """The layout of all groups' first panels, one below the other."""
    linear, width = store.layout.linear, store.tile.shape[1]
    kept = [basis for basis in linear.bases("register") if basis[0] < store.rows and basis[1] < width]
    inside, groups = linear.bases("warp")[:_GROUP_BITS], linear.bases("warp")[_GROUP_BITS:]
    warp = [*inside, *((store.rows << bit, 0) for bit in range(len(groups)))]
    panel = Linear.of(store.tile.shape, register=kept, lane=[*linear.bases("lane")], warp=warp)
    return TileLayout(store.layout.name, panel)
