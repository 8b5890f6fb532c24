"""HIP devices: what they are and how much they have, and making one current for a moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...errors import TileError, here
from ..loading import Devices
from . import driver

_ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1200", "gfx1201")


@dataclass(frozen=True, slots=True)
class Device:
    """A HIP device and what it has: memory in bytes, workgroup memory and threads of one workgroup.

    ``units`` are its compute units.
    """

    ordinal: int
    name: str
    arch: str
    units: int
    workgroup_memory: int
    threads: int

    @property
    def key(self) -> str:
        """What measurements on one device hold for: its name, architecture and compute units."""
        return f"{self.name} {self.arch} {self.units}"


def _opened(ordinal: int) -> Device:
    what = f"hip:{ordinal}"
    count = driver.call("hipGetDeviceCount", doing=what)
    if not 0 <= ordinal < count:
        raise TileError(f"there is no {what}; the HIP runtime sees {count} GPUs", here())
    found = properties(ordinal)
    name = text(found.name)
    # The name goes on with settings of its memory, such as gfx942:sramecc+:xnack-.
    arch = text(found.gcnArchName).partition(":")[0]
    if arch not in _ARCHS:
        raise TileError(
            f"{what} ({name}) is {arch}, for which no code can be made; known are {', '.join(_ARCHS)}", here()
        )
    return Device(
        ordinal,
        name,
        arch,
        int(found.multiProcessorCount),
        int(found.sharedMemPerBlock),
        int(found.maxThreadsPerBlock),
    )


def properties(ordinal: int) -> Any:
    """What the runtime says of a device."""
    doing = f"hip:{ordinal}"
    try:
        return driver.call("hipGetDeviceProperties", ordinal, doing=doing)
    except TypeError:
        # hip-python before 10 fills what it is given.
        found = driver.bindings().hipDeviceProp_t()
        driver.call("hipGetDeviceProperties", found, ordinal, doing=doing)
        return found


def text(name: str | bytes) -> str:
    """A name as hip-python has it, before version 10 as bytes."""
    return name.decode(errors="replace") if isinstance(name, bytes) else name


_devices = Devices(_opened)
device, forget = _devices.device, _devices.forget


@contextmanager
def current(device: Device) -> Iterator[None]:
    """Make a device the thread's for a moment; the one before is put back."""
    before = driver.call("hipGetDevice", doing=f"hip:{device.ordinal}")
    if before == device.ordinal:
        yield
        return
    driver.call("hipSetDevice", device.ordinal, doing=f"hip:{device.ordinal} cannot be used")
    try:
        yield
    finally:
        driver.attempt("hipSetDevice", before)


def ordinal_of(name: str, pointer: int = 0) -> int:
    """The number of a device such as ``hip:1``; plain ``hip`` is the first, whatever the memory."""
    return int(name.partition(":")[2] or 0)
