"""What is ordered after what: vector clocks of the warps of each workgroup."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gizml_tile.lowering.simulate.numbers import Array

NEVER = 1 << 30  # the time of an access that is still in flight
ENGINE = 1024  # agents from here on are no threads: the copy engine, then the matrix units of four warps


class Clocks:
    """Who knows which accesses of whom to be over, in a batch of workgroups.

    All accesses bear the batch's time, which advances when threads meet. ``known[workgroup, warp, other]``
    is the time before which everything that ``other`` did is over as far as the warp can tell; the lanes of
    a warp differ until they meet, so a warp stands there for itself too. Behind the warps come the copy
    engine and the matrix units of each four warps, where a kernel is ``asynchronous``.
    """

    def __init__(self, workgroups: int, warps: int, lanes: int, asynchronous: bool) -> None:
        self.warps = warps
        self.parts = warps + (1 + (warps + 3) // 4 if asynchronous else 0)
        self.known = np.zeros((workgroups, warps, self.parts), np.int64)
        self.now = 1
        self.floor = 0  # what happened before this time is over for every warp of the batch
        self._floors = np.zeros(workgroups, np.int64)
        self.part_of = np.concatenate(
            [np.arange(ENGINE) // lanes, warps + np.arange(self.parts - warps)]
        ).astype(np.int64)

    @property
    def engine(self) -> int:
        """The copy engine's part."""
        return self.warps

    def unit(self, warp: int) -> int:
        """The part of the matrix units that a warp's group of four uses."""
        return self.warps + 1 + warp // 4

    def agent(self, part: int) -> int:
        """The agent that stands for a part which is no warp."""
        return ENGINE + part - self.warps

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
