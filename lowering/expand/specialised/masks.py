"""Selects whose mask is looked at as a whole first, as it is set everywhere in most turns of a loop."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from gizml_tile.dtypes import F32, I64, MASK
from gizml_tile.lowering.expand.elementwise import expand_elementwise
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.nodes import Const, Node

# Sums of integers between these limits are exact in 32 bits, and as F32.
_INTEGERS, _FLOATS = 2**31 - 1, 2**24
_SWAPPED = {"gt": "lt", "ge": "le"}


def foresee(x: Expansion, nodes: Sequence[Node]) -> None:
    """Look at the masks of some nodes now, while matrix units make what the nodes select from."""
    assert x.plan.specialised is not None
    for node in nodes:
        if node in x.plan.specialised.guarded:
            with x.at(node):
                x.foreseen[node] = _is_set(x, node.args[0])


def guarded_select(x: Expansion, node: Node, layout: TileLayout) -> Value:
    """``select(mask, yes, no)``, which is ``yes`` where all elements of the mask are set in this program."""
    build = x.build
    yes = x.registers(node.args[1], layout)

    def chosen() -> list[Value]:
        with x.block():
            args = [x.operand(arg, layout) for arg in node.args]
            return [build.spread(expand_elementwise(build, x.target, node, args), layout.registers)]

    known = x.foreseen.pop(node, None)
    whole = _is_set(x, node.args[0]) if known is None else known
    (value,) = build.branch(whole, lambda: [yes], chosen)
    return value


def _is_set(x: Expansion, mask: Node) -> Value:
    """Whether all elements of a mask are set, from the bounds of what it compares."""
    build = x.build
    if mask.op == "and_":
        return build.map("and", *(_is_set(x, arg) for arg in mask.args))
    left, right = mask.args if mask.op in _SWAPPED.values() else reversed(mask.args)
    one, other = _affine(x, left), _affine(x, right)
    largest = _FLOATS if left.dtype is F32 else _INTEGERS
    if max(one.reach, other.reach) > largest:
        return build.constant(False, MASK)  # sums may wrap, or be rounded
    # Conditions on indices apart: those of indices from outside the loop are looked at once.
    holds = [
        each.fits(x, index, largest)
        for each in (one, other)
        for _, index in each.indices
    ]
    holds.append(build.map(_SWAPPED.get(mask.op, mask.op), one.sum(x, one.high), other.sum(x, other.low)))
    return functools.reduce(lambda one, other: build.map("and", one, other), holds)


@dataclass(frozen=True, slots=True)
class _Affine:
    """A tile whose elements are a sum of indices, each added or subtracted, and of something in a range.

    What is not an index is nowhere further than ``reach`` from zero, also where a part of it cancels.
    """

    indices: tuple[tuple[bool, Node], ...]
    low: int
    high: int
    reach: int

    def sum(self, x: Expansion, rest: int) -> Value:
        """The indices and one number."""
        total = x.build.constant(rest, I64)
        for less, index in self.indices:
            total = x.build.sub(total, x.index(index)) if less else x.build.add(total, x.index(index))
        return total

    def fits(self, x: Expansion, index: Node, largest: int) -> Value:
        """Whether an index is so near zero that sums with it and the others are exact."""
        build, limit = x.build, (largest - self.reach) // len(self.indices)
        below = build.map("le", x.index(index), build.constant(limit, I64))
        if index in x.nonnegative:
            return below
        return build.map("and", below, build.map("ge", x.index(index), build.constant(-limit, I64)))


def _affine(x: Expansion, node: Node) -> _Affine:
    """What a tile of counts, indices and constants consists of."""
    match node.op:
        case "iota":
            assert isinstance(node.attr, Const) and isinstance(node.attr.value, int)
            last = node.shape[node.attr.value] - 1
            return _Affine((), 0, last, last)
        case "const":
            assert isinstance(node.attr, Const)
            number = int(node.attr.value)
            return _Affine((), number, number, abs(number))
        case "value":
            return _Affine(((False, node.args[0]),), 0, 0, 0)
    one, other = (_affine(x, arg) for arg in node.args)
    reach = one.reach + other.reach
    if node.op == "add":
        return _Affine((*one.indices, *other.indices), one.low + other.low, one.high + other.high, reach)
    turned = tuple((not less, index) for less, index in other.indices)
    return _Affine((*one.indices, *turned), one.low - other.high, one.high - other.low, reach)
