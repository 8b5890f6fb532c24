"""Strided layouts: functions from coordinates to indices, with shape, stride and swizzle."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from gizml_tile.layout import tuples
from gizml_tile.layout.tuples import Basis, IntTuple, get_leaves, is_congruent, leafwise, like, text


@dataclass(frozen=True, slots=True)
class Layout:
    """Shape and stride: a coordinate maps to the sum of its numbers times their strides.

    ``Layout((4, 8), (1, 4))`` prints as ``(4,8):(1,4)``. Shape and stride nest alike. A number where a
    tuple could stand is unpacked with the leftmost mode fastest (column-major). With strides that are
    basis elements the result is a coordinate.
    """

    shape: IntTuple
    stride: IntTuple

    def __post_init__(self) -> None:
        tuples.make_shape(self.shape)
        tuples.make_stride(self.stride)
        if not is_congruent(self.shape, self.stride):
            raise ValueError(f"shape {text(self.shape)} and stride {text(self.stride)} must nest alike")
        steps = get_leaves(self.stride)
        if any(isinstance(step, Basis) for step in steps) and any(
            isinstance(step, int) and step for step in steps
        ):
            raise ValueError(f"strides are all numbers or all basis elements, found {text(self.stride)}")

    def __call__(self, *coordinate: Any) -> Any:
        """The index of a coordinate: ``layout(1, 2)``, ``layout((1, 2))`` or, unpacked, ``layout(9)``."""
        return crd2idx(coordinate[0] if len(coordinate) == 1 else coordinate, self)

    def __getitem__(self, coordinate: Any) -> Layout:
        """The layout of the modes with a wildcard: ``layout[None, 2]``."""
        from gizml_tile.layout.modes import slice  # which builds on this module

        kept: Layout = slice(self, coordinate)
        return kept

    def _repr_svg_(self) -> str:
        """The picture that a notebook shows."""
        from gizml_tile.layout.pictures import draw  # which builds on this module

        return draw(self, form="svg")

    def __str__(self) -> str:
        return f"{text(self.shape)}:{text(self.stride)}"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Swizzle:
    """Flips bits of an index by higher ones, against bank conflicts.

    The ``mask`` bits from ``base + shift`` up are xored into those from ``base`` up. A negative shift
    xors the lower field into the upper one. The fields must not overlap, so applying it twice changes
    nothing.
    """

    mask: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if self.mask < 0 or self.base < 0 or abs(self.shift) < self.mask:
            raise ValueError(
                f"a swizzle has mask and base of 0 or more bits and a shift of at least mask, found {self}"
            )

    def __call__(self, index: Any) -> Any:
        field = ((1 << self.mask) - 1) << self.base
        if self.shift < 0:
            return index ^ ((index & field) << -self.shift)
        return index ^ ((index >> self.shift) & field)

    def __str__(self) -> str:
        return f"S<{self.mask},{self.base},{self.shift}>"


@dataclass(frozen=True, slots=True)
class CoordSwizzle:
    """Flips bits of one number of a coordinate by those of another.

    The ``mask`` bits from ``base_row`` up of the number at path ``mode_row`` are xored into the bits
    from ``base_col`` up of the number at path ``mode_col``.
    """

    mask: int
    base_row: int
    mode_row: tuple[int, ...]
    base_col: int
    mode_col: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.mode_row == self.mode_col or min(self.mask, self.base_row, self.base_col) < 0:
            raise ValueError(f"a coordinate swizzle needs two modes and bits from 0 up, found {self}")

    def __call__(self, coordinate: Any) -> Any:
        row = coordinate
        for number in self.mode_row:
            row = row[number]
        flipped = (row >> self.base_row & (1 << self.mask) - 1) << self.base_col

        def walk(value: Any, path: tuple[int, ...]) -> Any:
            if not path:
                return value ^ flipped
            return (*value[: path[0]], walk(value[path[0]], path[1:]), *value[path[0] + 1 :])

        return walk(coordinate, self.mode_col)

    def __str__(self) -> str:
        row, column = (list(path) for path in (self.mode_row, self.mode_col))
        return f"CS<{self.mask},{self.base_row},{row},{self.base_col},{column}>"


@dataclass(frozen=True, slots=True)
class ComposedLayout:
    """A layout, an offset that is added, then a swizzle or another layout: ``inner(offset + outer(x))``."""

    inner: Any
    offset: Any
    outer: Any

    def __call__(self, *coordinate: Any) -> Any:
        middle = self.outer(*coordinate)
        if self.offset != 0:
            middle = leafwise(lambda first, second: first + second, self.offset, middle, what="offset")
        return self.inner(middle)

    def __getitem__(self, coordinate: Any) -> ComposedLayout:
        """The modes with a wildcard; the others' part goes into the offset."""
        from gizml_tile.layout.modes import slice  # which builds on this module

        kept: ComposedLayout = slice(self, coordinate)
        return kept

    @property
    def shape(self) -> IntTuple:
        shape: IntTuple = self.outer.shape
        return shape

    def _repr_svg_(self) -> str:
        """The picture that a notebook shows."""
        from gizml_tile.layout.pictures import draw  # which builds on this module

        return draw(self, form="svg")

    def __str__(self) -> str:
        return f"{self.inner} o {text(self.offset)} o {self.outer}"


