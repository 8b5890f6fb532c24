"""Accesses that nothing comes between: each thread's after another's, in the threads' order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gizml_tile.dtypes import F64, DType
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Instruction
from gizml_tile.lowering.simulate.addresses import (
    Vectors,
    WorkgroupVectors,
    in_tensor,
    mask_of,
    offsets_of,
    vectors_of,
)
from gizml_tile.lowering.simulate.numbers import Array, evaluate, from_float32, to_float32
from gizml_tile.lowering.simulate.tensors import Tensor
from gizml_tile.lowering.simulate.threads import Threads, Waiting


def atomic(threads: Threads, at: Instruction) -> None:
    """Add values to elements of a tensor or buffer, or keep the larger or smaller of each."""
    access = at.attr
    assert isinstance(access, Access)
    count = access.width * len(access.places)
    registers = np.broadcast_to(threads.wide(at.args[0]), (count, threads.size))
    vectors = vectors_of(registers, access.width)
    mask = mask_of(threads, at.args[2] if len(at.args) > 2 else None, len(access.places))
    first = offsets_of(threads, at.args[1], access.places)
    place: Vectors
    if access.space == GLOBAL:
        tensor = threads.batch.tensors[access.memory]
        place, dtype = in_tensor(threads, at, tensor, first, access.width, mask), tensor.dtype
        _note(threads, at, tensor, *place.elements(threads))
    else:
        buffer, memory = threads.batch.kernel.buffers[access.memory], threads.batch.memory
        place = inside = WorkgroupVectors(threads, at, buffer, first, access.width, mask)
        dtype = buffer.dtype
        if memory.checks:
            memory.combine(threads, at, *inside.granules(threads, inside.mask))
    elements, _ = place.elements(threads)
    values = vectors.reshape(-1) if place.mask is None else vectors[place.mask].reshape(-1)
    for turn in _turns(elements):
        old = place.data[elements[turn]]
        place.data[elements[turn]] = _combined(access.combine, old, values[turn], dtype)


def update(threads: Threads, at: Instruction) -> Iterator[Waiting]:
    """Give elements anew by a block of what they are."""
    access, (block,) = at.attr, at.blocks
    assert isinstance(access, Access)
    mask = mask_of(threads, at.args[1] if len(at.args) > 1 else None, 1)
    tensor = threads.batch.tensors[access.memory]
    first = offsets_of(threads, at.args[0], access.places)
    place = in_tensor(threads, at, tensor, first, 1, mask)
    elements, who = place.elements(threads)
    _note(threads, at, tensor, elements, who)
    for turn in _turns(elements):
        old = np.zeros((1, threads.size), tensor.data.dtype)
        old[0, who[turn]] = tensor.data[elements[turn]]
        threads.values[block.params[0]] = old
        # Imported here: what runs blocks runs this.
        from gizml_tile.lowering.simulate.structure import run

        yield from run(threads, block)
        new = threads.wide(block.results[0])
        tensor.data[elements[turn]] = new[0, who[turn]]


def _note(threads: Threads, at: Instruction, tensor: Tensor, elements: Array, who: Array) -> None:
    if tensor.shadow is not None:
        tensor.shadow.combine(threads, at, tensor, elements, who)


def _turns(elements: Array) -> Iterator[Array]:
    """Numbers of accesses, no two of them to one element; those to one come in their order."""
    order = np.argsort(elements, kind="stable")
    sorted_elements = elements[order]
    starts = np.flatnonzero(np.r_[True, sorted_elements[1:] != sorted_elements[:-1]]) if len(order) else order
    turn = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    for number in range(int(turn.max(initial=-1)) + 1):
        yield order[turn == number]


def _combined(combine: str, old: Array, value: Array, dtype: DType) -> Array:
    if not dtype.is_float or dtype is F64:
        return evaluate(combine, [old, value], [dtype, dtype], dtype)
    with np.errstate(all="ignore"):
        return from_float32(to_float32(old, dtype) + to_float32(value, dtype), dtype)
