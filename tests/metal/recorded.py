"""Launches for Metal, recorded where they would be simulated, so that their texts can be run too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gizml_tile.dtypes import F32, MASK, to_numpy
from gizml_tile.lowering import simulate as simulation
from gizml_tile.lowering.emit.metal import MetalArtifact, emit
from gizml_tile.lowering.kernel_ir.instructions import Instruction, Kernel, Parameter
from gizml_tile.lowering.simulate import Memory
from gizml_tile.runtime.tensors import TensorInfo
from gizml_tile.target import Target


@dataclass(frozen=True)
class Placed:
    """A tensor in a piece of memory: its number, the byte where element 0 is, sizes and strides."""

    piece: int
    byte: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Launch:
    """A kernel and its text, with pieces of memory in which its tensors are, to be run on.

    ``wanted`` are the same pieces after the simulator ran the kernel on them, if it did.
    """

    kernel: Kernel
    artifact: MetalArtifact
    tensors: tuple[Placed, ...]
    scalars: tuple[int | float, ...]
    grid: tuple[int, ...]
    pieces: list[np.ndarray]
    wanted: list[np.ndarray] = field(default_factory=list)

    @property
    def groups(self) -> tuple[int, ...]:
        """The launch's threadgroups along each axis."""
        return self.grid if self.kernel.axes == len(self.grid) else (math.prod(self.grid),)

    def numbers(self) -> list[np.ndarray]:
        """The buffers with numbers."""
        numbers = [each for each in self.artifact.arguments if each.parameter.kind != "pointer"]
        integers = [self._number(each.parameter) for each in numbers if each.dtype is not F32]
        floats = [self._number(each.parameter) for each in numbers if each.dtype is F32]
        both = (np.array(integers, np.int64), np.array(floats, np.float32))
        return [each for each in both if each.size]

    def _number(self, parameter: Parameter) -> int | float:
        number, axis = parameter.number, parameter.axis
        match parameter.kind:
            case "size":
                return self.tensors[number].shape[axis]
            case "stride":
                return self.tensors[number].strides[axis]
            case "scalar":
                return self.scalars[number]
        assert parameter.kind == "grid"
        return self.grid[axis] if axis < len(self.grid) else 1

    def places(self) -> list[Placed]:
        """The tensors that the text takes, in order."""
        passed = [each.parameter for each in self.artifact.arguments]
        return [self.tensors[each.number] for each in passed if each.kind == "pointer"]


class Recorder:
    """Keeps each launch: stands for what runs the simulator, or for the simulator itself, which it asks."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        # Memory that a launch of several programs has for itself is there as long as its description.
        self._infos: list[Sequence[TensorInfo]] = []

    def run(
        self,
        kernel: Kernel,
        infos: Sequence[TensorInfo],
        written: object,
        scalars: Sequence[int | float],
        grid: Sequence[int],
    ) -> tuple[()]:
        """In place of ``simulating.run``: nothing is run, and the text will run on the tensors' memory."""
        self._infos.append(infos)
        pieces = [np.array([], np.uint8)]
        tensors = tuple(Placed(0, each.pointer, each.shape, each.strides) for each in infos)
        self.launches.append(Launch(kernel, emit(kernel), tensors, tuple(scalars), tuple(grid), pieces))
        return ()

    def simulate(
        self,
        kernel: Kernel,
        memories: Sequence[Memory],
        scalars: Sequence[int | float] = (),
        grid: Sequence[int] = (1,),
        **options: Any,
    ) -> Any:
        """In place of ``simulate``: it runs, and the text will run on a copy of the memory."""
        numbers: dict[int, int] = {}
        data: list[np.ndarray] = []
        tensors = []
        for each in memories:
            piece = numbers.setdefault(each.data.ctypes.data, len(numbers))
            if piece == len(data):
                data.append(each.data.view(np.uint8))
            tensors.append(Placed(piece, each.offset * each.data.itemsize, each.shape, each.strides))
        before = [each.copy() for each in data]
        quick = options | {"checks": False, "counts": False}
        findings = simulation.simulation.simulate(kernel, memories, scalars, grid, **quick)
        launch = Launch(kernel, emit(kernel), tuple(tensors), tuple(scalars), tuple(grid), before)
        self.launches.append(replace(launch, wanted=[each.copy() for each in data]))
        return findings


def of_metal(kernel: Kernel, arch: str = "apple9") -> Kernel:
    """A kernel that was written for any target, for an Apple GPU."""
    return replace(kernel, target=Target("metal", arch))


def adds_in_any_order(kernel: Kernel) -> bool:
    """Whether the order of float additions is not settled: in products, and where threads meet in memory."""

    def adds(each: Instruction) -> bool:
        if each.op == "update":
            return any(inner.op == "add" and inner.dtype.is_float for inner in each.blocks[0].walk())
        return each.op == "atomic" and each.attr.combine == "add" and each.args[0].dtype.is_float

    return any(each.op == "mma" or adds(each) for each in kernel.body.walk())


def assert_as_simulated(launch: Launch) -> None:
    """The pieces have the simulator's bits, or any NaN where it has one; sums in any order come near."""
    in_any_order = adds_in_any_order(launch.kernel)
    for tensor, place in zip(launch.kernel.tensors, launch.tensors, strict=True):
        if 0 in place.shape:  # no elements, whose piece may be any
            continue
        got, want = (_elements(tensor.dtype, place, each) for each in (launch.pieces, launch.wanted))
        bits = got.view(f"u{got.itemsize}") == want.view(f"u{got.itemsize}")
        with np.errstate(invalid="ignore"):
            got, want = got.astype(np.float64), want.astype(np.float64)
        near = bits | (np.isnan(got) & np.isnan(want))
        if in_any_order:
            # Where sums overflow, their order decides between infinities and NaN.
            near |= ~np.isfinite(got) & ~np.isfinite(want)
            most = np.abs(want[np.isfinite(want)]).max(initial=0)
            with np.errstate(invalid="ignore"):
                near |= np.abs(got - want) <= 2e-5 * most + ROUNDING[tensor.dtype.bits] * np.abs(want)
        assert near.all(), f"{tensor.name}: {got[~near][:4]} instead of {want[~near][:4]}"


# What the next value of a type is away at most, relative, by its bits.
ROUNDING = {8: 2.0**-3, 16: 2.0**-7, 32: 2.0**-20, 64: 0.0}


def _elements(dtype: Any, place: Placed, pieces: Sequence[np.ndarray]) -> np.ndarray:
    storage = np.dtype(np.uint8) if dtype is MASK else to_numpy(dtype)
    return pieces[place.piece].view(storage)
