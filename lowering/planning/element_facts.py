"""What is known of where gathers and scatters go: known before anything is planned."""

from __future__ import annotations

import math
from collections.abc import Callable

from gizml_tile.dtypes import I64, DType, integer_range
from gizml_tile.lowering.planning.ranges import Range, combined, constant, joined
from gizml_tile.lowering.planning.signature import AccessFacts
from gizml_tile.lowering.steps import run_axis
from gizml_tile.nodes import Const, Node, places

MOST_GRAIN = 16
_ARITHMETIC = frozenset("add sub mul neg abs maximum minimum rem floordiv floormod".split())

Ranges = Callable[[Node], Range]


def element_facts(node: Node, sizes: list[Range], index: Ranges) -> AccessFacts:
    """Which coordinates are surely inside, axis by axis of the tensor, and what divides the starts of runs.

    ``index`` gives the range of an index. The grain of an axis of the tile is that of the runs along it.
    """
    found = places(node)
    inside = []
    grain = [1, 1]
    for axis, (base, tile, size) in enumerate(zip(found.indices, found.tiles, sizes, strict=True)):
        start = index(base)
        place = start if tile is None else combined("add", [start, _range(tile, index, None)])
        inside.append(place.low >= 0 and place.high < size.low)
        for along in (0, 1):
            if tile is not None and run_axis(node, along) == axis:
                first = combined("add", [start, _range(tile, index, along)])
                end = 0 if inside[-1] else size.divisor
                grain[along] = math.gcd(first.divisor, end, MOST_GRAIN)
    return AccessFacts(tuple(inside), (grain[0], grain[1]), True)


def _range(tile: Node, index: Ranges, run: int | None) -> Range:
    """The range of the elements of an integer tile; of those at which runs along an axis may begin."""
    dtype = tile.dtype
    assert dtype is not None
    match tile.op:
        case "const":
            assert isinstance(tile.attr, Const)
            return constant(int(tile.attr.value))
        case "iota":
            assert isinstance(tile.attr, Const) and isinstance(tile.attr.value, int)
            last = tile.shape[tile.attr.value] - 1
            return Range(0, last, MOST_GRAIN if tile.attr.value == run else 1)
        case "value":
            return _wrapped(index(tile.args[0]), dtype)
        case "to" if tile.args[0].dtype is not None and tile.args[0].dtype.is_integer:
            return _wrapped(_range(tile.args[0], index, run), dtype)
        case "select" if tile.args[1].dtype is tile.args[2].dtype:
            return joined(*(_range(arg, index, run) for arg in tile.args[1:]))
        case "transpose":
            return _range(tile.args[0], index, None if run is None else 1 - run)
        case _ if tile.op in _ARITHMETIC:
            return _wrapped(combined(tile.op, [_range(arg, index, run) for arg in tile.args]), dtype)
    return _whole(dtype)


def _whole(dtype: DType) -> Range:
    return Range(*integer_range(dtype), 1)


def _wrapped(found: Range, dtype: DType) -> Range:
    """A range after it wrapped into a type, which keeps the powers of two that divide."""
    low, high = integer_range(dtype)
    if low <= found.low and found.high <= high:
        return found
    most = 64 if dtype is I64 else dtype.bits
    return Range(low, high, math.gcd(found.divisor & -found.divisor, 1 << (most - 1)) or 1)