AnyLayout: TypeAlias = Layout | ComposedLayout


def make_layout(shape: Any, stride: Any = None) -> Layout:
    """A layout from a shape and a stride that nests alike; without one, compact and column-major."""
    if stride is None:
        return make_ordered_layout(shape, 0)
    return Layout(tuples.make_shape(shape), tuples.make_stride(stride))


def make_ordered_layout(shape: Any, order: Any) -> Layout:
    """The layout without gaps whose modes vary in a given order, the smallest fastest.

    ``make_ordered_layout((4, 8), (1, 0))`` is row-major; one number orders a whole mode, column-major.
    """
    shape = tuples.make_shape(shape)
    keys = get_leaves(_spread(order, shape))
    extents = get_leaves(shape)
    steps = [0] * len(extents)
    current = 1
    for leaf in sorted(range(len(extents)), key=lambda leaf: keys[leaf]):
        steps[leaf] = current
        current *= extents[leaf]
    return Layout(shape, like(iter(steps), shape))


def _spread(order: Any, shape: Any) -> Any:
    """The order at each leaf of the shape."""
    if not isinstance(shape, tuple):
        if isinstance(order, tuple):
            raise ValueError(f"order {text(order)} is nested deeper than the shape {text(shape)}")
        return order
    parts = order if isinstance(order, tuple) else (order,) * len(shape)
    if len(parts) != len(shape):
        raise ValueError(f"order {text(order)} must name each mode of the shape {text(shape)}")
    return tuple(map(_spread, parts, shape))


def make_layout_like(layout: Layout) -> Layout:
    """The layout without gaps of the same shape and order of strides; strides of 0 stay 0."""
    extents, steps = get_leaves(layout.shape), get_leaves(layout.stride)
    if any(isinstance(step, Basis) for step in steps):
        raise ValueError(f"make_layout_like needs strides that are numbers, found {layout}")
    packed = [0] * len(steps)
    current = 1
    for leaf in sorted(range(len(steps)), key=lambda leaf: steps[leaf]):
        if steps[leaf]:
            packed[leaf] = current
            current *= extents[leaf]
    return Layout(layout.shape, like(iter(packed), layout.shape))


def make_identity_layout(shape: Any) -> Layout:
    """The layout whose result is the coordinate itself: ``(4,8):(E0,E1)``."""
    shape = tuples.make_shape(shape)
    if not isinstance(shape, tuple):
        return Layout(shape, 1)
    return Layout(shape, like(iter([Basis(1, path) for path in tuples.paths_of(shape)]), shape))


def make_composed_layout(inner: Any, *rest: Any) -> ComposedLayout:
    """From ``(inner, outer)`` or ``(inner, offset, outer)``: x to ``inner(offset + outer(x))``."""
    if len(rest) not in (1, 2):
        raise ValueError(
            f"make_composed_layout takes inner, maybe an offset, and outer; found {1 + len(rest)}"
        )
    outer = rest[-1]
    if not isinstance(outer, Layout | ComposedLayout):
        raise ValueError(f"the outer layout comes last, found {outer!r}")
    if not isinstance(inner, Swizzle | CoordSwizzle | Layout | ComposedLayout):
        raise ValueError(f"the inner part is a swizzle or a layout, found {inner!r}")
    return ComposedLayout(inner, rest[0] if len(rest) == 2 else 0, outer)


