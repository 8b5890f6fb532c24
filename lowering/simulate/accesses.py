"""Loads and stores, of vectors and of matrices."""

from __future__ import annotations

import numpy as np

from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Buffer, Instruction, MatrixAccess
from gizml_tile.lowering.simulate.addresses import (
    WorkgroupVectors,
    in_tensor,
    mask_of,
    offsets_of,
    registers_of,
    vectors_of,
)
from gizml_tile.lowering.simulate.numbers import Array, constant
from gizml_tile.lowering.simulate.tensors import Tensor
from gizml_tile.lowering.simulate.threads import Threads


def load(threads: Threads, at: Instruction) -> Array:
    access = at.attr
    assert isinstance(access, Access) and at.dtype is not None
    mask = mask_of(threads, at.args[1] if len(at.args) > 1 else None, len(access.places))
    first = offsets_of(threads, at.args[0], access.places)
    if access.space == GLOBAL:
        tensor = threads.batch.tensors[access.memory]
        vectors, mask = read_tensor(threads, at, tensor, first, access.width, mask)
    else:
        buffer = threads.batch.kernel.buffers[access.memory]
        vectors, mask = _read_buffer(threads, at, buffer, first, access.width, mask)
    if mask is not None:
        vectors = np.where(mask[:, :, None], vectors, constant(access.pad, at.dtype))
    return registers_of(vectors)


def read_tensor(
    threads: Threads, at: Instruction, tensor: Tensor, first: Array, width: int, mask: Array | None
) -> tuple[Array, Array | None]:
    """Vectors of a tensor, and which of them were read."""
    place = in_tensor(threads, at, tensor, first, width, mask)
    if tensor.shadow is not None:
        elements, who = place.elements(threads)
        tensor.shadow.read(threads, at, tensor, elements, who)
    if not tensor.data.size:
        return np.zeros((*first.shape, width), tensor.data.dtype), place.mask
    return place.take(), place.mask


def _read_buffer(
    threads: Threads, at: Instruction, buffer: Buffer, first: Array, width: int, mask: Array | None
) -> tuple[Array, Array | None]:
    place = WorkgroupVectors(threads, at, buffer, first, width, mask)
    memory = threads.batch.memory
    if memory.checks:
        memory.read(threads, at, *place.granules(threads, place.mask))
    return place.take(), place.mask


def store(threads: Threads, at: Instruction) -> None:
    access = at.attr
    assert isinstance(access, Access)
    accesses = len(access.places)
    mask = mask_of(threads, at.args[2] if len(at.args) > 2 else None, accesses)
    first = offsets_of(threads, at.args[1], access.places)
    registers = threads.wide(at.args[0])
    if len(registers) != accesses * access.width:  # one register for all of them
        registers = np.broadcast_to(registers, (accesses * access.width, threads.size))
    vectors = vectors_of(registers, access.width)
    if access.space == GLOBAL:
        _write_tensor(threads, at, threads.batch.tensors[access.memory], first, vectors, mask)
    else:
        buffer = threads.batch.kernel.buffers[access.memory]
        _write_buffer(threads, at, buffer, first, vectors, mask)


def _write_tensor(
    threads: Threads, at: Instruction, tensor: Tensor, first: Array, vectors: Array, mask: Array | None
) -> None:
    place = in_tensor(threads, at, tensor, first, vectors.shape[2], mask)
    if tensor.shadow is None:
        place.put(vectors)
        return
    elements, who = place.elements(threads)
    chosen = vectors.reshape(-1) if place.mask is None else vectors[place.mask].reshape(-1)
    tensor.shadow.before_write(threads, at, tensor, elements, who, chosen)
    place.put(vectors)
    tensor.shadow.after_write(threads, at, tensor, elements, who, chosen)


def _write_buffer(
    threads: Threads, at: Instruction, buffer: Buffer, first: Array, vectors: Array, mask: Array | None
) -> None:
    place = WorkgroupVectors(threads, at, buffer, first, vectors.shape[2], mask)
    place.put(vectors)
    memory = threads.batch.memory
    if memory.checks:
        keys, who = place.granules(threads, place.mask)
        twice = memory.write(threads, at, keys, who)
        if twice.any() and _differs(place.take(), vectors, place.mask):
            memory.same_granule(threads, at, keys, who, twice)


def _differs(found: Array, wanted: Array, mask: Array | None) -> bool:
    bits = np.dtype(f"u{found.itemsize}")
    differs = found.view(bits) != wanted.view(bits)
    return bool(differs.any() if mask is None else differs[mask].any())


# Matrices


def _rows(
    threads: Threads, at: Instruction, offsets: Instruction
) -> tuple[MatrixAccess, Buffer, Array, Array | None]:
    """The accesses, their buffer, the lanes' rows, and which lanes give one: the first 8 * matrices."""
    access = at.attr
    assert isinstance(access, MatrixAccess)
    threads.meet_in_warps(at)
    mask = mask_of(threads, None, len(access.places))
    if 8 * access.matrices < threads.batch.lanes:
        giving = np.broadcast_to(threads.lane < 8 * access.matrices, (len(access.places), threads.size))
        mask = giving if mask is None else mask & giving
    first = offsets_of(threads, offsets, access.places)
    return access, threads.batch.kernel.buffers[access.memory], first, mask


def _lane_elements(lanes: int, own: int, transposed: bool) -> Array:
    """The element of a matrix that each of the ``own`` registers of each lane holds, row-major."""
    lane, register = np.arange(lanes), np.arange(own)[:, None]
    if transposed:
        # Two of 16 bits each, in which bytes are pairs.
        inside = own // 2
        row, column = 2 * (lane % 4) + register // inside, inside * (lane // 4) + register % inside
    else:
        row, column = lane // 4, own * (lane % 4) + register
    return np.asarray(row * (4 * own) + column)


def matrix_load(threads: Threads, at: Instruction) -> Array:
    """Rows come from the lanes' addresses and spread over the warp."""
    access, buffer, first, mask = _rows(threads, at, at.args[0])
    assert at.dtype is not None
    own = 4 // at.dtype.bytes  # registers of a lane in each matrix; a row has four times as many
    vectors, _ = _read_buffer(threads, at, buffer, first, 4 * own, mask)
    lanes = threads.batch.lanes
    accesses, matrices = len(access.places), access.matrices
    rows = vectors.reshape(accesses, -1, lanes, 4 * own)[:, :, : 8 * matrices]
    held = rows.reshape(accesses, -1, matrices, 32 * own).transpose(0, 2, 1, 3)
    spread = held.take(_lane_elements(lanes, own, access.transposed), axis=3)
    # access, matrix, warp, register, lane
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
    rows = np.zeros((accesses, warps, lanes, 4 * own), spread.dtype)
    by_row = held.transpose(0, 2, 1, 3).reshape(accesses, warps, 8 * matrices, 4 * own)
    rows[:, :, : 8 * matrices] = by_row
    _write_buffer(threads, at, buffer, first, rows.reshape(accesses, threads.size, 4 * own), mask)
