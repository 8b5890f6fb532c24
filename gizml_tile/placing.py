"""Host arrays put on a device, for launches of which nobody but this library has the tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gizml_tile import trial
from gizml_tile.runtime.tensors import TensorInfo, describe

Array = np.ndarray[Any, Any]
Place = Callable[[Array], Array | TensorInfo]


@contextmanager
def on(device: str) -> Iterator[Place]:
    """What puts an array on a device such as ``cuda:1``, strided as it is; freed at the end.

    Raises TileError where there is no such device, and for a kind that launches cannot be measured on.
    """
    trial.require_measures(device)
    if device == "cpu":
        yield lambda array: array
        return
    from gizml_tile.runtime.cuda.placing import Room

    with Room(device) as room:
        yield lambda array: room.place(describe(array))
