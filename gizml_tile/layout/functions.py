"""Layouts as functions: simpler forms, compositions, complements and inverses."""

from __future__ import annotations

from typing import Any

from gizml_tile.layout.algebra import AnyLayout, ComposedLayout, CoordSwizzle, Layout, Swizzle, size
from gizml_tile.layout.modes import get_, joined, modes_of, rank
from gizml_tile.layout.tuples import Basis, get_leaves, int_tuple_product, text

Mode = tuple[int, Any]  # extent and stride of a leaf


def leaves_of(layout: Layout) -> list[Mode]:
    return list(zip(get_leaves(layout.shape), get_leaves(layout.stride), strict=True))


def layout_of(modes: list[Mode]) -> Layout:
    """The flat layout of some leaves: a single one is not a tuple, none at all is 1:0."""
    if len(modes) == 1:
        return Layout(*modes[0])
    return Layout(*map(tuple, zip(*modes, strict=True))) if modes else Layout(1, 0)


def coalesce(layout: AnyLayout, profile: Any = None) -> Any:
    """The same function with as few modes as can be: ``(2,4):(1,2)`` becomes ``8:1``.

    With a profile its modes stay apart, each coalesced by itself: a tuple of anything that is not a
    tuple keeps the top modes.
    """
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.inner, layout.offset, coalesce(layout.outer, profile))
    if isinstance(profile, tuple):
        if len(profile) > rank(layout):
            raise ValueError(f"profile {text(profile)} has more modes than {layout}")
        modes = list(modes_of(layout))
        modes[: len(profile)] = [coalesce(mode, part) for mode, part in zip(modes, profile, strict=False)]
        return joined(*modes)
    return _coalesced(layout)


def _coalesced(layout: Layout) -> Layout:
    merged: list[Mode] = []
    for extent, step in leaves_of(layout):
        if extent == 1:
            continue
        if merged and merged[-1][0] * merged[-1][1] == step:
            merged[-1] = merged[-1][0] * extent, merged[-1][1]
        else:
            merged.append((extent, step))
    return layout_of(merged)


def composition(first: Any, second: Any) -> Any:
    """The layout c to ``first(second(c))``, with the modes of ``second``.

    ``second`` may be a tile, a tuple of layouts, numbers and None: each applies to one mode, a number n
    means n:1 and None leaves the mode. ValueError where no layout does it leaf by leaf: each stride of
    ``second`` must divide the extents of ``first`` or be divided by them until its extent is used up,
    and the sums of ``second`` must not carry from one mode of ``first`` to the next.
    """
    if isinstance(first, ComposedLayout):
        return ComposedLayout(first.inner, first.offset, composition(first.outer, second))
    if second is None:
        return first
    if isinstance(second, int):
        second = Layout(second, 1)
    if isinstance(first, Swizzle | CoordSwizzle) or isinstance(second, ComposedLayout):
        return ComposedLayout(first, 0, second)
    if isinstance(second, tuple):
        return by_mode(composition, first, second)
    return _composed(first, second)


def by_mode(operation: Any, layout: Layout, tile: tuple[Any, ...]) -> Layout:
    """An operation of each mode with its part of a tile; modes without a part stay."""
    if len(tile) > rank(layout):
        raise ValueError(f"a tile of {len(tile)} parts is for as many modes or more, found {layout}")
    modes = list(modes_of(layout))
    modes[: len(tile)] = [operation(mode, part) for mode, part in zip(modes, tile, strict=False)]
    return joined(*modes)


def _composed(first: Layout, second: Layout) -> Layout:
    """Leaf by leaf: a sum of leaves stays a sum as long as no number of the coordinate overflows."""
    used: dict[tuple[tuple[int, ...], int], int] = {}  # the mode of ``first`` -> the largest number there

    def compose(shape: Any, stride: Any) -> Layout:
        if isinstance(shape, tuple):
            return joined(*map(compose, shape, stride))
        path = stride.path if isinstance(stride, Basis) else ()
        target = leaves_of(_coalesced(get_(first, *path)))
        parts = _leaf_composed(target, shape, stride.scale if isinstance(stride, Basis) else stride)
        if parts is None:
            raise ValueError(
                f"{first} after {second} is no layout: {shape}:{stride} does not fit its extents"
            )
        for mode, extent, step in parts:
            total = used[path, mode] = used.get((path, mode), 0) + (extent - 1) * step
            if mode < len(target) - 1 and total >= target[mode][0]:
                raise ValueError(
                    f"{first} after {second} is no layout: {shape}:{stride} overlaps other modes"
                )
        return layout_of([(extent, step * target[mode][1]) for mode, extent, step in parts] or [(shape, 0)])

    return compose(second.shape, second.stride)


