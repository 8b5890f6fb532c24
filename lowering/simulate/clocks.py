"""What is ordered after what: vector clocks of the warps of each workgroup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gizml_tile.lowering.simulate.numbers import Array

if TYPE_CHECKING:
    from gizml_tile.lowering.simulate.threads import Threads

NEVER = 1 << 30  # the time of an access that is still in flight
ENGINE = 1024  # agents from here on are no threads
# A writer of workgroup memory is one number: its time, the number of the instruction, and the agent.
TIME, INSTRUCTION = 32, 12  # the lowest bit of each of the first two


class Clocks:
    """Who knows which accesses of whom to be over, in a batch of workgroups.

    All accesses bear the batch's time, which advances when threads meet. ``known[workgroup, warp, part]``
    is the time before which everything that a part of the workgroup did is over as far as the warp can tell.
    Parts are the warps (its own: the lanes of a warp differ until they meet) and, in a kernel that is
    ``asynchronous``, the copy engine as it reads, the matrix units of each four warps, and the
    bulk loads that each signal tells of.
    """

    def __init__(self, workgroups: int, warps: int, lanes: int, asynchronous: bool, signals: int) -> None:
        self.warps = warps
        self.readers = warps + (1 + (warps + 3) // 4 if asynchronous else 0)
        self.parts = self.readers + (signals if asynchronous else 0)
        self.known = np.zeros((workgroups, warps, self.parts), np.int64)
        # What a single lane of a warp knows besides, until the lanes meet; -1: there is none.
        self.lane = np.full((workgroups, warps), -1, np.int64)
        self.alone = np.zeros((workgroups, warps, self.parts if signals else 0), np.int64)
        self._somebody_alone = False
        self.now = 1
        self.floor = 0  # what happened before this time is over for every warp of the batch
        self._floors = np.zeros(workgroups, np.int64)
        self.part_of = np.concatenate(
            [np.arange(ENGINE) // lanes, warps + np.arange(self.parts - warps)]
        ).astype(np.int64)

    @property
    def engine(self) -> int:
        """The part of the copy engine as a reader of workgroup memory."""
        return self.warps

    def units(self, warps: Array) -> Array:
        """The part of the matrix units of the four warps that a warp belongs to."""
        return np.asarray(self.warps + 1 + warps // 4)

    def signals(self, numbers: Array) -> Array:
        """The part of the bulk loads that a signal tells of."""
        return np.asarray(self.readers + numbers)

    def agents(self, parts: Array) -> Array:
        """The agents that stand for parts which are no warps."""
        return np.asarray(ENGINE + parts - self.warps)

    def by_signals(self, writers: Array) -> Array:
        """Whether writers are bulk loads."""
        agents = writers & (1 << INSTRUCTION) - 1
        return np.asarray((writers >= 0) & (agents >= ENGINE + self.readers - self.warps))

    def release(self, workgroups: Array, warps: Sequence[int] | Array) -> Array:
        """What these warps know together now, their own accesses so far included: [workgroups, parts]."""
        self._share(*(each.reshape(-1) for each in np.meshgrid(workgroups, warps)))
        rows = self.known[np.ix_(workgroups, np.asarray(warps))]
        gathered: Array = rows.max(axis=1)
        gathered[:, np.asarray(warps)] = self.now + 1
        return gathered

    def acquire(self, workgroups: Array, warps: Sequence[int] | Array, clock: Array) -> None:
        """Let warps know what a clock knows: [workgroups, parts]."""
        at = np.ix_(workgroups, np.asarray(warps))
        self.known[at] = np.maximum(self.known[at], clock[:, None, :])

    def advance(self) -> None:
        """Later accesses are not part of what was released."""
        self.now += 1
        assert self.now < 1 << 24, "threads met 16 million times, which is more than shadows can tell apart"

    def meet(self, workgroups: Array, warps: Sequence[int] | Array) -> None:
        """A barrier of these warps."""
        clock = self.release(workgroups, warps)
        self.acquire(workgroups, warps, clock)
        self.advance()
        if len(warps) == self.warps:
            self._floors[workgroups] = clock.min(axis=1)
            self.floor = int(self._floors.min())

    def meet_in_warps(self, workgroups: Array, warps: Array) -> None:
        """Each of these warps (pairs of a workgroup and a warp) orders its own lanes."""
        self._share(workgroups, warps)
        self.known[workgroups, warps, warps] = self.now + 1
        self.advance()

    def learn(self, threads: Threads, who: Array, clocks: Array) -> None:
        """Threads learn what clocks know, one for each; a single lane of a warp keeps it to itself."""
        place = threads.workgroup[who] * self.warps + threads.warp[who]
        alone = np.bincount(place, minlength=self.lane.size)[place] == 1
        together = who[~alone]
        pairs = threads.workgroup[together], threads.warp[together]
        np.maximum.at(self.known, pairs, clocks[~alone])
        single = who[alone]
        workgroups, warps, lanes = threads.workgroup[single], threads.warp[single], threads.lane[single]
        others = (self.lane[workgroups, warps] >= 0) & (self.lane[workgroups, warps] != lanes)
        self._share(workgroups[others], warps[others])
        self.lane[workgroups, warps] = lanes
        self.alone[workgroups, warps] = np.maximum(self.alone[workgroups, warps], clocks[alone])
        self._somebody_alone |= len(single) > 0

    def _share(self, workgroups: Array, warps: Array) -> None:
        """What a single lane knows, its warp does."""
        if self._somebody_alone:
            known = np.maximum(self.known[workgroups, warps], self.alone[workgroups, warps])
            self.known[workgroups, warps] = known
            self.alone[workgroups, warps] = 0
            self.lane[workgroups, warps] = -1

    def of(self, threads: Threads, who: Array) -> Array:
        """What each of these threads knows: [threads, parts]."""
        workgroups, warps = threads.workgroup[who], threads.warp[who]
        known = self.known[workgroups, warps]
        if self._somebody_alone:
            alone = self.lane[workgroups, warps] == threads.lane[who]
            known[alone] = np.maximum(known[alone], self.alone[workgroups[alone], warps[alone]])
        return np.asarray(known)

    def over(self, threads: Threads, who: Array, parts: Array, times: Array) -> Array:
        """Whether accesses of parts at times are over for these threads."""
        workgroups, warps = threads.workgroup[who], threads.warp[who]
        over = self.known[workgroups, warps, parts] > times
        if self._somebody_alone:
            alone = self.lane[workgroups, warps] == threads.lane[who]
            over |= alone & (self.alone[workgroups, warps, parts] > times)
        return np.asarray(over)
