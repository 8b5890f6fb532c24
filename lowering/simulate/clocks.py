"""What is ordered after what: vector clocks of the warps of each workgroup."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gizml_tile.lowering.simulate.numbers import Array

NEVER = 1 << 30  # the time of an access that is still in flight
ENGINE = 1024  # agents from here on are no threads


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

    def release(self, workgroups: Array, warps: Sequence[int] | Array) -> Array:
        """What these warps know together now, their own accesses so far included: [workgroups, parts]."""
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
        self.known[workgroups, warps, warps] = self.now + 1
        self.advance()

    def over(self, workgroups: Array, warps: Array, parts: Array, times: Array) -> Array:
        """Whether accesses of parts at times are over for these warps."""
        return np.asarray(self.known[workgroups, warps, parts] > times)
