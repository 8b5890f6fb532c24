"""What of tensors no program of a launch reads or writes, though another part of them is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gizml_tile.lowering.planning.bounds import Shapes, index_ranges
from gizml_tile.nodes import ACCESSES, EFFECTS, Node, TileProgram, View, tensor_of
from gizml_tile.text import line_of


def unreached(
    program: TileProgram, shapes: Shapes, grid: Sequence[int], scalars: Sequence[float]
) -> Iterator[str]:
    """Sentences about the ends of axes that all programs together surely leave out.

    A block of 128 columns at coordinate 0 is not all of a row of 200, and a grid may be too small: columns
    128 to 199 of x are not read. Tensors of which data choose elements are left out here, and the middles
    of axes.
    """
    if 0 in grid:
        return
    ranges = index_ranges(program, shapes, grid, scalars)
    hulls: dict[tuple[int, str], list[tuple[int, int]]] = {}
    first: dict[tuple[int, str], Node] = {}
    unknown: set[tuple[int, str]] = set()
    for node in program.body.walk():
        if node.op not in ACCESSES:
            continue
        key = tensor_of(node), "written" if node.op in EFFECTS else "read"
        first.setdefault(key, node)
        view = node.attr
        if not isinstance(view, View):
            unknown.add(key)
            continue
        places = [ranges[each] for each in node.args[node.op in EFFECTS :]]
        extents = (*(1,) * (len(places) - len(view.block)), *view.own)
        scales = extents if view.mode == "at" else (1,) * len(places)
        spans = [
            (place.low * scale, place.high * scale + extent)
            for place, scale, extent in zip(places, scales, extents, strict=True)
        ]
        known = hulls.setdefault(key, spans)
        hulls[key] = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, spans, strict=True)]
    for key, spans in hulls.items():
        tensor, verb = key
        for axis, ((low, high), size) in enumerate(zip(spans, shapes[tensor], strict=True)):
            gone = [(0, min(low, size) - 1)] if low > 0 else []
            gone += [(max(high, 0), size - 1)] if high < size else []
            if key in unknown or not gone or size == 0:
                continue
            which = " and ".join(str(a) if a == b else f"{a} to {b}" for a, b in gone)
            what = _axis(axis, len(spans))
            name = program.tensors[tensor].name
            yield f"{what} {which} of {name}, which has {size}, are not {verb} ({line_of(first[key].place)})"


def _axis(axis: int, rank: int) -> str:
    if rank == 1:
        return "elements"
    return {rank - 1: "columns", rank - 2: "rows"}.get(axis, f"places of axis {axis}:")
