"""Bank conflicts and uncoalesced accesses, counted for each warp."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Block, Instruction, Kernel
from gizml_tile.lowering.simulate.findings import ADDED, ENDS
from gizml_tile.lowering.simulate.numbers import Array
from gizml_tile.lowering.simulate.threads import Threads

_SECTOR = 32  # bytes
_BANK = 4  # bytes


def _by_warp(threads: Threads, value: Array) -> Array:
    """[accesses, threads] as [accesses and warps, lanes]."""
    return value.reshape(-1, min(threads.batch.lanes, threads.each))


def _of_one_workgroup(
    threads: Threads, address: Array, mask: Array | None
) -> tuple[Array, Array | None, int]:
    """The accesses of one workgroup where all do the same, as most often, and how many do."""
    split = [
        each.reshape(len(each), threads.workgroups, threads.each)
        for each in (address, mask)
        if each is not None
    ]
    if threads.workgroups == 1 or not all((each == each[:, :1]).all() for each in split):
        return address, mask, 1
    return split[0][:, 0], None if mask is None else split[1][:, 0], threads.workgroups


def wavefronts(
    threads: Threads, at: Instruction, name: str, address: Array, bytes: int, mask: Array | None
) -> None:
    """Count the wavefronts of accesses to workgroup memory and the phases they need at least.

    Lanes take turns so that a phase moves one row of all banks: with 16 bytes eight lanes at a time.
    Words of a bank that differ follow one another.
    """
    address, mask, times = _of_one_workgroup(threads, address, mask)
    row = threads.batch.kernel.target.facts.banks * _BANK
    unit = max(bytes, _BANK)
    banks = row // unit
    lanes = min(threads.batch.lanes, threads.each)
    units = (_by_warp(threads, address) // unit).reshape(-1, min(banks, lanes))
    if mask is None:
        phases = len(units)
        active = None
    else:
        active = _by_warp(threads, mask).reshape(units.shape)
        some = active.any(axis=1)
        units, active = units[some], active[some]
        phases = len(units)
        if not phases:
            return
        # Idle lanes repeat what an active one of their phase asks for, which costs nothing.
        first = active.argmax(axis=1)
        units = np.where(active, units, units[np.arange(phases), first][:, None])
    rows = np.arange(phases)[:, None] * banks
    slots = rows + units % banks
    holder = np.empty(phases * banks, units.dtype)
    holder[slots] = units
    conflict = (holder[slots] != units).any(axis=1)
    extra = 0
    if conflict.any():
        extra = int((_most_in_a_bank(units[conflict], banks) - 1).sum())
    if threads.batch.log.cost("bank conflict", at, (phases + extra) * times, phases * times):
        most = int(_most_in_a_bank(units[conflict], banks).max())
        text = f"{most} lanes of a warp want different words of one bank, in {name} in workgroup memory"
        threads.batch.log.show("bank conflict", at, text)


def _most_in_a_bank(units: Array, banks: int) -> Array:
    """For each row of units the most different ones in a bank."""
    ordered = np.sort(units, axis=1)
    fresh = np.ones(units.shape, np.bool_)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    slots = np.arange(len(units))[:, None] * banks + ordered % banks
    counted = np.bincount(slots[fresh], minlength=len(units) * banks)
    return np.asarray(counted.reshape(len(units), banks).max(axis=1))


def sectors(
    threads: Threads, at: Instruction, name: str, address: Array, bytes: int, mask: Array | None
) -> None:
    """Count the sectors that accesses to global memory touch and the fewest that could hold their bytes.

    Beside wider accesses to the same places, as for what windows share, they find these in the cache.
    """
    beside, at_ends = _narrow(threads.batch.kernel)
    if at in beside:
        return
    first = _by_warp(threads, address // _SECTOR)
    active = None if mask is None else _by_warp(threads, mask)
    if active is not None:
        some = active.any(axis=1)
        if not some.any():
            return
        first, active = first[some], active[some]
        chosen = active.argmax(axis=1)
        first = np.where(active, first, first[np.arange(len(first)), chosen][:, None])
    steps = np.diff(first, axis=1)
    if active is not None or (steps < 0).any():
        steps = np.diff(np.sort(first, axis=1), axis=1)
    touched = 1 + (steps != 0).sum(axis=1)
    asking = first.shape[1] if active is None else active.sum(axis=1)
    least = np.minimum(-(-asking * bytes // _SECTOR), touched)
    # A stretch of neighbours that begins amid a sector touches one more. What is beside it takes the rest of
    # that from the cache, and nobody can mend the windows of a stencil or rows of 500 elements.
    stretches = 1 + (steps > 1).sum(axis=1)
    long = (stretches == 1) | (touched >= 3 * stretches)
    least = np.where(long & (touched <= least + stretches), touched, least)
    if threads.batch.log.cost("uncoalesced", at, int(touched.sum()), int(least.sum())):
        warp = int((touched - least).argmax())
        pieces, fitting = int(touched[warp]), int(least[warp])
        text = f"the lanes of a warp access {bytes} bytes of {name} each, which lie in {pieces} pieces of "
        text += f"{_SECTOR} bytes and would fit into {fitting}"
        fix = ADDED if at.op == "atomic" else ENDS if at in at_ends else ""
        threads.batch.log.show("uncoalesced", at, text, fix)


@lru_cache(maxsize=64)
def _narrow(kernel: Kernel) -> tuple[frozenset[Instruction], frozenset[Instruction]]:
    """The accesses to tensors that stand beside wider ones of their line, and those in another branch."""
    widest: dict[tuple[object, ...], int] = {}
    accesses: list[tuple[Instruction, tuple[object, ...], tuple[object, ...], int]] = []
    for block in _blocks(kernel.body):
        for each in block.instructions:
            if isinstance(each.attr, Access) and each.attr.space == GLOBAL:
                line = each.op, each.place, each.attr.memory
                accesses.append((each, line, (id(block), *line), each.attr.width))
                for key in accesses[-1][1:3]:
                    widest[key] = max(widest.get(key, 0), each.attr.width)
    beside = frozenset(each for each, _, near, width in accesses if width < widest[near])
    elsewhere = frozenset(each for each, line, _, width in accesses if width < widest[line])
    return beside, elsewhere - beside


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for instruction in block.instructions:
        for inner in instruction.blocks:
            yield from _blocks(inner)
