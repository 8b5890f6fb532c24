"""Conversions: a value's registers in another layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from gizml_tile.dtypes import I32
from gizml_tile.layout import Access as Side
from gizml_tile.layout import Conversion, Exchange, Linear, Renaming, Shuffle, Unchanged, conversion
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.expansion import Expansion, Move
from gizml_tile.lowering.expand.places import thread_part
from gizml_tile.lowering.expand.shared import load_side, moved_registers, store_side
from gizml_tile.lowering.kernel_ir.builder import Builder, Value
from gizml_tile.lowering.planning.plan import TileLayout


def convert(x: Expansion, value: Value, source: TileLayout, target: TileLayout) -> Value:
    """A value's registers in another layout, by the cheapest way there is."""
    assert value.dtype is not None
    way = cheapest(source.linear, target.linear, value.dtype.bytes, x.target.facts.banks)
    if not isinstance(way, Unchanged | Renaming):
        rows, columns = source.linear.shape
        what = f"[{rows}, {columns}] {value.dtype.text} from {source.name} to {target.name} by {_how(way)}"
        turns, ideal = _bank_turns(way, x.plan.warps)
        x.moves.append(Move(x.build.place, what, x.user, x.moving, turns, ideal))
    return perform(x, value, way)


def _bank_turns(way: Shuffle | Exchange, warps: int) -> tuple[int, int]:
    """The turns of the banks that all warps take for an exchange, and those that would do."""
    if isinstance(way, Shuffle):
        return 0, 0
    sides = (way.store, way.load)
    ideal = sum(side.ideal_wavefronts(way.banks) * len(side.groups) for side in sides)
    return warps * way.wavefronts, warps * ideal


def _how(way: Shuffle | Exchange) -> str:
    if isinstance(way, Shuffle):
        return f"{len(way.rounds)} exchanges between lanes of a thread's registers"
    waits = "a warp's own part of workgroup memory" if way.within_warp else "workgroup memory"
    banks = "no bank conflicts" if way.is_conflict_free else f"{way.wavefronts} turns of the banks a warp"
    stored, loaded = (side.width * side.element_bytes for side in (way.store, way.load))
    return f"{waits}: {way.bytes} bytes, stores of {stored} and loads of {loaded} bytes, {banks}"


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
    if isinstance(way, Shuffle):
        moved = _shuffled(x.build, stored, way)
    else:
        turns = _turns(x, way)
        moved = _exchanged(x, stored, way, turns) if turns else _halved(x, stored, way)
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


def _exchanged(x: Expansion, value: Value, way: Exchange, turns: int) -> Value:
    """The exchange through workgroup memory, in as many turns as its room asks for."""
    dtype = value.dtype
    assert dtype is not None
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
    """Into how many turns an exchange is cut: so many that two workgroups fit beside each other, or one.

    0 where it does not fit at all.
    """
    for limit in (max(x.memory.limit // 2, x.memory.bytes), x.memory.limit):
        turns = 1
        while turns <= way.parts:
            if x.memory.fits(way.bytes // turns, limit):
                return turns
            turns *= 2
    return 0


def _part(side: Side, first: int, elements: int) -> Side:
    """The groups of a side whose offsets are among ``elements`` from the first on, counted from it."""
    groups = [
        (offset - first, registers) for offset, registers in side.groups if first <= offset < first + elements
    ]
    return replace(side, groups=tuple(groups))


def _halved(x: Expansion, value: Value, way: Exchange) -> Value:
    """The halves of a tile one after the other, for a tile that does not fit into workgroup memory."""
    half = register_half(way.source)
    if half is None:
        return _exchanged(x, value, way, way.parts)

    def moved(part: Value, source: Linear, target: Linear) -> Value:
        return perform(x, part, cheapest(source, target, way.store.element_bytes, x.target.facts.banks))

    return in_halves(x, value, way.source, way.target, half, moved)


Half = tuple[int, int, int]  # a bit of the register, and the axis and bit that it moves


def in_halves(
    x: Expansion,
    value: Value,
    source: Linear,
    target: Linear,
    half: Half,
    move: Callable[[Value, Linear, Linear], Value],
) -> Value:
    """What ``move`` makes of each half of a tile, with the half's layouts, in the layout of the whole.

    They differ in one bit of the row or column, which the source has in a register. Where the target
    has it in threads, each gets both halves and keeps its own.
    """
    register_bit, axis, bit = half
    source, part = (without_bit(each, axis, bit) for each in (source, target))
    bases = list(source.bases("register"))
    del bases[register_bit]
    source = source.with_bases("register", bases)
    halves = []
    for number in (0, 1):
        own = [each for each in range(value.count) if each >> register_bit & 1 == number]
        halves.append(move(x.build.pick(value, own), source, part))
    both = x.build.join(halves)
    count = target.size("register")
    of_register = [place[axis] >> bit & 1 for place in target.table("register")]
    near, far = (
        x.build.pick(both, [each + count * (own ^ flip) for each, own in enumerate(of_register)])
        for flip in (0, 1)
    )
    lanes, warps = ([basis[axis] >> bit & 1 for basis in target.bases(name)] for name in ("lane", "warp"))
    if not any((*lanes, *warps)):
        return near
    other = x.build.map("ne", thread_part(x.build, lanes, warps), x.build.constant(0, I32))
    return x.build.select(other, far, near)


def register_half(layout: Linear, along: int | None = None) -> Half | None:
    """A register bit that alone moves one bit of the row or column, and nothing else; ``along`` an axis."""
    everywhere = [basis for name in layout.names for basis in layout.bases(name)]
    for number, basis in reversed(list(enumerate(layout.bases("register")))):
        axis = 0 if basis[0] else 1
        size = basis[axis]
        if basis[1 - axis] or size & (size - 1) or not size or along == 1 - axis:
            continue
        if sum(bool(each[axis] & size) for each in everywhere) == 1:
            return number, axis, size.bit_length() - 1
    return None


def without_bit(layout: Linear, axis: int, bit: int) -> Linear:
    """A layout of half the tile: without one bit of the row or column."""
    low = (1 << bit) - 1

    def cut(basis: tuple[int, int]) -> tuple[int, int]:
        number = basis[axis] & low | basis[axis] >> bit + 1 << bit
        return (number, basis[1]) if axis == 0 else (basis[0], number)

    rows, columns = layout.shape
    shape = (rows // 2, columns) if axis == 0 else (rows, columns // 2)
    return Linear(shape, tuple((name, tuple(cut(basis) for basis in bases)) for name, bases in layout.inputs))
