"""Conversions: a value's registers in another layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from gizml_tile.dtypes import I32
from gizml_tile.layout import Access as Side
from gizml_tile.layout import Conversion, Exchange, Linear, Renaming, Shuffle, Unchanged, conversion
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.places import thread_part
from gizml_tile.lowering.expand.shared import load_side, moved_registers, store_side
from gizml_tile.lowering.kernel_ir.builder import Builder, Value
from gizml_tile.lowering.planning.plan import TileLayout


def convert(x: Expansion, value: Value, source: TileLayout, target: TileLayout) -> Value:
    """A value's registers in another layout, by the cheapest way there is."""
    assert value.dtype is not None
    way = cheapest(source.linear, target.linear, value.dtype.bytes, x.target.facts.banks)
    return perform(x, value, way)


@lru_cache(maxsize=4096)
def cheapest(source: Linear, target: Linear, element_bytes: int, banks: int) -> Conversion:
    """The cheapest conversion, found once."""
    return conversion(source, target, element_bytes, banks=banks)


def perform(x: Expansion, value: Value, way: Conversion) -> Value:
    """Do a conversion; masks travel as bytes."""
    match way:
        case Unchanged():
            return value
        case Renaming():
            return x.build.pick(value, way.registers)
    dtype = value.dtype
    assert dtype is not None
    stored = storage.to_storage(x.build, value)
    moved = _shuffled(x.build, stored, way) if isinstance(way, Shuffle) else _exchanged(x, stored, way)
    return storage.from_storage(x.build, moved, dtype)


def _shuffled(build: Builder, value: Value, way: Shuffle) -> Value:
    """The exchange of lanes: shift own registers, trade, shift again."""
    value = _shifted(build, value, build.lane, way.before_lane)
    value = _shifted(build, value, build.warp, way.before_warp)
    distances = list(dict.fromkeys(each.lane for each in way.rounds))
    parts, takes = [], []
    for distance in distances:
        together = [each for each in way.rounds if each.lane == distance]
        given = build.pick(value, [each.give for each in together])
        takes += [each.take for each in together]
        if not way.is_butterfly:
            lane = thread_part(build, way.lane_lane, way.lane_warp)
            given = build.shuffle(given, build.map("xor", lane, build.constant(distance, I32)))
        elif distance:
            given = build.shuffle_xor(given, distance)
        parts.append(given)
    taken = build.pick(build.join(parts), [takes.index(take) for take in range(len(takes))])
    return build.pick(_shifted(build, taken, build.lane, way.after_lane), way.copies)


def _shifted(build: Builder, value: Value, number: Callable[[], Value], masks: Sequence[int]) -> Value:
    """Register r becomes register ``r ^ mask`` in the threads whose number has the mask's bit set."""
    for bit, mask in enumerate(masks):
        if mask:
            own = build.map("and", number(), build.constant(1 << bit, I32))
            moves = build.map("ne", own, build.constant(0, I32))
            other = build.pick(value, [register ^ mask for register in range(value.count)])
            value = build.select(moves, other, value)
    return value


def _exchanged(x: Expansion, value: Value, way: Exchange) -> Value:
    """The exchange through workgroup memory, in as many turns as its room asks for."""
    dtype = value.dtype
    assert dtype is not None
    turns = _turns(x, way)
    elements = way.source.elements // turns
    buffer = x.memory.allocate("conversion", dtype, elements)
    loads = [_part(way.load, turn * elements, elements) for turn in range(turns)]
    loaded = []
    for turn, load in enumerate(loads):
        x.memory.before_write(buffer)
        store_side(x.build, buffer, _part(way.store, turn * elements, elements), value)
        if way.within_warp:
            x.build.warp_barrier()
        else:
            x.memory.before_read(buffer)
        loaded.append(load_side(x.build, buffer, load, dtype))
    x.memory.release(buffer)
    moved = moved_registers(*loads)
    return x.build.pick(x.build.join(loaded), [moved.index(register) for register in way.copies])


def _turns(x: Expansion, way: Exchange) -> int:
    """Into how many turns an exchange is cut: so many that two workgroups fit beside each other, or one."""
    for limit in (max(x.memory.limit // 2, x.memory.bytes), x.memory.limit):
        turns = 1
        while turns <= way.parts:
            if x.memory.fits(way.bytes // turns, limit):
                return turns
            turns *= 2
    return way.parts


def _part(side: Side, first: int, elements: int) -> Side:
    """The groups of a side whose offsets are among ``elements`` from the first on, counted from it."""
    groups = [
        (offset - first, registers) for offset, registers in side.groups if first <= offset < first + elements
    ]
    return replace(side, groups=tuple(groups))
