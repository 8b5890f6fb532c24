"""What tiles give along an axis: sums and extremes, where they are, and running values."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from gizml_tile.combining import built_in, trace_function
from gizml_tile.dtypes import F64, I32, I64, MASK, U32, DType, integer_range, math_dtype
from gizml_tile.helpful import Sizes
from gizml_tile.lifting import axis_of_tile, describe, flag, number, sizes
from gizml_tile.nodes import Combining, Const, Region, Sorting, broadcast
from gizml_tile.operators import Operators
from gizml_tile.pairs import Ordered
from gizml_tile.tracing import Value, article, fail, noun

_NAN_RULES = ("ignore", "propagate")


class AlongAxis(Operators):
    """Operations in which the elements along an axis of a tile meet.

    The axis is 0 (down the rows) or 1 (along the columns), or -2, -1. A reduction leaves it as size 1:
    ``[R, C].sum(1)`` is [R, 1].
    """

    __slots__ = ()

    @property
    def shape(self) -> tuple[builtins.int, builtins.int]:
        """(rows, columns)."""
        return Sizes(self._node.shape)

    def _make(self, op: str, operands: tuple[Any, ...], attr: Any = None) -> Any:
        raise NotImplementedError

    def sum(self, axis: object) -> Any:
        """The sum along an axis; masks are counted in I32."""
        return self._make("sum", (self,), axis_of_tile(axis, "sum"))

    def max(self, axis: object, *, nan: str = "ignore") -> Any:
        """The largest value along an axis; of a mask whether any is true.

        A NaN loses against a number; with ``nan="propagate"`` one NaN makes the result NaN.
        """
        return self._extreme("max", axis, nan)

    def min(self, axis: object, *, nan: str = "ignore") -> Any:
        """The smallest value along an axis; of a mask whether all are true.

        A NaN loses against a number; with ``nan="propagate"`` one NaN makes the result NaN.
        """
        return self._extreme("min", axis, nan)

    def any(self, axis: object) -> Any:
        """Of a mask: whether any element along an axis is true."""
        return self._of_mask("any", "max", axis)

    def all(self, axis: object) -> Any:
        """Of a mask: whether all elements along an axis are true."""
        return self._of_mask("all", "min", axis)

    def prod(self, axis: object) -> Any:
        """The product along an axis; integers wrap.

        Floats are multiplied in F32 in an order that may differ between devices: n of them are within
        (n - 1) * 2^-24 of the product, relative to it, where nothing overflows or underflows; F64 in F64,
        within (n - 1) * 2^-53.
        """
        along = axis_of_tile(axis, "prod")
        a = self._numbers("prod")
        return _reduced((a,), along, built_in("mul", a.dtype), commutative=True)[0]

    def argmax(self, axis: object) -> Any:
        """Where along an axis the largest value is, in I32: the lowest position of equal ones.

        A NaN loses against a number; where all are NaN it is 0. Zeros of both signs are equal.
        """
        return self._place("argmax", axis)

    def argmin(self, axis: object) -> Any:
        """Where along an axis the smallest value is, in I32: the lowest position of equal ones.

        A NaN loses against a number; where all are NaN it is 0. Zeros of both signs are equal.
        """
        return self._place("argmin", axis)

    def reduce(self, function: Callable[..., Any], axis: object, *others: object) -> Any:
        """All values along an axis combined by an associative function of two.

        ``a.reduce(lambda x, y: x + y, 1)``. With ``others``, tiles whose shapes broadcast, the values of one
        place belong together: ``a.reduce(f, 1, b)`` calls ``f(a1, b1, a2, b2)`` for an earlier and a
        later place, f gives the pair of both, and the result is the pair of all.

        The function computes element by element from its operands and numbers alone, and gives the types
        that it takes (F32, F64, I32, I64, U32 or U64). Earlier stands before later in every call, so it need
        not commute; which neighbours meet first may differ between devices.
        """
        along = axis_of_tile(axis, "reduce")
        return self._combined("reduce", function, along, others)

    def cumsum(self, axis: object, *, reverse: builtins.bool = False) -> Any:
        """The running sum along an axis: each element with all before it, or with all after it.

        Masks are counted in I32; integers wrap. Floats are added in F32 in an order that may differ between
        devices, within n * 2^-24 of the sum of the magnitudes of the n values in it; F64 in F64, n * 2^-53.
        """
        return self._running("cumsum", "add", axis, reverse)

    def cumprod(self, axis: object, *, reverse: builtins.bool = False) -> Any:
        """The running product along an axis; integers wrap, floats as for ``prod``."""
        return self._running("cumprod", "mul", axis, reverse)

    def cummax(self, axis: object, *, reverse: builtins.bool = False) -> Any:
        """The largest value so far along an axis, by the rule of ``maximum``."""
        return self._running("cummax", "maximum", axis, reverse)

    def cummin(self, axis: object, *, reverse: builtins.bool = False) -> Any:
        """The smallest value so far along an axis, by the rule of ``minimum``."""
        return self._running("cummin", "minimum", axis, reverse)

    def associative_scan(
        self, function: Callable[..., Any], axis: object, *others: object, reverse: builtins.bool = False
    ) -> Any:
        """Each value along an axis combined with all before it (with ``reverse``, after it) by a function.

        The function is as for ``reduce``; in a reversed scan later places are what it takes first. A linear
        recurrence h[t] = a[t] * h[t-1] + b[t] is a scan over pairs::

            _, h = a.associative_scan(lambda a1, b1, a2, b2: (a1 * a2, b1 * a2 + b2), 1, b)
        """
        along = axis_of_tile(axis, "associative_scan")
        return self._combined("associative_scan", function, along, others, reverse=flag(reverse, "reverse"))

    def sort(self, axis: object, *, descending: builtins.bool = False) -> Any:
        """The values along an axis in order, and where each of them was, in I32.

        ``values, places = a.sort(1)``. Equal elements keep their order; -0 stands before +0, the other way
        round if ``descending``. NaN come last in either direction.
        """
        along = axis_of_tile(axis, "sort")
        return self._sorted("sort", along, self.shape[along], flag(descending, "descending"))

    def topk(self, k: builtins.int, axis: object, *, largest: builtins.bool = True) -> Any:
        """The k largest values along an axis (or smallest), the first of them first, and their places in I32.

        They are the first k of ``sort``: of equal elements those of lower places, NaN only after all numbers.
        """
        along = axis_of_tile(axis, "topk")
        host, size = number(k), self.shape[along]
        if type(host) is not int or not 1 <= host <= size:
            fail(f"topk takes 1 to {size} of the {size} elements along axis {along}, found {describe(k)}")
        return self._sorted("topk", along, host, flag(largest, "largest"))

    def _sorted(self, name: str, axis: builtins.int, keep: builtins.int, descending: builtins.bool) -> Any:
        a = self._numbers(name)
        if a.shape[axis] == 1:
            return Ordered((a, a._make("const", (), Const(a.shape, I32, 0))))
        if a.dtype.is_unsigned:
            # With the highest bit inverted the order is that of numbers with a sign.
            signed = I32 if a.dtype is U32 else I64
            lowest = integer_range(signed)[0]
            values, places = a.to(signed).xor(lowest)._sorted(name, axis, keep, descending)
            return Ordered((values.xor(lowest).to(a.dtype), places))
        if a.dtype is F64:
            lowest, highest = integer_range(I64)
            keys = a.ne(a).select(lowest if descending else highest, _turned(a.bitcast(I64)))
            values, places = keys._sorted(name, axis, keep, descending)
            return Ordered((_turned(values).bitcast(F64), places))
        first = a._make("sort", (a,), Sorting(axis, descending, keep))
        return Ordered((first, first._make("part", (first,), 1)))

    def histogram(self, bins: builtins.int) -> Any:
        """How often each of 0, 1, ... bins - 1 is among the elements of an integer tile: [1, bins] in I32.

        Other values are not counted.
        """
        if not self._dtype.is_integer:
            fail(f"histogram counts integers, found {self._what()}; convert it with .to(I32)")
        found = sizes(bins, "histogram")
        if len(found) != 1:
            fail(f"histogram takes the number of bins, as in x.histogram(16), found {describe(bins)}")
        return self._make("histogram", (self,), found[0])

    def _extreme(self, op: str, axis: object, nan: str) -> Any:
        along = axis_of_tile(axis, op)
        if not isinstance(nan, str) or nan not in _NAN_RULES:
            fail(f'nan of {op} is "ignore" or "propagate", found {describe(nan)}')
        result = self._make(op, (self,), along)
        if nan == "ignore" or not self._dtype.is_float:
            return result
        return self._operate("ne", self, self).max(along).select(math.nan, result)

    def _of_mask(self, name: str, op: str, axis: object) -> Any:
        if self._dtype is not MASK:
            fail(f"{name} needs a mask, found {self._what()}; make one by comparing, as in x.ne(0)")
        return self._make(op, (self,), axis_of_tile(axis, name))

    def _place(self, name: str, axis: object) -> Any:
        along = axis_of_tile(axis, name)
        a = self._numbers(name)
        size = a.shape[along]
        position = a._make("iota", (), Const(a.shape, I32, along))
        best = a._make("max" if name == "argmax" else "min", (a,), along)
        found = a.eq(best).select(position, size).min(along)
        # Where all are NaN nothing equals the best.
        return found.lt(size).select(found, 0) if a.dtype.is_float else found

    def _running(self, name: str, op: str, axis: object, reverse: object) -> Any:
        along = axis_of_tile(axis, name)
        counts = name == "cumsum" and self._dtype is MASK
        a = self._make("to", (self,), I32) if counts else self._numbers(name)
        how = Combining(along, built_in(op, a.dtype), flag(reverse, "reverse"), commutative=True)
        return _scanned((a,), how)[0]

    def _combined(
        self,
        name: str,
        function: Callable[..., Any],
        along: int,
        others: tuple[object, ...],
        *,
        reverse: builtins.bool = False,
    ) -> Any:
        if isinstance(function, Value) or not callable(function):
            fail(
                f"{name} takes a function of two values and then the axis, as in "
                f"x.{name}(lambda a, b: a + b, 1), found {describe(function)}"
            )
        tiles = [self._numbers(name)]
        for other in others:
            if not isinstance(other, AlongAxis):
                fail(f"{name} takes tiles after the axis, found {describe(other)}")
            tiles.append(other._numbers(name))
        shape = broadcast(*(tile.shape for tile in tiles))
        if shape is None:
            found = " and ".join(str(list(tile.shape)) for tile in tiles)
            fail(f"{name} needs shapes whose sizes are equal or 1, found {found}")
        tiles = [tile if tile.shape == shape else tile.broadcast_to(shape) for tile in tiles]
        trace = self._block.trace
        dtypes = tuple(tile.dtype for tile in tiles)
        region = trace_function(trace, function, dtypes, type(tiles[0]), name)
        if name == "reduce":
            results = _reduced(tuple(tiles), along, region)
        else:
            results = _scanned(tuple(tiles), Combining(along, region, reverse))
        return results if others else results[0]

    def _numbers(self, name: str) -> Any:
        """The tile in the type that mathematics on it is done in."""
        if self._dtype is MASK:
            fail(f"{name} does not take {article(noun(self._node))}; convert it with .to(I32)")
        kind = math_dtype(self._dtype)
        return self if kind is self._dtype else self._make("to", (self,), kind)

    @property
    def _dtype(self) -> DType:
        assert self._node.dtype is not None
        return self._node.dtype


def _turned(bits: Any) -> Any:
    """The bits of F64 as integers of the same order, and back."""
    return bits.xor(bits.shr(63).and_(integer_range(I64)[1]))


def _reduced(
    tiles: tuple[Any, ...], axis: int, function: Region, *, commutative: bool = False
) -> tuple[Any, ...]:
    if tiles[0].shape[axis] == 1:
        return tiles
    return _several("reduce", tiles, Combining(axis, function, commutative=commutative))


def _scanned(tiles: tuple[Any, ...], how: Combining) -> tuple[Any, ...]:
    return tiles if tiles[0].shape[how.axis] == 1 else _several("scan", tiles, how)


def _several(op: str, tiles: tuple[Any, ...], attr: Any) -> tuple[Any, ...]:
    """The values of a node that has one for each of some tiles."""
    first = tiles[0]._make(op, tiles, attr)
    return (first, *(first._make("part", (first,), number) for number in range(1, len(tiles))))
