"""How the elements of an integer tile follow one another along an axis, so that neighbours move together."""

from __future__ import annotations

from gizml_tile.nodes import ELEMENTWISE, Const, Node, places


def step(tile: Node, axis: int) -> int | None:
    """By how much each element of a tile is more than the one before along an axis; None where they differ.

    Sums that wrap in their type do so at multiples of each power of two up to 2^31, so vectors that begin at
    multiples of their length never wrap inside::

        iota([1, 8], 1) + rows    ->  1 along axis 1, None along axis 0 (rows are data)
    """
    if tile.shape[axis] == 1:
        return 0
    match tile.op:
        case "const":
            return 0
        case "iota":
            assert isinstance(tile.attr, Const)
            return int(tile.attr.value == axis)
        case "transpose":
            return step(tile.args[0], 1 - axis)
        case _ if tile.op not in ELEMENTWISE:
            return None
    steps = [step(arg, axis) for arg in tile.args if arg.is_tile]
    if all(each == 0 for each in steps):
        return 0
    if None in steps or tile.dtype is None or not tile.dtype.is_integer:
        return None
    match tile.op, steps:
        case "add", [int(left), int(right)]:
            return left + right
        case "sub", [int(left), int(right)]:
            return left - right
        case "neg", [int(only)]:
            return -only
        case "mul", [int(left), int(right)]:
            return _product(tile, left, right)
        case "to", [int(only)]:
            source = tile.args[0].dtype
            assert source is not None
            return only if source.is_integer and source.bits <= tile.dtype.bits else None
    return None


def _product(tile: Node, left: int, right: int) -> int | None:
    for factor, other in ((tile.args[0], right), (tile.args[1], left)):
        if factor.op == "const" and isinstance(factor.attr, Const):
            return int(factor.attr.value) * other
    return None


def run_axis(node: Node, axis: int) -> int | None:
    """The axis of the tensor along which a gather's or scatter's elements are neighbours, for those along an
    axis of the tile; None where they are not, or other coordinates change too."""
    found: int | None = None
    for along, tile in enumerate(places(node).tiles):
        steps = 0 if tile is None else step(tile, axis)
        if steps == 1 and found is None:
            found = along
        elif steps != 0:
            return None
    return found


def is_masked_along(node: Node, axis: int) -> bool:
    """Whether a mask may choose some of the elements along an axis of the tile and not others."""
    mask = places(node).mask
    return mask is not None and step(mask, axis) != 0
