"""Runs a kernel for all workgroups of a launch, some at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gizml_tile.lowering.kernel_ir.instructions import Kernel
from gizml_tile.lowering.simulate.bulk import finish
from gizml_tile.lowering.simulate.clocks import Clocks
from gizml_tile.lowering.simulate.clusters import Clusters
from gizml_tile.lowering.simulate.findings import Findings, Log
from gizml_tile.lowering.simulate.numbers import Array
from gizml_tile.lowering.simulate.signals import Signals
from gizml_tile.lowering.simulate.structure import Deadlock, last_uses, run
from gizml_tile.lowering.simulate.tensors import Memory, Shadow, Tensor, tensors_of, written_tensors
from gizml_tile.lowering.simulate.threads import Batch, Threads
from gizml_tile.lowering.simulate.workgroup_memory import WorkgroupMemory

# So many threads amortise NumPy's cost of an operation while their values stay in a core's cache.
_THREADS = 1 << 14
_SHADOW_BYTES = 1 << 27
_ASYNCHRONOUS = frozenset("bulk_load bulk_store group_mma fence_async remote_send".split())


def simulate(
    kernel: Kernel,
    tensors: Sequence[Memory],
    scalars: Sequence[int | float] = (),
    grid: Sequence[int] = (1,),
    *,
    workgroups: Sequence[int] | None = None,
    checks: bool = True,
    counts: bool = True,
) -> Findings:
    """Run a kernel without a device; results are written in place.

    ``grid`` is the user's; ``workgroups`` the hardware's, which is the user's too, or its product for a
    kernel with one axis (times a cluster's workgroups), unless it is given. ``checks`` looks for races and
    reads of what is not there, ``counts`` for bank conflicts and uncoalesced accesses. What lies out of
    bounds is always reported, and not done.
    """
    sizes = tuple(grid)
    if workgroups is not None:
        hardware = tuple(workgroups)
    elif kernel.axes == len(sizes) and kernel.cluster == kernel.together == 1:
        hardware = sizes
    else:
        hardware = (kernel.needed(sizes) * kernel.cluster,)
    launch = _Launch(
        kernel, tensors_of(kernel, list(tensors), checks), tuple(scalars), hardware, sizes, checks, counts
    )
    with np.errstate(all="ignore"):
        return launch.run()


@dataclass(frozen=True, slots=True)
class _Saved:
    """What a batch of workgroups may change, before it runs."""

    log: Log
    data: list[tuple[Tensor, Array]]
    shadows: list[tuple[Shadow, tuple[Array, ...]]]


class _Launch:
    def __init__(
        self,
        kernel: Kernel,
        tensors: list[Tensor],
        scalars: tuple[int | float, ...],
        grid: tuple[int, ...],
        sizes: tuple[int, ...],
        checks: bool,
        counts: bool,
    ) -> None:
        self.kernel = kernel
        self.tensors = tensors
        self.scalars = scalars
        self.grid = grid
        self.sizes = sizes
        self.checks = checks
        self.counts = counts
        self.log = Log()
        self.last_uses = last_uses(kernel.body)
        operations = {each.op for each in kernel.body.walk()}
        self.asynchronous = bool(operations & _ASYNCHRONOUS)
        self.products = "group_mma" in operations
        self.waits = "roles" in operations or "signal_wait" in operations

    def run(self) -> Findings:
        count = int(np.prod(self.grid))
        size = self._workgroups_at_once()
        for first in range(0, count, size):
            numbers = np.arange(first, min(first + size, count))
            saved = self._saved() if self.waits and len(numbers) > self.kernel.cluster else None
            try:
                self._run_batch(numbers)
            except Deadlock as deadlock:
                if saved is None:
                    self._report(deadlock)
                    continue
                # In lockstep a workgroup may have waited for another one; alone it cannot.
                self._restore(saved)
                for alone in numbers.reshape(-1, self.kernel.cluster):
                    try:
                        self._run_batch(alone)
                    except Deadlock as again:
                        self._report(again)
        return self.log.findings()

    def _workgroups_at_once(self) -> int:
        memory = self.kernel.workgroup_memory
        warps = -(-self.kernel.threads // self.kernel.target.facts.lanes)
        shadow = memory // 4 * (24 + 4 * warps) + memory if self.checks else memory
        fitting = min(_THREADS // self.kernel.threads, _SHADOW_BYTES // max(1, shadow))
        return max(1, fitting // self.kernel.cluster) * self.kernel.cluster

    def _run_batch(self, numbers: Array) -> None:
        kernel = self.kernel
        lanes = kernel.target.facts.lanes
        warps = -(-kernel.threads // lanes)
        clocks = Clocks(len(numbers), warps, lanes, self.asynchronous, kernel.signals)
        memory = WorkgroupMemory(kernel, len(numbers), clocks, self.log, self.checks)
        batch = Batch(
            kernel,
            self.tensors,
            self.scalars,
            self.grid,
            self.sizes,
            numbers,
            self.log,
            self.checks,
            self.counts,
            clocks,
            memory,
            self.last_uses,
            has_products=self.products,
        )
        if kernel.cluster > 1:
            batch.clusters = memory.clusters = Clusters(batch)
        if kernel.signals:
            batch.signals = Signals(len(numbers), kernel.signals, clocks.parts)
        for waiting in run(Threads(batch, 0, warps), kernel.body):
            raise Deadlock([waiting])
        finish(batch)

    def _report(self, deadlock: Deadlock) -> None:
        for waiting in deadlock.waiting:
            self.log.add("deadlock", waiting.at, f"{waiting.threads.who()} {waiting.text}, which never ends")

    def _saved(self) -> _Saved:
        written = [self.tensors[number] for number in written_tensors(self.kernel)]
        shadows = {id(tensor.shadow): tensor.shadow for tensor in written if tensor.shadow is not None}
        return _Saved(
            self.log.copy(),
            [(tensor, tensor.data.copy()) for tensor in written],
            [(shadow, shadow.saved()) for shadow in shadows.values()],
        )

    def _restore(self, saved: _Saved) -> None:
        self.log = saved.log
        for tensor, data in saved.data:
            tensor.data[:] = data
        for shadow, arrays in saved.shadows:
            shadow.restore(arrays)
