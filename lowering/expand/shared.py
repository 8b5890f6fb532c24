"""Tiles in workgroup memory: the widest accesses that a layout and a form of memory allow together."""

from __future__ import annotations

from functools import lru_cache

from gizml_tile.dtypes import DType
from gizml_tile.layout import Access as Side
from gizml_tile.layout import Linear
from gizml_tile.layout.bits import Span, combine, independent
from gizml_tile.layout.shuffle import copies
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.places import crossed, holder
from gizml_tile.lowering.kernel_ir.builder import Builder, Value
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access
from gizml_tile.lowering.planning.plan import SharedTile, TileLayout

WIDEST_BYTES = 16


def store_shared(
    x: Expansion, buffer: int, tile: SharedTile, base: Value | None, value: Value, layout: TileLayout
) -> None:
    """Store a tile's registers, each element by one of its holders alone.

    ``base`` is the offset in elements (an I32, a multiple of 16 bytes) of the tile's beginning in the
    buffer. The barriers around are the caller's. A mask is stored as what `to_storage` gives.
    """
    store_side(x.build, buffer, shared_side(layout.linear, tile), value, base)


def load_shared(x: Expansion, buffer: int, tile: SharedTile, base: Value | None, layout: TileLayout) -> Value:
    """Load a tile's registers in a layout, from where `store_shared` puts them."""
    side = shared_side(layout.linear.without_replicas(), tile)
    loaded = load_side(x.build, buffer, side, tile.dtype, base)
    moved = moved_registers(side)
    return x.build.pick(loaded, [moved.index(register) for register in copies(layout.linear)])


@lru_cache(maxsize=1024)
def shared_side(layout: Linear, tile: SharedTile) -> Side:
    """How each thread stores the registers of a layout to a tile in workgroup memory, or loads them."""

    def offset(place: tuple[int, int]) -> int:
        return tile.offset(*place)

    lane = tuple(offset(place) for place in layout.bases("lane"))
    warp = tuple(offset(place) for place in layout.bases("warp"))
    bases = [offset(place) for place in layout.bases("register")]
    registers = Span(bases)
    limit = WIDEST_BYTES // tile.dtype.bytes
    run: list[int] = []
    while 1 << len(run) < limit and (mask := registers.solve(1 << len(run))) is not None:
        run.append(mask)
    free = layout.free_bits("register")
    kept = [1 << bit for bit in range(len(bases)) if not free >> bit & 1]
    # An access begins at a multiple of its width: nothing but the run itself may move within it.
    while run:
        others = independent(run, kept)
        below = (1 << len(run)) - 1
        if not any(each & below for each in (*lane, *warp, *(combine(bases, mask) for mask in others))):
            break
        run.pop()
    others = independent(run, kept)
    groups = []
    for chosen in range(1 << len(others)):
        first = combine(others, chosen)
        within = tuple(first ^ combine(run, element) for element in range(1 << len(run)))
        groups.append((combine(bases, first), within))
    return Side(
        tile.dtype.bytes, tuple(groups), lane, warp, layout.free_bits("lane"), layout.free_bits("warp")
    )


def store_side(
    build: Builder,
    buffer: int,
    side: Side,
    value: Value,
    base: Value | None = None,
    mask: Value | None = None,
) -> None:
    """Store the registers that one side of an exchange moves, by the threads that ``mask`` tells if given."""
    offsets, places = _places(build, side, base)
    mask = holder(build, side.lane_mask, side.warp_mask) if mask is None else mask
    access = Access(WORKGROUP, buffer, side.width, places)
    build.store(access, build.pick(value, moved_registers(side)), offsets, mask)


def load_side(build: Builder, buffer: int, side: Side, dtype: DType, base: Value | None = None) -> Value:
    """Load the registers that one side of an exchange moves, in the order of `moved_registers`."""
    offsets, places = _places(build, side, base)
    return build.load(Access(WORKGROUP, buffer, side.width, places), offsets, dtype)


def moved_registers(*sides: Side) -> tuple[int, ...]:
    """The registers that sides of an exchange move, in the order of their accesses."""
    return tuple(register for side in sides for _, group in side.groups for register in group)


def _places(build: Builder, side: Side, base: Value | None) -> tuple[Value, tuple[tuple[int, int], ...]]:
    """Each access's offset: a register and a constant."""
    return crossed(build, side.lane, side.warp, [offset for offset, _ in side.groups], base)
