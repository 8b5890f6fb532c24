"""Barriers of a workgroup, and of some of its warps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gizml_tile.lowering.kernel_ir.instructions import Barrier, Instruction
from gizml_tile.lowering.simulate.numbers import Array
from gizml_tile.lowering.simulate.threads import Meeting, Threads, Waiting


def barrier(threads: Threads, at: Instruction) -> Iterator[Waiting]:
    """Wait until as many threads as the barrier wants have come."""
    wanted = at.attr
    assert isinstance(wanted, Barrier)
    batch = threads.batch
    clocks = batch.clocks
    arrived = _arrivals(threads, at)
    here = np.flatnonzero(arrived)
    if wanted.each:
        _meet_in_groups(threads, at, wanted, here)
        return
    number = wanted.number
    if wanted.ring:
        number += _place_in_ring(threads, at, wanted)
    if threads.outer is None and wanted.threads == threads.each:
        # All threads run the same code, so nobody comes later.
        if batch.checks and (arrived[here] == threads.each).all():
            clocks.meet(here, np.arange(threads.warps))
        return
    warps = [np.flatnonzero(each) + threads.first_warp for each in threads.active_warps()]
    meeting = batch.barriers.get(number)
    if meeting is None:
        meeting = batch.barriers[number] = Meeting(threads.workgroups, clocks.parts)
    target = meeting.met + 1
    for workgroup in here:
        clock = clocks.release(np.array([workgroup]), warps[workgroup])
        meeting.gathered[workgroup] = np.maximum(meeting.gathered[workgroup], clock[0])
    clocks.advance()
    _arrive(threads, at, wanted, meeting, arrived)
    if wanted.arrive:
        return
    while not (meeting.met[here] >= target[here]).all():
        yield Waiting(threads, at, f"waits at barrier {number} of {wanted.threads} threads")
    batch.progress += 1
    for workgroup in here:
        clocks.acquire(np.array([workgroup]), warps[workgroup], meeting.released[[workgroup]])


def _meet_in_groups(threads: Threads, at: Instruction, wanted: Barrier, here: Array) -> None:
    """Groups of warps that each have a barrier; all run the same code, so nobody comes later."""
    batch = threads.batch
    each = wanted.threads // batch.lanes
    if threads.first_warp % each or threads.warps % each:
        batch.log.add("divergent barrier", at, f"{threads.warps} warps are no whole groups of {each}")
    elif batch.checks:
        for first in range(threads.first_warp, threads.first_warp + threads.warps, each):
            batch.clocks.meet(here, np.arange(first, first + each))


def _place_in_ring(threads: Threads, at: Instruction, wanted: Barrier) -> int:
    """Which of a ring's barriers a group waits at, or arrives at: that of the group after it."""
    each = wanted.threads // 2
    if threads.each != each:
        text = f"{threads.each} threads run together, and {each} are a group of the ring"
        threads.batch.log.add("divergent barrier", at, text)
    group = threads.first_warp * threads.batch.lanes // each
    return (group + wanted.arrive) % wanted.ring


def _arrive(threads: Threads, at: Instruction, wanted: Barrier, meeting: Meeting, arrived: Array) -> None:
    """Count those who come; the barriers that have all of theirs let them go."""
    meeting.arrived += arrived
    too_many = meeting.arrived > wanted.threads
    if too_many.any():
        text = f"{int(meeting.arrived.max())} threads come to barrier {wanted.number} of {wanted.threads}"
        threads.batch.log.add("divergent barrier", at, text, int(too_many.sum()))
    done = (meeting.arrived >= wanted.threads) & (arrived > 0)
    meeting.released[done] = meeting.gathered[done]
    meeting.gathered[done] = 0
    meeting.met[done] += 1
    meeting.arrived[done] = 0
    threads.batch.progress += 1


def _arrivals(threads: Threads, at: Instruction) -> Array:
    """How many threads of each workgroup come; reports workgroups of which only some do."""
    if threads.active is None:
        return np.full(threads.workgroups, threads.each)
    active = threads.active.reshape(threads.workgroups, threads.each)
    arrived: Array = active.sum(axis=1)
    by_warp = threads.active.reshape(-1, min(threads.batch.lanes, threads.each))
    whole = isinstance(at.attr, Barrier) and at.attr.threads >= threads.each
    partial = (arrived > 0) & (arrived < threads.each) if whole else np.zeros(threads.workgroups, np.bool_)
    broken = by_warp.any(axis=1) & ~by_warp.all(axis=1)
    partial |= broken.reshape(threads.workgroups, -1).any(axis=1)
    if partial.any():
        workgroup = int(np.flatnonzero(partial)[0])
        missing = workgroup * threads.each + int(np.flatnonzero(~active[workgroup])[0])
        text = f"{threads.name(missing)} does not come, {int(arrived[workgroup])} others do"
        threads.batch.log.add("divergent barrier", at, text, int(partial.sum()))
    return arrived


def warp_barrier(threads: Threads, at: Instruction) -> None:
    threads.meet_in_warps(at)
