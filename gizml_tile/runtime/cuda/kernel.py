"""Kernels on CUDA GPUs: kept on disk, loaded onto each device that they run on, and launched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ...errors import TileError, here
from .. import disk_cache
from ..loading import Loading
from ..parameters import words
from ..streams import order, ordered
from ..tensors import TensorInfo
from . import assembler, driver, streams
from .artifact import Artifact, describe, restore
from .assembler import Report
from .devices import current, device, ordinal_of
from .modules import Loaded, launch_config, load
from .parameters import encode_maps, in_memory

if TYPE_CHECKING:
    from ..fast_call import Call, FastCall

_MOST_WORKGROUPS = (1 << 31) - 1


def made_with() -> str:
    """What code depends on beside the text."""
    return assembler.key()


def assembled(artifact: Artifact) -> disk_cache.Entry:
    """What to keep of a kernel on disk: its facts, its text and, where ``ptxas`` is installed, its code."""
    text = artifact.text.encode()
    done = assembler.assemble(artifact.text, artifact.arch)
    code, report = (done[0], assembler.report_of(done[1])) if done else (b"", Report())
    facts = describe(artifact) | {"text_bytes": len(text), "report": asdict(report)}
    return disk_cache.Entry(facts, text + code)


def restored(entry: disk_cache.Entry) -> CudaKernel:
    """A kernel that `assembled` told, ready to launch; it is loaded onto a device at its first launch."""
    size = entry.metadata["text_bytes"]
    report = entry.metadata["report"]
    known = Report(**report | {"warnings": tuple(report["warnings"])})
    artifact = restore(entry.metadata, entry.data[:size].decode())
    return CudaKernel(artifact, entry.data[size:], known)


class CudaKernel:
    """Compiled code for one layout of tensors on GPUs of one architecture, launched by calling it."""

    def __init__(self, artifact: Artifact, code: bytes = b"", report: Report | None = None) -> None:
        self.artifact = artifact
        known = report or Report()
        self._loading = Loading(driver.bindings, lambda ordinal: load(artifact, code, known, device(ordinal)))

    def loaded(self, ordinal: int) -> Loaded:
        """The kernel on a device, loaded where it is not yet. Raises TileError where it cannot be."""
        return self._loading.on(ordinal)

    def fast_call(self, call: Call) -> FastCall | None:
        """A callable that repeats a launch of this kernel natively; None where there can be none."""
        from .fast_call import fast_call

        return fast_call(call)

    def workgroups(self, grid: Sequence[int], ordinal: int) -> int:
        """How many workgroups a launch has. Raises TileError for more programs than a GPU can count."""
        artifact, programs = self.artifact, self.artifact.launch.programs(grid)
        whole = programs * artifact.cluster
        if whole > _MOST_WORKGROUPS:
            raise TileError(
                f"kernel {artifact.entry}: a grid of {' x '.join(map(str, grid))} has "
                f"{math.prod(grid)} programs, and a launch at most {_MOST_WORKGROUPS}; let each do more",
                here(),
            )
        if artifact.launch.kind == "persistent":
            rounds = -(-whole // self.loaded(ordinal).resident)
            # As few as need no more rounds: 2048 programs take 16 rounds of 128 workgroups or of 132, and
            # with 128 all end together. Measured on an H200: 1 to 2 % faster.
            return -(-programs // max(rounds, 1)) * artifact.cluster
        return whole

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
        ordinal = ordinal_of(tensors[0].device, tensors[0].pointer) if tensors else 0
        loaded = self.loaded(ordinal)
        workgroups = self.workgroups(grid, ordinal)
        plan = order(tensors, ordinal, stream)
        packed = words(self.artifact.parameters, tensors, scalars, grid)
        config = launch_config(self.artifact, workgroups, plan.stream)
        with current(loaded.device), ordered(plan, streams):
            encoded = encode_maps(self.artifact.maps, tensors)
            # The driver copies parameters when it takes a launch, so the memory is this call's alone.
            memory, addresses = in_memory(self.artifact.parameters, packed, encoded)
            status, _ = driver.attempt("cuLaunchKernelEx", config, loaded.function, addresses, 0)
            del memory
            if status:
                raise driver.refused(status, f"kernel {self.artifact.entry} was not launched")
