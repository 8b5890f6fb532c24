"""Masks that are set as a whole in most turns of a loop, and programs that take more turns than others."""

from __future__ import annotations

import math

from gizml_tile.dtypes import F32
from gizml_tile.nodes import COMPARISONS, Const, Node

_ORDERS = COMPARISONS - {"eq", "ne"}


def is_bounded(mask: Node) -> bool:
    """Whether comparisons of sums of counts, indices and constants make a mask, all of which must hold."""
    if mask.op == "and_":
        return all(is_bounded(arg) for arg in mask.args)
    return mask.op in _ORDERS and all(_is_affine(arg) for arg in mask.args)


def _is_affine(node: Node) -> bool:
    assert node.dtype is not None
    if not (node.dtype.is_integer or node.dtype is F32):
        return False
    match node.op:
        case "iota" | "value":
            return True
        case "const":
            assert isinstance(node.attr, Const)
            return node.attr.value == math.floor(node.attr.value) if math.isfinite(node.attr.value) else False
        case "add" | "sub":
            return all(_is_affine(arg) for arg in node.args)
    return False


def grows(node: Node, axis: int) -> bool:
    """Whether an index follows from a program's place along an axis and only rises with it."""
    return _direction(node, axis) == 1


def _direction(node: Node, axis: int) -> int | None:
    """1 for an index that rises with the place, -1 for one that falls, 0 for others; None if unknown."""
    if node.op == "id":
        return int(node.attr == axis)
    if node.op in ("index", "size", "count", "scalar"):
        return 0
    found = [_direction(arg, axis) for arg in node.args]
    if all(each == 0 for each in found):
        return 0
    if node.op in ("add", "minimum", "maximum", "min", "max"):
        return _common(found)
    if node.op == "neg":
        return None if found[0] is None else -found[0]
    if node.op == "sub":
        less = found[1]
        return _common([found[0], None if less is None else -less])
    if node.op in ("mul", "div", "floordiv"):
        left, right = node.args
        if right.op == "index" and isinstance(right.attr, int) and right.attr > 0:
            return found[0]
        if node.op == "mul" and left.op == "index" and isinstance(left.attr, int) and left.attr > 0:
            return found[1]
    return None


def _common(found: list[int | None]) -> int | None:
    kinds = set(found) - {0}
    return kinds.pop() if len(kinds) == 1 else None
