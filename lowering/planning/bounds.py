"""What is known about indices: between which numbers they lie, and what divides them.

A launch knows its sizes, so that most programs turn out to read and write whole blocks inside their
tensors, and need no masks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gizml_tile.lowering.planning.element_facts import MOST_GRAIN, element_facts
from gizml_tile.lowering.planning.ranges import FULL, Range, combined, constant, joined
from gizml_tile.lowering.planning.signature import AccessFacts
from gizml_tile.nodes import ACCESSES, EFFECTS, Elements, Node, Region, Scalar, TileProgram, View

Shapes = Sequence[Sequence[int]]

# Turns of a loop after which a carried index that still changes counts as unknown.
_PATIENCE = 3
# More programs, and longer tensors, than any device runs.
_MOST_PROGRAMS = 1 << 31
_LONGEST = 1 << 48


def facts(
    program: TileProgram, shapes: Shapes, grid: Sequence[int], scalars: Sequence[float] | None
) -> tuple[AccessFacts, ...]:
    """The facts of each read and put in program order, for tensors of ``shapes`` over a grid.

    ``scalars`` are the run-time numbers in the program's order, of which those of float type do not
    matter; None for what holds whatever they are.
    """
    known = _known(program, shapes, grid, scalars)
    return tuple(_facts(node, known) for node in _accesses(program))


def fewest_turns(
    program: TileProgram,
    loops: Sequence[Node],
    shapes: Shapes,
    grid: Sequence[int],
    scalars: Sequence[float] | None,
) -> int:
    """The fewest turns that any of some loops at the top of a program surely takes."""
    known = _known(program, shapes, grid, scalars)
    found = []
    for loop in loops:
        start, stop, step = (known.values[arg] for arg in loop.args[:3])
        way = stop.low - start.high if step.low > 0 else start.low - stop.high
        found.append(max(way, 0) // max(abs(step.low), abs(step.high), 1))
    return min(found)


def index_ranges(
    program: TileProgram, shapes: Shapes, grid: Sequence[int], scalars: Sequence[float] | None
) -> Mapping[Node, Range]:
    """Between which numbers each index of a program lies in a launch."""
    return _known(program, shapes, grid, scalars).values


def _known(
    program: TileProgram, shapes: Shapes, grid: Sequence[int], scalars: Sequence[float] | None
) -> _Known:
    sizes = [[constant(size) for size in shape] for shape in shapes]
    counts = [constant(count) for count in (*grid, 1, 1, 1)[:3]]
    numbers: dict[Scalar, Range] = dict.fromkeys(program.scalars, FULL)
    for scalar, number in zip(program.scalars, scalars or (), strict=scalars is not None):
        if scalar.shape == ():
            numbers[scalar] = constant(int(number))
    known = _Known(sizes, counts, numbers, {})
    _visit(_steps(program.body), known)
    return known


@lru_cache(maxsize=256)
def nonnegative(program: TileProgram) -> frozenset[Node]:
    """The indices that are not negative, whatever the sizes."""
    sizes = [[Range(0, _LONGEST, 1)] * tensor.rank for tensor in program.tensors]
    counts = [Range(1, _MOST_PROGRAMS, 1)] * 3
    known = _Known(sizes, counts, dict.fromkeys(program.scalars, FULL), {})
    _visit(_steps(program.body), known)
    return frozenset(node for node, found in known.values.items() if found.low >= 0)


@dataclass(slots=True)
class _Known:
    """The ranges of sizes, of the grid, of run-time numbers and of the indices that were visited."""

    sizes: Sequence[Sequence[Range]]
    counts: Sequence[Range]
    scalars: Mapping[Scalar, Range]
    values: dict[Node, Range]


@lru_cache(maxsize=256)
def _accesses(program: TileProgram) -> tuple[Node, ...]:
    return tuple(node for node in program.body.walk() if node.op in ACCESSES)


def _coordinates(access: Node) -> tuple[Node, ...]:
    return access.args[access.op in EFFECTS :]


@lru_cache(maxsize=1024)
def _steps(region: Region) -> tuple[Node, ...]:
    """The nodes of a region that make indices, or have regions."""
    return tuple(node for node in region.nodes if node.shape == () and node.op not in EFFECTS)


def _visit(nodes: Sequence[Node], known: _Known) -> None:
    """Find the range of each index, regions included."""
    values = known.values
    for node in nodes:
        match node.op:
            case "index":
                values[node] = constant(node.attr)  # type: ignore[arg-type]
            case "id":
                last = known.counts[node.attr].high - 1  # type: ignore[index]
                values[node] = Range(0, last, 1 if last > 0 else 0)
            case "count":
                values[node] = known.counts[node.attr]  # type: ignore[index]
            case "size":
                assert isinstance(node.attr, tuple)
                tensor, axis = node.attr
                values[node] = known.sizes[tensor][axis]
            case "scalar":
                values[node] = known.scalars[node.attr]  # type: ignore[index]
            case "loop":
                _loop(node, known)
            case "cond":
                for region in node.regions:
                    _visit(_steps(region), known)
            case "result":
                values[node] = _result(node, known)
            case "select":
                values[node] = joined(values[node.args[1]], values[node.args[2]])
            case _:
                values[node] = combined(node.op, [values[arg] for arg in node.args])


def _result(node: Node, known: _Known) -> Range:
    """A carried index after the last turn of a loop, or what either arm of a branch gives."""
    (owner,), number = node.args, node.attr
    assert isinstance(number, int)
    results = [known.values[region.results[number]] for region in owner.regions]
    if owner.op == "loop":
        # After no turn it is still what it was.
        results.append(known.values[owner.args[3 + number]])
    return joined(*results)


def _loop(node: Node, known: _Known) -> None:
    """The ranges in a loop's body: those of carried indices grow until a further turn adds nothing."""
    values, (region,) = known.values, node.regions
    steps = _steps(region)
    values[region.params[0]] = _counter(*(values[arg] for arg in node.args[:3]))
    carried = [
        (param, init, result)
        for param, init, result in zip(region.params[1:], node.args[3:], region.results, strict=True)
        if param.is_index
    ]
    for param, init, _ in carried:
        values[param] = values[init]
    turn = 0
    while True:
        _visit(steps, known)
        turn += 1
        settled = True
        for param, _, result in carried:
            grown = joined(values[param], values[result])
            if grown != values[param]:
                settled = False
                values[param] = grown if turn < _PATIENCE else FULL
        if settled:
            return


