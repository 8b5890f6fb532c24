"""Reads of places a few elements apart: a thread loads what they share once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gizml_tile.dtypes import I64
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.memory import (
    Along,
    Block,
    Moves,
    block_of,
    inside_at,
    leading_inside,
    offsets_at,
    stored_pad,
    view_of,
    whole,
)
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access
from gizml_tile.lowering.planning.overlaps import loads_of
from gizml_tile.lowering.planning.plan import Overlap


def expand_overlap(x: Expansion, overlap: Overlap) -> Sequence[Value]:
    """The elements of each of the reads, in the layout that they have in common.

    Where all of them are inside the tensor they come by vectors, else one by one.
    """
    if not x.meetings.isdisjoint(overlap.reads):
        x.memory.barrier()
    accesses = [x.plan.accesses[read] for read in overlap.reads]
    rows, columns = (any(access.masked[axis] for access in accesses) for axis in (0, 1))
    masked, leading = (rows, columns), accesses[0].leading
    moves = Moves.of(accesses[0].layout.linear, overlap.axis, 1)
    around, extents = _around(x, overlap)
    loads = loads_of(overlap, moves.layout)
    places = [place for load in loads for place in _places(load, overlap.axis)]

    def wide() -> Sequence[Value]:
        return [_load(x, overlap, around, moves, loads)]

    def narrow() -> Sequence[Value]:
        single = [(*place, 1) for place in places]
        return [_load(x, overlap, around, moves, single, masked, leading)]

    if any(masked) or leading:
        (loaded,) = x.build.branch(whole(x, around, extents, masked, leading), wide, narrow)
    else:
        (loaded,) = wide()
    register = {place: number for number, place in enumerate(places)}
    table = moves.layout.table("register")
    return [
        x.build.pick(loaded, [register[_moved(table[each], shift, 1)] for each in moves.found])
        for shift in overlap.shifts
    ]


def _around(x: Expansion, overlap: Overlap) -> tuple[Block, tuple[int, int]]:
    """The block of all places that the reads have, and its size."""
    first = overlap.reads[0]
    block = block_of(x, view_of(first), first.args)
    axes: list[Along | None] = []
    extents = []
    for axis, along in enumerate(block.axes):
        shifts = [shift[axis] for shift in overlap.shifts]
        before = min(shifts) - shifts[0]
        extents.append(view_of(first).shape[axis] + max(shifts) - min(shifts))
        if along is not None:
            start = x.build.add(along.start, x.build.constant(before, I64))
            along = replace(along, start=start, nonnegative=along.nonnegative and before == 0)
        axes.append(along)
    last = axes[1]
    assert last is not None
    return replace(block, axes=(axes[0], last)), (extents[0], extents[1])


def _load(
    x: Expansion,
    overlap: Overlap,
    around: Block,
    moves: Moves,
    loads: Sequence[tuple[int, int, int]],
    masked: tuple[bool, bool] = (False, False),
    leading: bool = False,
) -> Value:
    """What is loaded, one load's elements after the other."""
    view = view_of(overlap.reads[0])
    dtype = x.program.tensors[view.tensor].dtype
    rows, columns = zip(*overlap.shifts, strict=True)
    corner = (min(rows), min(columns))
    parts: list[Value] = []
    numbers: list[int] = []
    for width in dict.fromkeys(width for *_, width in loads):
        chosen = [number for number, load in enumerate(loads) if load[2] == width]
        at = [_moved(loads[number][:2], corner, -1) for number in chosen]
        offsets, places = offsets_at(x, around, moves.layout, at)
        mask = x.build.both(
            leading_inside(x, around) if leading else None, inside_at(x, around, moves.layout, at, masked)
        )
        memory = Access(GLOBAL, view.tensor, width, places, stored_pad(view))
        parts.append(x.build.load(memory, offsets, storage.storage_dtype(dtype), mask))
        numbers += [number for number in chosen for _ in range(width)]
    order = sorted(range(len(numbers)), key=lambda register: numbers[register])
    return storage.from_storage(x.build, x.build.pick(x.build.join(parts), order), dtype)


def _places(load: tuple[int, int, int], axis: int) -> list[tuple[int, int]]:
    row, column, width = load
    return [(row + step, column) if axis == 0 else (row, column + step) for step in range(width)]


def _moved(place: tuple[int, int], shift: tuple[int, int], sign: int) -> tuple[int, int]:
    return place[0] + sign * shift[0], place[1] + sign * shift[1]
