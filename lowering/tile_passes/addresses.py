"""Where gathers and scatters go: what is uniform of coordinates is an index, computed once for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gizml_tile.dtypes import I32, I64, math_dtype
from gizml_tile.nodes import Const, Node, Places, make, places, with_places

Emit = Callable[[Node], Node]


def fold_places(node: Node, emit: Emit) -> Node:
    """A gather or scatter whose tiles have lost constants, indices and conversions that keep each number.

    A place is a sum of 64 bits, so terms of I64 tiles may move to its index; those of I32 may not, as their
    sum wraps earlier::

        index 0, tile iota + value(i)        ->  index i, tile iota
    """
    before = places(node)
    indices, tiles = list(before.indices), list(before.tiles)
    for axis, tile in enumerate(tiles):
        while tile is not None:
            simpler = _without_term(indices[axis], tile, emit) or _narrowed(indices[axis], tile, emit)
            if simpler is None:
                break
            indices[axis], tile = simpler
        tiles[axis] = tile
    mask = before.mask
    if mask is not None and mask.op == "const" and isinstance(mask.attr, Const) and mask.attr.value:
        mask = None
    after = Places(tuple(indices), tuple(tiles), mask)
    return node if after == before else emit(with_places(node, after))


def _without_term(index: Node, tile: Node, emit: Emit) -> tuple[Node, Node | None] | None:
    """The index with a uniform term of a tile, and what is left of that; None where there is no such term."""
    whole = _uniform(tile, emit)
    if whole is not None:
        return emit(make("add", (index, whole), None, tile.place)), None
    if tile.dtype is not I64 or tile.op not in ("add", "sub"):
        return None
    left, right = tile.args
    term = _uniform(right, emit)
    if term is not None:
        return emit(make(tile.op, (index, term), None, tile.place)), left
    term = _uniform(left, emit) if tile.op == "add" else None
    return None if term is None else (emit(make("add", (index, term), None, tile.place)), right)


def _uniform(tile: Node, emit: Emit) -> Node | None:
    """The index that every element of an integer tile is, if that is known."""
    if tile.op == "value" and tile.dtype is I64:
        return tile.args[0]
    if tile.op == "const":
        assert isinstance(tile.attr, Const)
        return emit(make("index", (), int(tile.attr.value), tile.place))
    return None


def _narrowed(index: Node, tile: Node, emit: Emit) -> tuple[Node, Node] | None:
    """A narrower tile of the same numbers."""
    if tile.op == "iota" and tile.dtype is I64:
        assert isinstance(tile.attr, Const)
        return index, emit(make("iota", (), replace(tile.attr, dtype=I32), tile.place))
    if tile.op != "to" or tile.dtype is not I64:
        return None
    (inner,) = tile.args
    # A place has a sign, so U32 and U64 stay converted.
    return (index, inner) if inner.dtype is not None and math_dtype(inner.dtype) in (I32, I64) else None
