"""Divides and products: layouts of tiles, and layouts repeated in a pattern."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from gizml_tile.layout.algebra import ComposedLayout, Layout, Swizzle, cosize, make_ordered_layout, size
from gizml_tile.layout.bits import bit_length, is_power_of_two
from gizml_tile.layout.functions import by_mode, complement, composition, leaves_of, right_inverse
from gizml_tile.layout.modes import append, joined, modes_of, rank
from gizml_tile.layout.tuples import Basis, ceil_div, int_tuple_product_each, like


def make_tile(*modes: Any) -> tuple[Any, ...]:
    """A tile for the operations by mode: each part a layout, a number n for n:1, None, or a tile."""

    def check(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(check, part))
        if part is None or isinstance(part, Layout) or (isinstance(part, int) and part > 0):
            return part
        raise ValueError(f"a part of a tile is a number, a layout, None or a tuple of them, found {part!r}")

    return tuple(map(check, modes))


def logical_divide(layout: Any, tile: Any) -> Any:
    """A layout in two modes: inside of a tile, and which tile; by mode where the tile is a tuple.

    ``(4,8):(1,4)`` by ``(2,4):(1,2)`` is ``((2,4),4):((1,2),8)``. A number n means n:1, None leaves a
    mode as it is.
    """
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.inner, layout.offset, logical_divide(layout.outer, tile))
    if tile is None:
        return layout
    if isinstance(tile, tuple):
        return by_mode(logical_divide, layout, tile)
    tile = _layout(tile)
    return composition(layout, joined(tile, complement(tile, size(layout))))


def zipped_divide(layout: Any, tile: Any) -> Any:
    """Mode 0 is the place inside of a tile, mode 1 is which tile, each with a mode per part of the tile."""
    return _zipped(logical_divide, layout, tile)


def tiled_divide(layout: Any, tile: Any) -> Any:
    """``(tile, rest0, rest1, ..)``: as ``zipped_divide``, with the modes of the rest side by side."""
    return _spread(zipped_divide(layout, tile), inside=False)


def flat_divide(layout: Any, tile: Any) -> Any:
    """``(tile0, tile1, .., rest0, rest1, ..)``: as ``zipped_divide``, with all modes side by side."""
    return _spread(zipped_divide(layout, tile), inside=True)


def logical_product(layout: Any, tiler: Any) -> Any:
    """A layout repeated in a pattern: mode 0 is the layout, mode 1 which repeat; by mode for a tuple.

    The repeats stand one after another in the gaps of the layout, in the order that the pattern tells.
    A number n means n:1, None leaves a mode.
    """
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.inner, layout.offset, logical_product(layout.outer, tiler))
    if tiler is None:
        return layout
    if isinstance(tiler, tuple):
        return by_mode(logical_product, layout, tiler)
    tiler = _layout(tiler)
    repeats = complement(layout, size(layout) * cosize(tiler))
    return joined(layout, composition(repeats, tiler))


def zipped_product(layout: Any, tiler: Any) -> Any:
    """Mode 0 is the layout, mode 1 is which repeat, each with a mode per part of the tiler."""
    return _zipped(logical_product, layout, tiler)


def tiled_product(layout: Any, tiler: Any) -> Any:
    """``(layout, repeat0, repeat1, ..)``."""
    return _spread(zipped_product(layout, tiler), inside=False)


def flat_product(layout: Any, tiler: Any) -> Any:
    """``(layout0, layout1, .., repeat0, repeat1, ..)``."""
    return _spread(zipped_product(layout, tiler), inside=True)


def blocked_product(layout: Any, tiler: Any) -> Any:
    """Repeats side by side: each mode has the layout's mode inside, which repeat outside."""
    return _woven(layout, tiler, lambda inside, repeat: joined(inside, repeat))


def raked_product(layout: Any, tiler: Any) -> Any:
    """Repeats interleaved: each mode has which repeat inside, the layout's mode outside."""
    return _woven(layout, tiler, lambda inside, repeat: joined(repeat, inside))


def tile_to_shape(block: Any, shape: Any, order: Any = 0) -> Any:
    """A block repeated until it covers a shape, the repeats in the given order, the smallest fastest."""
    if isinstance(block, ComposedLayout):
        return ComposedLayout(block.inner, block.offset, tile_to_shape(block.outer, shape, order))
    extents = int_tuple_product_each(shape)
    block = append(block, Layout(1, 0), n=rank(shape)) if rank(block) < rank(shape) else block
    repeats = ceil_div(extents, int_tuple_product_each(block.shape))
    return blocked_product(block, make_ordered_layout(repeats, order))


def make_layout_tv(threads: Layout, values: Layout) -> tuple[Any, Layout]:
    """The shape of the tile that threads with so many values each cover, and where each value is.

    ``threads`` and ``values`` lay them out over the tile. The layout maps (thread, value) to the index
    in the tile, column-major: threads ``(4,1)``, values ``(1,8)`` give ``(4,8)`` and ``(4,8):(1,4)``.
    """
    for each in (threads, values):
        if size(right_inverse(each)) != size(each):
            raise ValueError(f"make_layout_tv needs threads and values without gaps, found {each}")
    covered = raked_product(threads, values)
    holders = Layout((size(threads), size(values)), (1, size(threads)))
    return int_tuple_product_each(covered.shape), composition(right_inverse(covered), holders)


