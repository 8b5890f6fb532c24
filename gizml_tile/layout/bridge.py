"""Between the strided layouts of the algebra and linear layouts over bits."""

from __future__ import annotations

from typing import Any

from gizml_tile.layout.algebra import AnyLayout, ComposedLayout, Layout, Swizzle, coprofile, coshape, size
from gizml_tile.layout.bits import bit_length, is_power_of_two
from gizml_tile.layout.functions import coalesce, layout_of
from gizml_tile.layout.linear import Basis, Linear
from gizml_tile.layout.modes import joined, modes_of
from gizml_tile.layout.tuples import get_leaves


def to_linear(layout: AnyLayout, names: tuple[str, ...], shape: tuple[int, int] | None = None) -> Linear:
    """The linear layout whose inputs are the modes of a strided one, by name.

    A result that is an index stands for a place in a tile of ``shape``, column-major; a result that is a
    coordinate is the place. ``to_linear(tv, ("lane", "register"), tile)`` takes what ``make_layout_tv``
    gives. ValueError where extents are not powers of two, or sums carry from bit to bit.
    """
    modes = modes_of(layout.outer if isinstance(layout, ComposedLayout) else layout)
    if len(modes) != len(names):
        raise ValueError(f"{layout} has {len(modes)} modes for the names {', '.join(names)}")
    if isinstance(coprofile(layout), tuple):
        extents = coshape(layout)
        if len(extents) != 2 or any(isinstance(extent, tuple) for extent in extents):
            raise ValueError(f"a place has a row and a column, found results like {coprofile(layout)}")
        shape = shape or (_next_power(extents[0]), _next_power(extents[1]))
    elif shape is None:
        shape = (_next_power(coshape(layout)), 1)
    _check_linear(layout)
    rows = shape[0]

    def place(mode: int, bit: int) -> Basis:
        coordinate = tuple(1 << bit if number == mode else 0 for number in range(len(modes)))
        result = layout(coordinate if len(modes) > 1 else coordinate[0])
        return (result[0], result[1]) if isinstance(result, tuple) else (result % rows, result // rows)

    return Linear(
        shape,
        tuple(
            (name, tuple(place(mode, bit) for bit in range(bit_length(size(modes[mode])))))
            for mode, name in enumerate(names)
        ),
    )


def _next_power(extent: int) -> int:
    return 1 << (extent - 1).bit_length()


def _check_linear(layout: Any) -> None:
    """An error where a sum of the layout is not the exclusive or of its terms."""
    if isinstance(layout, Swizzle):
        return
    if isinstance(layout, ComposedLayout):
        if any(get_leaves(layout.offset)):
            raise ValueError(f"an offset is not linear over bits: {layout}")
        _check_linear(layout.outer)
        _check_linear(layout.inner)
        return
    if not isinstance(layout, Layout):
        raise ValueError(f"{layout} has no linear form")
    used: dict[tuple[int, ...], int] = {}
    for extent, step in zip(get_leaves(layout.shape), get_leaves(layout.stride), strict=True):
        if not is_power_of_two(extent):
            raise ValueError(f"the extents of a linear layout are powers of two, found {layout}")
        path = () if isinstance(step, int) else step.path
        for bit in range(bit_length(extent)):
            part = (step if isinstance(step, int) else step.scale) << bit
            if used.get(path, 0) & part:
                raise ValueError(f"the sums of {layout} carry from bit to bit, so it has no linear form")
            used[path] = used.get(path, 0) | part


def from_linear(linear: Linear) -> Layout:
    """The strided layout with a mode for each input, to the column-major index of the place.

    ValueError where two bases share a bit: then the layout has a swizzle, which strides cannot tell.
    """
    rows = linear.shape[0]
    used = 0
    modes = []
    for name in linear.names:
        steps = [row + column * rows for row, column in linear.bases(name)]
        for step in steps:
            if used & step:
                raise ValueError(f"bases of {linear} share a bit, so strides cannot tell it")
            used |= step
        modes.append(coalesce(layout_of([(2, step) for step in steps])))
    return modes[0] if len(modes) == 1 else joined(*modes)
