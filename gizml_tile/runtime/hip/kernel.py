"""Kernels on AMD GPUs: kept on disk, loaded onto each device that they run on, and launched."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import TileError, here
from .. import disk_cache
from ..loading import Loading, require_room
from ..parameters import described, words
from ..streams import order, ordered
from ..tensors import TensorInfo
from . import comgr, driver, streams
from .artifact import Artifact, restore
from .devices import Device, current, device, ordinal_of

if TYPE_CHECKING:
    from ..fast_call import Call, FastCall

# HIP counts the threads of a launch along each axis in 32 bits.
_MOST_THREADS = (1 << 32) - 1


def made_with() -> str:
    """What code depends on beside the text."""
    return comgr.found().name


def assembled(artifact: Artifact) -> disk_cache.Entry:
    """What to keep of a kernel on disk: its facts, its text and its code."""
    text, code = artifact.text.encode(), comgr.compile_text(artifact.text, artifact.arch)
    return disk_cache.Entry(described(artifact) | {"text_bytes": len(text)}, text + code)


def restored(entry: disk_cache.Entry) -> HipKernel:
    """A kernel that `assembled` told, ready to launch; it is loaded onto a device at its first launch."""
    facts = dict(entry.metadata)
    size = facts.pop("text_bytes")
    return HipKernel(restore(facts, entry.data[:size].decode()), entry.data[size:])


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel on one device."""

    device: Device
    module: Any
    function: Any


class HipKernel:
    """Compiled code for one layout of tensors on GPUs of one architecture, launched by calling it."""

    def __init__(self, artifact: Artifact, code: bytes) -> None:
        self.artifact = artifact
        self._loading = Loading(driver.bindings, lambda ordinal: _load(artifact, code, device(ordinal)))

    def loaded(self, ordinal: int) -> Loaded:
        """The kernel on a device, loaded where it is not yet. Raises TileError where it cannot be."""
        return self._loading.on(ordinal)

    def fast_call(self, call: Call) -> FastCall | None:
        """There is no native way to repeat a launch on these GPUs."""
        return None

    def workgroups(self, grid: Sequence[int], ordinal: int) -> int:
        """How many workgroups a launch has. Raises TileError for more programs than HIP can count."""
        artifact, programs = self.artifact, math.prod(grid)
        most = _MOST_THREADS // artifact.threads
        if programs > most:
            raise TileError(
                f"kernel {artifact.entry}: a grid of {' x '.join(map(str, grid))} has {programs} programs, "
                f"and a launch at most {most} of {artifact.threads} threads; let each do more",
                here(),
            )
        if artifact.per_unit:
            return min(programs, artifact.per_unit * self.loaded(ordinal).device.units)
        return programs

    def __call__(
        self,
        tensors: Sequence[TensorInfo],
        scalars: Sequence[int | float],
        grid: Sequence[int],
        stream: object = None,
    ) -> None:
        """Launch over a grid and return at once; by default on the stream that the tensors' library uses.

        Raises TileError where the device lacks what the kernel needs, or refuses the launch.
        """
        ordinal = ordinal_of(tensors[0].device) if tensors else 0
        loaded, workgroups = self.loaded(ordinal), self.workgroups(grid, ordinal)
        plan = order(tensors, ordinal, stream)
        packed = words(self.artifact.parameters, tensors, scalars, grid)
        # hip-python packs numbers by their natural alignment: these are 8 bytes each.
        passed = tuple(ctypes.c_uint64(word) for (word,) in struct.iter_unpack("=Q", packed))
        sizes = (workgroups, 1, 1, self.artifact.threads, 1, 1)
        with current(loaded.device), ordered(plan, streams):
            status, _ = driver.attempt(
                "hipModuleLaunchKernel", loaded.function, *sizes, 0, plan.stream or None, None, passed
            )
            if status:
                raise driver.refused(status, f"kernel {self.artifact.entry} was not launched")


def _load(artifact: Artifact, code: bytes, device: Device) -> Loaded:
    what = f"kernel {artifact.entry}"
    if artifact.arch != device.arch:
        raise TileError(f"{what} is for {artifact.arch}, and {device.name} is {device.arch}", here())
    require_room(what, artifact, device, device.name)
    with current(device):
        status, module = driver.attempt("hipModuleLoadData", code)
        if driver.is_capture(status):
            raise TileError(
                f"{what} must be loaded, which this capture of a graph does not allow; launch it once before "
                "the capture",
                here(),
            )
        if status:
            raise driver.refused(status, f"{what} cannot be loaded")
        function = driver.call("hipModuleGetFunction", module, artifact.entry.encode(), doing=what)
    return Loaded(device, module, function)
