"""The warning about products, sums and maxima that count what a block reads past a tensor's end."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from gizml_tile.errors import TileWarning


@dataclass(frozen=True, slots=True)
class Ragged:
    """A line that counts elements past the end where all of these dimensions end inside a block.

    ``ends`` has the number of a tensor, the axis and the block's size for each.
    """

    message: str
    filename: str
    line: int
    ends: tuple[tuple[int, int, int], ...]


def warn_ragged(found: Sequence[Ragged], shapes: Sequence[tuple[int, ...]]) -> None:
    """Warn at the person's lines that count something for tensors of these shapes."""
    for each in found:
        if all(shapes[tensor][axis] % block for tensor, axis, block in each.ends):
            warnings.warn_explicit(each.message, TileWarning, each.filename, each.line)
