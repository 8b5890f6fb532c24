"""Trial launches: a program run on copies of what it writes, and its results compared with another's."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from gizml_tile.dtypes import MASK, to_numpy
from gizml_tile.errors import TileError, here
from gizml_tile.grids import Grid
from gizml_tile.nodes import COMBINING, Elements, TileProgram
from gizml_tile.runtime.tensors import TensorInfo

_LINE_BYTES = 64
# Each configuration is run until this much time has passed, at least three times.
_SECONDS = 0.02
_LEAST_RUNS = 3
# Results of sums and products may differ by rounding: by this much of the largest value.
_TOLERANCE = 2.0**-12


class Bench(Protocol):
    """A device that trials run on while this is entered: what copies its memory, runs and times launches."""

    def __enter__(self) -> Bench:
        """Set up."""

    def __exit__(self, *error: object) -> None:
        """Free the copies."""

    def copy(self, low: int, high: int) -> tuple[int, object]:
        """The address of a copy of memory, as well aligned, and what keeps it."""

    def fetch(self, low: int, high: int) -> np.ndarray[Any, Any]:
        """The bytes of memory, in the host's."""

    def ready(self, kernel: Any, grid: Grid) -> None:
        """Do what comes before a first launch. Raises TileError where it does not fit the device."""

    def launch(
        self, kernel: Any, tensors: Sequence[TensorInfo], scalars: Sequence[int | float], grid: Grid
    ) -> None:
        """Launch a kernel."""

    def seconds(self, launch: Callable[[], object]) -> float:
        """How long a launch takes."""

    def samples(self, launch: Callable[[], object], seconds: float, most: int) -> list[float]:
        """How long each of several launches takes: for so many seconds, and so many of them at most."""


class HostBench:
    """Trials on the CPU."""

    def __enter__(self) -> HostBench:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def copy(self, low: int, high: int) -> tuple[int, object]:
        """A copy at the same offset from a cache line, so that alignment is the same too."""
        room = np.empty(high - low + 2 * _LINE_BYTES, np.uint8)
        start = room.ctypes.data + (low - room.ctypes.data) % _LINE_BYTES
        ctypes.memmove(start, low, high - low)
        return start, room

    def fetch(self, low: int, high: int) -> np.ndarray[Any, Any]:
        """A copy of the bytes."""
        return np.frombuffer(ctypes.string_at(low, high - low), np.uint8)

    def ready(self, kernel: Any, grid: Grid) -> None:
        """Code for the CPU is ready when it is compiled."""

    def launch(
        self, kernel: Any, tensors: Sequence[TensorInfo], scalars: Sequence[int | float], grid: Grid
    ) -> None:
        """Launch and wait."""
        kernel(tensors, scalars, grid)

    def seconds(self, launch: Callable[[], object]) -> float:
        """The fastest of several launches."""
        return min(self.samples(launch, _SECONDS, sys.maxsize))

    def samples(self, launch: Callable[[], object], seconds: float, most: int) -> list[float]:
        """How long each of several launches takes, at least of three, after one that makes all ready."""
        launch()
        runs: list[float] = []
        began = time.perf_counter()
        while len(runs) < _LEAST_RUNS or (len(runs) < most and time.perf_counter() - began < seconds):
            start = time.perf_counter()
            launch()
            runs.append(time.perf_counter() - start)
        return runs


# Kinds of devices that launches can be measured on.
_MEASURED = ("cpu", "cuda")


def can_measure(kind: str) -> bool:
    """Whether launches on a kind of device can be measured."""
    return kind in _MEASURED


def require_measures(device: str) -> None:
    """Raise TileError for a device that launches cannot be measured on."""
    if not can_measure(device.partition(":")[0]):
        kinds = " and ".join(_MEASURED)
        raise TileError(f"launches on {device} cannot be measured; those on {kinds} can", here())


def bench(device: str, infos: Sequence[TensorInfo], stream: object = None) -> Bench:
    """A bench on the device that tensors are on, on a GPU for launches on ``stream``."""
    if device == "cpu":
        return HostBench()
    from gizml_tile.runtime.cuda.measuring import Bench as CudaBench

    return CudaBench(infos, stream)


