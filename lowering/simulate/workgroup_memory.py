"""Workgroup memory with a shadow: who wrote and read each granule last, and whether that is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gizml_tile.lowering.kernel_ir.instructions import (
    WORKGROUP,
    Access,
    Buffer,
    Copy,
    Instruction,
    Kernel,
    MatrixAccess,
)
from gizml_tile.lowering.simulate.clocks import ENGINE, INSTRUCTION, NEVER, TIME, Clocks
from gizml_tile.lowering.simulate.findings import Log
from gizml_tile.lowering.simulate.numbers import HELD, Array

if TYPE_CHECKING:
    from gizml_tile.lowering.simulate.clusters import Clusters
    from gizml_tile.lowering.simulate.threads import Threads

_MANY = 127  # instead of a lane: several lanes of a warp
_READING = (1 << 31) - 1  # a reader that is still in flight


class WorkgroupMemory:
    """The bytes of a batch of workgroups and, with ``checks``, their shadow.

    A granule is the largest power of two of bytes that no access of the kernel splits. A key numbers the
    granules of all workgroups of the batch.
    """

    def __init__(self, kernel: Kernel, workgroups: int, clocks: Clocks, log: Log, checks: bool) -> None:
        self.kernel = kernel
        self.clocks = clocks
        self.log = log
        self.checks = checks
        end = max((buffer.offset + buffer.bytes for buffer in kernel.buffers), default=0)
        self.bytes = (end + 15) // 16 * 16
        # Every bit set is a NaN of each float type.
        self.clusters: Clusters | None = None
        self.data = np.full(workgroups * self.bytes, 0xFF, np.uint8)
        self.granule = _granule(kernel)
        self.granules = self.bytes // self.granule
        self.instructions: list[Instruction] = []
        self._numbers: dict[Instruction, int] = {}
        if checks:
            size = workgroups * self.granules
            self.writer = np.full(size, -1, np.int64)
            self.last_read = np.full(size, -1, np.int64)
            self.readers = np.full((size, clocks.readers), -1, np.int32)
            self.fenced: Array | None = None
            if any(each.op == "fence_async" or each.op in _ASYNCHRONOUS for each in kernel.body.walk()):
                self.fenced = np.full(size, -1, np.int64)
            self.unfenced: list[tuple[Array, Array]] = []

    def view(self, buffer: Buffer) -> Array:
        """All bytes as elements of the buffer's type."""
        return self.data.view(HELD[buffer.dtype])

    def number(self, at: Instruction) -> int:
        """A number by which shadows remember an instruction."""
        known = self._numbers.get(at)
        if known is None:
            known = self._numbers[at] = len(self.instructions)
            self.instructions.append(at)
        return known

    def keys(self, whose: Array, first: Array, who: Array, bytes: int) -> tuple[Array, Array]:
        """The granules of accesses of ``bytes`` from byte addresses on, by threads; and the thread of each.

        ``whose`` is the workgroup whose memory each thread of the batch accesses.
        """
        start = whose[who] * self.granules + first // self.granule
        count = bytes // self.granule
        if count <= 1:
            return start, who
        keys = start + np.arange(count)[:, None]
        return keys.reshape(-1), np.broadcast_to(who, keys.shape).reshape(-1)

    # Reads

    def read(self, threads: Threads, at: Instruction, keys: Array, who: Array) -> None:
        """Check and remember reads of threads ``who`` (numbers in the batch), one for each key."""
        self.check_after_writes(threads, at, keys, who, "reads")
        self._remember(threads, keys, who)
        self.last_read[keys] = self.clocks.now << TIME | self.number(at) << INSTRUCTION

    def _remember(self, threads: Threads, keys: Array, who: Array) -> None:
        """Threads as readers: a lane of each warp, or that there were several."""
        clocks = self.clocks
        threads.touch(who)
        slots = keys * clocks.readers + threads.warp[who]
        mine = (clocks.now << 7 | threads.lane[who]).astype(np.int32)
        flat = self.readers.reshape(-1)
        before = flat[slots]
        flat[slots] = mine
        several = flat[slots] != mine
        unordered = (before >= threads.own_floor() << 7) & ((before ^ mine) & 127 != 0)
        if unordered.any():
            chosen = np.flatnonzero(unordered)
            warp = threads.warp[who[chosen]]
            known = clocks.known[threads.workgroup[who[chosen]], warp, warp]
            several[chosen[before[chosen] >> 7 >= known]] = True
        if several.any():
            flat[slots[several]] = clocks.now << 7 | _MANY

    def check_after_writes(
        self, threads: Threads, at: Instruction, keys: Array, who: Array, verb: str
    ) -> Array:
        """Report what is unwritten, in flight or unordered; gives the writers found."""
        if self.clusters is not None:
            self.clusters.check(threads, at, keys, who, verb)
        writers = self.writer[keys]
        if verb in ("reads", "changes") and (unwritten := writers < 0).any():
            text = f"{self._text(threads, keys, who, unwritten, verb)}, which nothing wrote before"
            self.log.add("unwritten", at, text, int(unwritten.sum()))
        recent = writers >= self.clocks.floor << TIME
        if recent.any():
            chosen = np.flatnonzero(recent)
            self._check_writers(threads, at, keys[chosen], who[chosen], verb)
        return writers

    def _check_writers(self, threads: Threads, at: Instruction, keys: Array, who: Array, verb: str) -> None:
        writers = self.writer[keys]
        times = writers >> TIME
        agents = writers & (1 << INSTRUCTION) - 1
        over = self.clocks.over(threads, who, self.clocks.part_of[agents], times)
        flying = times == NEVER
        bad = ~(over | ((agents == threads.thread[who]) & ~flying))
        if at.op == "atomic":
            # Nothing comes between two of them, in whichever order they are.
            by_atomics = np.array([each.op == "atomic" for each in self.instructions])
            bad &= ~by_atomics[writers >> INSTRUCTION & (1 << 20) - 1]
        if not bad.any():
            return
        late = flying | (agents >= ENGINE)
        for kind, of_kind in (("in flight", np.asarray(bad & late)), ("race", np.asarray(bad & ~late))):
            if of_kind.any():
                first = int(np.flatnonzero(of_kind)[0])
                other = self.instructions[int(writers[first]) >> INSTRUCTION & (1 << 20) - 1]
                agent = int(agents[first])
                text = self._text(threads, keys, who, of_kind, verb)
                if kind == "race":
                    text += f", which thread {agent} wrote with the {other.op} at {_line(other)}"
                    text += ": nothing orders them"
                else:
                    text += f", which the {other.op} at {_line(other)} writes: nothing waited for it"
                self.log.add(kind, at, text, int(of_kind.sum()))

    # Writes

    def write(self, threads: Threads, at: Instruction, keys: Array, who: Array) -> Array:
        """Check and remember writes; gives where another thread wrote too, in the same instruction."""
        self.check_before_write(threads, at, keys, who)
        return self.wrote(threads, at, keys, who)

    def wrote(self, threads: Threads, at: Instruction, keys: Array, who: Array) -> Array:
        """Remember writes; gives where another thread wrote too."""
        threads.touch(who)
        codes = self.codes(at, threads.thread[who])
        self.writer[keys] = codes
        if self.fenced is not None:
            self.fenced[keys] = NEVER
            self.unfenced.append((keys, codes))
        return np.asarray(self.writer[keys] != codes)

    def combine(self, threads: Threads, at: Instruction, keys: Array, who: Array) -> None:
        """Check and remember atomic accesses."""
        self.check_after_writes(threads, at, keys, who, "changes")
        self._check_before_change(threads, at, keys, who)
        self.wrote(threads, at, keys, who)

    def codes(self, at: Instruction, agents: Array, time: int | None = None) -> Array:
        """Writers as numbers."""
        time = self.clocks.now if time is None else time
        return (time << TIME | self.number(at) << INSTRUCTION) + agents.astype(np.int64)

    def check_before_write(self, threads: Threads, at: Instruction, keys: Array, who: Array) -> None:
        """Report writes over what another thread wrote or reads, not ordered before."""
        self.check_after_writes(threads, at, keys, who, "writes")
        self._check_before_change(threads, at, keys, who)

    def _check_before_change(self, threads: Threads, at: Instruction, keys: Array, who: Array) -> None:
        recent = self.last_read[keys] >= self.clocks.floor << TIME
        if recent.any():
            chosen = np.flatnonzero(recent)
            self._check_readers(threads, at, keys[chosen], who[chosen])

    def _check_readers(self, threads: Threads, at: Instruction, keys: Array, who: Array) -> None:
        readers = self.readers[keys]
        warp = threads.warp[who]
        known = self.clocks.of(threads, who)[:, : self.clocks.readers]
        over = known > readers >> 7
        rows = np.arange(len(who))
        own = readers[rows, warp]
        over[rows, warp] |= (own & 127) == threads.lane[who]
        over |= readers < 0
        bad = ~over.all(axis=1)
        if not bad.any():
            return
        late = (~over)[:, self.clocks.warps :].any(axis=1)
        for kind, of_kind in (("in flight", np.asarray(bad & late)), ("race", np.asarray(bad & ~late))):
            if of_kind.any():
                first = int(np.flatnonzero(of_kind)[0])
                other = self.instructions[int(self.last_read[keys[first]]) >> INSTRUCTION & (1 << 20) - 1]
                text = self._text(threads, keys, who, of_kind, "writes")
                text += f", which the {other.op} at {_line(other)} reads: "
                text += "nothing orders them" if kind == "race" else "nothing waited for it"
                self.log.add(kind, at, text, int(of_kind.sum()))

    # The copy engine and matrix units

    def fence(self, threads: Threads) -> None:
        """What these threads wrote may be read asynchronously, once that is ordered after now."""
        assert self.fenced is not None
        fencing = np.zeros((threads.workgroups, ENGINE), np.bool_)
        who = threads.numbers_of_active()
        fencing[threads.workgroup[who], threads.thread[who]] = True
        left = []
        for keys, codes in self.unfenced:
            current = self.writer[keys] == codes
            done = fencing[keys // self.granules, codes & (1 << INSTRUCTION) - 1]
            self.fenced[keys[done & current]] = self.clocks.now
            if not done.all():
                left.append((keys[~done], codes[~done]))
        self.unfenced = left

    def read_later(self, threads: Threads, at: Instruction, keys: Array, who: Array, parts: Array) -> None:
        """Check reads that a part of the workgroup goes on with until it is waited for, and mark them."""
        self.check_asynchronous(threads, at, keys, who)
        self.readers[keys, parts] = _READING
        self.last_read[keys] = NEVER << TIME | self.number(at) << INSTRUCTION

    def check_asynchronous(self, threads: Threads, at: Instruction, keys: Array, who: Array) -> None:
        """Check reads for which a thread asks, and another part of the workgroup does."""
        writers = self.check_after_writes(threads, at, keys, who, "reads")
        assert self.fenced is not None
        agents = writers & (1 << INSTRUCTION) - 1
        times = writers >> TIME
        by_threads = (writers >= 0) & (agents < ENGINE) & (times < NEVER)
        if not by_threads.any():
            return
        part = self.clocks.part_of[np.where(by_threads, agents, 0)]
        # Those that are not even ordered were reported as races.
        ordered = self.clocks.over(threads, who, part, times) | (agents == threads.thread[who])
        fence = self.fenced[keys]
        seen = self.clocks.over(threads, who, part, fence) | (
            (agents == threads.thread[who]) & (fence < NEVER)
        )
        bad = by_threads & ordered & ~seen
        if bad.any():
            other = self.instructions[int(writers[np.flatnonzero(bad)[0]]) >> INSTRUCTION & (1 << 20) - 1]
            text = self._text(threads, keys, who, bad, "asynchronously reads")
            text += f", which the {other.op} at {_line(other)} wrote, without a fence_async after it"
            self.log.add("race", at, text, int(bad.sum()))

    def finish_reading(self, keys: Array, parts: Array) -> None:
        """A part of the workgroup has read what it read later."""
        self.readers[keys, parts] = self.clocks.now << 7 | _MANY

    def read_by(self, threads: Threads, keys: Array, who: Array, part: int) -> None:
        """What a part read later becomes a read of these threads, now."""
        self.readers[keys, part] = -1
        self._remember(threads, keys, who)

    def write_later(self, threads: Threads, at: Instruction, keys: Array, who: Array, agents: Array) -> None:
        """Check writes that land later, and mark what they write."""
        self.check_before_write(threads, at, keys, who)
        self.writer[keys] = self.codes(at, agents, NEVER)

    def finish_writing(self, at: Instruction, keys: Array, agents: Array) -> None:
        """What was written later has landed."""
        self.writer[keys] = self.codes(at, agents)

    def same_granule(self, threads: Threads, at: Instruction, keys: Array, who: Array, where: Array) -> None:
        """Report writes of several threads of one instruction to the same place."""
        text = self._text(threads, keys, who, where, "writes") + ", as another thread does, with other bits"
        self.log.add("race", at, text, int(where.sum()))

    def _text(self, threads: Threads, keys: Array, who: Array, where: Array, verb: str) -> str:
        first = int(np.flatnonzero(where)[0])
        byte = int(keys[first]) % self.granules * self.granule
        return f"{threads.name(int(who[first]))} {verb} {self.place(byte)}"

    def place(self, byte: int) -> str:
        """A byte of workgroup memory by the names of the buffers that have it."""
        names = [
            f"{buffer.name}[{(byte - buffer.offset) // buffer.dtype.bytes}]"
            for buffer in self.kernel.buffers
            if buffer.offset <= byte < buffer.offset + buffer.bytes
        ]
        return " = ".join(names) or f"byte {byte} of workgroup memory"


_ASYNCHRONOUS = frozenset("bulk_load bulk_store group_mma".split())


def _line(at: Instruction) -> str:
    return f"line {at.place.line}" if at.place else "an unknown line"


def _granule(kernel: Kernel) -> int:
    """The largest power of two of bytes, 16 at most, that no access to workgroup memory splits."""
    sizes = [16, *(buffer.offset & -buffer.offset for buffer in kernel.buffers if buffer.offset)]
    for each in kernel.body.walk():
        match each.attr:
            case Access(space, memory, width) if space == WORKGROUP:
                size = width * kernel.buffers[memory].dtype.bytes
                sizes.append(size & -size)
            case Copy() as copy:
                size = copy.width * kernel.buffers[copy.buffer].dtype.bytes
                sizes.append(size & -size)
            case MatrixAccess():
                sizes.append(16)
    return min(sizes)
