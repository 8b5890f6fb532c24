"""Loads, stores and matrix accesses."""

from __future__ import annotations

import numpy as np

from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Buffer, Instruction, MatrixAccess
from gizml_tile.lowering.simulate import costs
from gizml_tile.lowering.simulate.numbers import Array, constant
from gizml_tile.lowering.simulate.tensors import Tensor
from gizml_tile.lowering.simulate.threads import Threads

Places = tuple[tuple[int, int], ...]


def offsets_of(threads: Threads, value: Instruction, places: Places) -> Array:
    """The first element of each access: [accesses, threads]."""
    held = threads.wide(value)
    registers = [register for register, _ in places]
    constants = np.array([number for _, number in places], held.dtype)[:, None]
    if registers == list(range(len(held))):
        return np.asarray(held + constants)
    return np.asarray(held[registers] + constants)


def mask_of(threads: Threads, mask: Instruction | None, accesses: int) -> Array | None:
    """Which accesses take place: [accesses, threads], or None where all do."""
    given = None if mask is None else threads.get(mask)
    if given is not None and given.shape[1] == 1 and given.all():
        given = None
    if given is None and threads.active is None:
        return None
    chosen = np.ones((1, 1), np.bool_) if given is None else given
    if threads.active is not None:
        chosen = chosen & threads.active
    return np.broadcast_to(chosen, (accesses, threads.size))


def chosen_threads(threads: Threads, mask: Array | None, accesses: int) -> Array:
    """The thread of each access that takes place, as many as the mask has bits set."""
    if mask is None:
        return np.broadcast_to(threads.everyone, (accesses, threads.size)).reshape(-1)
    return np.nonzero(mask)[1]


def _without(mask: Array | None, bad: Array) -> Array:
    return ~bad if mask is None else mask & ~bad


class GlobalAccess:
    """Where accesses to a tensor go, with those outside of it reported and left out."""

    def __init__(
        self, threads: Threads, at: Instruction, tensor: Tensor, first: Array, width: int, mask: Array | None
    ) -> None:
        self.tensor = tensor
        self.width = width
        batch = threads.batch
        first = first.astype(np.int64) + tensor.offset
        bad = ~tensor.inside(first, width)
        if mask is not None:
            bad &= mask
        name = batch.kernel.tensors[batch.tensors.index(tensor)].name
        self.name = name
        if bad.any():
            access, thread = np.argwhere(bad)[0]
            element = int(first[access, thread]) - tensor.offset
            text = f"{threads.name(thread)} accesses element {element} of {name}, which has {_extent(tensor)}"
            batch.log.add("out of bounds", at, text, int(bad.sum()))
            mask = _without(mask, bad)
        size = tensor.data.itemsize
        if width > 1:
            report_misaligned(threads, at, first * size, width * size, mask, name)
        if batch.counts:
            costs.sectors(threads, at, first * size, width * size, mask)
        self.mask = mask
        self.first = first if mask is None else np.where(mask, first, tensor.first)

    def elements(self) -> Array:
        """The places in the data: [accesses, width, threads]."""
        if self.width == 1:
            return self.first[:, None]
        return self.first[:, None] + np.arange(self.width)[:, None]

    def chosen(self, threads: Threads) -> tuple[Array, Array]:
        """The elements that are accessed, one after the other, and the thread of each."""
        elements = self.elements()
        if self.mask is None:
            return elements.reshape(-1), np.broadcast_to(threads.everyone, elements.shape).reshape(-1)
        where = np.broadcast_to(self.mask[:, None], elements.shape)
        return elements[where], np.nonzero(where)[2]


def _extent(tensor: Tensor) -> str:
    return f"shape {list(tensor.memory.shape)} and strides {list(tensor.memory.strides)}"


def report_misaligned(
    threads: Threads, at: Instruction, address: Array, bytes: int, mask: Array | None, name: str
) -> None:
    """Report vector accesses whose address is no multiple of their size."""
    if bytes & (bytes - 1):
        bytes &= -bytes
    bad = address & (bytes - 1) != 0
    if mask is not None:
        bad &= mask
    if bad.any():
        access, thread = np.argwhere(bad)[0]
        text = (
            f"{threads.name(thread)} accesses {bytes} bytes of {name} at byte {int(address[access, thread])}"
        )
        threads.batch.log.add("misaligned", at, text, int(bad.sum()))