def crd2idx(coordinate: Any, layout: Any, stride: Any = None) -> Any:
    """The index of a coordinate in a layout, or in a shape with a stride (compact if left out).

    A number where the shape has a tuple is unpacked, the leftmost mode fastest; what it counts beyond
    the shape goes to the last mode.
    """
    if isinstance(layout, ComposedLayout):
        return layout(coordinate)
    if not isinstance(layout, Layout):
        layout = make_layout(layout, stride)
    terms: list[tuple[Any, Any]] = []
    if not _gather(coordinate, layout.shape, layout.stride, terms):
        raise ValueError(f"the coordinate {text(coordinate)} does not fit the shape {text(layout.shape)}")
    if not any(isinstance(step, Basis) for _, step in terms):
        return sum((part * step for part, step in terms), start=0) if terms else coprofile(layout)
    total = coprofile(layout)
    for part, step in terms:
        total = _plus(total, part * step.scale, step.path)
    return total


def _gather(part: Any, shape: Any, stride: Any, terms: list[tuple[Any, Any]]) -> bool:
    """Each number of a coordinate with its stride, those of stride 0 left out; whether it fits the shape."""
    if not isinstance(shape, tuple):
        if stride != 0:
            terms.append((part, stride))
        return part is not None and not isinstance(part, tuple)
    if isinstance(part, tuple):
        return len(part) == len(shape) and all(
            _gather(*each, terms) for each in zip(part, shape, stride, strict=True)
        )
    if part is None:
        return False
    last = len(shape) - 1
    for number, (mode, steps) in enumerate(zip(shape, stride, strict=True)):
        if number == last:
            _gather(part, mode, steps, terms)
        else:
            extent = tuples.int_tuple_product(mode)
            _gather(part % extent, mode, steps, terms)
            part = part // extent
    return True


def _plus(total: Any, amount: Any, path: tuple[int, ...]) -> Any:
    if not path:
        return total + amount
    first, *_ = path
    return (*total[:first], _plus(total[first], amount, path[1:]), *total[first + 1 :])


def idx2crd(index: Any, layout: Any, stride: Any = None) -> Any:
    """The coordinate of an index: for each leaf, ``(index // stride) % extent``; 0 for a stride of 0.

    It inverts compact layouts; for a shape alone, the compact column-major layout is meant.
    """
    if isinstance(layout, ComposedLayout):
        raise ValueError(f"idx2crd is not defined for a composed layout: {layout}")
    if not isinstance(layout, Layout):
        layout = make_layout(layout, stride)

    def number(extent: int, step: Any) -> Any:
        if isinstance(step, Basis):
            part = index
            for axis in step.path:
                part = part[axis]
            return part // step.scale % extent
        return index // step % extent if step else 0

    return leafwise(number, layout.shape, layout.stride, what="idx2crd")


def get_flat_coord(index: Any, layout: Layout) -> tuple[Any, ...]:
    """The coordinate of an index without nesting."""
    return get_leaves(idx2crd(index, layout))


def get_1d_coord(index: Any, layout: Layout) -> Any:
    """The coordinate of an index as one number, the leftmost mode fastest."""
    return crd2idx(idx2crd(index, layout), layout.shape)


def size(value: Any) -> int:
    """How many coordinates a layout or a shape has."""
    return tuples.int_tuple_product(value.shape if isinstance(value, Layout | ComposedLayout) else value)


def coprofile(layout: AnyLayout) -> Any:
    """Zeros nested as the layout's results are: 0, or ``(0, 0)`` for coordinates of two axes."""
    if isinstance(layout, ComposedLayout):
        if isinstance(layout.inner, Swizzle | CoordSwizzle):
            return coprofile(layout.outer)
        return coprofile(layout.inner)
    paths = [step.path for step in get_leaves(layout.stride) if isinstance(step, Basis)]

    def zeros(paths: list[tuple[int, ...]]) -> Any:
        paths = [path for path in paths if path]
        if not paths:
            return 0
        axes = range(1 + max(path[0] for path in paths))
        return tuple(zeros([path[1:] for path in paths if path[0] == axis]) for axis in axes)

    return zeros(paths)


def coshape(layout: AnyLayout) -> Any:
    """One more than the largest result, along each axis."""
    if isinstance(layout, ComposedLayout):
        results = [layout(index) for index in range(size(layout))]
        return leafwise(lambda *each: 1 + max(each), *results, what="coshape")
    top = crd2idx(leafwise(lambda extent: extent - 1, layout.shape, what="coshape"), layout)
    return leafwise(lambda number: number + 1, top, what="coshape")


def cosize(layout: AnyLayout) -> int:
    """How many elements memory needs from index 0 to the largest one."""
    return prod(get_leaves(coshape(layout)))
