"""The modes of layouts and nested tuples: look at them, pick them, put them together."""

from __future__ import annotations

from typing import Any

from gizml_tile.layout.algebra import ComposedLayout, Layout, crd2idx
from gizml_tile.layout.tuples import depth_of, leafwise, rank_of, text


def get_shape(layout: Layout | ComposedLayout) -> Any:
    """The extents of a layout's modes."""
    return layout.shape


def get_stride(layout: Layout) -> Any:
    """The strides of a layout's modes."""
    if not isinstance(layout, Layout):
        raise ValueError(f"only a plain layout has a stride, found {layout}")
    return layout.stride


def rank(value: Any) -> int:
    """The number of modes of a layout or a nested tuple; 1 for a number."""
    return rank_of(_shape(value))


def depth(value: Any) -> int:
    """How deep a layout or a tuple nests; 0 for a number."""
    return depth_of(_shape(value))


def _shape(value: Any) -> Any:
    return value.shape if isinstance(value, Layout | ComposedLayout) else value


def _edit(value: Any, edit: Any) -> Any:
    """An edit of a tuple, for layouts done to shape and stride alike."""
    match value:
        case Layout():
            return Layout(edit(value.shape), edit(value.stride))
        case ComposedLayout():
            return ComposedLayout(value.inner, value.offset, _edit(value.outer, edit))
        case _:
            return edit(value)


def modes_of(value: Any) -> tuple[Any, ...]:
    """Each mode of a layout or a tuple by itself; a single mode is the whole."""
    shape = _shape(value)
    return (
        tuple(get_(value, number) for number in range(len(shape))) if isinstance(shape, tuple) else (value,)
    )


def joined(*layouts: Layout) -> Layout:
    """The layout whose modes are the given layouts: their results add up."""
    return Layout(tuple(each.shape for each in layouts), tuple(each.stride for each in layouts))


def get_(value: Any, *path: int) -> Any:
    """One mode, or a mode within a mode: ``get_((4, (2, 8)), 1, 0)`` is 2."""

    def edit(part: Any) -> Any:
        for number in path:
            modes = part if isinstance(part, tuple) else (part,)
            if not 0 <= number < len(modes):
                raise ValueError(f"there is no mode {number} in {text(part)}")
            part = modes[number]
        return part

    return _edit(value, edit)


def take(value: Any, begin: int, end: int) -> Any:
    """The modes from ``begin`` to before ``end``."""
    return select(value, range(begin, end))


def select(value: Any, indices: Any) -> Any:
    """The modes with the given numbers, in that order."""

    def edit(part: Any) -> Any:
        return tuple(get_(part, number) for number in indices)

    return _edit(value, edit)


def group(value: Any, begin: int, end: int) -> Any:
    """The modes from ``begin`` to before ``end`` made one: ``group((2, 3, 4), 1, 3)`` is ``(2, (3, 4))``."""
    if not 0 <= begin < end <= rank(value):
        raise ValueError(f"group {begin} to {end} does not fit the {rank(value)} modes of {_told(value)}")

    def edit(part: Any) -> Any:
        modes = part if isinstance(part, tuple) else (part,)
        return (*modes[:begin], modes[begin:end], *modes[end:])

    return _edit(value, edit)


def append(value: Any, element: Any, n: int | None = None) -> Any:
    """One more mode at the end; with ``n``, as many as make that rank."""
    return _grown(value, element, n, at_the_end=True)


def prepend(value: Any, element: Any, n: int | None = None) -> Any:
    """One more mode at the start; with ``n``, as many as make that rank."""
    return _grown(value, element, n, at_the_end=False)


def _grown(value: Any, element: Any, n: int | None, at_the_end: bool) -> Any:
    times = 1 if n is None else n - rank(value)
    if times < 0:
        raise ValueError(f"{_told(value)} has more than {n} modes")
    if times == 0:
        return value

    def edit(part: Any, more: Any) -> Any:
        modes = part if isinstance(part, tuple) else (part,)
        added = (more,) * times
        return (*modes, *added) if at_the_end else (*added, *modes)

    match value:
        case Layout():
            if not isinstance(element, Layout):
                raise ValueError(f"a layout grows by a layout, found {element!r}")
            return Layout(edit(value.shape, element.shape), edit(value.stride, element.stride))
        case ComposedLayout():
            return ComposedLayout(value.inner, value.offset, _grown(value.outer, element, n, at_the_end))
        case _:
            return edit(value, element)


def _told(value: Any) -> str:
    return text(value) if isinstance(value, tuple) else str(value)


def slice(value: Any, coordinate: Any) -> Any:
    """The modes where a coordinate has a wildcard (None): ``slice(layout, (None, 2))``.

    A layout loses the constant that the fixed modes add, which ``slice_and_offset`` gives too; a
    composed layout keeps it in its offset.
    """
    if isinstance(value, ComposedLayout) and isinstance(value.outer, ComposedLayout):
        return ComposedLayout(value.inner, value.offset, slice(value.outer, coordinate))
    if isinstance(value, ComposedLayout):
        outer, offset = slice_and_offset(value.outer, coordinate)
        added = leafwise(lambda first, second: first + second, value.offset, offset, what="slice")
        return ComposedLayout(value.inner, added, outer)
    return _edit(value, lambda part: _alone(_picked(part, coordinate, wildcards=True)))


def slice_and_offset(layout: Layout, coordinate: Any) -> tuple[Layout, Any]:
    """The sliced layout, and the index that the fixed modes add to it."""
    fixed = _zeroed(coordinate, layout.shape)
    return slice(layout, coordinate), crd2idx(fixed, layout)


def dice(value: Any, coordinate: Any) -> Any:
    """The modes where a coordinate has a number, the opposite of ``slice``."""
    return _edit(value, lambda part: _alone(_picked(part, coordinate, wildcards=False)))


def _picked(part: Any, coordinate: Any, wildcards: bool) -> tuple[Any, ...]:
    """The modes that a coordinate picks, nested modes flattened into their parent's."""
    if isinstance(coordinate, tuple):
        modes = part if isinstance(part, tuple) else (part,)
        if len(modes) != len(coordinate):
            raise ValueError(f"the coordinate {text(coordinate)} does not fit {text(part)}")
        pairs = zip(modes, coordinate, strict=True)
        return tuple(mode for each, where in pairs for mode in _kept(each, where, wildcards))
    return _kept(part, coordinate, wildcards)


def _kept(mode: Any, where: Any, wildcards: bool) -> tuple[Any, ...]:
    if isinstance(where, tuple):
        found = _picked(mode, where, wildcards)
        return (_alone(found),) if found else ()
    return (mode,) if (where is None) == wildcards else ()


def _alone(modes: tuple[Any, ...]) -> Any:
    return modes[0] if len(modes) == 1 else modes


def _zeroed(coordinate: Any, shape: Any) -> Any:
    """The coordinate with zeros for wildcards."""
    if isinstance(coordinate, tuple):
        modes = shape if isinstance(shape, tuple) else (shape,)
        if len(modes) != len(coordinate):
            raise ValueError(f"the coordinate {text(coordinate)} does not fit {text(shape)}")
        zeroed = tuple(map(_zeroed, coordinate, modes))
        return zeroed if isinstance(shape, tuple) else zeroed[0]
    return 0 if coordinate is None else coordinate
