"""Measuring launches on a CUDA device: on copies of memory, and by the device's own clock."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from ...errors import TileError, here
from ..streams import order
from ..tensors import TensorInfo
from . import driver, streams
from .devices import current, device, ordinal_of
from .kernel import CudaKernel

_DOING = "measuring a launch"
# Copies are as well aligned as what they are copies of.
_ALIGNMENT = 256
_WARM_UPS = 2
_LEAST_RUNS, _MOST_RUNS = 5, 50
_SECONDS = 0.02
# Filling memory of the cache's size so often leaves nothing of the tensors in it, and takes longer than
# the host needs for a launch, which therefore waits for the device and not the device for it.
_FLUSHES = 4


class Bench:
    """A device and a stream to measure on; memory that it gives out is freed when it is left.

    ``stream`` is by default the one that the tensors' library uses. Raises TileError while it is captured
    into a graph, which would record the trials.
    """

    def __init__(self, tensors: Sequence[TensorInfo], stream: object = None) -> None:
        ordinal = ordinal_of(tensors[0].device, tensors[0].pointer) if tensors else 0
        self._device = device(ordinal)
        self._stream = order(tensors, ordinal, stream).stream
        self._memory: list[Any] = []
        self._open = ExitStack()

    def __enter__(self) -> Bench:
        with ExitStack() as entered:
            entered.enter_context(current(self._device))
            if streams.is_capturing(self._stream):
                raise TileError(
                    "configurations cannot be measured while a graph is captured; launch once before the "
                    "capture",
                    here(),
                )
            self._flushed = self._allocate(max(self._device.cache_bytes, 1))
            self._open = entered.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        for memory in self._memory:
            driver.attempt("cuMemFree", memory)
        self._open.close()

    def copy(self, low: int, high: int) -> tuple[int, object]:
        """The address of a copy of the device's memory, and what keeps it."""
        room = self._allocate(high - low + _ALIGNMENT)
        start = int(room) + (low - int(room)) % _ALIGNMENT
        driver.call("cuMemcpyDtoDAsync", start, low, high - low, self._stream, doing=_DOING)
        return start, room

    def fetch(self, low: int, high: int) -> np.ndarray[Any, Any]:
        """The bytes that the device's memory holds once everything launched so far is done."""
        driver.call("cuStreamSynchronize", self._stream, doing=_DOING)
        found = np.empty(high - low, np.uint8)
        driver.call("cuMemcpyDtoH", found.ctypes.data, low, high - low, doing=_DOING)
        return found

    def ready(self, kernel: CudaKernel, grid: Sequence[int]) -> None:
        """Load a kernel. Raises TileError where it or its grid does not fit the device."""
        kernel.loaded(self._device.ordinal)
        kernel.workgroups(grid, self._device.ordinal)

    def launch(
        self,
        kernel: CudaKernel,
        tensors: Sequence[TensorInfo],
        scalars: Sequence[int | float],
        grid: Sequence[int],
    ) -> None:
        """Launch on the stream."""
        kernel(tensors, scalars, grid, self._stream)

    def seconds(self, launch: Callable[[], object]) -> float:
        """The median of several launches, each with nothing of its tensors in the cache."""
        return statistics.median(self.samples(launch, _SECONDS, _MOST_RUNS))

    def samples(self, launch: Callable[[], object], seconds: float, most: int) -> list[float]:
        """How long each of several launches takes, at least of five."""
        for _ in range(_WARM_UPS):
            launch()
        start, end = (driver.call("cuEventCreate", 0, doing=_DOING) for _ in range(2))
        runs: list[float] = []
        while len(runs) < _LEAST_RUNS or (len(runs) < most and sum(runs) < seconds):
            for _ in range(_FLUSHES):
                driver.call(
                    "cuMemsetD8Async", self._flushed, 0, self._device.cache_bytes, self._stream, doing=_DOING
                )
            driver.call("cuEventRecord", start, self._stream, doing=_DOING)
            launch()
            driver.call("cuEventRecord", end, self._stream, doing=_DOING)
            driver.call("cuEventSynchronize", end, doing=_DOING)
            runs.append(float(driver.call("cuEventElapsedTime", start, end, doing=_DOING)) / 1000)
        for event in (start, end):
            driver.attempt("cuEventDestroy", event)
        return runs

    def _allocate(self, size: int) -> Any:
        memory = driver.call("cuMemAlloc", size, doing=_DOING)
        self._memory.append(memory)
        return memory


def machine(tensors: Sequence[TensorInfo]) -> str:
    """What measurements on the tensors' device hold for."""
    return device(ordinal_of(tensors[0].device, tensors[0].pointer)).key
