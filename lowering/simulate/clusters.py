"""Clusters: accesses to the memory of other workgroups, which only barriers of the cluster order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gizml_tile.dtypes import I32
from gizml_tile.lowering.kernel_ir.instructions import Access, Instruction
from gizml_tile.lowering.simulate.addresses import (
    WorkgroupVectors,
    mask_of,
    offsets_of,
    registers_of,
    vectors_of,
)
from gizml_tile.lowering.simulate.clocks import INSTRUCTION, NEVER, TIME
from gizml_tile.lowering.simulate.numbers import Array, constant
from gizml_tile.lowering.simulate.signals import Loading
from gizml_tile.lowering.simulate.threads import Batch, Threads, Waiting

# Of an access from another workgroup its time and, below it, the thread of the batch.
_THREADS = 32


class Clusters:
    """The clusters of a batch: who has come to their barriers, and what came from other workgroups.

    ``seen[workgroup, rank]`` is the time before which everything that a workgroup of its cluster did is over
    for it; 0 until it knows that the other has begun. ``reads`` and ``writes`` have the last access to each
    granule from another workgroup.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.size = batch.kernel.cluster
        workgroups = len(batch.numbers)
        self.seen = np.zeros((workgroups, self.size), np.int64)
        self.arrived = np.zeros(workgroups, np.int64)
        self.gone = 0
        self.met = np.zeros(workgroups // self.size, np.int64)
        self.met_at = np.zeros(workgroups // self.size, np.int64)
        # What those who came know together, and what those know who have met.
        self.gathered = np.zeros((workgroups, batch.clocks.parts), np.int64)
        self.released = np.zeros((workgroups, batch.clocks.parts), np.int64)
        granules = workgroups * batch.memory.granules if batch.checks else 0
        self.reads = np.full(granules, -1, np.int64)
        self.writes = np.full(granules, -1, np.int64)
        # The last access of each workgroup to the memory of another, to name where that ends too early.
        self.last: dict[tuple[int, int], tuple[int, Instruction]] = {}

    def check(self, threads: Threads, at: Instruction, keys: Array, who: Array, verb: str) -> None:
        """Report a workgroup's accesses to its own memory that meet those of others."""
        others = [("wrote", self.writes)] + ([("read", self.reads)] if verb == "writes" else [])
        for done, accesses in others:
            met = ~self._over(threads.workgroup[who], accesses[keys])
            if met.any():
                text = f"{self._text(threads, keys, who, met, verb)}, which another workgroup {done}"
                threads.batch.log.add("race", at, f"{text}: no cluster_barrier between", int(met.sum()))

    def _over(self, workgroups: Array, accesses: Array) -> Array:
        """Whether accesses from other workgroups are over for a workgroup, or none."""
        by = (accesses & (1 << _THREADS) - 1) // self.batch.kernel.threads
        known = self.seen[workgroups, by % self.size]
        return np.asarray((accesses < 0) | (accesses >> _THREADS < known))

    def check_access(self, threads: Threads, at: Instruction, keys: Array, who: Array, writes: bool) -> None:
        """Report accesses to the memory of other workgroups, one for each key, that meet others of it."""
        memory, log = self.batch.memory, self.batch.log
        verb = "writes" if writes else "reads"
        owner, mine = keys // memory.granules, threads.workgroup[who]
        unwritten = (memory.writer[keys] < 0) & (not writes)
        if unwritten.any():
            text = f"{self._text(threads, keys, who, unwritten, verb)}, which nothing wrote before"
            log.add("unwritten", at, text, int(unwritten.sum()))
        own, known = self._codes(who) & (1 << _THREADS) - 1, self.seen[mine, owner % self.size]
        used = [memory.writer[keys] >> TIME] + ([memory.last_read[keys] >> TIME] if writes else [])
        over = np.max(used, axis=0) < np.maximum(known, 1)
        for accesses in [self.writes[keys]] + ([self.reads[keys]] if writes else []):
            over &= self._over(mine, accesses) | (accesses & (1 << _THREADS) - 1 == own)
        met = ~over & ~unwritten
        if met.any():
            text = self._text(threads, keys, who, met, verb)
            text += f" of workgroup {int(self.batch.numbers[owner[np.flatnonzero(met)[0]]])}"
            log.add("race", at, f"{text}: no cluster_barrier since its last use", int(met.sum()))
        unbegun = (known == 0) & ~met & ~unwritten
        if unbegun.any():
            text = self._text(threads, keys, who, unbegun, verb)
            log.add("race", at, f"{text}, whose workgroup may not have begun", int(unbegun.sum()))

    def access(self, threads: Threads, at: Instruction, keys: Array, who: Array, writes: bool) -> None:
        """Check and remember accesses to the memory of other workgroups, one for each key."""
        self.check_access(threads, at, keys, who, writes)
        memory = self.batch.memory
        (self.writes if writes else self.reads)[keys] = self._codes(who)
        if writes:
            # For its own workgroup it is over once that is past the cluster's next barrier: see `check`.
            memory.writer[keys] = memory.number(at) << INSTRUCTION
            if memory.fenced is not None:
                memory.fenced[keys] = 0
        pairs = np.unique(np.stack([keys // memory.granules, threads.workgroup[who]]), axis=1)
        for owner, workgroup in pairs.T:
            self.last[int(owner), int(workgroup)] = self.batch.clocks.now, at

    def _codes(self, who: Array) -> Array:
        """Accesses by threads of the workgroups: their time, and the threads' numbers in the batch."""
        return np.asarray(self.batch.clocks.now << _THREADS | who.astype(np.int64))

    def _text(self, threads: Threads, keys: Array, who: Array, where: Array, verb: str) -> str:
        memory = self.batch.memory
        first = int(np.flatnonzero(where)[0])
        byte = int(keys[first]) % memory.granules * memory.granule
        return f"{threads.name(int(who[first]))} {verb} {memory.place(byte)}"

    def come(self, threads: Threads, at: Instruction) -> Array:
        """Count threads that come to a barrier; gives their workgroups."""
        arrived = np.full(threads.workgroups, threads.each)
        if threads.active is not None:
            arrived = threads.active.reshape(threads.workgroups, -1).sum(axis=1)
            partial = (arrived > 0) & (arrived < threads.each)
            if partial.any():
                workgroup = int(np.flatnonzero(partial)[0])
                text = f"only {int(arrived[workgroup])} of {threads.each} threads of workgroup "
                text += f"{int(self.batch.numbers[workgroup])} come"
                self.batch.log.add("divergent barrier", at, text, int(partial.sum()))
        here = np.flatnonzero(arrived)
        self.arrived[here] += threads.each
        self.batch.progress += 1
        return here

    def wait(self, threads: Threads, at: Instruction, here: Array, times: Array) -> Iterator[Waiting]:
        """Wait until the clusters of workgroups have met so many times."""
        self.meet()
        while not (self.met[here // self.size] >= times).all():
            yield Waiting(threads, at, f"waits for all of a cluster of {self.size} workgroups")
            self.meet()
        self.batch.progress += 1

    def meet(self) -> None:
        """Let the clusters go of which all threads that have not ended have come."""
        wanted = self.batch.kernel.threads - self.gone
        by_cluster = self.arrived.reshape(-1, self.size)
        done = (by_cluster == wanted).all(axis=1)
        if not done.any():
            return
        self.batch.clocks.advance()
        by_cluster[done] = 0
        self.met[done] += 1
        self.met_at[done] = self.batch.clocks.now
        workgroups = np.repeat(done, self.size)
        self.released[workgroups] = np.maximum(self.gathered[workgroups], 1)
        self.gathered[workgroups] = 0
        self.batch.progress += 1

    def finish(self) -> None:
        """The kernel's end: a workgroup must not end while others access its memory."""
        for (owner, workgroup), (time, at) in self.last.items():
            if time >= self.seen[owner, workgroup % self.size]:
                number = int(self.batch.numbers[owner])
                text = f"workgroup {number} may have ended: no cluster_barrier after it"
                self.batch.log.add("race", at, text)


def leave(batch: Batch, threads: Threads) -> None:
    """Threads have ended: barriers of their cluster do not wait for them."""
    if batch.clusters is not None:
        batch.clusters.gone += threads.each


def cluster_barrier(threads: Threads, at: Instruction) -> Iterator[Waiting]:
    """Wait until all threads of the cluster that have not ended have come."""
    batch, clusters = threads.batch, threads.batch.clusters
    assert clusters is not None
    here = clusters.come(threads, at)
    times = clusters.met[here // clusters.size] + 1
    warps = np.arange(threads.first_warp, threads.first_warp + threads.warps)
    known = batch.clocks.release(here, warps)
    clusters.gathered[here] = np.maximum(clusters.gathered[here], known)
    yield from clusters.wait(threads, at, here, times)
    clusters.seen[here] = clusters.met_at[here // clusters.size][:, None]
    if batch.checks:
        batch.clocks.acquire(here, warps, clusters.released[here])


def cluster_begin(threads: Threads, at: Instruction) -> None:
    assert threads.batch.clusters is not None
    threads.batch.clusters.come(threads, at)
    threads.batch.clusters.meet()


def cluster_begun(threads: Threads, at: Instruction) -> Iterator[Waiting]:
    """Wait until all workgroups of the cluster have begun, which orders nothing else."""
    clusters = threads.batch.clusters
    assert clusters is not None
    here = np.unique(threads.workgroup[threads.numbers_of_active()])
    yield from clusters.wait(threads, at, here, np.ones(len(here), np.int64))
    clusters.seen[here] = np.maximum(clusters.seen[here], 1)


def rank(threads: Threads, at: Instruction) -> Array:
    clusters = threads.batch.clusters
    if clusters is None:
        return constant(0, I32)
    return (threads.batch.numbers[threads.workgroup] % clusters.size).astype(np.int32)[None]


def _place(
    threads: Threads, at: Instruction, offsets: Instruction, rank: Instruction, mask: Array | None
) -> WorkgroupVectors:
    access, clusters = at.attr, threads.batch.clusters
    assert isinstance(access, Access) and clusters is not None
    whose = threads.wide(rank)[0].astype(np.int64)
    bad = (whose < 0) | (whose >= clusters.size)
    if mask is not None:
        bad &= mask.any(axis=0)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        text = f"{threads.name(first)} accesses the memory of rank {int(whose[first])} of {clusters.size}"
        threads.batch.log.add("out of bounds", at, text, int(bad.sum()))
        accesses = len(access.places)
        mask = np.broadcast_to(~bad, (accesses, threads.size)) if mask is None else mask & ~bad
    whose = threads.workgroup // clusters.size * clusters.size + np.where(bad, 0, whose)
    first_elements = offsets_of(threads, offsets, access.places)
    buffer = threads.batch.kernel.buffers[access.memory]
    return WorkgroupVectors(threads, at, buffer, first_elements, access.width, mask, whose)


def _note(threads: Threads, at: Instruction, place: WorkgroupVectors, writes: bool) -> None:
    """Check accesses: those to one's own memory as any others."""
    batch = threads.batch
    if not batch.checks:
        return
    assert batch.clusters is not None
    keys, who = place.granules(threads, place.mask)
    own = place.whose[who] == threads.workgroup[who]
    if own.any():
        (batch.memory.write if writes else batch.memory.read)(threads, at, keys[own], who[own])
    if not own.all():
        batch.clusters.access(threads, at, keys[~own], who[~own], writes)


def remote_load(threads: Threads, at: Instruction) -> Array:
    access = at.attr
    assert isinstance(access, Access) and at.dtype is not None
    offsets, rank, *masks = at.args
    mask = mask_of(threads, masks[0] if masks else None, len(access.places))
    place = _place(threads, at, offsets, rank, mask)
    _note(threads, at, place, writes=False)
    vectors = place.take()
    if place.mask is not None:
        vectors = np.where(place.mask[:, :, None], vectors, constant(access.pad, at.dtype))
    return registers_of(vectors)


def remote_store(threads: Threads, at: Instruction) -> None:
    access = at.attr
    assert isinstance(access, Access)
    value, offsets, rank, *masks = at.args
    accesses = len(access.places)
    mask = mask_of(threads, masks[0] if masks else None, accesses)
    place = _place(threads, at, offsets, rank, mask)
    registers = np.broadcast_to(threads.wide(value), (accesses * access.width, threads.size))
    place.put(vectors_of(registers, access.width))
    _note(threads, at, place, writes=True)


def remote_send(threads: Threads, at: Instruction) -> None:
    """Stores that land when the phases of the others' signals end."""
    batch, clusters, signals = threads.batch, threads.batch.clusters, threads.batch.signals
    access = at.attr
    assert isinstance(access, Access) and clusters is not None and signals is not None
    value, offsets, rank, signal = at.args
    place = _place(threads, at, offsets, rank, mask_of(threads, None, len(access.places)))
    vectors = vectors_of(threads.wide(value), access.width)
    chosen = np.ones(place.first.shape, np.bool_) if place.mask is None else place.mask
    who = np.nonzero(chosen)[1]
    number = threads.wide(signal)[0, who].astype(np.int64)
    bad = (number < 0) | (number >= signals.count)
    where = place.whose[who] * signals.count + np.where(bad, 0, number)
    bad |= signals.arrivals[where] == 0
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        text = f"{threads.name(int(who[first]))} sends to signal {int(number[first])} of {signals.count}"
        batch.log.add("unwritten", at, f"{text}, which nothing initialised", int(bad.sum()))
        return
    granules = np.arange(place.bytes // batch.memory.granule)
    first_key = place.whose[who] * batch.memory.granules + place.address[chosen] // batch.memory.granule
    keys = first_key[:, None] + granules
    if batch.checks:
        by = np.repeat(who, len(granules))
        clusters.check_access(threads, at, keys.reshape(-1), by, True)
        agents = batch.clocks.agents(batch.clocks.signals(np.repeat(number, len(granules))))
        batch.memory.writer[keys.reshape(-1)] = batch.memory.codes(at, agents, NEVER)
    elements = place.first[chosen][:, None] + np.arange(access.width)
    left = np.ones(len(who), np.bool_)
    signals.loads.append(Loading(at, where, keys, elements, vectors[chosen], place.data, left))
    np.subtract.at(signals.bytes, where, place.bytes)
    batch.progress += 1
    signals.finish_phases(batch)
