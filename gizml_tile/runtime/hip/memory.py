"""Memory of a device for the time of launches, in the order of their stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..streams import order, ordered
from ..tensors import TensorInfo
from . import driver, streams
from .devices import current, device, ordinal_of

_DOING = "memory for copies of tensors"
# Where each part begins.
_WHOLE_BYTES = 256


@contextmanager
def lent(
    tensors: Sequence[TensorInfo], sizes: Sequence[int], stream: object = None
) -> Iterator[tuple[list[tuple[int, Any]], tuple[int]]]:
    """Memory of so many bytes each for launches of tensors: addresses with owners, and their stream.

    Raises TileError where the device has not that much.
    """
    ordinal = ordinal_of(tensors[0].device)
    plan = order(tensors, ordinal, stream)
    whole = [-(-size // _WHOLE_BYTES) * _WHOLE_BYTES for size in sizes]
    with current(device(ordinal)), ordered(plan, streams):
        address = int(driver.call("hipMallocAsync", sum(whole), plan.stream or None, doing=_DOING))
        try:
            yield [(address + sum(whole[:number]), None) for number in range(len(whole))], (plan.stream,)
        finally:
            driver.attempt("hipFreeAsync", address, plan.stream or None)