class Trial:
    """A launch's tensors with copies in place of all memory that the launch writes."""

    def __init__(self, infos: Sequence[TensorInfo], written: frozenset[int], bench: Bench) -> None:
        self._written = sorted(written)
        self._bench = bench
        spans = _spans(infos, written)
        copies = [bench.copy(low, high) for low, high in spans]
        self.infos = list(infos)
        for number, info in enumerate(infos):
            for (low, high), (start, kept) in zip(spans, copies, strict=True):
                if low <= info.extent[0] and info.extent[1] <= high and info.extent[0] < info.extent[1]:
                    owner = kept if info.device == "cpu" else info.owner
                    self.infos[number] = replace(info, pointer=info.pointer - low + start, owner=owner)
        self._results: list[np.ndarray[Any, Any]] = []

    def keep_results(self) -> None:
        """Remember what the written tensors hold now."""
        self._results = []
        for number in self._written:
            info = self.infos[number]
            low, high = info.extent
            found = self._bench.fetch(low, high)
            moved = replace(info, pointer=info.pointer - low + found.ctypes.data)
            self._results.append(array_of(moved).copy())

    def difference(self, other: Trial, rounds: bool) -> str:
        """What differs between the results of two trials beyond rounding; empty where nothing does."""
        for number, (one, two) in enumerate(zip(self._results, other._results, strict=True)):
            if one.tobytes() == two.tobytes():
                continue
            left, right = one.astype(np.float64), two.astype(np.float64)
            same = (left == right) | (np.isnan(left) & np.isnan(right))
            if bool(same.all()):
                continue
            apart = float(np.max(np.where(same, 0.0, np.abs(left - right))))
            scale = float(np.max(np.abs(right), where=np.isfinite(right), initial=0.0))
            precision = 2.0 * float(_epsilon(one.dtype))
            if not rounds or not apart <= scale * max(_TOLERANCE, precision):
                return f"output {number} by up to {apart:.3g} where the largest value is {scale:.3g}"
        return ""


def rounds(program: TileProgram) -> bool:
    """Whether the order of additions may show in a program's results: in sums, products, scans and loops,
    and where several add to one place."""
    nodes = list(program.body.walk())
    adds = any(isinstance(node.attr, Elements) and node.attr.combine == "add" for node in nodes)
    return adds or any(node.op in ("sum", "dot", "loop", *COMBINING) for node in nodes)


def _epsilon(dtype: np.dtype[Any]) -> float:
    if dtype.kind in "biu":
        return 0.0
    import ml_dtypes

    info: Any = ml_dtypes.finfo
    return float(info(dtype).eps)


def _spans(infos: Sequence[TensorInfo], written: frozenset[int]) -> list[tuple[int, int]]:
    """Stretches of memory that hold every written tensor, and every tensor that meets one of them."""
    spans = [infos[number].extent for number in sorted(written)]
    extents = [info.extent for info in infos]
    while True:
        grown: list[tuple[int, int]] = []
        for low, high in sorted(spans):
            for other_low, other_high in extents:
                if max(low, other_low) < min(high, other_high):
                    low, high = min(low, other_low), max(high, other_high)
            if grown and low < grown[-1][1]:
                low, high = min(low, grown[-1][0]), max(high, grown.pop()[1])
            grown.append((low, high))
        if grown == sorted(spans):
            return grown
        spans = grown


def array_of(info: TensorInfo) -> np.ndarray[Any, Any]:
    """A tensor's elements as a NumPy array over the same memory."""
    low, high = info.extent
    memory: Any = (ctypes.c_uint8 * (high - low)).from_address(low)
    dtype = np.dtype(bool) if info.dtype is MASK else to_numpy(info.dtype)
    return np.ndarray(
        info.shape,
        dtype,
        buffer=memory,
        offset=info.pointer - low,
        strides=tuple(step * info.dtype.bytes for step in info.strides),
    )
