"""Asynchronous copies: their data lands in workgroup memory when the thread that asked for it waits."""

from __future__ import annotations

import numpy as np

from gizml_tile.lowering.kernel_ir.instructions import Copy, Instruction
from gizml_tile.lowering.simulate.accesses import read_tensor
from gizml_tile.lowering.simulate.addresses import Vectors, WorkgroupVectors, mask_of, offsets_of
from gizml_tile.lowering.simulate.numbers import Array
from gizml_tile.lowering.simulate.threads import Copying, Threads


def copy(threads: Threads, at: Instruction) -> None:
    """Read the source, and mark the bytes as being in flight."""
    what = at.attr
    assert isinstance(what, Copy)
    batch = threads.batch
    tensor, buffer = batch.tensors[what.tensor], batch.kernel.buffers[what.buffer]
    accesses = len(what.to_places)
    wanted = mask_of(threads, at.args[2] if len(at.args) > 2 else None, accesses)
    source = offsets_of(threads, at.args[1], what.from_places)
    vectors, read = read_tensor(threads, at, tensor, source, what.width, wanted)
    if read is not None:
        vectors = np.where(read[:, :, None], vectors, np.zeros((), vectors.dtype))
    to = offsets_of(threads, at.args[0], what.to_places)
    place = WorkgroupVectors(threads, at, buffer, to, what.width, mask_of(threads, None, accesses))
    if batch.checks:
        keys, who = place.granules(threads, place.mask)
        batch.memory.write_later(threads, at, keys, who, threads.thread[who])
    left = np.ones(threads.size, np.bool_) if threads.active is None else threads.active.copy()
    threads.copies.flights.append(Copying(at, threads.copies.closed.copy(), left, place, vectors))


def copy_commit(threads: Threads, at: Instruction) -> None:
    threads.copies.close(threads.active)


def copy_wait(threads: Threads, at: Instruction) -> None:
    assert isinstance(at.attr, int)
    for flight, landing in threads.copies.landing(at.attr, threads.active):
        _land(threads, flight, landing)


def _land(threads: Threads, flight: Copying, landing: Array) -> None:
    place = flight.place
    mask = place.mask
    if not landing.all():
        mask = np.broadcast_to(landing, place.first.shape) if mask is None else mask & landing
    Vectors(place.data, place.first, place.width, mask, aligned=True).put(flight.vectors)
    if threads.batch.checks:
        threads.batch.memory.wrote(threads, flight.at, *place.granules(threads, mask))
