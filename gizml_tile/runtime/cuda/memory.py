"""Memory of a device for the time of a launch, in the order of its stream."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..streams import order, ordered
from ..tensors import TensorInfo
from . import driver, streams
from .devices import current, device, ordinal_of

# Where each part of memory that is lent begins.
_WHOLE_BYTES = 256
# Freed memory that a device keeps for the next launch; what is beyond goes back when it has nothing to do.
_KEPT_BYTES = 1 << 29
_DOING = "memory for copies of tensors"

_pools: dict[int, Any] = {}
_lock = threading.Lock()


@contextmanager
def borrowed(ordinal: int, size: int, stream: int) -> Iterator[int]:
    """The address of so many bytes, which what is launched on the stream meanwhile may use.

    Raises TileError where the device has not that much.
    """
    pool = _pool(ordinal)
    address = int(driver.call("cuMemAllocFromPoolAsync", size, pool, stream, doing=_DOING))
    try:
        yield address
    finally:
        driver.attempt("cuMemFreeAsync", address, stream)


@contextmanager
def lent(
    tensors: Sequence[TensorInfo], sizes: Sequence[int], stream: object = None
) -> Iterator[tuple[list[tuple[int, Any]], tuple[int]]]:
    """Memory of so many bytes each for launches of tensors: addresses with owners, and their stream."""
    ordinal = ordinal_of(tensors[0].device, tensors[0].pointer)
    plan = order(tensors, ordinal, stream)
    whole = [-(-size // _WHOLE_BYTES) * _WHOLE_BYTES for size in sizes]
    with (
        current(device(ordinal)),
        ordered(plan, streams),
        borrowed(ordinal, sum(whole), plan.stream) as address,
    ):
        yield [(address + sum(whole[:number]), None) for number in range(len(whole))], (plan.stream,)


def forget() -> None:
    """Ask the driver for pools again."""
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)


def _pool(ordinal: int) -> Any:
    with _lock:
        if ordinal not in _pools:
            with driver.relaxed(_DOING):
                _pools[ordinal] = _made(ordinal)
        return _pools[ordinal]


def _made(ordinal: int) -> Any:
    """A pool of our own: other libraries have theirs."""
    api = driver.bindings()
    wanted = api.CUmemPoolProps()
    wanted.allocType = driver.constant("CUmemAllocationType", "CU_MEM_ALLOCATION_TYPE_PINNED")
    wanted.handleTypes = driver.constant("CUmemAllocationHandleType", "CU_MEM_HANDLE_TYPE_NONE")
    wanted.location.type = driver.constant("CUmemLocationType", "CU_MEM_LOCATION_TYPE_DEVICE")
    wanted.location.id = ordinal
    pool = driver.call("cuMemPoolCreate", wanted, doing=_DOING)
    kept = driver.constant("CUmemPool_attribute", "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD")
    driver.call("cuMemPoolSetAttribute", pool, kept, api.cuuint64_t(_KEPT_BYTES), doing=_DOING)
    return pool
