"""The HIP runtime, by hip-python's bindings: the one place that calls it and reads its answers."""

from __future__ import annotations

import importlib
import os
from typing import Any

from ...errors import TileError, here
from ..library import Library
from ..library import is_capture as is_capture

_NO_DEVICE, INVALID_DEVICE = 100, 101
NO_BINARY = 209
NOT_READY = 600
# What a person can do about an answer.
_ADVICE = {
    2: "the GPU has no memory left; free tensors or use smaller ones",
    INVALID_DEVICE: "see HIP_VISIBLE_DEVICES for the devices that this process has",
    NO_BINARY: "the code is for another GPU",
    700: "a launch before this one failed on the GPU, and the process must be started again; with "
    "AMD_SERIALIZE_KERNEL=3 the error comes at the launch that fails",
    719: "a launch before this one failed on the GPU, and the process must be started again",
    906: "another stream is being captured; launch on that stream, or after the capture",
}


def _imported() -> Any:
    try:
        # In some versions `hip.hip` is a module, in others a name in `hip`.
        return importlib.import_module("hip").hip
    except ImportError as error:
        raise TileError(
            f"tensors on an AMD GPU need hip-python ({error}): pip install 'gizml-tile[hip]'", here()
        ) from None


def _start() -> Any:
    """hip-python's ``hip``, initialised."""
    module = _imported()
    try:
        code = int(module.hipInit(0)[0])
        count = int(module.hipGetDeviceCount()[1] or 0) if code == 0 else 0
    except Exception as error:  # the bindings raise where the library is not found
        raise TileError(f"no HIP runtime was found; install ROCm for this GPU ({error})", here()) from None
    if code in (_NO_DEVICE, INVALID_DEVICE) or (code == 0 and count == 0):
        seen = os.environ.get("HIP_VISIBLE_DEVICES")
        more = "" if seen is None else f" (HIP_VISIBLE_DEVICES={seen})"
        raise TileError(f"the HIP runtime sees no GPU{more}", here())
    if code:
        raise TileError(f"the HIP runtime does not start: {_told(module, code)}", here())
    return module


def _told(module: Any, status: int) -> str:
    """A status in the runtime's own words."""
    try:
        known = module.hipError_t(status)
    except ValueError:
        return f"the HIP runtime answered {status}"
    return f"the HIP runtime answered {known.name} ({status})"


_library = Library(
    _start,
    _told,
    _ADVICE,
    "HIP was used before this process was forked, and does not live on in a fork; start processes with "
    "multiprocessing's 'spawn' method",
)
bindings, forget = _library.bindings, _library.forget
attempt, call, refused, constant = _library.attempt, _library.call, _library.refused, _library.constant