def _counter(start: Range, stop: Range, step: Range) -> Range:
    """The numbers that a loop counts; those of a loop without turns do not matter."""
    low, high = start.low, stop.high - 1
    exact = start.low == start.high and step.low == step.high
    if step.high < 0:
        low, high = stop.low + 1, start.high
        if exact:
            low = high - (high - low) // -step.low * -step.low
    elif step.low <= 0:
        low, high = min(start.low, stop.low + 1), max(start.high, stop.high - 1)
    elif exact:
        high = low + (high - low) // step.low * step.low
    return Range(low, high, math.gcd(start.divisor, step.divisor)) if low <= high else start


def _facts(node: Node, known: _Known) -> AccessFacts:
    view = node.attr
    if isinstance(view, Elements):
        return element_facts(node, list(known.sizes[view.tensor]), known.values.__getitem__)
    assert isinstance(view, View)
    sizes = known.sizes[view.tensor]
    places = [known.values[each] for each in _coordinates(node)]
    first = len(places) - len(view.block)
    inside, grain = [], []
    blocked = zip(places[first:], sizes[first:], view.block, view.own, strict=True)
    for place, size, extent, own in blocked:
        offset = combined("mul", [place, constant(own)]) if view.mode == "at" else place
        within = offset.low >= 0 and offset.high + own <= size.low
        inside.append(within and own == extent)
        ends = (0 if within else size.divisor, own if own < extent else 0)
        grain.append(math.gcd(offset.divisor, *ends, MOST_GRAIN))
    leading = all(
        place.low >= 0 and place.high < size.low
        for place, size in zip(places[:first], sizes[:first], strict=True)
    )
    return AccessFacts(tuple(inside), tuple(grain), leading)
