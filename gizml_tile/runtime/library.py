"""A GPU vendor's library by its Python bindings: started once in a process, and its answers read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import TileError, here

# Drivers answer so to what a stream that is being captured does not allow.
_CAPTURE = range(900, 911)


class Library:
    """The one place that calls a vendor's library.

    ``start`` imports and initialises the bindings, ``told`` puts a status in the library's own words, and
    ``advice`` is what a person can do about some. ``forked`` says that it does not live on in a fork.
    """

    def __init__(
        self,
        start: Callable[[], Any],
        told: Callable[[Any, int], str],
        advice: Mapping[int, str],
        forked: str,
    ) -> None:
        self._start = start
        self._told = told
        self._advice = advice
        self._forked = forked
        self._bindings: Any = None
        self._process = 0

    def bindings(self) -> Any:
        """The bindings, initialised. Raises TileError without the package, the library or a device."""
        if self._bindings is None:
            self._bindings = self._start()
            self._process = os.getpid()
        elif self._process != os.getpid():
            raise TileError(self._forked, here())
        return self._bindings

    def forget(self) -> None:
        """Import and initialise again at the next use."""
        self._bindings = None

    def attempt(self, name: str, *args: Any) -> tuple[int, Any]:
        """A function's status and what it returned: nothing, one value, or a tuple of several."""
        status, *values = getattr(self.bindings(), name)(*args)
        return int(status), values[0] if len(values) == 1 else tuple(values) or None

    def call(self, name: str, *args: Any, doing: str) -> Any:
        """What a function returned. Raises TileError that starts with ``doing``."""
        status, value = self.attempt(name, *args)
        if status:
            raise self.refused(status, doing)
        return value

    def refused(self, status: int, doing: str) -> TileError:
        """The error for a status, with what can be done about it."""
        advice = self._advice.get(status)
        text = self._told(self.bindings(), status)
        return TileError(f"{doing}: {text}" + (f"; {advice}" if advice else ""), here())

    def constant(self, enumeration: str, name: str) -> Any:
        """A named constant, such as ``constant("CUjit_option", "CU_JIT_LOG_VERBOSE")``."""
        return getattr(getattr(self.bindings(), enumeration), name)


def is_capture(status: int) -> bool:
    """Whether a status says that a stream which is being captured does not allow what was asked."""
    return status in _CAPTURE
