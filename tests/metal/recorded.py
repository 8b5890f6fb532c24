"""Launches for Metal, recorded where they would be simulated, so that their texts can be run instead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gizml_tile.lowering.emit.metal import MetalArtifact, emit
from gizml_tile.lowering.kernel_ir.instructions import Kernel, Parameter
from gizml_tile.runtime.tensors import TensorInfo


@dataclass(frozen=True, eq=False)
class Launch:
    """A kernel, its text, and the tensors in this computer's memory that it is launched on."""

    kernel: Kernel
    artifact: MetalArtifact
    infos: tuple[TensorInfo, ...]
    scalars: tuple[int | float, ...]
    grid: tuple[int, ...]

    @property
    def groups(self) -> tuple[int, ...]:
        """The threadgroups: as many as programs, or three where each runs several."""
        programs = math.prod(self.grid)
        if self.artifact.persistent:
            return (min(programs, 3),)
        return self.grid if self.kernel.axes == len(self.grid) else (programs,)

    def numbers(self) -> list[np.ndarray]:
        """The buffers with numbers."""
        integers = np.array([self._number(each) for each in self.artifact.integers], np.int64)
        floats = np.array([self._number(each) for each in self.artifact.floats], np.float32)
        return [each for each in (integers, floats) if each.size]

    def _number(self, parameter: Parameter) -> int | float:
        number, axis = parameter.number, parameter.axis
        match parameter.kind:
            case "size":
                return self.infos[number].shape[axis]
            case "stride":
                return self.infos[number].strides[axis]
            case "scalar":
                return self.scalars[number]
        assert parameter.kind == "grid"
        return self.grid[axis] if axis < len(self.grid) else 1

    def buffers(self, numbers: Sequence[np.ndarray]) -> list[int]:
        """The addresses that the text takes."""
        tensors = [self.infos[number].pointer for number in self.artifact.tensors]
        return [*tensors, *(each.ctypes.data for each in numbers)]


class Recorder:
    """Stands for the simulator: keeps each launch and says that all was well."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def run(self, kernel, infos, written, scalars, grid):
        launch = Launch(kernel, emit(kernel), tuple(infos), tuple(scalars), tuple(grid))
        self.launches.append(launch)
        return ()
