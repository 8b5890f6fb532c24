"""Nested tuples of whole numbers: shapes, strides and coordinates of the layout algebra."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Basis:
    """A stride along one axis of a coordinate: ``2 * E(1)`` steps by two along axis 1."""

    scale: int
    path: tuple[int, ...]  # the axis, then the axis within it where axes nest

    def __mul__(self, other: int) -> Basis:
        return Basis(self.scale * other, self.path)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> Basis:
        return Basis(self.scale // other, self.path)

    def __str__(self) -> str:
        return f"{'' if self.scale == 1 else self.scale}E{'.'.join(map(str, self.path))}"

    __repr__ = __str__


IntTuple: TypeAlias = "int | Basis | tuple[IntTuple, ...]"


def E(*path: int) -> Basis:
    """The unit step along an axis, so that a layout's result is a coordinate: ``E(0)``, ``E(1, 0)``."""
    if not path or not all(isinstance(each, int) and each >= 0 for each in path):
        raise ValueError(f"E takes the number of an axis, found {path}")
    return Basis(1, path)


def make_int_tuple(*modes: Any) -> IntTuple:
    """A nested tuple of its arguments; a single number stays a number."""
    checked = tuple(_checked(mode) for mode in modes)
    return checked[0] if len(checked) == 1 else checked


def make_shape(*modes: Any) -> IntTuple:
    """A shape from its modes: ``make_shape(9, (4, 8))`` is ``(9, (4, 8))``; extents are 1 or more."""
    shape = make_int_tuple(*modes)
    for extent in get_leaves(shape):
        if not isinstance(extent, int) or extent < 1:
            raise ValueError(f"an extent is a whole number from 1, found {extent} in {text(shape)}")
    return shape


def make_stride(*modes: Any) -> IntTuple:
    """A stride from its modes; strides are whole numbers from 0, or basis elements."""
    stride = make_int_tuple(*modes)
    for step in get_leaves(stride):
        if (step.scale if isinstance(step, Basis) else step) < 0:
            raise ValueError(f"a stride is 0 or more, found {step} in {text(stride)}")
    return stride


def make_coord(*modes: Any) -> Any:
    """A coordinate from its modes; None is a wildcard."""
    return modes[0] if len(modes) == 1 else modes


def _checked(value: Any) -> IntTuple:
    if isinstance(value, tuple):
        return tuple(_checked(each) for each in value)
    if isinstance(value, Basis) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"expected a whole number or a tuple of them, found {value!r}")


def get_leaves(value: Any) -> tuple[Any, ...]:
    """The numbers of a nested tuple in order, without its nesting."""
    if isinstance(value, tuple):
        return tuple(leaf for each in value for leaf in get_leaves(each))
    return (value,)


def rank_of(value: Any) -> int:
    return len(value) if isinstance(value, tuple) else 1


def depth_of(value: Any) -> int:
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, tuple) else 0


def is_congruent(first: Any, second: Any) -> bool:
    """Whether two nested tuples nest alike."""
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(map(is_congruent, first, second))
    return not isinstance(first, tuple) and not isinstance(second, tuple)


def text(value: Any) -> str:
    """A nested tuple without blanks: ``(4,(2,8))``, with ``_`` for a wildcard."""
    if isinstance(value, tuple):
        return f"({','.join(map(text, value))})"
    return "_" if value is None else str(value)


def leafwise(function: Callable[..., Any], *values: Any, what: str) -> Any:
    """A function of the leaves at each place; a number stands at every place of the others."""
    ranks = {len(value) for value in values if isinstance(value, tuple)}
    if not ranks:
        return function(*values)
    if len(ranks) > 1:
        raise ValueError(f"{what} needs tuples that nest alike, found {' and '.join(map(text, values))}")
    rank = ranks.pop()
    spread = [value if isinstance(value, tuple) else (value,) * rank for value in values]
    return tuple(leafwise(function, *each, what=what) for each in zip(*spread, strict=True))


def int_tuple_add(first: Any, second: Any) -> Any:
    """Leaf by leaf, the sum."""
    return leafwise(operator.add, first, second, what="int_tuple_add")


