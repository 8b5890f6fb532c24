"""Streams: which one a launch runs on, and the order between it and the streams of other libraries."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import TileError, here
from .tensors import TensorInfo

# The stream that all streams which block wait for; 1 is another way to say it.
DEFAULT = 0
_LEGACY = 1


def handle(stream: object) -> int:
    """The driver's handle of a stream: an int, or a stream of PyTorch, CuPy, Numba or cuda-python.

    Raises TileError for anything else.
    """
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        _, number = protocol() if callable(protocol) else protocol
        return int(number)
    for name in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, name, None)
        if found is not None:
            value = _number(found)
            if value is not None:
                return value
    if type(stream).__name__ == "CUstream":
        return _number(stream) or DEFAULT
    raise TileError(
        f"stream is {stream!r}; pass a stream of PyTorch, CuPy, Numba or cuda-python or its handle, an int",
        here(),
    )


def _number(found: Any) -> int | None:
    """A handle as a number: ctypes says None for null, and drivers' handles convert."""
    if hasattr(found, "value"):
        found = found.value or DEFAULT
    try:
        return int(found)
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Order:
    """The stream of a launch, the streams of other libraries' tensors, and producers that can only wait.

    ``producers`` are tensors known by DLPack alone, whose library makes a stream wait for them.
    """

    stream: int
    others: tuple[int, ...]
    producers: tuple[Any, ...]


def order(tensors: Sequence[TensorInfo], ordinal: int, stream: object = None) -> Order:
    """Where a launch runs: on ``stream`` if given, else on the stream that the first tensor's library uses.

    A stream that is given is the caller's to order with other work; other libraries' streams wait for the
    launch and it for them otherwise.
    """
    producers = tuple(info.owner for info in tensors if isinstance(info.owner, tuple))
    if stream is not None:
        return Order(handle(stream), (), producers)
    found = [
        used
        for info in tensors
        if not isinstance(info.owner, tuple) and (used := _used(info.owner, ordinal)) is not None
    ]
    if not found:
        return Order(DEFAULT, (), producers)
    others = dict.fromkeys(used for used in found[1:] if used != found[0])
    return Order(found[0], tuple(others), producers)


def _used(tensor: object, ordinal: int) -> int | None:
    """The stream on which a tensor's library works now; None where it says that there is no order to keep."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return int(torch._C._cuda_getCurrentRawStream(ordinal))
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(tensor, cupy.ndarray):
        return _plain(cupy.cuda.get_current_stream(ordinal).ptr)
    interface = getattr(tensor, "__cuda_array_interface__", {})
    stream = interface.get("stream")
    return None if stream is None else _plain(int(stream))


def _plain(stream: int) -> int:
    return DEFAULT if stream == _LEGACY else stream


class Events(Protocol):
    """What a kind of GPU has to order streams by; DLPACK_DEFAULT is what its DLPack calls stream 0."""

    DLPACK_DEFAULT: int

    def is_capturing(self, stream: int) -> bool:
        """Whether launches on a stream are recorded into a graph rather than run."""

    def mark(self, stream: int) -> Any:
        """An event that has happened when a stream has done what it has to do until now."""

    def wait(self, stream: int, event: Any) -> None:
        """Let a stream wait for an event."""

    def is_done(self, event: Any) -> bool:
        """Whether an event has happened."""

    def destroy(self, event: Any) -> None:
        """Give an event back; the driver keeps it for as long as it needs it."""


@contextmanager
def ordered(plan: Order, events: Events) -> Iterator[None]:
    """Wait for other libraries' work before a launch, and let them wait for it after.

    In a capture there is nothing to wait for: work that is not recorded is not part of a graph.
    """
    if (not plan.others and not plan.producers) or events.is_capturing(plan.stream):
        yield
        return
    for producer in plan.producers:
        producer[0].__dlpack__(stream=plan.stream or events.DLPACK_DEFAULT)
    for other in plan.others:
        _wait(plan.stream, other, events)
    yield
    for other in plan.others:
        _wait(other, plan.stream, events)
    if plan.producers:
        _hold(plan, events)


def _wait(waiting: int, awaited: int, events: Events) -> None:
    """Let a stream wait for what another has to do until now."""
    event = events.mark(awaited)
    events.wait(waiting, event)
    events.destroy(event)


# A library that is known by DLPack alone may use memory again once nobody holds it, though the GPU still
# reads it: owners stay here until their launch has run.
_held: list[tuple[Events, Any, tuple[Any, ...]]] = []
_holding = threading.Lock()


def _hold(plan: Order, events: Events) -> None:
    event = events.mark(plan.stream)
    with _holding:
        _held.append((events, event, plan.producers))
        done = [item for item in _held if item[0].is_done(item[1])]
        finished = {id(item) for item in done}
        _held[:] = [item for item in _held if id(item) not in finished]
    for of, event, _ in done:
        of.destroy(event)
