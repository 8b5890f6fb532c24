"""The shape of tiles: the same elements in other places, and parts of tiles put together."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gizml_tile.dtypes import MASK, DType
from gizml_tile.lifting import axis_of_tile, describe, number, tile_shape
from gizml_tile.nodes import Const, Slice, Steps, broadcast, promote
from gizml_tile.operators import Operators
from gizml_tile.pairs import Halves
from gizml_tile.tracing import Value, article, fail, noun

if TYPE_CHECKING:
    from gizml_tile.tile import Tile


class Shaping(Operators):
    """What tiles can do with their shape. None of it computes: each element keeps its bits and type."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[builtins.int, builtins.int]: ...

        @property
        def dtype(self) -> DType: ...

        def _make(self, op: str, operands: tuple[Tile, ...], attr: Any = None) -> Tile: ...

    @property
    def T(self) -> Tile:
        """The transposed tile."""
        return self.transpose()

    def transpose(self) -> Tile:
        """Rows become columns."""
        return self._make("transpose", (self._tile(),))

    def reshape(self, shape: object) -> Tile:
        """The elements in another shape, row by row as NumPy: [R, C].reshape([R * C // 8, 8]).

        ``shape`` is [rows, columns], or one size [C] for the row [1, C]; one of them may be -1 for what is
        left. A shape of another number of elements is an error.
        """
        wanted = self._new_shape(shape)
        if math.prod(wanted) != math.prod(self.shape):
            fail(
                f"reshape keeps the number of elements, found {list(self.shape)} to {list(wanted)}, which is "
                f"{math.prod(self.shape)} to {math.prod(wanted)}; take parts with t[a:b], or repeat with "
                "broadcast_to or concat"
            )
        return self._make("reshape", (self._tile(),), wanted) if wanted != self.shape else self._tile()

    def broadcast_to(self, shape: object) -> Tile:
        """The tile stretched to a shape along the axes where it has size 1: [R, 1] to [R, C]."""
        wanted = tile_shape(shape, "broadcast_to")
        if broadcast(self.shape, wanted) != wanted:
            fail(
                f"broadcast_to stretches sizes of 1 only, found {list(self.shape)} to {list(wanted)}; "
                "repeat a tile with concat"
            )
        return self._stretched(wanted)

    def concat(self, other: object, axis: object) -> Tile:
        """self and then other along an axis, as NumPy's ``concatenate``: rows below rows for axis 0.

        Along the other axis size 1 stretches. Of two types that mix the result has the common one.
        """
        return self._joined("concat", other, axis)

    def interleave(self, other: object, axis: object) -> Tile:
        """The elements of self and other in turn along an axis: a0 b0 a1 b1 ... along the columns for axis 1.

        Size 1 stretches. Of two types that mix the result has the common one. ``deinterleave`` takes the
        two apart.
        """
        return self._joined("interleave", other, axis)

    def split(self, axis: object) -> tuple[Tile, Tile]:
        """The first and the second half along an axis: [R, C].split(1) gives two of [R, C / 2]."""
        number, half = self._halved(axis, "split")
        return Halves((self._taken(number, Steps(0, 1, half)), self._taken(number, Steps(half, 1, half))))

    def deinterleave(self, axis: object) -> tuple[Tile, Tile]:
        """Every second element along an axis, from the first and the second on: undoes ``interleave``."""
        number, half = self._halved(axis, "deinterleave")
        return Halves((self._taken(number, Steps(0, 2, half)), self._taken(number, Steps(1, 2, half))))

    def flip(self, axis: object) -> Tile:
        """The elements in reverse order along an axis."""
        number = axis_of_tile(axis, "flip")
        size = self.shape[number]
        return self._taken(number, Steps(size - 1, -1, size))

    def __getitem__(self, key: object) -> Tile:
        """``t[a:b, c:d]``: the rows from a up to b and of these the columns from c up to d, as NumPy.

        Bounds and steps are host integers and count from the end where negative, ``t[a:b]`` has all columns,
        ``t[::-1]`` the rows backwards. Any start will do; what begins at a multiple of its own size moves
        nothing if the lowering can lay the tile out so. An integer, which would drop an axis, is an error.
        """
        items = key if isinstance(key, tuple) else (key,)
        if len(items) > 2:
            fail(f"{self._what()} has two axes, found {len(items)} slices; write t[a:b, c:d]")
        found = [
            self._steps(item, size) for item, size in zip((*items, slice(None)), self.shape, strict=False)
        ]
        return self._sliced(found[0], found[1])

    def _steps(self, item: object, size: int) -> Steps:
        """A slice of an axis as the elements that it takes."""
        if not isinstance(item, slice):
            host = number(item)
            hint = "write t[a:b], and values chosen by position come with m.select(yes, no)"
            if type(host) is int and host >= 0:
                hint = hint.replace("write t[a:b]", f"t[{host}:{host + 1}] keeps the axis")
            elif item is None:
                hint = (
                    "a tile always has two axes: a row [1, C] and a column [R, 1] stretch beside other "
                    "tiles, and x.T or x.reshape([R, 1]) makes one of the other"
                )
            fail(f"elements of {self._what()} are taken by slices, found {describe(item)}; {hint}")
        bounds = [None if each is None else number(each) for each in (item.start, item.stop, item.step)]
        for each, host in zip((item.start, item.stop, item.step), bounds, strict=True):
            if each is not None and type(host) is not int:
                fail(
                    f"the bounds of a tile's slice are Python integers, found {describe(each)}; blocks at "
                    "places that are known only when the kernel runs are read with A.window(offsets)"
                )
        if bounds[2] == 0:
            fail("the step of a slice is an integer other than 0, found 0; t[a:b] takes every element")
        start, stop, step = slice(*bounds).indices(size)
        count = len(range(start, stop, step))
        if not count:
            shown = bounds[: 2 if bounds[2] is None else 3]
            text = ":".join("" if each is None else str(each) for each in shown)
            fail(f"a slice has at least one element along each axis, found none of {size} in {text}")
        return Steps(start, step, count)

    def _taken(self, axis: int, steps: Steps) -> Tile:
        """Elements along one axis."""
        rows, columns = (steps if each == axis else Steps.whole(size) for each, size in enumerate(self.shape))
        return self._sliced(rows, columns)

    def _sliced(self, rows: Steps, columns: Steps) -> Tile:
        if (rows, columns) == tuple(map(Steps.whole, self.shape)):
            return self._tile()
        return self._make("slice", (self._tile(),), Slice(rows, columns))

    def _halved(self, axis: object, what: str) -> tuple[int, int]:
        """An axis and half of its size."""
        number = axis_of_tile(axis, what)
        size = self.shape[number]
        if size % 2:
            fail(
                f"{what} needs an even size along axis {number}, found {list(self.shape)}; t[a:b, c:d] takes "
                "parts of any size"
            )
        return number, size // 2

    def _new_shape(self, shape: object) -> tuple[int, int]:
        """The shape that a reshape asks for, with what is left in place of -1."""
        if number(shape) == -1:
            shape = [-1]
        if isinstance(shape, Iterable) and not isinstance(shape, str | Value):
            items = tuple(shape)
            given = [number(item) for item in items]
            if given.count(-1) == 1 and all(type(item) is int and (item == -1 or item > 0) for item in given):
                others = -math.prod(item for item in given if isinstance(item, int))
                if math.prod(self.shape) % others:
                    fail(
                        f"reshape keeps the number of elements, and {math.prod(self.shape)} of "
                        f"{list(self.shape)} is no multiple of {others}"
                    )
                shape = [math.prod(self.shape) // others if item == -1 else item for item in items]
        return tile_shape(shape, "reshape")

    def _joined(self, op: str, other: object, axis: object) -> Tile:
        """Two tiles as one, after the sizes and types of both have met."""
        from gizml_tile.tile import Tile

        along = axis_of_tile(axis, op)
        if not isinstance(other, Tile):
            fail(
                f"{op} needs two tiles, found {describe(self)} and {describe(other)}; p.full(shape, value) "
                "makes one of a number"
            )
        dtype = self.dtype if self.dtype is other.dtype else promote(self.dtype, other.dtype)
        if dtype is None or (MASK in (self.dtype, other.dtype) and self.dtype is not other.dtype):
            fail(
                f"{op} needs two types that mix, found {article(noun(self._node))} and "
                f"{article(noun(other._node))}; convert one with .to(dtype)"
            )
        shape = [max(sizes) for sizes in zip(self.shape, other.shape, strict=True)]
        shapes = []
        for each in (self, other):
            found = [each.shape[at] if op == "concat" and at == along else shape[at] for at in (0, 1)]
            if broadcast(each.shape, tuple(found)) != tuple(found):
                same = ("columns", "rows")[along] if op == "concat" else "rows and columns"
                fail(
                    f"{op} along axis {along} needs as many {same} (or 1), found {list(self.shape)} and "
                    f"{list(other.shape)}; take parts with t[a:b, c:d]"
                )
            shapes.append((found[0], found[1]))
        first, second = (
            (each if each.dtype is dtype else each.to(dtype))._stretched(wanted)
            for each, wanted in zip((self._tile(), other), shapes, strict=True)
        )
        return self._make(op, (first, second), along)

    def _stretched(self, shape: tuple[int, int]) -> Tile:
        """The tile in a shape that it broadcasts to: chosen everywhere by a mask of that shape."""
        if shape == self.shape:
            return self._tile()
        everywhere = self._make("const", (), Const(shape, MASK, True))
        return self._make("select", (everywhere, self._tile(), self._tile()))

    def _tile(self) -> Tile:
        return self  # type: ignore[return-value]
