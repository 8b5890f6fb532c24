"""Reads of one tensor a few elements apart, as of a stencil: each thread loads what they share once.

Of three neighbouring windows, each thread of which has four neighbours, it needs six elements of memory::

    X.window([i, j - 1])   -1  0  1  2
    X.window([i, j])           0  1  2  3
    X.window([i, j + 1])          1  2  3  4

One vector and two elements make all three, where single elements would be twelve loads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gizml_tile.index_bits import Starts, farthest, starts
from gizml_tile.layout import Linear, vector_width
from gizml_tile.lowering.planning.accesses import scattered, why_not
from gizml_tile.lowering.planning.classes import Uses
from gizml_tile.lowering.planning.plan import Access, Overlap
from gizml_tile.lowering.planning.signature import AccessFacts
from gizml_tile.lowering.planning.stages import fast_axis
from gizml_tile.lowering.planning.variants import Candidate, Choice
from gizml_tile.lowering.planning.vectors import VECTOR_BYTES, traffic
from gizml_tile.lowering.tile_passes.rewriting import stored_tensors
from gizml_tile.nodes import EFFECTS, Node, Region, TileProgram, View, tensor_of
from gizml_tile.text import counted

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

TOGETHER = "together"
# Windows so far apart have nothing in common that one thread needs.
_NEAR = 16


@dataclass(frozen=True, slots=True)
class _Place:
    """An index as a sum of multiples of others and a number."""

    terms: frozenset[tuple[Node, int]]
    number: int

    def times(self, factor: int) -> _Place:
        return _Place(frozenset((node, factor * count) for node, count in self.terms), factor * self.number)

    def plus(self, other: _Place, sign: int) -> _Place:
        counts = dict(self.terms)
        for node, count in other.terms:
            counts[node] = counts.get(node, 0) + sign * count
        terms = frozenset((node, count) for node, count in counts.items() if count)
        return _Place(terms, self.number + sign * other.number)


def _place(index: Node) -> _Place:
    if index.op == "index":
        assert isinstance(index.attr, int)
        return _Place(frozenset(), index.attr)
    if index.op in ("add", "sub"):
        one, other = map(_place, index.args)
        return one.plus(other, 1 if index.op == "add" else -1)
    if index.op == "neg":
        return _place(index.args[0]).times(-1)
    if index.op == "mul":
        one, other = map(_place, index.args)
        if not one.terms or not other.terms:
            return other.times(one.number) if not one.terms else one.times(other.number)
    return _Place(frozenset({(index, 1)}), 0)


def find_overlaps(
    program: TileProgram, facts: Mapping[Node, AccessFacts], uses: Uses, may_alias: bool
) -> list[Overlap]:
    """The reads that may be made together, as far as the program tells.

    Those are blocks of one size and pad whose places differ by a few elements, that stand in one region with
    nothing stored to their tensor in between, and that products do not take.
    """
    stored, begins = stored_tensors(program), starts(program)
    found: list[Overlap] = []

    def visit(region: Region) -> None:
        groups: dict[object, list[tuple[Node, tuple[int, ...]]]] = {}
        version = [0] * len(program.tensors)
        for node in region.nodes:
            for inner in node.regions:
                visit(inner)
            written = {tensor_of(node)} if node.op in EFFECTS else stored.get(node, frozenset())
            for tensor in range(len(version)) if written and may_alias else written:
                version[tensor] += 1
            if node.op == "read":
                view = node.attr
                assert isinstance(view, View)
                terms, numbers = _where(node, view)
                key = (view.tensor, view.block, repr(view.pad), terms, version[view.tensor])
                multiplied = any(user.op == "dot" for user, _ in uses.of(node))
                if view.own == view.block and not multiplied and not _is_cut(node, view, begins):
                    groups.setdefault(key, []).append((node, numbers))
        for group in groups.values():
            found.extend(_near(group, facts))

    visit(program.body)
    return found


def _where(node: Node, view: View) -> tuple[object, tuple[int, ...]]:
    """What places of blocks that may overlap have in common, and in which numbers they differ."""
    first = len(node.args) - len(view.block)
    places = [_place(arg) for arg in node.args]
    if view.mode == "at":
        places[first:] = [place.times(size) for place, size in zip(places[first:], view.block, strict=True)]
    before = tuple((place.terms, place.number) for place in places[:first])
    return (before, tuple(place.terms for place in places[first:])), tuple(
        place.number for place in places[first:]
    )


def _is_cut(node: Node, view: View, begins: Starts) -> bool:
    """Whether a block that is too far outside for 64 bits begins elsewhere than its number times its size."""
    coordinates = zip(node.args[len(node.args) - len(view.block) :], view.block, strict=True)
    return view.mode == "at" and any(farthest(each, size, begins) is not None for each, size in coordinates)


def _near(group: list[tuple[Node, tuple[int, ...]]], facts: Mapping[Node, AccessFacts]) -> Iterator[Overlap]:
    """Those of some reads that lie near one which begins where a vector does, in the order of the program."""
    rest = dict(group)
    while len(rest) > 1:
        base = max(rest, key=lambda node: (facts[node].grain[-1], facts[node].grain[0]))
        shifts = {
            node: tuple(one - other for one, other in zip(numbers, rest[base], strict=True))
            for node, numbers in rest.items()
        }
        block = base.attr.block  # type: ignore[union-attr]
        near = [
            node
            for node, shift in shifts.items()
            if all(abs(each) < min(size, _NEAR) for each, size in zip(shift, block, strict=True))
        ]
        if len(near) > 1:
            both = tuple((0, *shifts[node])[-2:] for node in near)
            yield Overlap(tuple(near), tuple((rows, columns) for rows, columns in both), base)
        for node in near:
            del rest[node]


def warps_that_share(state: Planning, warps: int) -> int:
    """At most so many warps, each thread of which has enough lines to share what it loads for them.

    Windows from ``span`` lines above to the last take span lines more than a thread has. Measured on an H200:
    threads with twice the span, of 3 x 3 and 5 x 5 points and causal convolutions, are the fastest.
    """
    most = max((math.prod(node.shape) for node in state.program.body.walk() if node.is_tile), default=1)
    for overlap in state.overlaps:
        axis, view = fast_axis(state.signature, overlap.base), overlap.base.attr
        assert isinstance(view, View)
        # Smaller tiles than others take few of the loads.
        if axis is None or math.prod(view.shape) < most:
            continue
        across = [shift[1 - axis] for shift in overlap.shifts]
        span = max(across) - min(across)
        lines = min(1 << max(2 * span - 1, 0).bit_length(), view.shape[1 - axis])
        moved = traffic(state.program, overlap.base, axis, state.signature, state.facts[overlap.base])
        threads = view.shape[0] * view.shape[1] // (lines * moved.vector)
        warps = max(1, min(warps, threads // state.target.facts.lanes))
    return warps


def plan_overlaps(state: Planning) -> dict[Node, Overlap]:
    """The reads that are made together, each with those beside it, where that takes fewer loads."""
    made: dict[Node, Overlap] = {}
    for overlap in state.overlaps:
        apart = [state.accesses.get(read) for read in overlap.reads]
        found = _with_vector(state, overlap, [access for access in apart if access is not None])
        if found is None:
            continue
        told = f"{counted(len(found.reads), 'reads')} of neighbouring places load what they share once"
        for read in found.reads:
            made[read] = found
            state.choices[read] = [("read", Choice((Candidate(TOGETHER, True, told),), TOGETHER))]
    return made


def _with_vector(state: Planning, overlap: Overlap, apart: list[Access]) -> Overlap | None:
    """Reads that the same threads make, with the widest vector that serves; None where nothing is saved."""
    base = overlap.base
    view, axis = base.attr, fast_axis(state.signature, base)
    assert isinstance(view, View)
    layouts = {access.layout.linear for access in apart}
    if axis is None or len(layouts) > 1 or len(apart) < len(overlap.reads):
        return None
    (linear,) = layouts
    size = state.program.tensors[view.tensor].dtype.bytes
    grain = state.facts[base].grain[axis - 2 + len(view.block)]
    widths = [VECTOR_BYTES // size >> bit for bit in range(5)]
    serving = (
        width
        for width in widths
        if 1 < width <= grain
        and not why_not(view, state.signature, axis, width, size)
        and not scattered(apart[0].layout, axis, width)
    )
    found = replace(overlap, axis=axis, vector=next(serving, 1))
    kept = linear.without_replicas()
    run, _ = vector_width(kept, axis)
    before = sum(kept.size("register") // min(run, access.vector) for access in apart)
    return found if len(loads_of(found, kept)) < before else None


def loads_of(overlap: Overlap, linear: Linear) -> list[tuple[int, int, int]]:
    """What a thread loads for reads in a layout without replicas: rows, columns and how many neighbours.

    Places are those from where the thread's part of the base read begins.
    """
    along = overlap.axis
    lines: dict[int, set[int]] = {}
    for shift in overlap.shifts:
        for place in linear.table("register"):
            there = (place[0] + shift[0], place[1] + shift[1])
            lines.setdefault(there[1 - along], set()).add(there[along])
    return [
        (start, line, width) if along == 0 else (line, start, width)
        for line, starts in sorted(lines.items())
        for start, width in _cut(sorted(starts), overlap.vector)
    ]


def _cut(places: list[int], vector: int) -> Iterator[tuple[int, int]]:
    """Neighbours in vectors as wide as may be: [-1, 0, 1, 2, 3, 4] in one element, four, and one."""
    number = 0
    while number < len(places):
        start, width = places[number], vector
        while width > 1 and (start % width or start + width - 1 not in places[number : number + width]):
            width //= 2
        yield start, width
        number += width
