"""Selects whose mask is looked at as a whole first, as it is set everywhere in most turns of a loop."""

from __future__ import annotations

from gizml_tile.dtypes import F32, I64
from gizml_tile.lowering.expand.elementwise import expand_elementwise
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.nodes import Const, Node

# Sums of integers between these limits are exact in 32 bits, and as F32.
_INTEGERS, _FLOATS = 2**31 - 1, 2**24
_SWAPPED = {"gt": "lt", "ge": "le"}


def guarded_select(x: Expansion, node: Node, layout: TileLayout) -> Value:
    """``select(mask, yes, no)``, which is ``yes`` where all elements of the mask are set in this program."""
    build = x.build
    yes = x.registers(node.args[1], layout)

    def chosen() -> list[Value]:
        with x.block():
            args = [x.operand(arg, layout) for arg in node.args]
            return [build.spread(expand_elementwise(build, x.target, node, args), layout.registers)]

    (value,) = build.branch(_is_set(x, node.args[0]), lambda: [yes], chosen)
    return value


def _is_set(x: Expansion, mask: Node) -> Value:
    """Whether all elements of a mask are set, from the bounds of what it compares."""
    build = x.build
    if mask.op == "and_":
        return build.map("and", *(_is_set(x, arg) for arg in mask.args))
    left, right = mask.args if mask.op in _SWAPPED.values() else reversed(mask.args)
    ranges: list[tuple[Value, Value]] = []
    (_, large), (small, _) = _bounds(x, left, ranges), _bounds(x, right, ranges)
    holds = build.map(_SWAPPED.get(mask.op, mask.op), large, small)
    limit = _FLOATS if left.dtype is F32 else _INTEGERS
    for smallest, largest in ranges:
        holds = build.map("and", holds, build.map("ge", smallest, build.constant(-limit, I64)))
        holds = build.map("and", holds, build.map("le", largest, build.constant(limit, I64)))
    return holds


def _bounds(x: Expansion, node: Node, ranges: list[tuple[Value, Value]]) -> tuple[Value, Value]:
    """The smallest and largest element of a tile of counts, indices and constants, I64s.

    Those that may be beyond what the tile's type holds exactly are added to ``ranges``, parts included.
    """
    build = x.build
    match node.op:
        case "iota":
            assert isinstance(node.attr, Const) and isinstance(node.attr.value, int)
            last = node.shape[node.attr.value] - 1
            return build.constant(0, I64), build.constant(last, I64)
        case "const":
            assert isinstance(node.attr, Const)
            number = build.constant(int(node.attr.value), I64)
            return number, number
        case "value":
            number = x.index(node.args[0])
            low, high = number, number
        case _:
            (low, high), (small, large) = (_bounds(x, arg, ranges) for arg in node.args)
            if node.op == "add":
                low, high = build.add(low, small), build.add(high, large)
            else:
                low, high = build.sub(low, large), build.sub(high, small)
    ranges.append((low, high))
    return low, high
