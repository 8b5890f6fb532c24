"""Copies of host tensors in a CUDA device's memory."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from ..tensors import TensorInfo
from . import driver
from .devices import current, device, ordinal_of

_DOING = "memory for tensors"


class Room:
    """Memory of a device, which is current while this is entered; freed at the end."""

    def __init__(self, name: str) -> None:
        self._device = device(ordinal_of(name) if ":" in name else 0)
        self._memory: list[Any] = []
        self._open = ExitStack()

    def __enter__(self) -> Room:
        self._open.enter_context(current(self._device))
        return self

    def __exit__(self, *error: object) -> None:
        for memory in self._memory:
            driver.attempt("cuMemFree", memory)
        self._open.close()

    def place(self, info: TensorInfo) -> TensorInfo:
        """A tensor with the same elements and strides, which begins where its memory does.

        So do tensors that libraries make on a device. A host array's first byte may be a multiple of 16 only,
        and blocks of such a tensor are brought at half the speed.
        """
        low, high = info.extent
        memory = driver.call("cuMemAlloc", max(high - low, 1), doing=_DOING)
        self._memory.append(memory)
        start = int(memory)
        if high > low:
            driver.call("cuMemcpyHtoD", start, low, high - low, doing=_DOING)
        where = f"cuda:{self._device.ordinal}"
        return replace(info, pointer=start + info.pointer - low, device=where, refusal="", owner=self)
