"""Where a product's operand is: in registers, or in workgroup memory."""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.planning.plan import SharedTile, TileLayout


@dataclass(frozen=True, slots=True)
class Registers:
    """An operand in the layout of the product's fragments, in the type that they have."""

    value: Value
    layout: TileLayout


@dataclass(frozen=True, slots=True)
class Shared:
    """A tile in a buffer, ``base`` (an I32) elements from its beginning; None for the beginning.

    ``chunk`` is the same in chunks of 16 bytes, in which asynchronous products count.
    """

    buffer: int
    tile: SharedTile
    base: Value | None
    chunk: Value | None = None

    def transposed(self) -> Shared:
        """The same memory as the transposed tile."""
        tile = self.tile
        turned = SharedTile(
            tile.dtype, (tile.shape[1], tile.shape[0]), tile.columns, tile.rows, f"transposed {tile.name}"
        )
        return Shared(self.buffer, turned, self.base, self.chunk)


Source = Registers | Shared
