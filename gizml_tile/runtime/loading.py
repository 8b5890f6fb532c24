"""Devices, and kernels on them: each is opened or loaded at its first use, and known from then on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from ..errors import TileError, here

_Device = TypeVar("_Device")
_Loaded = TypeVar("_Loaded")


class Devices(Generic[_Device]):
    """The devices of one kind by their numbers, as ``opened`` finds them."""

    def __init__(self, opened: Callable[[int], _Device]) -> None:
        self._opened = opened
        self._known: dict[int, _Device] = {}
        if hasattr(os, "register_at_fork"):
            # In a fork every use of the driver then says that it is one.
            os.register_at_fork(after_in_child=self.forget)

    def device(self, ordinal: int) -> _Device:
        """A device by its number. Raises TileError where there is none, or none that is known."""
        found = self._known.get(ordinal)
        if found is None:
            found = self._known[ordinal] = self._opened(ordinal)
        return found

    def forget(self) -> None:
        """Ask the driver again at the next use."""
        self._known.clear()


class Loading(Generic[_Loaded]):
    """A kernel on each device that it ran on."""

    def __init__(self, bindings: Callable[[], Any], load: Callable[[int], _Loaded]) -> None:
        self._bindings = bindings
        self._load = load
        self._known: dict[int, _Loaded] = {}
        self._lock = threading.Lock()

    def on(self, ordinal: int) -> _Loaded:
        """The kernel on a device, loaded where it is not yet. Raises TileError where it cannot be."""
        found = self._known.get(ordinal)
        if found is not None:
            return found
        # Before the lock: a fork must hear that it is one, not wait for a thread that it does not have.
        self._bindings()
        with self._lock:
            if ordinal not in self._known:
                self._known[ordinal] = self._load(ordinal)
            return self._known[ordinal]


class Workgroup(Protocol):
    """What a kernel needs of a device, or a device has for one workgroup."""

    @property
    def workgroup_memory(self) -> int:
        """Bytes."""

    @property
    def threads(self) -> int:
        """How many there are, or may be."""


def require_room(what: str, needed: Workgroup, device: Workgroup, name: str) -> None:
    """Raise TileError where a workgroup takes more than a device has."""
    if needed.workgroup_memory > device.workgroup_memory:
        raise TileError(
            f"{what} needs {needed.workgroup_memory} bytes of workgroup memory, and {name} has "
            f"{device.workgroup_memory}; use smaller blocks or fewer stages",
            here(),
        )
    if needed.threads > device.threads:
        raise TileError(
            f"{what} has {needed.threads} threads in a workgroup, and {name} takes "
            f"{device.threads}; use fewer warps",
            here(),
        )
