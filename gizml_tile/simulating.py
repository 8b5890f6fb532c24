"""Launches on a simulated GPU: a kernel's results, and what its threads did wrong or wasted."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gizml_tile.aligned import aligned as aligned_tensor
from gizml_tile.dtypes import MASK, DType, to_numpy
from gizml_tile.errors import TileError, here
from gizml_tile.runtime.tensors import TensorInfo, describe

if TYPE_CHECKING:
    from gizml_tile.lowering.kernel_ir.instructions import Kernel
    from gizml_tile.lowering.simulate import Finding, Memory
    from gizml_tile.recording import Record, Site
    from gizml_tile.reporting import Records

# A copy of a tensor starts where devices give out memory, but for what the tensor's address is beyond a
# multiple of this: no access is wider, and where the host has put an array says no more of a device.
_ALIGNMENT = 16
_UNITS = 3


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulated launch gave: the written tensors, and what was found."""

    results: tuple[Any, ...]
    findings: tuple[Finding, ...]


@dataclass(slots=True)
class _Piece:
    """Bytes that some tensors share, copied: from ``start`` to ``stop`` in the computer's memory."""

    start: int
    stop: int
    data: np.ndarray[Any, Any]


def converted(info: TensorInfo, dtype: DType) -> TensorInfo:
    """A host tensor with its elements converted to another storage type, in new memory."""
    if info.dtype is dtype:
        return info
    return describe(np.ascontiguousarray(view(info).astype(to_numpy(dtype))))


def aligned(info: TensorInfo) -> TensorInfo:
    """A host tensor copied to rows that begin at multiples of 16 bytes, as a launch copies it."""
    wanted = aligned_tensor(info)
    low, high = wanted.extent
    room = np.zeros(high - low + _ALIGNMENT, np.uint8)
    start = -(-room.ctypes.data // _ALIGNMENT) * _ALIGNMENT
    made = replace(wanted, pointer=start, owner=room)
    view(made)[...] = view(info)
    return made


def run(
    kernel: Kernel,
    infos: Sequence[TensorInfo],
    written: frozenset[int],
    scalars: Sequence[int | float],
    grid: Sequence[int],
) -> tuple[Finding, ...]:
    """Run a kernel on host tensors, in place, and tell what was found."""
    from gizml_tile.lowering.simulate import simulate

    pieces = _pieces(infos)
    memories = [_memory(info, _piece(info, pieces)) for info in infos]
    # A small device's share of programs, so that a workgroup runs several.
    few = (min(kernel.needed(grid), _UNITS) * kernel.cluster,) if kernel.persistent else None
    findings = simulate(kernel, memories, scalars, grid, workgroups=few)
    for number in written:
        info = infos[number]
        if info.size:
            view(info)[...] = _strided(memories[number])
    return tuple(findings)


def told(findings: tuple[Finding, ...], records: Records) -> tuple[Finding, ...]:
    """Print what the programs of a launch printed; the findings with one for each line whose check failed.

    What records cost is left out.
    """
    from gizml_tile.lowering.simulate import Finding

    lines = {site.place for site in records.sites} | {None}
    failed: dict[Site, list[Record]] = {}
    for record in records.told():
        failed.setdefault(record.site, []).append(record)
    checks = [
        Finding("check", site.place, records.failure(found), len(found)) for site, found in failed.items()
    ]
    return (*(each for each in findings if not (each.is_cost and each.place in lines)), *checks)


def require_host(infos: Sequence[TensorInfo]) -> None:
    """Raise TileError where a tensor is not in the computer's own memory."""
    for info in infos:
        if info.device != "cpu":
            raise TileError(
                f"simulate runs on tensors of the host, and one is on {info.device}; pass NumPy arrays "
                "(storage= gives them other types)",
                here(),
            )


def view(info: TensorInfo) -> np.ndarray[Any, Any]:
    """A host tensor as a NumPy array of the same memory."""
    dtype = np.dtype(bool) if info.dtype is MASK else to_numpy(info.dtype)
    low, high = info.extent
    data = _bytes(low, high)
    if 0 in info.shape:
        return np.empty(info.shape, dtype)
    strides = tuple(stride * info.dtype.bytes for stride in info.strides)
    return np.ndarray(info.shape, dtype, data, info.pointer - low, strides)


def _bytes(low: int, high: int) -> np.ndarray[Any, Any]:
    memory: Any = (ctypes.c_uint8 * max(high - low, 0)).from_address(low)
    return np.frombuffer(memory, np.uint8)


def _pieces(infos: Sequence[TensorInfo]) -> list[_Piece]:
    pieces: list[_Piece] = []
    for low, high in sorted(info.extent for info in infos):
        start = low // _ALIGNMENT * _ALIGNMENT
        if pieces and start < pieces[-1].stop:
            pieces[-1].stop = max(pieces[-1].stop, high)
        else:
            pieces.append(_Piece(start, high, np.empty(0, np.uint8)))
    for piece in pieces:
        piece.data = np.zeros(-(-(piece.stop - piece.start) // 16) * 16, np.uint8)
    for low, high in (info.extent for info in infos):
        if high > low:
            piece = next(each for each in pieces if each.start <= low and high <= each.stop)
            piece.data[low - piece.start : high - piece.start] = _bytes(low, high)
    return pieces


def _piece(info: TensorInfo, pieces: Sequence[_Piece]) -> _Piece:
    low, high = info.extent
    return next(each for each in pieces if each.start <= low and high <= max(each.stop, low))


def _memory(info: TensorInfo, piece: _Piece) -> Memory:
    from gizml_tile.lowering.simulate import Memory

    dtype = np.dtype(np.uint8) if info.dtype is MASK else to_numpy(info.dtype)
    offset = (info.pointer - piece.start) // info.dtype.bytes
    return Memory(piece.data.view(dtype), offset, info.shape, info.strides)


def _strided(memory: Memory) -> np.ndarray[Any, Any]:
    item = memory.data.itemsize
    strides = tuple(stride * item for stride in memory.strides)
    return np.ndarray(memory.shape, memory.data.dtype, memory.data, memory.offset * item, strides)


def with_dtypes(infos: Sequence[TensorInfo], dtypes: Sequence[DType]) -> list[TensorInfo]:
    """The same memory said to hold other storage types, for code that is looked at and not run."""
    return [replace(info, dtype=dtype) for info, dtype in zip(infos, dtypes, strict=True)]
