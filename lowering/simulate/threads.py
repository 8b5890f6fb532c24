"""The threads that run at the same time: a batch of workgroups, or some warps of each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import ReferenceType, ref

import numpy as np

from gizml_tile.lowering.kernel_ir.instructions import Block, Instruction, Kernel
from gizml_tile.lowering.simulate.clocks import Clocks
from gizml_tile.lowering.simulate.findings import Log
from gizml_tile.lowering.simulate.numbers import Array
from gizml_tile.lowering.simulate.tensors import Tensor
from gizml_tile.lowering.simulate.workgroup_memory import WorkgroupMemory

if TYPE_CHECKING:
    from gizml_tile.lowering.simulate.addresses import WorkgroupVectors
    from gizml_tile.lowering.simulate.clusters import Clusters
    from gizml_tile.lowering.simulate.signals import Signals


class Meeting:
    """A numbered barrier of each workgroup: who came, what they know, and how often it was met."""

    def __init__(self, workgroups: int, parts: int) -> None:
        self.arrived = np.zeros(workgroups, np.int64)
        self.met = np.zeros(workgroups, np.int64)
        self.gathered = np.zeros((workgroups, parts), np.int64)
        self.released = np.zeros((workgroups, parts), np.int64)


@dataclass(slots=True, eq=False)
class Flight:
    """Asynchronous operations of one instruction: each thread's group, and whose have not landed yet."""

    at: Instruction
    group: Array
    left: Array


@dataclass(slots=True, eq=False)
class Copying(Flight):
    """Copies: where they go, and their data by thread."""

    place: WorkgroupVectors
    vectors: Array


@dataclass(slots=True, eq=False)
class Storing(Flight):
    """Bulk stores: the granules that each reads, and the elements and data that it writes."""

    who: Array  # the thread of each
    keys: Array  # [stores, granules]
    elements: Array  # [stores, elements of a box]
    inside: Array  # likewise
    data: Array  # likewise
    read: Array  # whether the source of each is free again


@dataclass(slots=True, eq=False)
class Multiplying(Flight):
    """Asynchronous matrix operations: the granules that they read, whose, and the sums."""

    keys: Array
    who: Array
    sums: Array


F = TypeVar("F", bound=Flight)


class Groups(Generic[F]):
    """Asynchronous operations in flight of some threads, and how many groups each thread closed."""

    def __init__(self, threads: int) -> None:
        self.closed = np.zeros(threads, np.int64)
        self.flights: list[F] = []

    def close(self, active: Array | None) -> None:
        """The active threads close their group."""
        if active is None:
            self.closed += 1
        else:
            self.closed[active] += 1

    def landing(self, newest: int, active: Array | None) -> Iterator[tuple[F, Array]]:
        """Flights that land by a wait for all but the newest groups, and in which threads they do."""
        for flight in self.flights:
            landing = flight.left & (flight.group < self.closed - newest)
            if active is not None:
                landing &= active
            if landing.any():
                flight.left &= ~landing
                yield flight, landing
        self.flights = [flight for flight in self.flights if flight.left.any()]


@dataclass(slots=True, eq=False)
class Batch:
    """What the workgroups that run at the same time share.

    ``numbers`` are the workgroups' numbers in the launch, ``grid`` the hardware's, ``sizes`` the user's.
    """

    kernel: Kernel
    tensors: list[Tensor]
    scalars: tuple[int | float, ...]
    grid: tuple[int, ...]
    sizes: tuple[int, ...]
    numbers: Array
    log: Log
    checks: bool
    counts: bool
    clocks: Clocks
    memory: WorkgroupMemory
    last_uses: dict[Block, tuple[tuple[Instruction, ...], ...]]
    progress: int = 0
    signals: Signals | None = None
    clusters: Clusters | None = None
    barriers: dict[int, Meeting] = field(default_factory=dict)
    unfinished: list[Threads] = field(default_factory=list)
    has_products: bool = False

    @property
    def lanes(self) -> int:
        return self.kernel.target.facts.lanes


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """Threads that wait at an instruction, and a text of what for."""

    threads: Threads
    at: Instruction
    text: str


