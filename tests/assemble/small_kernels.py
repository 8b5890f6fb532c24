"""Kernels around one instruction or a few: arguments come from tensors, and results go back to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gizml_tile.dtypes import I32, MASK, DType
from gizml_tile.lowering.emit.ptx import PtxArtifact, emit
from gizml_tile.lowering.kernel_ir.builder import Builder
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    Access,
    Buffer,
    Instruction,
    Kernel,
    Parameter,
)
from gizml_tile.nodes import Tensor
from gizml_tile.target import Target


class SmallKernel(Builder):
    """A builder that also makes the kernel: each `input` and `output` is a tensor of its own."""

    def __init__(self, arch: str = "sm_90a", threads: int = 128) -> None:
        super().__init__()
        self.target = Target("cuda", arch)
        self.threads = threads
        self.tensors: list[Tensor] = []
        self.buffers: list[Buffer] = []
        self.signals = 0
        self.cluster = 1

    def tensor(self, dtype: DType, rank: int = 1) -> int:
        self.tensors.append(Tensor(f"t{len(self.tensors)}", dtype, rank))
        return len(self.tensors) - 1

    def buffer(self, dtype: DType, elements: int) -> int:
        end = max((each.offset + each.bytes for each in self.buffers), default=0)
        self.buffers.append(Buffer(f"b{len(self.buffers)}", dtype, elements, (end + 1023) // 1024 * 1024))
        return len(self.buffers) - 1

    def number(self, value: int) -> Instruction:
        return self.constant(value, I32)

    def input(self, dtype: DType, count: int = 1, width: int = 1) -> Instruction:
        """``count`` registers of a tensor, by the thread's number."""
        offsets = self.mul(self.thread(), self.number(count))
        return self.load(self._access(dtype, count, width), offsets, dtype)

    def output(self, value: Instruction, width: int = 1) -> None:
        """Store a value by the thread's number."""
        assert value.dtype is not None
        offsets = self.mul(self.thread(), self.number(value.count))
        self.store(self._access(value.dtype, value.count, width), value, offsets)

    def mask(self, count: int = 1) -> Instruction:
        return self.input(MASK, count)

    def _access(self, dtype: DType, count: int, width: int) -> Access:
        places = tuple((0, first) for first in range(0, count, width))
        return Access(GLOBAL, self.tensor(dtype), width, places)

    def kernel(self, name: str = "kernel", **others: int) -> Kernel:
        pointers = tuple(Parameter("pointer", number) for number in range(len(self.tensors)))
        scalars = tuple(
            each.attr for each in self._head if each.op == "parameter" and each.attr not in pointers
        )
        return Kernel(
            name,
            self.target,
            tuple(self.tensors),
            (*pointers, *scalars),  # type: ignore[arg-type]
            tuple(self.buffers),
            self.threads,
            self.body(),
            signals=self.signals,
            cluster=self.cluster,
            **others,
        )

    def ptx(self) -> PtxArtifact:
        return emit(self.kernel())


Build = Callable[[SmallKernel], None]


def text_of(build: Build, arch: str = "sm_90a") -> str:
    """The PTX of a kernel that a function builds."""
    kernel = SmallKernel(arch)
    build(kernel)
    return kernel.ptx().text


def body_of(build: Build, arch: str = "sm_90a") -> Sequence[str]:
    """The lines between a kernel's declarations and its end."""
    lines = text_of(build, arch).splitlines()
    inside = lines[lines.index("{") + 1 : lines.index("ret;")]
    return [line for line in inside if not line.startswith(".reg")]
