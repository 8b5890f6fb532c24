"""Blocks of the last three dimensions: a batch is so many tiles, one for each place along the first.

It is unrolled while the program is traced, so the tile IR knows tiles of two dimensions alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from inspect import Signature, signature
from typing import Any, NoReturn

from gizml_tile.dtypes import DType
from gizml_tile.helpful import no_attribute, wrong_call
from gizml_tile.lifting import describe, number
from gizml_tile.tile import Tile
from gizml_tile.tracing import Many, fail

_AXES = {1: -2, 2: -1, -2: -2, -1: -1}
_OPERATORS = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod and rand or ror xor rxor lshift "
    "rlshift rshift rrshift lt le gt ge eq ne matmul neg abs invert pow"
)


class Batch(Many):
    """Tiles of one shape and type: ``shape`` is (batch, rows, columns).

    Every operator and method of a tile does what it does to each of them; another batch of as many tiles
    goes along one by one, and tiles, indices and numbers stand beside each. ``a @ b`` multiplies matrix by
    matrix. Axes are those of the batch: 1 or -2 for rows, 2 or -1 for columns. ``batch[n]`` is the tile at a
    host integer, ``batch[a:b]`` some of them, ``batch[:, c:d, e:f]`` parts of each, ``len(batch)`` how many
    there are. Each tile is code of its own: batches are meant to be
    small, and a long first dimension is a grid's or a loop's.
    """

    __slots__ = ("_tiles",)

    _is_batch = True

    def __init__(self, tiles: Sequence[Tile]) -> None:
        self._tiles = tuple(tiles)

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """The tiles, in the order of the first dimension."""
        return self._tiles

    @property
    def shape(self) -> tuple[int, int, int]:
        """(batch, rows, columns)."""
        rows, columns = self._tiles[0].shape
        return len(self._tiles), rows, columns

    @property
    def dtype(self) -> DType:
        """The storage type of the tiles."""
        return self._tiles[0].dtype

    @property
    def T(self) -> Any:
        """The batch of transposed tiles."""
        return self.map("transpose")

    def each(self, function: Callable[[Tile], Any]) -> Any:
        """What a function gives for each of the tiles, as a batch."""
        return _together([function(tile) for tile in self._tiles])

    def map(self, name: str, *args: object, **named: object) -> Any:
        """What a method of tiles gives for each of them."""
        try:
            given = _signature(name).bind(self, *args, **named)
        except TypeError:
            raise wrong_call(getattr(Tile, name), (self, *args), named, method=True) from None
        if "axis" in given.arguments:
            given.arguments["axis"] = _axis(given.arguments["axis"], name)
        method = getattr(Tile, name)
        found = []
        batches = [each for each in (*given.args, *given.kwargs.values()) if isinstance(each, Batch)]
        count = max(map(len, batches))
        for batch in batches:
            if len(batch) not in (1, count):
                shapes = " and ".join(str(list(each.shape)) for each in batches)
                fail(f"{name.strip('_')} needs batches of as many tiles (or 1), found {shapes}")
        for place in range(count):
            here = [self._beside(each, place) for each in given.args]
            keywords = {key: self._beside(each, place) for key, each in given.kwargs.items()}
            found.append(method(*here, **keywords))
        return _together(found)

    def _told(self) -> str:
        return f"a batch of {len(self)} tiles {list(self.shape[1:])}"

    def _beside(self, value: object, place: int) -> object:
        """What stands at a place of a batch: of one of a single tile that."""
        return value._tiles[place % len(value)] if isinstance(value, Batch) else value

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or not callable(getattr(Tile, name, None)):
            raise no_attribute(self, name)
        return lambda *args, **named: self.map(name, *args, **named)

    def __getitem__(self, place: object) -> Any:
        first, *inner = place if isinstance(place, tuple) else (place,)
        if len(inner) > 2:
            fail(f"{self._told()} has three axes, found {len(inner) + 1} slices; write t[:, a:b, c:d]")
        if not isinstance(first, slice):
            tile = self._at(first)
            return tile[tuple(inner)] if inner else tile
        for bound in (first.start, first.stop, first.step):
            if bound is not None and type(number(bound)) is not int:
                fail(f"the bounds of a batch's slice are Python integers, found {describe(bound)}")
        some = self._tiles[first]
        if not some:
            fail(f"a slice has at least one tile of a batch, found none of {len(self)}")
        return Batch([tile[tuple(inner)] for tile in some] if inner else some)

    def _at(self, place: object) -> Tile:
        """The tile at a host integer."""
        host = number(place)
        if type(host) is not int or not -len(self) <= host < len(self):
            fail(
                f"a tile of a batch is taken by a Python integer, here of 0 to {len(self) - 1}, found "
                f"{describe(place)}"
            )
        return self._tiles[host]

    def __setitem__(self, place: object, value: object) -> NoReturn:
        fail(f"{self._told()} never changes; blocks are stored in an output, C[i, j, k] = batch")

    def _no_number(self) -> NoReturn:
        fail(f"{self._told()} is no Python number: its values are known only when the kernel runs")

    def __float__(self) -> float:
        self._no_number()

    def __int__(self) -> int:
        self._no_number()

    def __index__(self) -> int:
        self._no_number()

    def __call__(self, *args: object, **named: object) -> NoReturn:
        fail(f"{self._told()} is not called: properties such as x.T and x.shape have no parentheses")

    def __len__(self) -> int:
        return len(self._tiles)

    def __iter__(self) -> Iterator[Tile]:
        return iter(self._tiles)

    def __bool__(self) -> bool:
        fail(
            "a batch of tiles is neither true nor false before the kernel runs; choose values with "
            "m.select(yes, no)"
        )

    def __repr__(self) -> str:
        return f"<Batch {list(self.shape)} {self.dtype}>"


def _operator(name: str) -> Callable[..., Any]:
    def operate(self: Batch, *args: object) -> Any:
        return self.map(name, *args)

    return operate


for _name in _OPERATORS.split():
    setattr(Batch, f"__{_name}__", _operator(f"__{_name}__"))
Batch.__hash__ = object.__hash__  # type: ignore[method-assign]


@lru_cache(maxsize=256)
def _signature(name: str) -> Signature:
    return signature(getattr(Tile, name))


def _axis(axis: object, name: str) -> int:
    """An axis of a batch as one of its tiles."""
    host = number(axis)
    if type(host) is not int or host not in _AXES:
        fail(
            f"the axis of {name} on a batch is 1 or -2 for rows, 2 or -1 for columns, found "
            f"{describe(axis)}; along the first dimension combine batch.tiles one by one"
        )
    return _AXES[host]


def _together(found: list[Any]) -> Any:
    """Tiles as a batch, tuples of tiles as a tuple of batches."""
    if isinstance(found[0], tuple):
        return tuple(Batch(each) for each in zip(*found, strict=True))
    return Batch(found)


def spread(values: Sequence[object]) -> tuple[list[object], list[int]]:
    """Values with tiles in place of batches, and how many tiles each was (0 for no batch)."""
    flat: list[object] = []
    counts: list[int] = []
    for value in values:
        counts.append(len(value) if isinstance(value, Batch) else 0)
        flat += value.tiles if isinstance(value, Batch) else [value]
    return flat, counts


def gathered(flat: Sequence[Any], counts: Sequence[int]) -> list[Any]:
    """The values that `spread` took apart, of what came in their place."""
    values: list[Any] = []
    rest = list(flat)
    for count in counts:
        values.append(Batch(rest[:count]) if count else rest[0])
        rest = rest[max(count, 1) :]
    return values
