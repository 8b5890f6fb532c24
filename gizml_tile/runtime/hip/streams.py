"""HIP's streams and events, for the order between libraries."""

from __future__ import annotations

from typing import Any

from . import driver

# ROCm's DLPack calls the default stream 0.
DLPACK_DEFAULT = 0
_WAITING = "the order between two streams"


def is_capturing(stream: int) -> bool:
    """Whether launches on a stream are recorded into a graph rather than run."""
    status, state = driver.attempt("hipStreamIsCapturing", stream or None)
    return status == 0 and int(state) != 0


def mark(stream: int) -> Any:
    """An event that has happened when a stream has done what it has to do until now."""
    flags = int(driver.bindings().hipEventDisableTiming)
    event = driver.call("hipEventCreateWithFlags", flags, doing=_WAITING)
    driver.call("hipEventRecord", event, stream or None, doing=_WAITING)
    return event


def wait(stream: int, event: Any) -> None:
    """Let a stream wait for an event."""
    driver.call("hipStreamWaitEvent", stream or None, event, 0, doing=_WAITING)


def is_done(event: Any) -> bool:
    """Whether an event has happened."""
    return driver.attempt("hipEventQuery", event)[0] != driver.NOT_READY


def destroy(event: Any) -> None:
    """Give an event back; the driver keeps it for as long as it needs it."""
    driver.attempt("hipEventDestroy", event)
