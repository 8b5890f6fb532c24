"""Transaction barriers: they count arrivals and the bytes of bulk loads, phase after phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gizml_tile.lowering.kernel_ir.instructions import Instruction, Signal
from gizml_tile.lowering.simulate.numbers import Array
from gizml_tile.lowering.simulate.threads import Batch, Threads, Waiting


@dataclass(slots=True, eq=False)
class Loading:
    """Bulk loads of one instruction, which land when the phases of their signals end."""

    at: Instruction
    place: Array  # workgroup * signals + signal, of each
    keys: Array  # [loads, granules]
    elements: Array  # [loads, elements of a box], in the buffer's view
    data: Array  # likewise
    view: Array
    left: Array


class Signals:
    """The transaction barriers of a batch; they are numbered through all of its workgroups."""

    def __init__(self, workgroups: int, signals: int, parts: int) -> None:
        size = workgroups * signals
        self.count = signals
        self.arrivals = np.zeros(size, np.int64)  # that end a phase; 0: not initialised
        self.pending = np.zeros(size, np.int64)
        self.bytes = np.zeros(size, np.int64)
        self.phase = np.zeros(size, np.int64)
        self.gathered = np.zeros((size, parts), np.int64)
        self.released = np.zeros((size, parts), np.int64)
        self.initialised_by = np.zeros(size, np.int64)
        self.initialised_at = np.zeros(size, np.int64)
        self.loads: list[Loading] = []

    def finish_phases(self, batch: Batch) -> None:
        """End the phases that have all they wait for; what was loaded for them lands."""
        ended = (self.arrivals > 0) & (self.pending == 0) & (self.bytes == 0)
        if not ended.any():
            return
        for load in self.loads:
            landing = load.left & ended[load.place]
            if landing.any():
                _land(batch, self, load, landing)
        self.loads = [load for load in self.loads if load.left.any()]
        batch.clocks.advance()
        self.released[ended] = np.maximum(self.released[ended], self.gathered[ended])
        self.gathered[ended] = 0
        self.pending[ended] = self.arrivals[ended]
        self.phase[ended] += 1
        batch.progress += 1


def _land(batch: Batch, signals: Signals, load: Loading, landing: Array) -> None:
    load.view[load.elements[landing]] = load.data[landing]
    load.left &= ~landing
    if not batch.checks:
        return
    place = load.place[landing]
    part = batch.clocks.signals(place % signals.count)
    agents = np.broadcast_to(batch.clocks.agents(part)[:, None], load.keys[landing].shape)
    batch.memory.finish_writing(load.at, load.keys[landing].reshape(-1), agents.reshape(-1))
    signals.gathered[place, part] = batch.clocks.now + 1


def _asked(threads: Threads, at: Instruction, signal: Instruction) -> tuple[Array, Array]:
    """The active threads whose signal is one that is ready for use, and the places of their signals."""
    signals = threads.batch.signals
    assert signals is not None
    who = threads.numbers_of_active()
    number = threads.wide(signal)[0, who].astype(np.int64)
    log = threads.batch.log
    outside = (number < 0) | (number >= signals.count)
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        text = f"{threads.name(int(who[first]))} uses signal {int(number[first])} of {signals.count}"
        log.add("out of bounds", at, text, int(outside.sum()))
        who, number = who[~outside], number[~outside]
    return who, threads.workgroup[who] * signals.count + number


def ready_signals(threads: Threads, at: Instruction, signal: Instruction) -> tuple[Array, Array]:
    """`_asked` without the threads that use a signal before it is initialised, which are reported."""
    batch = threads.batch
    signals = batch.signals
    assert signals is not None
    who, place = _asked(threads, at, signal)
    unknown = signals.arrivals[place] == 0
    if unknown.any():
        first = int(np.flatnonzero(unknown)[0])
        number = int(place[first]) % signals.count
        text = f"{threads.name(int(who[first]))} uses signal {number}, which nothing initialised"
        batch.log.add("unwritten", at, text, int(unknown.sum()))
        who, place = who[~unknown], place[~unknown]
    if batch.checks:
        by = signals.initialised_by[place]
        part = batch.clocks.part_of[by]
        times = signals.initialised_at[place]
        over = batch.clocks.over(threads, who, part, times)
        early = ~over & (by != threads.thread[who])
        if early.any():
            first = int(np.flatnonzero(early)[0])
            text = f"{threads.name(int(who[first]))} uses signal {int(place[first]) % signals.count}"
            text += ", whose initialisation is not ordered before"
            batch.log.add("race", at, text, int(early.sum()))
    return who, place


def signal_init(threads: Threads, at: Instruction) -> None:
    assert isinstance(at.attr, Signal)
    signals = threads.batch.signals
    assert signals is not None
    who, place = _asked(threads, at, at.args[0])
    signals.arrivals[place] = signals.pending[place] = at.attr.arrivals
    signals.bytes[place] = signals.phase[place] = 0
    signals.initialised_by[place] = threads.thread[who]
    signals.initialised_at[place] = threads.batch.clocks.now


def signal_expect(threads: Threads, at: Instruction) -> None:
    assert isinstance(at.attr, int)
    signals = threads.batch.signals
    assert signals is not None
    who, place = ready_signals(threads, at, at.args[0])
    np.add.at(signals.bytes, place, at.attr)
    _arrive(threads, who, place)


def signal_arrive(threads: Threads, at: Instruction) -> None:
    _arrive(threads, *ready_signals(threads, at, at.args[0]))


def _arrive(threads: Threads, who: Array, place: Array) -> None:
    batch = threads.batch
    signals = batch.signals
    assert signals is not None
    clocks = batch.clocks
    if batch.checks:
        np.maximum.at(signals.gathered, place, _knowledge(threads, who))
        clocks.advance()
    places, counts = np.unique(place, return_counts=True)
    batch.progress += 1
    while counts.any():  # more arrivals than a phase takes are the next one's
        taken = np.minimum(counts, signals.pending[places])
        signals.pending[places] -= taken
        counts -= taken
        signals.finish_phases(batch)
        if not taken.any():
            break


def _knowledge(threads: Threads, who: Array) -> Array:
    """What each of these threads knows: what its warp does, and its own accesses.

    Of the other lanes of its warp it knows only what they did before the lanes last met.
    """
    clocks = threads.batch.clocks
    known = clocks.of(threads, who)
    warp = threads.warp[who]
    rows = np.arange(len(who))
    assert threads.last_touch is not None
    lanes = min(threads.batch.lanes, threads.each)
    touched = threads.last_touch.reshape(-1, lanes)
    coming = np.zeros(threads.size, np.bool_)
    coming[who] = True
    others = np.where(coming.reshape(-1, lanes), 0, touched).max(axis=1)[who // lanes]
    met = known[rows, warp]
    known[rows, warp] = np.where(others >= met, met, clocks.now + 1)
    return np.asarray(known)


def signal_wait(threads: Threads, at: Instruction) -> Iterator[Waiting]:
    """Wait until the current phase is another one than that of the parity."""
    batch = threads.batch
    signals = batch.signals
    assert signals is not None
    who, place = ready_signals(threads, at, at.args[0])
    parity = threads.wide(at.args[1])[0, who].astype(np.int64)
    while (signals.phase[place] & 1 == parity).any():
        first = int(np.flatnonzero(signals.phase[place] & 1 == parity)[0])
        yield Waiting(threads, at, _missing(signals, int(place[first]), int(parity[first])))
    batch.progress += 1
    if batch.checks:
        batch.clocks.learn(threads, who, signals.released[place])


def _missing(signals: Signals, place: int, parity: int) -> str:
    return (
        f"waits for the phase of parity {parity} of signal {place % signals.count} "
        f"({signals.pending[place]} of {signals.arrivals[place]} arrivals "
        f"and {signals.bytes[place]} bytes missing)"
    )
