"""From a tile program to a GPU's kernel: what a launch knows, the plan, the kernel, its text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from gizml_tile.aligned import CopyingKernel, aligned
from gizml_tile.build import versions
from gizml_tile.launch import strides
from gizml_tile.nodes import ACCESSES, Elements, TileProgram, View
from gizml_tile.runtime import disk_cache
from gizml_tile.runtime.tensors import TensorInfo
from gizml_tile.slow import Slow
from gizml_tile.target import Target, target
from gizml_tile.text import duration

if TYPE_CHECKING:
    from gizml_tile.lowering.emit.lines import Origins
    from gizml_tile.lowering.expand.expansion import Move
    from gizml_tile.lowering.explanation import Explanation
    from gizml_tile.lowering.kernel_ir.instructions import Kernel
    from gizml_tile.lowering.planning.plan import Plan
    from gizml_tile.lowering.planning.signature import AccessFacts, Signature
    from gizml_tile.lowering.work import Launch

Executable = Callable[..., Any]

# What writes the text for each kind of device: a module with ``emit(kernel)``, see `Emitted`.
_EMITTERS = {
    "cuda": "gizml_tile.lowering.emit.ptx",
    "hip": "gizml_tile.lowering.emit.amdgpu",
    "metal": "gizml_tile.lowering.emit.metal",
}

# Code that is made is found here again, also where each launch traces anew.
_KNOWN = 256
_known: dict[str, Executable] = {}
# Seconds of a launch that are worth a warning: about what the launch itself costs.
_NOTICED = 5e-6
# Wider accesses than this do not exist.
_ALIGNMENT = 16
# Axes of a tensor that the copy engine takes, and sizes that its 32-bit coordinates reach past.
_BOX_RANK = 5
_BOX_SIZE = 1 << 30
# Offsets of elements that fit 32 bits, with room for a block beyond the last element.
_NARROW = 1 << 30


class Emitted(Protocol):
    """What an emitter gives of a kernel."""

    @property
    def text(self) -> str:
        """What the target's compiler or assembler takes."""
        ...

    @property
    def origins(self) -> Origins:
        """Where the text's lines come from."""
        ...


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
    from gizml_tile.lowering.planning.copies import Lying, copied
    from gizml_tile.lowering.planning.crowded import is_crowded
    from gizml_tile.lowering.planning.room import room
    from gizml_tile.lowering.planning.signature import Signature

    shapes = tuple(info.shape for info in infos)
    kinds = tuple(strides(info.shape, info.strides) for info in infos)
    lying = Lying(shapes, kinds, tuple(map(_has_boxes, infos, kinds)), may_alias)
    copies = copied(program, target, lying, grid, scalars)
    infos = [aligned(info) if number in copies else info for number, info in enumerate(infos)]
    return GpuLayout(
        target,
        Signature(
            kinds,
            tuple(map(_alignment, infos, kinds)),
            _that_matter(program, kinds, facts(program, shapes, grid, scalars)),
            len(grid),
            any(_reach(info) >= _NARROW for info in infos),
            may_alias,
            tuple(map(_has_boxes, infos, kinds)),
            room(program, target, shapes, grid, scalars),
            copies,
            is_crowded(program, target, grid),
        ),
    )


def rests_on_numbers(
    program: TileProgram, layout: GpuLayout, infos: Sequence[TensorInfo], grid: Sequence[int]
) -> bool:
    """Whether code for a launch may be wrong for other run-time numbers: where they move its blocks."""
    from gizml_tile.lowering.planning.bounds import facts

    found = facts(program, tuple(info.shape for info in infos), grid, None)
    return _that_matter(program, layout.signature.strides, found) != layout.signature.facts


def _that_matter(
    program: TileProgram, kinds: Sequence[Sequence[str]], found: Sequence[AccessFacts]
) -> tuple[AccessFacts, ...]:
    """Facts without what no plan rests on, so that fewer sizes are compiled for anew.

    A grain matters along a contiguous axis, and up to the widest access.
    """
    nodes = [node for node in program.body.walk() if node.op in ACCESSES]
    result = []
    for node, each in zip(nodes, found, strict=True):
        view = node.attr
        assert isinstance(view, View | Elements)
        widest = _ALIGNMENT // program.tensors[view.tensor].dtype.bytes
        if isinstance(view, Elements):
            result.append(replace(each, grain=tuple(min(size, widest) for size in each.grain)))
            continue
        along = kinds[view.tensor][-len(view.block) :]
        grains = zip(each.grain, along, strict=True)
        grain = tuple(min(size, widest) if kind == "unit" else 1 for size, kind in grains)
        result.append(replace(each, grain=grain))
    return tuple(result)


def _alignment(info: TensorInfo, kinds: Sequence[str]) -> int:
    """The largest power of two up to 16 that divides the address and all strides in bytes but the unit one.

    In windows that slide by one element two axes have a step of 1, and one of them is the unit one.
    """
    together = info.pointer | _ALIGNMENT
    for size, stride, kind in zip(info.shape, info.strides, kinds, strict=True):
        if size > 1 and kind != "unit":
            together |= stride * info.dtype.bytes
    return together & -together


def _has_boxes(info: TensorInfo, kinds: Sequence[str]) -> bool:
    """Whether the copy engine can move boxes of a tensor (CUDA driver API, tensor maps)."""
    steps = [
        stride * info.dtype.bytes for stride, kind in zip(info.strides, kinds, strict=True) if kind != "unit"
    ]
    return (
        1 <= len(info.shape) <= _BOX_RANK
        and all(0 < size <= _BOX_SIZE for size in info.shape)
        and not info.pointer % _ALIGNMENT
        and "unit" in kinds[-2:]
        and all(0 <= step < 1 << 40 and not step % _ALIGNMENT for step in steps)
    )