def recast_layout(layout: Any, old_bits: int, new_bits: int) -> Any:
    """The layout of the same memory in elements of another size.

    Wider elements divide the mode of stride 1, narrower ones multiply it; a swizzle and an offset
    follow. ValueError where an element would be cut, or a swizzle would reach into one.
    """
    if min(old_bits, new_bits) < 1:
        raise ValueError(f"recast_layout needs sizes in bits, found {old_bits} and {new_bits}")
    common = gcd(old_bits, new_bits)
    return _narrowed(_widened(layout, new_bits // common), old_bits // common)


def _widened(layout: Any, times: int) -> Any:
    if isinstance(layout, ComposedLayout):
        inner = _shifted(layout.inner, times, -1)
        if layout.offset % times:
            raise ValueError(f"recast_layout: offset {layout.offset} is inside of an element")
        return ComposedLayout(inner, layout.offset // times, _widened(layout.outer, times))

    def widen(extent: int, step: Any) -> tuple[int, Any]:
        if isinstance(step, Basis):
            raise ValueError(f"recast_layout needs strides that are numbers, found {layout}")
        if step == 0 or times == 1:
            return extent, step
        if step % times == 0:
            return extent, step // times
        kept = times // step if times % step == 0 else 0
        if not kept or (extent % kept and kept % extent):
            raise ValueError(
                f"recast_layout: {extent}:{step} of {layout} cuts elements {times} times as wide"
            )
        return max(extent // kept, 1), 1

    wide = _nested([widen(*leaf) for leaf in leaves_of(layout)], layout)
    if (size(wide) * times, cosize(wide) * times) != (size(layout), cosize(layout)):
        raise ValueError(f"recast_layout: {layout} does not fill elements {times} times as wide")
    return wide


def _narrowed(layout: Any, times: int) -> Any:
    if isinstance(layout, ComposedLayout):
        inner = _shifted(layout.inner, times, 1)
        return ComposedLayout(inner, layout.offset * times, _narrowed(layout.outer, times))
    if times == 1:
        return layout
    leaves = leaves_of(layout)
    if any(isinstance(step, Basis) for _, step in leaves):
        raise ValueError(f"recast_layout needs strides that are numbers, found {layout}")
    # One mode takes the parts of an element: that of stride 1, or one that stands still.
    candidates = [leaf for leaf, (_, step) in enumerate(leaves) if step == 1]
    candidates += [leaf for leaf, (extent, _) in enumerate(leaves) if extent == 1]
    if not candidates:
        raise ValueError(f"recast_layout: {layout} has no mode of stride 1 to multiply by {times}")
    modes = [
        (extent * times, 1) if leaf == candidates[0] else (extent, step * times)
        for leaf, (extent, step) in enumerate(leaves)
    ]
    return _nested(modes, layout)


def _nested(modes: list[tuple[int, int]], guide: Layout) -> Layout:
    """The leaves as a layout that nests like another."""
    shape, stride = (like(iter(part), guide.shape) for part in zip(*modes, strict=True))
    return Layout(shape, stride)


def _shifted(inner: Any, times: int, sign: int) -> Any:
    """A swizzle of elements so many times as wide (sign -1) or as narrow (sign 1)."""
    if times == 1:
        return inner
    if not isinstance(inner, Swizzle) or not is_power_of_two(times):
        raise ValueError(f"recast_layout cannot follow {inner} through elements of {times} times the size")
    base = inner.base + sign * bit_length(times)
    if base < 0:
        raise ValueError(f"recast_layout: {inner} moves parts of elements {times} times as wide")
    return Swizzle(inner.mask, base, inner.shift)


def _layout(tile: Any) -> Layout:
    if isinstance(tile, Layout):
        return tile
    if isinstance(tile, int) and tile > 0:
        return Layout(tile, 1)
    raise ValueError(f"expected a layout, a number or a tuple of them, found {tile!r}")


def _zipped(operation: Callable[[Any, Any], Any], layout: Any, tile: Any) -> Any:
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.inner, layout.offset, _zipped(operation, layout.outer, tile))
    return joined(*_pair(operation, layout, tile))


def _pair(operation: Callable[[Any, Any], Any], layout: Layout, tile: Any) -> tuple[Layout, Layout]:
    """The two modes of an operation, gathered by mode; a mode without a part joins the second."""
    if tile is None:
        return layout, Layout(1, 0)
    if not isinstance(tile, tuple):
        first, second = modes_of(operation(layout, tile))
        return first, second
    modes = modes_of(layout)
    if len(tile) > len(modes):
        raise ValueError(f"a tile of {len(tile)} parts is for as many modes or more, found {layout}")
    pairs = [_pair(operation, mode, part) for mode, part in zip(modes, tile, strict=False)]
    firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
    return joined(*firsts), joined(*seconds, *modes[len(tile) :])


def _spread(zipped: Any, inside: bool) -> Any:
    """The modes of the second mode, and maybe of the first, side by side."""
    if isinstance(zipped, ComposedLayout):
        return ComposedLayout(zipped.inner, zipped.offset, _spread(zipped.outer, inside))
    first, second = modes_of(zipped)
    return joined(*(modes_of(first) if inside else (first,)), *modes_of(second))


def _woven(layout: Any, tiler: Any, weave: Callable[[Layout, Layout], Layout]) -> Any:
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.inner, layout.offset, _woven(layout.outer, tiler, weave))
    tiler = _layout(tiler)
    modes = max(rank(layout), rank(tiler))
    padded = (append(each, Layout(1, 0), n=modes) for each in (layout, tiler))
    pairs = zip(*map(modes_of, modes_of(logical_product(*padded))), strict=True)
    woven = [weave(inside, repeat) for inside, repeat in pairs]
    return woven[0] if len(woven) == 1 else joined(*woven)
