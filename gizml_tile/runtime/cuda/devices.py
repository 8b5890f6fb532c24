"""CUDA devices: what they are and how much they have, and making one current for a moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...errors import TileError, here
from ..loading import Devices
from . import driver

# Code for an architecture with a letter has its matrix instructions, and runs on that one alone.
_ARCHS = {
    (7, 5): "sm_75",
    (8, 0): "sm_80",
    (8, 6): "sm_86",
    (8, 7): "sm_87",
    (8, 9): "sm_89",
    (9, 0): "sm_90a",
    (10, 0): "sm_100a",
    (10, 3): "sm_103a",
    (12, 0): "sm_120a",
    (12, 1): "sm_121a",
}


@dataclass(frozen=True, slots=True)
class Device:
    """A CUDA device and what it has: memory in bytes, workgroup memory and threads of one workgroup.

    ``processors`` are its multiprocessors, ``context`` is its primary context.
    """

    ordinal: int
    name: str
    arch: str
    processors: int
    workgroup_memory: int
    threads: int
    cache_bytes: int
    memory_bytes: int
    handle: Any
    context: Any

    @property
    def key(self) -> str:
        """What measurements on one device hold for: its name, architecture and processors."""
        return f"{self.name} {self.arch} {self.processors}"


def _opened(ordinal: int) -> Device:
    what = f"cuda:{ordinal}"
    count = driver.call("cuDeviceGetCount", doing=what)
    if not 0 <= ordinal < count:
        raise TileError(f"there is no cuda:{ordinal}; the CUDA driver sees {count} GPUs", here())
    handle = driver.call("cuDeviceGet", ordinal, doing=what)
    name = driver.call("cuDeviceGetName", 256, handle, doing=what)
    text = name.split(b"\0")[0].decode() if isinstance(name, bytes) else str(name)

    def attribute(kind: str) -> int:
        number = driver.constant("CUdevice_attribute", f"CU_DEVICE_ATTRIBUTE_{kind}")
        return int(driver.call("cuDeviceGetAttribute", number, handle, doing=what))

    capability = attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")
    arch = _ARCHS.get(capability)
    if arch is None:
        major, minor = capability
        raise TileError(
            f"cuda:{ordinal} ({text}) has compute capability {major}.{minor}, for which no code can be made; "
            f"known are {', '.join(_ARCHS.values())}",
            here(),
        )
    return Device(
        ordinal,
        text,
        arch,
        attribute("MULTIPROCESSOR_COUNT"),
        attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        attribute("MAX_THREADS_PER_BLOCK"),
        attribute("L2_CACHE_SIZE"),
        int(driver.call("cuDeviceTotalMem", handle, doing=what)),
        handle,
        driver.call("cuDevicePrimaryCtxRetain", handle, doing=f"{what} cannot be used"),
    )


_devices = Devices(_opened)
device, forget = _devices.device, _devices.forget


@contextmanager
def current(device: Device) -> Iterator[None]:
    """Make a device's context the thread's for a moment; the one before is put back."""
    before = driver.call("cuCtxGetCurrent", doing=f"cuda:{device.ordinal}")
    if int(before) == int(device.context):
        yield
        return
    driver.call("cuCtxPushCurrent", device.context, doing=f"cuda:{device.ordinal} cannot be used")
    try:
        yield
    finally:
        driver.attempt("cuCtxPopCurrent")


def ordinal_of(name: str, pointer: int = 0) -> int:
    """The number of a device such as ``cuda:1``; of plain ``cuda`` that of the memory at ``pointer``."""
    _, colon, number = name.partition(":")
    if colon:
        return int(number)
    kind = driver.constant("CUpointer_attribute", "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL")
    found = driver.call(
        "cuPointerGetAttribute", kind, pointer, doing="a tensor's memory is on no CUDA device"
    )
    return int(found)
