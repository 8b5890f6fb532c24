"""The CUDA driver, by cuda-python's bindings: the one place that calls it and reads its answers."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...errors import TileError, here
from ..library import Library
from ..library import is_capture as is_capture

# Addresses of functions are asked for as of this version; parameters of a later one may differ.
_VERSION = 12000
_NOT_INITIALIZED, _NO_DEVICE = 3, 100
INVALID_IMAGE, NO_BINARY, UNSUPPORTED_PTX = 200, 209, 222
NOT_READY = 600

_EARLIER = (
    "a launch before this one failed on the GPU, and the process must be started again; with "
    "CUDA_LAUNCH_BLOCKING=1 the error comes at the launch that fails, and compute-sanitizer names its line"
)
_SPAWN = "start processes with multiprocessing's 'spawn' method"
# What a person can do about an answer.
_ADVICE = {
    2: "the GPU has no memory left; free tensors or use smaller ones",
    46: "the GPU is busy or not available; see nvidia-smi",
    101: "see CUDA_VISIBLE_DEVICES for the devices that this process has",
    NO_BINARY: "the code is for another GPU",
    UNSUPPORTED_PTX: "the driver is older than the code's PTX; update the NVIDIA driver",
    400: "the stream is not one of this device's, or was destroyed",
    700: _EARLIER,
    701: "the kernel needs more registers or workgroup memory than there are; use smaller blocks",
    714: _EARLIER,
    715: _EARLIER,
    716: _EARLIER,
    717: _EARLIER,
    718: _EARLIER,
    719: _EARLIER,
    906: "another stream is being captured; launch on that stream, or after the capture",
}


def _imported() -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise TileError(
            f"tensors on a CUDA GPU need cuda-python ({error}): pip install 'gizml-tile[cuda]'",
            here(),
        ) from None


def _start() -> Any:
    """``cuda.bindings.driver``, initialised."""
    module = _imported()
    try:
        code = int(module.cuInit(0)[0])
    except Exception as error:  # the bindings raise many kinds where no library is found
        raise TileError(
            f"no CUDA driver was found; install NVIDIA's driver for this GPU ({error})", here()
        ) from None
    if code == _NO_DEVICE:
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        more = "" if seen is None else f" (CUDA_VISIBLE_DEVICES={seen})"
        raise TileError(f"the CUDA driver sees no GPU{more}", here())
    if code:
        forked = f"; if another library used CUDA before a fork, {_SPAWN}" if code == _NOT_INITIALIZED else ""
        raise TileError(f"the CUDA driver does not start: {_told(module, code)}{forked}", here())
    return module


def _told(module: Any, status: int) -> str:
    """A status in the driver's own words."""
    words = []
    for function in ("cuGetErrorString", "cuGetErrorName"):
        error, text = getattr(module, function)(_status(module, status))
        if int(error) == 0 and text:
            words.append(text.decode() if isinstance(text, bytes) else str(text))
    if len(words) < 2:
        return f"the CUDA driver answered {status}"
    return f"the CUDA driver answered '{words[0]}' ({words[1]})"


def _status(module: Any, status: int) -> Any:
    try:
        return module.CUresult(status)
    except ValueError:
        return status


_library = Library(
    _start,
    _told,
    _ADVICE,
    f"CUDA was used before this process was forked, and its driver does not live on in a fork; {_SPAWN}",
)
bindings, forget = _library.bindings, _library.forget
attempt, call, refused, constant = _library.attempt, _library.call, _library.refused, _library.constant


@contextmanager
def relaxed(doing: str) -> Iterator[None]:
    """Let this thread do what touches no stream, and so is safe, while a stream is captured."""
    mode = constant("CUstreamCaptureMode", "CU_STREAM_CAPTURE_MODE_RELAXED")
    before = call("cuThreadExchangeStreamCaptureMode", mode, doing=doing)
    try:
        yield
    finally:
        attempt("cuThreadExchangeStreamCaptureMode", before)


def address(name: str) -> int:
    """The address of a function of the driver's. Raises TileError where the driver lacks it."""
    found = call("cuGetProcAddress", name.encode(), _VERSION, 0, doing=f"the CUDA driver lacks {name}")
    return int(found[0])
