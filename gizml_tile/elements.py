"""Coordinates that data give: gathers, scatters, and blocks of which a mask chooses elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gizml_tile.dtypes import I32, I64, MASK, U32, U64
from gizml_tile.index_bits import farthest
from gizml_tile.lifting import describe, lift_index
from gizml_tile.nodes import Const, Elements, Node, View, broadcast
from gizml_tile.tile import Tile
from gizml_tile.tracing import Trace, article, fail, noun

Operands = tuple[Node, ...]
Pad = float | int | bool


def elements_at(
    trace: Trace,
    tensor: int,
    coords: Sequence[object],
    mask: object,
    what: str,
    *,
    pad: Pad = 0,
    combine: str = "",
) -> tuple[Operands, View | Elements]:
    """The operands of a gather or scatter at coordinates, and its attribute.

    Where every coordinate is an index and nothing is masked or combined, one element is a window of size 1.
    """
    nodes = [_coordinate(trace, each, what) for each in coords]
    chosen = _mask(trace, mask, what)
    tiles = [node for node in nodes if node.is_tile]
    shape = broadcast(*(node.shape for node in tiles)) if tiles else (1, 1)
    if shape is None:
        found = ", ".join(str(list(node.shape)) for node in tiles)
        fail(
            f"the coordinates of {what} need shapes whose sizes are equal or 1, found {found}; give rows as "
            "a column [R, 1] and columns as a row [1, C]"
        )
    _check_mask(chosen, shape, what)
    if not tiles and chosen is None and not combine:
        return tuple(nodes), View(tensor, (1,), "window", pad)
    zero = trace.record("index", (), 0) if tiles else None
    indices = [zero if node.is_tile and zero else node for node in nodes]
    tiled = tuple(axis for axis, node in enumerate(nodes) if node.is_tile)
    masks = () if chosen is None else (chosen,)
    attr = Elements(tensor, (shape[0], shape[1]), len(nodes), tiled, pad, combine)
    return (*indices, *tiles, *masks), attr


def masked_block(
    trace: Trace, view: View, coordinates: Operands, mask: object, what: str
) -> tuple[Operands, Elements]:
    """The operands of a gather or scatter of the elements of a block that a mask chooses."""
    chosen = _mask(trace, mask, what)
    assert chosen is not None
    _check_mask(chosen, view.shape, what)
    first, block = len(coordinates) - len(view.block), view.block
    indices, tiles, tiled = list(coordinates), [], []
    for axis, size in enumerate(block, first):
        if view.mode == "at":
            place = _near(trace, indices[axis], size)
            indices[axis] = trace.record("mul", (place, trace.record("index", (), size)))
        if size > 1:
            along = axis - first + 2 - len(block)
            shape = (size, 1) if along == 0 else (1, size)
            tiles.append(trace.record("iota", (), Const(shape, I32, along)))
            tiled.append(axis)
    attr = Elements(view.tensor, view.shape, len(coordinates), tuple(tiled), view.pad)
    return (*indices, *tiles, chosen), attr


def _near(trace: Trace, place: Node, size: int) -> Node:
    """A block number that ``size`` times does not wrap: outside the tensor where that is."""
    limit = farthest(place, size)
    if limit is not None:
        place = trace.record("minimum", (place, trace.record("index", (), limit)))
        place = trace.record("maximum", (place, trace.record("index", (), -limit)))
    return place


def _coordinate(trace: Trace, value: object, what: str) -> Node:
    if isinstance(value, np.ndarray) and value.ndim:
        fail(
            f"a coordinate of {what} is an index or an integer tile, found {describe(value)}; p.iota(shape, "
            "axis, tile.I32) counts, and blocks of an integer tensor hold places"
        )
    if not isinstance(value, Tile):
        return lift_index(trace, value, f"a coordinate of {what}")
    node = trace.use(value)
    if not value.dtype.is_integer:
        way = "pass it as mask=" if value.dtype is MASK else "convert it with .to(I32), or count in I32"
        fail(f"a coordinate of {what} is an index or an integer tile, found {article(noun(node))}; {way}")
    # As many bits with a sign: numbers from 2^63 on become negative, and stay outside.
    return trace.record("to", (node,), I64) if value.dtype in (U32, U64) else node


def _mask(trace: Trace, mask: object, what: str) -> Node | None:
    if mask is None:
        return None
    if not isinstance(mask, Tile) or mask.dtype is not MASK:
        fail(f"mask of {what} is a mask, found {describe(mask)}; make one by comparing, as in x > 0")
    return trace.use(mask)


def _check_mask(mask: Node | None, shape: tuple[int, ...], what: str) -> None:
    if mask is not None and broadcast(mask.shape, shape) != shape:
        fail(f"mask of {what} has the shape {list(shape)} (or 1 along an axis), found {list(mask.shape)}")
