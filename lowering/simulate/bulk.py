"""Copies of boxes between tensors and workgroup memory by the copy engine."""

from __future__ import annotations

import numpy as np

from gizml_tile.lowering.kernel_ir.instructions import Bulk, BulkWait, Instruction
from gizml_tile.lowering.simulate.numbers import Array
from gizml_tile.lowering.simulate.signals import Loading, ready_signals
from gizml_tile.lowering.simulate.tensors import Tensor
from gizml_tile.lowering.simulate.threads import Batch, Storing, Threads

CHUNK = 16  # bytes that a swizzle keeps together
_ALIGNMENT = 128


def swizzled(address: Array, span: int) -> Array:
    """Byte addresses with the 16-byte chunks of each ``span`` bytes exchanged: 0, 32, 64 or 128."""
    if not span:
        return address
    return np.asarray(address ^ (address >> 7 & span // CHUNK - 1) << 4)


class Box:
    """The boxes of some threads: where they lie in workgroup memory and in the tensor."""

    def __init__(
        self, threads: Threads, at: Instruction, bulk: Bulk, to: Instruction, corner: tuple[Instruction, ...]
    ) -> None:
        batch = threads.batch
        self.at = at
        self.buffer = batch.kernel.buffers[bulk.buffer]
        self.tensor: Tensor = batch.tensors[bulk.tensor]
        size = self.buffer.dtype.bytes
        elements = int(np.prod(bulk.box))
        who = threads.numbers_of_active()
        first = threads.wide(to)[0, who].astype(np.int64)
        bad = (first < 0) | (first + elements > self.buffer.elements)
        if bad.any():
            text = f"{threads.name(int(who[np.flatnonzero(bad)[0]]))} moves {elements} elements at element "
            text += f"{int(first[bad][0])} of {self.buffer.name}, which has {self.buffer.elements} elements"
            batch.log.add("out of bounds", at, text, int(bad.sum()))
            who, first = who[~bad], first[~bad]
        start = first * size + self.buffer.offset
        odd = start % _ALIGNMENT != 0
        if odd.any():
            text = (
                f"{threads.name(int(who[np.flatnonzero(odd)[0]]))} moves a box at byte {int(start[odd][0])}"
            )
            text += f" of workgroup memory, which is no multiple of {_ALIGNMENT}"
            batch.log.add("misaligned", at, text, int(odd.sum()))
        self.who = who
        self.bytes = elements * size
        chunks = swizzled(start[:, None] + np.arange(0, self.bytes, CHUNK), bulk.swizzle)
        # An element is one of its chunk.
        inside_chunk = np.arange(CHUNK // size)
        base = threads.workgroup[who] * (batch.memory.bytes // size)
        places = base[:, None, None] + chunks[:, :, None] // size + inside_chunk
        self.places = places.reshape(len(who), places.shape[1] * places.shape[2])[:, :elements]
        granule = batch.memory.granule
        first_keys = threads.workgroup[who][:, None] * batch.memory.granules + chunks // granule
        keys = first_keys[:, :, None] + np.arange(CHUNK // granule)
        self.keys = keys.reshape(len(who), keys.shape[1] * keys.shape[2])
        self.inside, self.elements = self._elements(threads, bulk, corner)

    def _elements(self, threads: Threads, bulk: Bulk, corner: tuple[Instruction, ...]) -> tuple[Array, Array]:
        """For each element of the boxes whether it is in the tensor, and its number in the data."""
        memory = self.tensor.memory
        boxes = len(self.who)
        inside = np.ones((boxes, 1), np.bool_)
        element = np.full((boxes, 1), memory.offset, np.int64)
        axes = list(range(len(corner)))
        if bulk.turned:
            axes[-2:] = axes[-1], axes[-2]
        for axis in axes:
            value = corner[axis]
            start = threads.wide(value)[0, self.who].astype(np.int64)
            if axis == len(corner) - 1:
                odd = start * self.buffer.dtype.bytes % CHUNK != 0
                self._refused("misaligned", threads, axis, start, odd, f"no multiple of {CHUNK} bytes")
            if self.at.op == "bulk_store":
                self._refused("out of bounds", threads, axis, start, start < 0, "negative")
            at = start[:, None] + np.arange(bulk.box[axis])
            fits = (at >= 0) & (at < memory.shape[axis])
            size = inside.shape[1] * bulk.box[axis]
            inside = (inside[:, :, None] & fits[:, None]).reshape(boxes, size)
            element = (element[:, :, None] + at[:, None] * memory.strides[axis]).reshape(boxes, size)
        return inside, np.where(inside, element, 0)

    def _refused(self, kind: str, threads: Threads, axis: int, start: Array, wrong: Array, what: str) -> None:
        """The engine fails at such coordinates, wherever the tensor ends."""
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            text = f"{threads.name(int(self.who[first]))} moves a box of {self.tensor.name} at coordinate "
            text += f"{int(start[first])} along axis {axis}, which is {what}"
            threads.batch.log.add(kind, self.at, text, int(wrong.sum()))

    def threads_of(self, of: Array) -> Array:
        """The thread of each of the values [boxes, ...], in a row."""
        return np.broadcast_to(self.who[:, None], of.shape).reshape(-1)


def bulk_load(threads: Threads, at: Instruction) -> None:
    """What lies outside the tensor reads as zeros, and counts as bytes all the same."""
    bulk = at.attr
    assert isinstance(bulk, Bulk)
    to, *corner, signal = at.args
    batch = threads.batch
    signals = batch.signals
    assert signals is not None
    box = Box(threads, at, bulk, to, tuple(corner))
    ready, place = ready_signals(threads, at, signal)
    kept = np.isin(box.who, ready)
    place = place[np.isin(ready, box.who)]
    tensor = box.tensor
    data = np.where(box.inside, tensor.data.take(box.elements), np.zeros((), tensor.data.dtype))
    if bulk.rounded:
        data = _rounded(data)
    if tensor.shadow is not None:
        who = box.threads_of(box.inside)[box.inside.reshape(-1)]
        tensor.shadow.read(threads, at, tensor, box.elements[box.inside], who)
    if batch.checks:
        agents = batch.clocks.agents(batch.clocks.signals(place % signals.count))
        keys = box.keys[kept]
        of_each = np.broadcast_to(agents[:, None], keys.shape).reshape(-1)
        who = np.broadcast_to(box.who[kept][:, None], keys.shape).reshape(-1)
        batch.memory.write_later(threads, at, keys.reshape(-1), who, of_each)
    view = batch.memory.view(box.buffer)
    left = np.ones(len(place), np.bool_)
    signals.loads.append(Loading(at, place, box.keys[kept], box.places[kept], data[kept], view, left))
    np.subtract.at(signals.bytes, place, box.bytes)
    batch.progress += 1
    signals.finish_phases(batch)


def _rounded(data: Array) -> Array:
    """To the nearest number with 10 bits after the point."""
    half = (data.view(np.int32) + np.int32(1 << 12)) & np.int32(-1 << 13)
    return np.where(np.isnan(data), data, half.view(np.float32))


def bulk_store(threads: Threads, at: Instruction) -> None:
    bulk = at.attr
    assert isinstance(bulk, Bulk)
    source, *corner = at.args
    batch = threads.batch
    box = Box(threads, at, bulk, source, tuple(corner))
    data = batch.memory.view(box.buffer)[box.places]
    if batch.checks:
        keys = box.keys.reshape(-1)
        parts = np.full(len(keys), batch.clocks.engine)
        batch.memory.read_later(threads, at, keys, box.threads_of(box.keys), parts)
    left = np.zeros(threads.size, np.bool_)
    left[box.who] = True
    group = threads.stores.closed.copy()
    read = np.zeros(len(box.who), np.bool_)
    threads.stores.flights.append(
        Storing(at, group, left, box.who, box.keys, box.elements, box.inside, data, read)
    )


def bulk_commit(threads: Threads, at: Instruction) -> None:
    threads.stores.close(threads.active)


def bulk_wait(threads: Threads, at: Instruction) -> None:
    wait = at.attr
    assert isinstance(wait, BulkWait)
    batch = threads.batch
    for flight in threads.stores.flights:
        done = flight.left & (flight.group < threads.stores.closed - wait.groups)
        if threads.active is not None:
            done &= threads.active
        _free(threads, flight, done[flight.who] & ~flight.read)
    if not wait.reading:
        for flight, landing in threads.stores.landing(wait.groups, threads.active):
            write_back(threads, flight, landing[flight.who])
    batch.progress += 1


def _free(threads: Threads, flight: Storing, done: Array) -> None:
    """The sources of some stores have been read."""
    if done.any():
        flight.read |= done
        if threads.batch.checks:
            keys = flight.keys[done]
            who = np.broadcast_to(flight.who[done][:, None], keys.shape).reshape(-1)
            threads.batch.memory.read_by(threads, keys.reshape(-1), who, threads.batch.clocks.engine)


def write_back(threads: Threads, flight: Storing, done: Array) -> None:
    """The data of some stores arrives in the tensor."""
    bulk = flight.at.attr
    assert isinstance(bulk, Bulk)
    batch = threads.batch
    tensor = batch.tensors[bulk.tensor]
    inside = flight.inside[done]
    elements, data = flight.elements[done][inside], flight.data[done][inside]
    if tensor.shadow is None:
        tensor.data[elements] = data
        return
    who = np.broadcast_to(flight.who[done][:, None], inside.shape)[inside]
    tensor.shadow.before_write(threads, flight.at, tensor, elements, who, data)
    tensor.data[elements] = data
    tensor.shadow.after_write(threads, flight.at, tensor, elements, who, data)


def fence_async(threads: Threads, at: Instruction) -> None:
    if threads.batch.checks and threads.batch.memory.fenced is not None:
        threads.batch.memory.fence(threads)


def finish(batch: Batch) -> None:
    """The kernel's end: stores arrive, and what was not waited for is reported."""
    for threads in batch.unfinished:
        for flight in threads.stores.flights:
            unread = flight.left[flight.who] & ~flight.read
            if unread.any():
                text = "the workgroup ends before the memory was read: no bulk_wait for it"
                batch.log.add("in flight", flight.at, text, int(unread.sum()))
            write_back(threads, flight, flight.left[flight.who])
        for product in threads.products.flights:
            batch.log.add("in flight", product.at, "no group_wait for it before the workgroup ends")
    if batch.clusters is not None:
        batch.clusters.finish()
    for load in batch.signals.loads if batch.signals is not None else ():
        batch.log.add("in flight", load.at, "the workgroup ends before it landed", int(load.left.sum()))