class WorkgroupAccess:
    """Where accesses to a buffer go: like `GlobalAccess`, with addresses in bytes of its workgroup."""

    def __init__(
        self, threads: Threads, at: Instruction, buffer: Buffer, first: Array, width: int, mask: Array | None
    ) -> None:
        batch = threads.batch
        size = buffer.dtype.bytes
        self.buffer = buffer
        self.width = width
        self.bytes = width * size
        first = first.astype(np.int64)
        bad = (first < 0) | (first > buffer.elements - width)
        if mask is not None:
            bad &= mask
        if bad.any():
            access, thread = np.argwhere(bad)[0]
            text = f"{threads.name(thread)} accesses element {int(first[access, thread])} of {buffer.name}, "
            text += f"which has {buffer.elements}"
            batch.log.add("out of bounds", at, text, int(bad.sum()))
            mask = _without(mask, bad)
        self.mask = mask
        if mask is not None:
            first = np.where(mask, first, 0)
        self.address = first * size + buffer.offset
        if width > 1:
            report_misaligned(threads, at, self.address, self.bytes, mask, buffer.name)
        self.first = first + threads.workgroup * (batch.memory.bytes // size) + buffer.offset // size

    def elements(self) -> Array:
        """The places in the buffer's view of all memory: [accesses, width, threads]."""
        if self.width == 1:
            return self.first[:, None]
        return self.first[:, None] + np.arange(self.width)[:, None]

    def granules(self, threads: Threads) -> tuple[Array, Array]:
        """The granules that are accessed, and the thread of each."""
        who = chosen_threads(threads, self.mask, len(self.first))
        address = self.address.reshape(-1) if self.mask is None else self.address[self.mask]
        return threads.batch.memory.keys(threads, address, who, self.bytes)


# Loads and stores


def load(threads: Threads, at: Instruction) -> Array:
    access = at.attr
    assert isinstance(access, Access) and at.dtype is not None
    accesses = len(access.places)
    mask = mask_of(threads, at.args[1] if len(at.args) > 1 else None, accesses)
    first = offsets_of(threads, at.args[0], access.places)
    pad = constant(access.pad, at.dtype)
    if access.space == GLOBAL:
        tensor = threads.batch.tensors[access.memory]
        to = GlobalAccess(threads, at, tensor, first, access.width, mask)
        if tensor.shadow is not None:
            elements, who = to.chosen(threads)
            tensor.shadow.read(threads, at, threads.batch.log, elements, who, to.name)
        if not tensor.data.size:
            return np.broadcast_to(pad, (at.count, threads.size))
        return _taken(tensor.data, to.elements(), to.mask, pad, at.count)
    buffer = threads.batch.kernel.buffers[access.memory]
    return _load_from(threads, at, buffer, first, access.width, mask, pad)


def _load_from(
    threads: Threads,
    at: Instruction,
    buffer: Buffer,
    first: Array,
    width: int,
    mask: Array | None,
    pad: Array,
) -> Array:
    memory = threads.batch.memory
    access = WorkgroupAccess(threads, at, buffer, first, width, mask)
    if memory.checks:
        memory.read(threads, at, *access.granules(threads))
    if threads.batch.counts:
        costs.wavefronts(threads, at, access.address, access.bytes, access.mask)
    return _taken(memory.view(buffer), access.elements(), access.mask, pad, len(first) * width)


def _taken(data: Array, elements: Array, mask: Array | None, pad: Array, count: int) -> Array:
    value = data.take(elements, mode="clip")
    if mask is not None:
        value = np.where(mask[:, None], value, pad)
    return np.asarray(value.reshape(count, -1))


def store(threads: Threads, at: Instruction) -> None:
    access = at.attr
    assert isinstance(access, Access)
    accesses = len(access.places)
    mask = mask_of(threads, at.args[2] if len(at.args) > 2 else None, accesses)
    first = offsets_of(threads, at.args[1], access.places)
    value = threads.wide(at.args[0]).reshape(accesses, -1, threads.size)
    if value.shape[1] != access.width:  # one register for all of them
        value = np.broadcast_to(threads.wide(at.args[0])[None], (accesses, access.width, threads.size))
    if access.space == GLOBAL:
        tensor = threads.batch.tensors[access.memory]
        to = GlobalAccess(threads, at, tensor, first, access.width, mask)
        elements, who = to.chosen(threads)
        chosen = _chosen(value, to.mask)
        if tensor.shadow is None:
            tensor.data[elements] = chosen
        else:
            log = threads.batch.log
            tensor.shadow.write(threads, at, log, elements, who, to.name, tensor.data, chosen)
        return
    buffer = threads.batch.kernel.buffers[access.memory]
    _store_to(threads, at, buffer, first, value, mask)


def _chosen(value: Array, mask: Array | None) -> Array:
    if mask is None:
        return value.reshape(-1)
    return value[np.broadcast_to(mask[:, None], value.shape)]


def _store_to(
    threads: Threads, at: Instruction, buffer: Buffer, first: Array, value: Array, mask: Array | None
) -> None:
    memory = threads.batch.memory
    access = WorkgroupAccess(threads, at, buffer, first, value.shape[1], mask)
    view = memory.view(buffer)
    elements = access.elements()
    if access.mask is not None:
        elements = elements[np.broadcast_to(access.mask[:, None], elements.shape)]
        value = _chosen(value, access.mask)
    view[elements] = value
    if threads.batch.counts:
        costs.wavefronts(threads, at, access.address, access.bytes, access.mask)
    if memory.checks:
        keys, who = access.granules(threads)
        twice = memory.write(threads, at, keys, who)
        if twice.any():
            bits = np.dtype(f"u{view.itemsize}")
            if (view[elements].view(bits) != np.ascontiguousarray(value).view(bits)).any():
                memory.same_granule(threads, at, keys, who, twice)


# Matrices


def _rows(
    threads: Threads, at: Instruction, offsets: Instruction
) -> tuple[MatrixAccess, Buffer, Array, Array]:
    """The accesses, their buffer, the lanes' rows, and which lanes give one: the first 8 * matrices."""
    access = at.attr
    assert isinstance(access, MatrixAccess)
    threads.meet_in_warps(at)
    mask = np.broadcast_to(threads.lane < 8 * access.matrices, (len(access.places), threads.size))
    if threads.active is not None:
        mask = mask & threads.active
    first = offsets_of(threads, offsets, access.places)
    return access, threads.batch.kernel.buffers[access.memory], first, mask


def _lane_elements(lanes: int, own: int, transposed: bool) -> Array:
    """The element of a matrix that each of the ``own`` registers of each lane holds, row-major."""
    lane = np.arange(lanes)
    column = own * (lane % 4) + np.arange(own)[:, None]
    row = np.broadcast_to(lane // 4, column.shape)
    return np.asarray(column * 8 + row if transposed else row * (4 * own) + column)


def matrix_load(threads: Threads, at: Instruction) -> Array:
    """Rows come from the lanes' addresses and spread over the warp."""
    access, buffer, first, mask = _rows(threads, at, at.args[0])
    assert at.dtype is not None
    own = 4 // at.dtype.bytes  # registers of a lane in each matrix; a row has four times as many
    rows = _load_from(threads, at, buffer, first, 4 * own, mask, constant(0, at.dtype))
    lanes = threads.batch.lanes
    accesses, matrices = len(access.places), access.matrices
    rows = rows.reshape(accesses, 4 * own, -1, lanes)[..., : 8 * matrices]
    by_row = rows.reshape(accesses, 4 * own, -1, matrices, 8)  # access, element, warp, matrix, row
    held = by_row.transpose(0, 3, 2, 4, 1).reshape(accesses, matrices, -1, 32 * own)
    spread = held[..., _lane_elements(lanes, own, access.transposed)]  # access, matrix, warp, register, lane
    return np.asarray(spread.transpose(0, 1, 3, 2, 4).reshape(at.count, threads.size))


def matrix_store(threads: Threads, at: Instruction) -> None:
    """The opposite way."""
    access, buffer, first, mask = _rows(threads, at, at.args[1])
    lanes = threads.batch.lanes
    accesses, matrices = len(access.places), access.matrices
    own = 4 // buffer.dtype.bytes
    spread = threads.wide(at.args[0]).reshape(accesses, matrices, own, -1, lanes).transpose(0, 1, 3, 2, 4)
    warps = spread.shape[2]
    held = np.empty((accesses, matrices, warps, 32 * own), spread.dtype)
    held[..., _lane_elements(lanes, own, access.transposed)] = spread
    by_row = held.reshape(accesses, matrices, warps, 8, 4 * own).transpose(0, 4, 2, 1, 3)
    rows = np.zeros((accesses, 4 * own, warps, lanes), spread.dtype)
    rows[..., : 8 * matrices] = by_row.reshape(accesses, 4 * own, warps, 8 * matrices)
    _store_to(threads, at, buffer, first, rows.reshape(accesses, 4 * own, threads.size), mask)
