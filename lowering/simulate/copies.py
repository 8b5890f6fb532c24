"""Asynchronous copies: their data lands in workgroup memory when the thread that asked for it waits."""

from __future__ import annotations

import numpy as np

from gizml_tile.lowering.kernel_ir.instructions import Copy, Instruction
from gizml_tile.lowering.simulate import costs
from gizml_tile.lowering.simulate.accesses import GlobalAccess, WorkgroupAccess, mask_of, offsets_of
from gizml_tile.lowering.simulate.numbers import Array
from gizml_tile.lowering.simulate.threads import Copying, Threads


def copy(threads: Threads, at: Instruction) -> None:
    """Read the source, and mark the bytes as being in flight."""
    what = at.attr
    assert isinstance(what, Copy)
    batch = threads.batch
    tensor, buffer = batch.tensors[what.tensor], batch.kernel.buffers[what.buffer]
    accesses = len(what.to_places)
    active = mask_of(threads, None, accesses)
    wanted = mask_of(threads, at.args[2] if len(at.args) > 2 else None, accesses)
    source = offsets_of(threads, at.args[1], what.from_places)
    read = GlobalAccess(threads, at, tensor, source, what.width, wanted)
    if tensor.shadow is not None:
        elements, who = read.chosen(threads)
        tensor.shadow.read(threads, at, batch.log, elements, who, read.name)
    if tensor.data.size:
        data = tensor.data.take(read.elements(), mode="clip")
    else:
        data = np.zeros((accesses, what.width, threads.size), tensor.data.dtype)
    if read.mask is not None:
        data = np.where(read.mask[:, None], data, np.zeros((), data.dtype))
    to = WorkgroupAccess(
        threads, at, buffer, offsets_of(threads, at.args[0], what.to_places), what.width, active
    )
    if batch.counts:
        costs.wavefronts(threads, at, to.address, to.bytes, to.mask)
    if batch.checks:
        keys, who = to.granules(threads)
        batch.memory.write_later(threads, at, keys, who, threads.thread[who])
    left = np.ones(threads.size, np.bool_) if threads.active is None else threads.active.copy()
    threads.copies.flights.append(Copying(at, threads.copies.closed.copy(), left, to, data))


def copy_commit(threads: Threads, at: Instruction) -> None:
    threads.copies.close(threads.active)


def copy_wait(threads: Threads, at: Instruction) -> None:
    assert isinstance(at.attr, int)
    for flight, landing in threads.copies.landing(at.attr, threads.active):
        _land(threads, flight, landing)


def _land(threads: Threads, flight: Copying, landing: Array) -> None:
    memory = threads.batch.memory
    access = flight.access
    whole = bool(landing.all()) and access.mask is None
    mask = None
    if not whole:
        mask = np.broadcast_to(landing, access.first.shape)
        mask = mask if access.mask is None else mask & access.mask
    view = memory.view(access.buffer)
    elements, data = access.elements(), flight.data
    if mask is not None:
        where = np.broadcast_to(mask[:, None], elements.shape)
        elements, data = elements[where], data[where]
    view[elements] = data
    if memory.checks:
        if mask is None:
            keys, who = access.granules(threads)
        else:
            address = access.address[mask]
            keys, who = memory.keys(threads, address, np.nonzero(mask)[1], access.bytes)
        memory.wrote(threads, flight.at, keys, who)
