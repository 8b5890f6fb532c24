"""Trial launches: a program run on copies of what it writes, and its results compared with another's."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gizml_tile.dtypes import MASK, to_numpy
from gizml_tile.nodes import TileProgram
from gizml_tile.runtime.tensors import TensorInfo

_LINE_BYTES = 64
# Results of sums and products may differ by rounding: by this much of the largest value.
_TOLERANCE = 2.0**-12


class Trial:
    """A launch's tensors with copies in place of all memory that the launch writes."""

    def __init__(self, infos: Sequence[TensorInfo], written: frozenset[int]) -> None:
        self._written = sorted(written)
        spans = _spans(infos, written)
        copies = [_copy(low, high) for low, high in spans]
        self.infos = list(infos)
        for number, info in enumerate(infos):
            for (low, high), copy in zip(spans, copies, strict=True):
                if (
                    low <= info.extent[0]
                    and info.extent[1] <= high
                    and info.extent[0] < info.extent[1]
                ):
                    pointer = info.pointer - low + copy.ctypes.data
                    self.infos[number] = replace(info, pointer=pointer, owner=copy)
        self._results: list[np.ndarray[Any, Any]] = []

    def keep_results(self) -> None:
        """Remember what the written tensors hold now."""
        self._results = [array_of(self.infos[number]).copy() for number in self._written]

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
                return (
                    f"output {number} by up to {apart:.3g} where the largest value is {scale:.3g}"
                )
        return ""


def rounds(program: TileProgram) -> bool:
    """Whether the order of additions may show in a program's results: in sums, products and loops."""
    return any(node.op in ("sum", "dot", "loop") for node in program.body.walk())


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


def _copy(low: int, high: int) -> np.ndarray[Any, Any]:
    """A copy of memory at the same offset from a cache line, so that alignment is the same too."""
    room = np.empty(high - low + 2 * _LINE_BYTES, np.uint8)
    start = (low - room.ctypes.data) % _LINE_BYTES
    copy = room[start : start + high - low]
    ctypes.memmove(copy.ctypes.data, low, high - low)
    return copy


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