def int_tuple_sub(first: Any, second: Any) -> Any:
    """Leaf by leaf, the difference."""
    return leafwise(operator.sub, first, second, what="int_tuple_sub")


def int_tuple_mul(first: Any, second: Any) -> Any:
    """Leaf by leaf, the product."""
    return leafwise(operator.mul, first, second, what="int_tuple_mul")


def int_tuple_div(first: Any, second: Any) -> Any:
    """Leaf by leaf, the quotient rounded down."""
    return leafwise(operator.floordiv, first, second, what="int_tuple_div")


def int_tuple_mod(first: Any, second: Any) -> Any:
    """Leaf by leaf, the remainder."""
    return leafwise(operator.mod, first, second, what="int_tuple_mod")


def int_tuple_product(value: Any) -> int:
    """The product of all leaves."""
    return prod(get_leaves(value))


def int_tuple_product_each(value: Any) -> Any:
    """The product of each mode: ``((2, 3), (4, 5))`` gives ``(6, 20)``."""
    return tuple(map(int_tuple_product, value)) if isinstance(value, tuple) else value


def int_tuple_product_like(value: Any, guide: Any) -> Any:
    """The product at each leaf of a guide: ``((2, 3), 4)`` like ``(0, 0)`` gives ``(6, 4)``."""
    if not isinstance(guide, tuple):
        return int_tuple_product(value)
    if not isinstance(value, tuple) or len(value) != len(guide):
        raise ValueError(f"int_tuple_product_like: {text(value)} has no place for each leaf of {text(guide)}")
    return tuple(map(int_tuple_product_like, value, guide))


def shape_div(first: Any, second: Any) -> Any:
    """A shape with an extent divided out, from the left: ``(4, 8)`` by 8 gives ``(1, 4)``.

    Tuples that nest alike divide leaf by leaf; each division is exact or gives 1.
    """
    if isinstance(first, tuple) and not isinstance(second, tuple):
        return _divided_from_the_left(first, second, shape_div)
    if isinstance(second, tuple) and not isinstance(first, tuple):
        return shape_div(first, int_tuple_product(second))

    def exact(dividend: int, divisor: int) -> int:
        if divisor and dividend % divisor == 0:
            return dividend // divisor
        if dividend and divisor % dividend == 0:
            return 1
        raise ValueError(f"shape_div: neither of {dividend} and {divisor} divides the other")

    return leafwise(exact, first, second, what="shape_div")


def ceil_div(first: Any, second: Any) -> Any:
    """Quotients rounded up: how many of ``second`` cover ``first``; a number divides from the left."""
    if isinstance(first, tuple) and not isinstance(second, tuple):
        return _divided_from_the_left(first, second, ceil_div)
    if isinstance(second, tuple) and not isinstance(first, tuple):
        return ceil_div(first, int_tuple_product(second))
    return leafwise(lambda dividend, divisor: -(-dividend // divisor), first, second, what="ceil_div")


def _divided_from_the_left(shape: tuple[Any, ...], divisor: int, divide: Callable[[Any, Any], Any]) -> Any:
    result = []
    for mode in shape:
        result.append(divide(mode, divisor))
        divisor = divide(divisor, int_tuple_product(mode))
    return tuple(result)


def elem_less(first: Any, second: Any) -> bool:
    """Whether every leaf is less: ``elem_less(coordinate, shape)`` tells that a coordinate is inside."""
    return all(get_leaves(leafwise(operator.lt, first, second, what="elem_less")))


def equal(first: Any, second: Any) -> bool:
    """Whether two nested tuples nest alike and have the same leaves."""
    return is_congruent(first, second) and get_leaves(first) == get_leaves(second)


def paths_of(value: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """The way to each leaf, in order."""
    if isinstance(value, tuple):
        for number, each in enumerate(value):
            yield from paths_of(each, (*path, number))
    else:
        yield path


def like(leaves: Iterator[Any], guide: Any) -> Any:
    """The leaves nested as a guide is."""
    return tuple(like(leaves, each) for each in guide) if isinstance(guide, tuple) else next(leaves)