def _reach(info: TensorInfo) -> int:
    """How far from the first element, in elements, others lie."""
    return sum(abs(stride) * max(size - 1, 0) for size, stride in zip(info.shape, info.strides, strict=True))


@lru_cache(maxsize=256)
def plan(program: TileProgram, layout: GpuLayout) -> Plan:
    """The plan of a simplified program."""
    from gizml_tile.lowering.planning.planner import plan

    return plan(program, layout.target, layout.signature)


@lru_cache(maxsize=64)
def expanded(program: TileProgram, layout: GpuLayout) -> tuple[Kernel, list[Move]]:
    """The kernel of a simplified program, and what moves between layouts in it."""
    from gizml_tile.lowering.expand.kernel import expand_noting

    return expand_noting(plan(program, layout))


def kernel(program: TileProgram, layout: GpuLayout) -> Kernel:
    """The kernel of a simplified program."""
    return expanded(program, layout)[0]


def artifact(program: TileProgram, layout: GpuLayout) -> Any:
    """The text of a simplified program's kernel, and how it is launched."""
    return _runtime(layout.target.kind, "artifact").of_emitted(emitted(program, layout))


def emitted(program: TileProgram, layout: GpuLayout) -> Emitted:
    """What the target's emitter makes of a simplified program."""
    found: Emitted = import_module(_EMITTERS[layout.target.kind]).emit(kernel(program, layout))
    return found


def _runtime(kind: str, module: str) -> Any:
    """A module of the runtime for a kind of device."""
    return import_module(f"gizml_tile.runtime.{kind}.{module}")


def source(program: TileProgram, layout: GpuLayout) -> str:
    """The text that the target's compiler or assembler takes."""
    return emitted(program, layout).text


def explain(
    program: TileProgram,
    layout: GpuLayout,
    infos: Sequence[TensorInfo],
    grid: Sequence[int],
    scalars: Sequence[int | float],
    measured: float | None,
) -> Explanation:
    """The plan with its reasons, what bounds a launch, and the seconds that it was ``measured``."""
    from gizml_tile.lowering.explain import explain

    made = plan(program, layout)
    return explain(made, launch_of(infos, grid, scalars), measured, _spilled(program, layout, made))


def _spilled(program: TileProgram, layout: GpuLayout, made: Plan) -> int | None:
    """The bytes of a thread that an assembler spills, where many registers are in use and there is one."""
    from gizml_tile.lowering.advice.threads import registers_held

    held, room, _ = registers_held(made)
    if layout.target.kind != "cuda" or held <= room:
        return None
    text, assembler = source(program, layout), _runtime("cuda", "assembler")
    done = assembler.assemble(text, layout.target.arch)
    if done is None:
        return None
    report = assembler.report_of(done[1])
    return int(max(report.spill_stores, report.spill_loads))


def slow(
    program: TileProgram,
    layout: GpuLayout,
    infos: Sequence[TensorInfo],
    grid: Sequence[int],
    scalars: Sequence[int | float],
) -> list[Slow]:
    """What takes a notable share of a launch's time and need not, where that is long enough to notice."""
    from gizml_tile.lowering.advice import advise, predict

    made, moves = expanded(program, layout)
    predicted = predict(plan(program, layout), made, launch_of(infos, grid, scalars))
    found = () if predicted is None else advise(predicted, moves)
    return [
        Slow(
            each.kind,
            each.place.filename,
            each.place.line,
            f"{each.text}: about {duration(each.seconds)} of a launch on {layout.target}; {each.fix}",
        )
        for each in found
        if each.place is not None and each.seconds >= _NOTICED
    ]


def launch_of(infos: Sequence[TensorInfo], grid: Sequence[int], scalars: Sequence[int | float]) -> Launch:
    """What the work of a launch depends on."""
    from gizml_tile.lowering.work import Launch

    shapes, steps = tuple(info.shape for info in infos), tuple(info.strides for info in infos)
    return Launch(shapes, steps, tuple(map(memory_of, infos)), tuple(grid), tuple(scalars))


def memory_of(info: TensorInfo) -> int:
    """The bytes of a tensor's elements, of which those that repeat along an axis count once."""
    held = (size for size, stride in zip(info.shape, info.strides, strict=True) if stride)
    return 0 if 0 in info.shape else math.prod(held) * info.dtype.bytes


def executable(
    program: Callable[[], TileProgram],
    layout: GpuLayout,
    digest: str,
    made: Callable[[], None],
) -> Executable:
    """Code for a layout of the program that ``digest`` stands for: known, from the disk, or made.

    ``program`` gives the simplified program and is called only where code is made, as ``made`` is afterwards.
    """
    runtime = _runtime(layout.target.kind, "kernel")
    key = f"gpu code {digest} {layout} {runtime.made_with()} {versions()}"
    if key in _known:
        return _known[key]
    entry = disk_cache.get(key)
    if entry is None:
        simple = program()
        entry = runtime.assembled(artifact(simple, layout))
        disk_cache.put(key, entry, f"code of {simple.name} for {layout.target}")
        made()
    if len(_known) >= _KNOWN:
        _known.pop(next(iter(_known)))
    restored, copies = runtime.restored(entry), layout.signature.copied
    _known[key] = CopyingKernel(restored, copies) if copies else restored
    return _known[key]


def target_of(device: str, pointer: int) -> Target:
    """The target that a device of a tensor is, such as ``cuda:1``."""
    kind = device.partition(":")[0]
    devices = _runtime(kind, "devices")
    return target(kind, devices.device(devices.ordinal_of(device, pointer)).arch)
