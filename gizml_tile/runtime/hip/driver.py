"""The HIP runtime, by hip-python's bindings: the one place that calls it and reads its answers."""

from __future__ import annotations

import importlib
import os
from typing import Any

from ...errors import TileError, here

_NO_DEVICE, INVALID_DEVICE = 100, 101
NO_BINARY = 209
NOT_READY = 600
_CAPTURE = range(900, 911)
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


class _State:
    """The bindings once they are imported and initialised, and the process that did."""

    bindings: Any = None
    process = 0


def bindings() -> Any:
    """hip-python's ``hip``, initialised. Raises TileError without the package, ROCm or a device."""
    if _State.bindings is None:
        _State.bindings = _initialised(_imported())
        _State.process = os.getpid()
    elif _State.process != os.getpid():
        raise TileError(
            "HIP was used before this process was forked, and does not live on in a fork; start processes "
            "with multiprocessing's 'spawn' method",
            here(),
        )
    return _State.bindings


def forget() -> None:
    """Import and initialise again at the next use."""
    _State.bindings = None


def _imported() -> Any:
    try:
        # In some versions `hip.hip` is a module, in others a name in `hip`.
        return importlib.import_module("hip").hip
    except ImportError as error:
        raise TileError(
            f"tensors on an AMD GPU need hip-python ({error}): pip install 'gizml-tile[hip]'", here()
        ) from None


def _initialised(module: Any) -> Any:
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


def attempt(name: str, *args: Any) -> tuple[int, Any]:
    """The runtime's status and what it returned: nothing, one value, or a tuple of several."""
    status, *values = getattr(bindings(), name)(*args)
    return int(status), values[0] if len(values) == 1 else tuple(values) or None


def call(name: str, *args: Any, doing: str) -> Any:
    """What a function of the runtime returned. Raises TileError that starts with ``doing``."""
    status, value = attempt(name, *args)
    if status:
        raise refused(status, doing)
    return value


def refused(status: int, doing: str) -> TileError:
    """The error for a status of the runtime's, with what can be done about it."""
    advice = _ADVICE.get(status)
    return TileError(f"{doing}: {_told(bindings(), status)}" + (f"; {advice}" if advice else ""), here())


def is_capture(status: int) -> bool:
    """Whether a status says that a stream which is being captured does not allow what was asked."""
    return status in _CAPTURE


def constant(enumeration: str, name: str) -> Any:
    """A named constant, such as ``constant("hipDeviceAttribute_t", "hipDeviceAttributeWarpSize")``."""
    return getattr(getattr(bindings(), enumeration), name)


def _told(module: Any, status: int) -> str:
    """A status in the runtime's own words."""
    try:
        known = module.hipError_t(status)
    except ValueError:
        return f"the HIP runtime answered {status}"
    return f"the HIP runtime answered {known.name} ({status})"
