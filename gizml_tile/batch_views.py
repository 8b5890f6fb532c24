"""Inputs and outputs in blocks of their last three dimensions, whose blocks are batches of tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gizml_tile.batch import Batch
from gizml_tile.index import Index
from gizml_tile.lifting import integer
from gizml_tile.tracing import Trace, fail
from gizml_tile.views import In, Out, _Blocks


class _Batches(_Blocks):
    """What both share: the blocks of a batch are those of the last two dimensions, one after the other."""

    __slots__ = ()

    _count: int

    @property
    def block(self) -> tuple[int, ...]:
        """The sizes of a block along the last three dimensions."""
        return (self._count, *self._block)

    def blocks(self, axis: object) -> Index:
        """The number of blocks along an axis; its size for a dimension before the blocked ones."""
        number = self._axis(axis, "blocks")
        size = super().blocks(number)
        if number != self.ndim - 3 or self._count == 1:
            return size
        result: Index = size.add(self._count - 1).div(self._count)
        return result

    def _places(self, mode: str, coords: object, what: str) -> list[list[object]]:
        """The coordinates of each tile of a block; a batch's own counts blocks, of a window elements."""
        coordinates = list(self._given(coords, what))
        place = self.ndim - 3
        first: Any = coordinates[place]
        if not isinstance(first, Index):
            first = integer(first, f"a coordinate of {what}")
        if mode == "at":
            first = first * self._count
        before, after = coordinates[:place], coordinates[place + 1 :]
        return [[*before, first + number, *after] for number in range(self._count)]

    def _masks(self, mask: object, what: str) -> Sequence[object]:
        """The mask of each tile of a block."""
        if not isinstance(mask, Batch):
            return [mask] * self._count
        if len(mask) not in (1, self._count):
            fail(f"mask of {what} is a batch of {self._count} masks (or 1), found {list(mask.shape)}")
        return [mask.tiles[number % len(mask)] for number in range(self._count)]


class BatchIn(_Batches, In):
    """A tensor read in blocks of its last three dimensions."""

    __slots__ = ("_count",)

    def __init__(
        self, trace: Trace, tensor: int, block: tuple[int, ...], pad: float | int | bool
    ) -> None:
        super().__init__(trace, tensor, block[1:], pad)
        self._count = block[0]

    def _read(self, mode: str, coords: object, mask: object, what: str = "") -> Any:
        masks = self._masks(mask, what or mode)
        places = self._places(mode, coords, what or mode)
        return Batch([In._read(self, mode, each, own, what) for each, own in zip(places, masks, strict=True)])


class BatchOut(_Batches, Out):
    """A tensor written in blocks of its last three dimensions."""

    __slots__ = ("_count",)

    def __init__(self, trace: Trace, tensor: int, block: tuple[int, ...]) -> None:
        super().__init__(trace, tensor, block[1:])
        self._count = block[0]

    def _put(self, mode: str, tile: object, coords: object, mask: object, what: str = "") -> None:
        what = what or ("put" if mode == "at" else "put_window")
        if isinstance(tile, Batch) and len(tile) not in (1, self._count):
            fail(f"{what} needs a batch of {self._count} tiles (or 1), found {list(tile.shape)}")
        tiles = tile.tiles if isinstance(tile, Batch) else (tile,)
        masks = self._masks(mask, what)
        for number, (each, own) in enumerate(zip(self._places(mode, coords, what), masks, strict=True)):
            Out._put(self, mode, tiles[number % len(tiles)], each, own, what)
