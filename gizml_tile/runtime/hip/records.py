"""Memory of the host that an AMD device writes, for what programs print and check."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Any

import numpy as np

from ...errors import TileError
from . import driver
from .devices import current, device, ordinal_of

_DOING = "memory for what programs print and check"
_PORTABLE = 1
_WORD = 8


class DeviceRows:
    """Words in pinned memory, at one address on the host and the device, freed with this object."""

    def __init__(self, count: int, name: str) -> None:
        self.pointer = 0
        self._device = device(ordinal_of(name))
        self._count = count
        with current(self._device):
            self.pointer = int(driver.call("hipHostMalloc", count * _WORD, _PORTABLE, doing=_DOING))
        self.owner = self
        ctypes.memset(self.pointer, 0, count * _WORD)

    def taken(self) -> np.ndarray[Any, Any]:
        """A copy of the words once the device has done everything launched so far; the memory is given back.

        Raises TileError while a graph is captured, which launches nothing yet.
        """
        with current(self._device):
            driver.call("hipDeviceSynchronize", doing="waiting for what programs print and check")
        memory: Any = (ctypes.c_int64 * self._count).from_address(self.pointer)
        words = np.array(memory, np.int64)
        self._free()
        return words

    def _free(self) -> None:
        if self.pointer:
            driver.attempt("hipHostFree", self.pointer)
            self.pointer = 0

    def __del__(self) -> None:
        # The bindings may be gone before this object, with the process.
        with suppress(TileError):
            self._free()