class Threads:
    """Some warps of each workgroup of a batch, in lockstep, and their values.

    A value is an array [count, threads], or [count, 1] where it is the same in all of them. ``active``
    is None, or which threads run.
    """

    def __init__(self, batch: Batch, first_warp: int, warps: int, outer: Threads | None = None) -> None:
        lanes = batch.lanes
        self.batch = batch
        self.first_warp = first_warp
        self.warps = warps
        self.outer = outer
        self.workgroups = len(batch.numbers)
        self.each = warps * lanes if outer is not None else batch.kernel.threads
        self.size = self.workgroups * self.each
        inside = np.arange(self.each, dtype=np.int32) + first_warp * lanes
        self.thread: Array = np.tile(inside, self.workgroups)
        self.warp: Array = self.thread // lanes
        self.lane: Array = self.thread % lanes
        self.workgroup: Array = np.repeat(np.arange(self.workgroups), self.each)
        self.values: dict[Instruction, Array] = {}
        self.carried: dict[Instruction, list[Array]] = {}
        self.active: Array | None = None
        self.everyone: Array = np.arange(self.size)
        self._own_floor = (-1, 0)
        self.role = ""
        self.copies: Groups[Copying] = Groups(self.size)
        self.stores: Groups[Storing] = Groups(self.size)
        self.products: Groups[Multiplying] = Groups(self.size)
        # Sums of asynchronous matrix operations in flight, by the identity of their array.
        self.flying: dict[int, tuple[Array, Multiplying]] = {}
        # The instruction at which registers were written, by the identity of their array, and the last
        # group_fence; asynchronous matrix operations write theirs "before" all.
        self._written: dict[int, tuple[ReferenceType[Array], int]] = {}
        self.step = 0
        self.fenced_at = -1
        self.last_touch: Array | None = np.zeros(self.size, np.int64) if batch.signals else None
        batch.unfinished.append(self)

    def get(self, value: Instruction) -> Array:
        """A value in these threads."""
        held = self.values.get(value)
        if held is None:
            assert self.outer is not None, f"{value} has no value here"
            held = self.outer.get(value)
            if held.shape[1] > 1:
                start = (self.first_warp - self.outer.first_warp) * self.batch.lanes
                parts = held.reshape(len(held), self.workgroups, self.outer.each)
                held = parts[:, :, start : start + self.each].reshape(len(held), self.size)
            self.values[value] = held
        return held

    def wide(self, value: Instruction) -> Array:
        """A value with a column for each thread."""
        held = self.get(value)
        return held if held.shape[1] == self.size else np.broadcast_to(held, (len(held), self.size))

    def name(self, number: int) -> str:
        """A thread of the batch as texts call it."""
        workgroup = int(self.batch.numbers[self.workgroup[number]])
        return f"thread {int(self.thread[number])} of workgroup {workgroup}"

    def numbers_of_active(self) -> Array:
        """The numbers of the active threads in the batch."""
        return self.everyone if self.active is None else np.flatnonzero(self.active)

    def who(self) -> str:
        """These threads as texts call them."""
        return f"role {self.role}" if self.role else "the workgroup"

    def written(self, value: Array) -> int:
        """The step at which an array was made, 0 for what these threads found."""
        held = self._written.get(id(value))
        return held[1] if held is not None and held[0]() is value else 0

    def write(self, value: Array, step: int) -> None:
        """Remember the step at which an array was made."""
        self._written[id(value)] = (ref(value), step)

    def touch(self, who: Array) -> None:
        """Threads access memory: see `Signals.released`."""
        if self.last_touch is not None:
            self.last_touch[who] = self.batch.clocks.now

    def own_floor(self) -> int:
        """A time before which all that threads of these warps did is over for their own warp."""
        now = self.batch.clocks.now
        if self._own_floor[0] != now:
            warps = np.arange(self.first_warp, self.first_warp + self.warps)
            self._own_floor = (now, int(self.batch.clocks.known[:, warps, warps].min()))
        return self._own_floor[1]

    def active_warps(self) -> Array:
        """Whether any thread of each warp runs: [workgroups, warps]."""
        if self.active is None:
            return np.ones((self.workgroups, self.warps), np.bool_)
        lanes = min(self.batch.lanes, self.each)
        return np.asarray(self.active.reshape(self.workgroups, self.warps, lanes).any(axis=2))

    def meet_in_warps(self, at: Instruction) -> None:
        """All lanes of each active warp take part in an instruction; what they did before is ordered."""
        batch = self.batch
        lanes = min(batch.lanes, self.each)
        if self.active is not None:
            active = self.active.reshape(-1, lanes)
            some = active.any(axis=1)
            partial = some & ~active.all(axis=1)
            if partial.any():
                first = int(np.flatnonzero(partial)[0])
                lane = int(np.flatnonzero(~active[first])[0])
                text = f"{self.name(first * lanes + lane)} does not take part, other lanes of its warp do"
                batch.log.add("divergent", at, text, int(partial.sum()))
        if batch.checks:
            workgroups, warps = np.nonzero(self.active_warps())
            batch.clocks.meet_in_warps(workgroups, warps + self.first_warp)
