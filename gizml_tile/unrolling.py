"""Loops that run while a kernel is traced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gizml_tile.errors import TileError, here
from gizml_tile.index import Index


def unroll(*arguments: Any) -> Iterable[Any]:
    """A loop that runs while the kernel is traced: its body is recorded once for each turn.

    Takes ``range``'s arguments, host integers, or one iterable.
    """
    for argument in arguments:
        if isinstance(argument, Index):
            raise TileError(
                "unroll needs a number of turns that is known before the kernel runs, found an index; use "
                "range for a loop on the device",
                here(),
            )
    if len(arguments) == 1 and isinstance(arguments[0], Iterable):
        items: Iterable[Any] = arguments[0]
        return items
    if not 1 <= len(arguments) <= 3 or not all(map(_is_integer, arguments)):
        kinds = ", ".join(type(each).__name__ for each in arguments) or "nothing"
        raise TileError(
            f"unroll takes one iterable, or one to three integers as range does, found {kinds}; write "
            "tile.unroll(4)",
            here(),
        )
    if len(arguments) == 3 and arguments[2] == 0:
        raise TileError("the step of unroll is 0; use a step of 1 or -1", here())
    return range(*arguments)


def _is_integer(value: Any) -> bool:
    """Whether ``range`` takes a value."""
    return hasattr(value, "__index__") and not (isinstance(value, np.ndarray) and value.ndim)