def _leaf_composed(target: list[Mode], extent: int, step: int) -> list[tuple[int, int, int]] | None:
    """The steps of a leaf through the modes it meets: (mode, extent, step) each, or None."""
    parts: list[tuple[int, int, int]] = []
    if step == 0:
        return parts
    for mode, (limit, _) in enumerate(target[:-1]):
        if extent == 1 or (extent - 1) * step < limit:
            break
        if step % limit == 0:
            step //= limit
        elif limit % step == 0 and extent % (limit // step) == 0:
            parts.append((mode, limit // step, step))
            extent, step = extent // (limit // step), 1
        else:
            return None
    else:
        mode = len(target) - 1
    return [*parts, (mode, extent, step)] if extent > 1 else parts


def complement(layout: Layout, cotarget: Any = 1) -> Layout:
    """The layout that fills the gaps of another up to ``cotarget`` indices, in increasing order.

    Together they reach each index from 0 once: ``complement(4:2, 24)`` is ``(2,3):(1,8)``. The last
    mode is rounded up. ValueError where the layout reaches an index twice or its gaps are no layout.
    """
    target = int_tuple_product(cotarget) if isinstance(cotarget, int | tuple) else size(cotarget)
    modes: list[Mode] = []
    current = 1
    for extent, step in _sorted_leaves(layout, "complement", zeros=True):
        if step % current:
            raise ValueError(f"complement: the strides of {layout} overlap at {extent}:{step}")
        modes.append((step // current, current))
        current = step * extent
    modes.append((-(-target // current), current))
    return _coalesced(layout_of(modes))


def _sorted_leaves(layout: Layout, what: str, zeros: bool) -> list[Mode]:
    """The leaves with an extent above 1 by increasing stride; those of stride 0 left out where allowed."""
    leaves = [(extent, step) for extent, step in leaves_of(layout) if extent > 1]
    if any(isinstance(step, Basis) for _, step in leaves):
        raise ValueError(f"{what} needs strides that are numbers, found {layout}")
    if not zeros and any(step == 0 for _, step in leaves):
        raise ValueError(f"{what} needs a layout that reaches no index twice, found {layout}")
    return sorted((leaf for leaf in leaves if leaf[1]), key=lambda leaf: leaf[1])


def _with_places(layout: Layout) -> list[tuple[int, int, int]]:
    """Of each leaf above 1 with a stride, (stride, extent, place): the place is its 1-D coordinate step."""
    found, place = [], 1
    for extent, step in leaves_of(layout):
        if extent > 1 and step:
            found.append((step, extent, place))
        place *= extent
    return sorted(found)


def right_inverse(layout: Layout) -> Layout:
    """The longest R with ``layout(R(k)) == k``: ``(4,8):(8,1)`` gives ``(8,4):(4,1)``.

    It follows the strides as long as they chain from 1 without a gap.
    """
    _sorted_leaves(layout, "right_inverse", zeros=True)
    modes: list[Mode] = []
    current = 1
    for step, extent, place in _with_places(layout):
        if step == current:
            modes.append((extent, place))
            current *= extent
    return _coalesced(layout_of(modes))


def left_inverse(layout: Layout) -> Layout:
    """The L with ``L(layout(k)) == k``; gaps become modes of stride 0: ``4:2`` gives ``(2,4):(0,1)``."""
    _sorted_leaves(layout, "left_inverse", zeros=False)
    modes: list[Mode] = []
    current = 1
    for step, extent, place in _with_places(layout):
        if step % current:
            raise ValueError(f"left_inverse: the strides of {layout} overlap at {extent}:{step}")
        modes += [(step // current, 0), (extent, place)]
        current = step * extent
    return _coalesced(layout_of(modes))
