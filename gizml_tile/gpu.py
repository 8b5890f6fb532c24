"""From a tile program to a GPU's kernel: what a launch knows, the plan, the kernel, its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gizml_tile.build import versions
from gizml_tile.launch import strides
from gizml_tile.nodes import TileProgram
from gizml_tile.runtime import disk_cache
from gizml_tile.runtime.tensors import TensorInfo
from gizml_tile.target import Target, target

if TYPE_CHECKING:
    from gizml_tile.lowering.kernel_ir.instructions import Kernel
    from gizml_tile.lowering.planning.plan import Plan
    from gizml_tile.lowering.planning.signature import Signature
    from gizml_tile.runtime.cuda.artifact import Artifact

Executable = Callable[..., Any]

# Code that is made is found here again, also where each launch traces anew.
_KNOWN = 256
_known: dict[str, Executable] = {}
# Wider accesses than this do not exist.
_ALIGNMENT = 16
# Offsets of elements that fit 32 bits, with room for a block beyond the last element.
_NARROW = 1 << 30


@dataclass(frozen=True, slots=True)
class GpuLayout:
    """What a GPU's code is compiled for beside the program."""

    target: Target
    signature: Signature


def gpu_layout(
    program: TileProgram,
    target: Target,
    infos: Sequence[TensorInfo],
    grid: Sequence[int],
    scalars: Sequence[int | float],
    *,
    may_alias: bool,
) -> GpuLayout:
    """The layout of a launch of a simplified program."""
    from gizml_tile.lowering.planning.bounds import facts
    from gizml_tile.lowering.planning.signature import Signature

    shapes = tuple(info.shape for info in infos)
    return GpuLayout(
        target,
        Signature(
            tuple(strides(info.shape, info.strides) for info in infos),
            tuple(_alignment(info) for info in infos),
            facts(program, shapes, grid, scalars),
            len(grid),
            any(_reach(info) >= _NARROW for info in infos),
            may_alias,
        ),
    )


def _alignment(info: TensorInfo) -> int:
    """The largest power of two up to 16 that divides the address and all strides in bytes but unit ones."""
    together = info.pointer | _ALIGNMENT
    for size, stride in zip(info.shape, info.strides, strict=True):
        if size > 1 and stride != 1:
            together |= stride * info.dtype.bytes
    return together & -together


def _reach(info: TensorInfo) -> int:
    """How far from the first element, in elements, others lie."""
    return sum(abs(stride) * max(size - 1, 0) for size, stride in zip(info.shape, info.strides, strict=True))


@lru_cache(maxsize=256)
def plan(program: TileProgram, layout: GpuLayout) -> Plan:
    """The plan of a simplified program."""
    from gizml_tile.lowering.planning.planner import plan

    return plan(program, layout.target, layout.signature)


@lru_cache(maxsize=64)
def kernel(program: TileProgram, layout: GpuLayout) -> Kernel:
    """The kernel of a simplified program."""
    from gizml_tile.lowering.expand.kernel import expand

    return expand(plan(program, layout))


def artifact(program: TileProgram, layout: GpuLayout) -> Artifact:
    """The text of a simplified program's kernel, and how it is launched."""
    from gizml_tile.lowering.emit import ptx
    from gizml_tile.runtime.cuda.artifact import of_emitted

    return of_emitted(ptx.emit(kernel(program, layout)))


def source(program: TileProgram, layout: GpuLayout) -> str:
    """The text that the target's assembler takes."""
    return artifact(program, layout).text


def explain(program: TileProgram, layout: GpuLayout) -> str:
    """The plan with its reasons."""
    from gizml_tile.lowering.explain import explain

    return explain(plan(program, layout))


def executable(program: Callable[[], TileProgram], layout: GpuLayout, digest: str) -> Executable:
    """Code for a layout of the program that ``digest`` stands for: known, from the disk, or made.

    ``program`` gives the simplified program and is called only where code is made.
    """
    from gizml_tile.runtime.cuda import assembler
    from gizml_tile.runtime.cuda.kernel import assembled, restored

    key = f"gpu code {digest} {layout} {assembler.key()} {versions()}"
    if key in _known:
        return _known[key]
    entry = disk_cache.get(key)
    if entry is None:
        entry = assembled(artifact(program(), layout))
        disk_cache.put(key, entry)
    if len(_known) >= _KNOWN:
        _known.pop(next(iter(_known)))
    _known[key] = restored(entry)
    return _known[key]


def target_of(device: str, pointer: int) -> Target:
    """The target that a device of a tensor is, such as ``cuda:1``."""
    from gizml_tile.runtime.cuda.devices import device as device_of
    from gizml_tile.runtime.cuda.devices import ordinal_of

    return target("cuda", device_of(ordinal_of(device, pointer)).arch)
