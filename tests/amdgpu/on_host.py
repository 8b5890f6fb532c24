"""Simulated launches whose text runs on this computer: instead of the simulator, or beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from host import launch
from recorded import adds_in_any_order

from gizml_tile import simulating
from gizml_tile.dtypes import MASK, to_numpy
from gizml_tile.lowering import simulate as simulation
from gizml_tile.lowering.emit.amdgpu import AmdgpuArtifact, emit
from gizml_tile.lowering.kernel_ir.instructions import Kernel
from gizml_tile.lowering.simulate import Memory
from gizml_tile.lowering.simulate.simulation import simulate
from gizml_tile.runtime.parameters import of_arguments, words
from gizml_tile.runtime.tensors import TensorInfo

# A kernel whose workgroups run several programs each is run by so many.
_FEW = 3
# Memory begins where the simulator takes it to begin.
_ALIGNMENT = 256


def run_text(
    kernel: Kernel, infos: Sequence[TensorInfo], scalars: Sequence[int | float], grid: Sequence[int]
) -> AmdgpuArtifact:
    """Run a kernel's text on tensors of the host."""
    artifact = emit(kernel)
    packed = words(of_arguments(artifact.arguments), infos, scalars, grid)
    workgroups = grid if kernel.axes == len(grid) else (math.prod(grid),)
    launch(artifact, packed, (min(math.prod(grid), _FEW),) if kernel.persistent else workgroups)
    return artifact


def run_texts(monkeypatch: Any) -> list[AmdgpuArtifact]:
    """Let ``simulate`` run texts, of which it returns those that ran."""
    ran = []

    def run(kernel, infos, written, scalars, grid):
        ran.append(run_text(kernel, infos, scalars, grid))
        return ()

    monkeypatch.setattr(simulating, "run", run)
    return ran


def run_texts_beside(monkeypatch: Any) -> list[Kernel]:
    """Let the simulator run kernels for AMD GPUs, and their texts on copies, which must come to the same.

    Sums may be added in another order: of those it is the text's results that the caller gets to judge, and
    not the simulator's.
    """
    ran = []

    def both(kernel, memories, scalars=(), grid=(1,), **options):
        if kernel.target.kind != "hip":
            return simulate(kernel, memories, scalars, grid, **options)
        ran.append(kernel)
        return beside(kernel, memories, scalars, grid, judged=adds_in_any_order(kernel), **options)

    monkeypatch.setattr(simulation, "simulate", both)
    return ran


def beside(
    kernel: Kernel,
    memories: Sequence[Memory],
    scalars: Sequence[int | float] = (),
    grid: Sequence[int] = (1,),
    *,
    judged: bool = False,
    **options: Any,
) -> Any:
    """Simulate a kernel and run its text on copies of the memory; asserts that both do the same.

    If the results are ``judged`` by the caller, it gets those of the text instead.
    """
    copies = {each.data.ctypes.data: _copied(each.data) for each in memories}
    infos = [
        TensorInfo(
            tensor.dtype,
            each.shape,
            each.strides,
            copies[each.data.ctypes.data].ctypes.data + each.offset * each.data.itemsize,
            "cpu",
            "",
            None,
        )
        for tensor, each in zip(kernel.tensors, memories, strict=True)
    ]
    run_text(kernel, infos, scalars, grid)
    findings = simulate(kernel, memories, scalars, grid, **options)
    for tensor, each in zip(kernel.tensors, memories, strict=True):
        if 0 in each.shape:  # no elements, whose memory may be any
            continue
        storage = np.dtype(np.uint8) if tensor.dtype is MASK else to_numpy(tensor.dtype)
        got, want = copies[each.data.ctypes.data], each.data.view(np.uint8)
        if judged:
            want[...] = got
        else:
            _assert_same(got.view(storage), want.view(storage), tensor.name)
    return findings


def _copied(data: np.ndarray) -> np.ndarray:
    room = np.empty(data.nbytes + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    made = room[start : start + data.nbytes]
    made[...] = data.view(np.uint8)
    return made


def _assert_same(got: np.ndarray, want: np.ndarray, name: str) -> None:
    """Equal bits, or both a NaN."""
    same = got.view(f"u{got.itemsize}") == want.view(f"u{want.itemsize}")
    with np.errstate(invalid="ignore"):
        same |= np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
    assert same.all(), f"{name}: {got[~same][:4]} instead of {want[~same][:4]}"


def for_arch(kernel: Kernel, arch: str) -> Kernel:
    """A kernel that was written for any target, for an AMD GPU."""
    return replace(kernel, target=replace(kernel.target, kind="hip", arch=arch))
