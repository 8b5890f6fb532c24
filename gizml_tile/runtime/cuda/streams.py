"""CUDA's streams and events, for the order between libraries."""

from __future__ import annotations

from typing import Any

from . import driver

# CUDA's DLPack calls the default stream 1.
DLPACK_DEFAULT = 1
_WAITING = "the order between two streams"


def is_capturing(stream: int) -> bool:
    """Whether launches on a stream are recorded into a graph rather than run."""
    status, state = driver.attempt("cuStreamIsCapturing", stream)
    # While another stream is captured, the default stream answers with an error.
    return status == 0 and int(state) != 0


def mark(stream: int) -> Any:
    """An event that has happened when a stream has done what it has to do until now."""
    flags = int(driver.constant("CUevent_flags", "CU_EVENT_DISABLE_TIMING"))
    event = driver.call("cuEventCreate", flags, doing=_WAITING)
    driver.call("cuEventRecord", event, stream, doing=_WAITING)
    return event


def wait(stream: int, event: Any) -> None:
    """Let a stream wait for an event."""
    driver.call("cuStreamWaitEvent", stream, event, 0, doing=_WAITING)


def is_done(event: Any) -> bool:
    """Whether an event has happened."""
    return driver.attempt("cuEventQuery", event)[0] != driver.NOT_READY


def destroy(event: Any) -> None:
    """Give an event back; the driver keeps it for as long as it needs it."""
    driver.attempt("cuEventDestroy", event)
