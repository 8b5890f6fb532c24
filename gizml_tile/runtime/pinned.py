"""Memory of the host that a device writes, for what programs print and check, whoever made the device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import TileError

_DOING = "memory for what programs print and check"
_PORTABLE = 1
_WORD = 8


@dataclass(frozen=True)
class Driver:
    """What is asked of a device's driver: its calls, and what its own functions are named."""

    call: Callable[..., Any]
    attempt: Callable[..., Any]
    allocate: str
    synchronize: str
    free: str


class PinnedRows:
    """Words in pinned memory, at one address on the host and the device, freed with this object.

    ``current`` makes the device the one that the driver's calls are about.
    """

    pointer = 0  # also where no device is found, and so nothing to free

    def __init__(
        self, count: int, driver: Driver, current: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        self._count, self._driver, self._current = count, driver, current
        with current():
            self.pointer = int(driver.call(driver.allocate, count * _WORD, _PORTABLE, doing=_DOING))
        self.owner = self
        ctypes.memset(self.pointer, 0, count * _WORD)

    def taken(self) -> np.ndarray[Any, Any]:
        """A copy of the words once the device has done everything launched so far; the memory is given back.

        Raises TileError while a graph is captured, which launches nothing yet.
        """
        with self._current():
            self._driver.call(self._driver.synchronize, doing="waiting for what programs print and check")
        memory: Any = (ctypes.c_int64 * self._count).from_address(self.pointer)
        words = np.array(memory, np.int64)
        self._free()
        return words

    def _free(self) -> None:
        if self.pointer:
            self._driver.attempt(self._driver.free, self.pointer)
            self.pointer = 0

    def __del__(self) -> None:
        # The bindings may be gone before this object, with the process.
        with suppress(TileError):
            self._free()
