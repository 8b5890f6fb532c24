"""Asynchronous matrix operations of four warps, whose operands may lie in workgroup memory."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gizml_tile.dtypes import F32, DType
from gizml_tile.lowering.atoms import GROUP_UNITS, GroupUnit
from gizml_tile.lowering.kernel_ir.instructions import Buffer, GroupMatrix, Instruction, Operand
from gizml_tile.lowering.simulate.bulk import CHUNK, swizzled
from gizml_tile.lowering.simulate.numbers import Array, constant, to_float32
from gizml_tile.lowering.simulate.threads import Multiplying, Threads

ROWS = 64
_WARPS = 4
_STEP = 32  # bytes of k in one step of the unit


def group_mma(threads: Threads, at: Instruction) -> Array:
    """Products as of `warps.mma`. The sums are there at once, but in flight until they are waited for."""
    matrix = at.attr
    assert isinstance(matrix, GroupMatrix) and at.dtype is not None
    threads.meet_in_warps(at)
    a, b, c = at.args
    right = Side(threads, at, matrix, 1, b, matrix.n)
    left = None if matrix.a is None else Side(threads, at, matrix, 0, a, ROWS * matrix.m)
    if left is None:
        _check_fenced(threads, at, a)
    if not matrix.fresh:
        _check_fenced(threads, at, c)
    rows = _from_registers(threads, a, matrix) if left is None else left.numbers(threads)
    columns = right.numbers(threads)
    unit = GROUP_UNITS.get(matrix.dtypes)
    start = constant(0, at.dtype) if matrix.fresh else threads.get(c)
    if unit is not None and unit.step:
        before = np.broadcast_to(to_float32(start, at.dtype), (at.count, threads.size))
        sums: Array = _spread(_truncated(rows, columns, _gathered(before, matrix), unit), matrix)
    else:
        spread = _spread(np.matmul(rows, columns.transpose(0, 2, 1)), matrix)
        if at.dtype.is_integer:
            sums = (start + spread.astype(np.int64)).astype(np.int32)
        else:
            sums = (to_float32(start, at.dtype) + spread).astype(start.dtype)
    left_over = np.ones(threads.size, np.bool_) if threads.active is None else threads.active.copy()
    flight = Multiplying(
        at, threads.products.closed.copy(), left_over, *_read(threads, at, left, right), sums
    )
    threads.products.flights.append(flight)
    threads.flying[id(sums)] = (sums, flight)
    if matrix.fresh and c.op == at.op:
        # Their registers are taken over.
        threads.flying[id(threads.get(c))] = (threads.get(c), flight)
    return sums


def _spread(tiles: Array, matrix: GroupMatrix) -> Array:
    """Results of groups, [groups, rows, columns], as registers: [registers, threads]."""
    held = tiles.reshape(len(tiles), -1).take(_sums(matrix.n, matrix.m), axis=1)
    return held.transpose(1, 0, 2).reshape(held.shape[1], -1)


def _gathered(held: Array, matrix: GroupMatrix) -> Array:
    """The other way: registers as results of groups."""
    places = _sums(matrix.n, matrix.m)
    by_group = held.reshape(len(held), -1, places.shape[1]).transpose(1, 0, 2)
    tiles = np.empty((len(by_group), places.size), held.dtype)
    tiles[:, places] = by_group
    return tiles.reshape(len(tiles), -1, matrix.n)


def _truncated(rows: Array, columns: Array, start: Array, unit: GroupUnit) -> Array:
    """``start`` + rows @ columns.T as a unit sums that keeps few bits: each step loses what is small."""
    total = start.copy()
    for group in range(len(rows)):  # one after the other: all terms of a step are there at once
        for first in range(0, rows.shape[2], unit.step):
            a, b = (each[group, :, first : first + unit.step] for each in (rows, columns))
            terms = np.concatenate([a[:, None] * b[None], total[group, :, :, None]], axis=2)
            kept = _without(terms, np.abs(terms).max(axis=2, keepdims=True), unit.sum_bits).sum(axis=2)
            total[group] = _without(kept, np.abs(kept), unit.sum_bits)
    return total


def _without(values: Array, largest: Array, bits: int) -> Array:
    """Values without what is below so many bits of the largest one."""
    scale = np.ldexp(np.float32(1), bits - np.frexp(largest)[1])
    return np.asarray(np.trunc(values * scale) / scale)


class Side:
    """a or b (by its number) in workgroup memory: rows of ``matrix.k`` elements, for each four warps."""

    def __init__(
        self,
        threads: Threads,
        at: Instruction,
        matrix: GroupMatrix,
        number: int,
        offset: Instruction,
        rows: int,
    ) -> None:
        operand = (matrix.a, matrix.b)[number]
        assert operand is not None
        self.buffer: Buffer = threads.batch.kernel.buffers[operand.buffer]
        self.dtype = matrix.dtypes[number]
        size = self.dtype.bytes
        groups = threads.wide(offset).reshape(-1, _WARPS * threads.batch.lanes)
        if (groups != groups[:, :1]).any():
            threads.batch.log.add("divergent", at, f"the offset in {self.buffer.name} differs between lanes")
        start = groups[:, :1, None].astype(np.int64) * CHUNK + self.buffer.offset
        # [groups, rows, k] in bytes; chunks are whole on the operand's contiguous axis.
        self.address = swizzled(start + _addresses(operand, rows, matrix.k, size), operand.swizzle)
        fast = slice(None, None, CHUNK // size)
        self.chunks = self.address[:, fast] if operand.transposed else self.address[:, :, fast]
        self.workgroup = threads.workgroup[:: _WARPS * threads.batch.lanes]
        end = self.buffer.offset + self.buffer.bytes
        bad = (self.address < self.buffer.offset) | (self.address + size > end)
        if threads.active is not None:
            bad &= threads.active[:: _WARPS * threads.batch.lanes, None, None]
        if bad.any():
            text = f"reads byte {int(self.address[bad][0]) - self.buffer.offset} of {self.buffer.name}"
            threads.batch.log.add(
                "out of bounds", at, f"{text}, which has {self.buffer.bytes}", int(bad.sum())
            )
        self.address = np.where(
            (self.address < 0) | (self.address >= threads.batch.memory.bytes), 0, self.address
        )

    def numbers(self, threads: Threads) -> Array:
        """The operand of each group: [groups, rows, k]."""
        memory = threads.batch.memory
        view = memory.data.view(memory.view(self.buffer).dtype)
        each = self.workgroup[:, None, None] * (memory.bytes // view.itemsize)
        return _numbers(view.take(each + self.address // view.itemsize, mode="clip"), self.dtype)

    def granules(self, threads: Threads) -> Array:
        """The granules that are read: [groups, rows or chunks of them, ...]."""
        memory = threads.batch.memory
        inside = np.clip(self.chunks, 0, memory.bytes - CHUNK)
        first = self.workgroup[:, None, None] * memory.granules + inside // memory.granule
        return np.asarray(first[..., None] + np.arange(CHUNK // memory.granule))


@lru_cache(maxsize=64)
def _addresses(operand: Operand, rows: int, depth: int, size: int) -> Array:
    """The byte of each [row, k] from the operand's start on, swizzle left out.

    PTX ISA, "Shared Memory Matrix Layout": rows of a span of bytes (16 without a swizzle) in groups of
    eight, which ``stride`` separates; ``leading`` leads to the next span of the contiguous axis.
    """
    span = operand.swizzle or CHUNK
    steps = max(depth * size // _STEP, 1)
    k = np.arange(depth)
    step, inside = k // (depth // steps), k % (depth // steps)
    row = np.arange(rows)
    if operand.transposed:
        along = row * size
        return np.asarray(
            (along // span * operand.leading + along % span)[:, None]
            + step * 2 * operand.stride
            + inside // 8 * operand.stride
            + inside % 8 * span
        )
    along = inside * size
    by_row = row // 8 * operand.stride + row % 8 * span
    if operand.swizzle:
        return np.asarray(by_row[:, None] + step * _STEP + along)
    return np.asarray(
        by_row[:, None] + step * 2 * operand.leading + along // CHUNK * operand.leading + along % CHUNK
    )


def _numbers(value: Array, dtype: DType) -> Array:
    if dtype.is_integer:
        return np.asarray(value.astype(np.float64))
    if dtype is F32:
        # TF32: the unit does not look at the 13 low bits.
        return (value.view(np.int32) & np.int32(-1 << 13)).view(np.float32)
    return to_float32(value, dtype)


@lru_cache(maxsize=16)
def _sums(columns: int, parts: int) -> Array:
    """The element (row-major) of each register of each lane: PTX ISA, "wgmma: register fragments"."""
    lane = np.arange(128)
    part, register = np.divmod(np.arange(parts * columns // 2)[:, None], columns // 2)
    row = ROWS * part + 16 * (lane // 32) + lane % 32 // 4 + 8 * (register >> 1 & 1)
    column = 8 * (register >> 2) + 2 * (lane % 4) + (register & 1)
    return np.asarray(row * columns + column)


@lru_cache(maxsize=16)
def _rows_in_registers(depth: int, size: int, parts: int) -> Array:
    """For each [row, k] of a in registers: register * 128 + lane."""
    word = 4 // size
    registers = ROWS * depth // 128
    register, lane = np.divmod(np.arange(parts * registers * 128), 128)
    part, register = np.divmod(register, registers)
    step, words, inside = register // (4 * word), register // word % 4, register % word
    row = ROWS * part + 16 * (lane // 32) + lane % 32 // 4 + 8 * (words & 1)
    k = step * 8 * word + 4 * word * (words >> 1) + word * (lane % 4) + inside
    places = np.empty((parts * ROWS, depth), np.int64)
    places[row, k] = np.arange(parts * registers * 128)
    return places


def _from_registers(threads: Threads, a: Instruction, matrix: GroupMatrix) -> Array:
    held = threads.wide(a)
    by_group = held.reshape(len(held), -1, 128).transpose(1, 0, 2).reshape(-1, len(held) * 128)
    dtype = matrix.dtypes[0]
    places = _rows_in_registers(matrix.k, dtype.bytes, matrix.m)
    return _numbers(by_group.take(places, axis=1), dtype)


def _read(threads: Threads, at: Instruction, left: Side | None, right: Side) -> tuple[Array, Array]:
    """Check what is read: by each warp its 16 rows of a, and all of b. Gives the granules and threads."""
    batch = threads.batch
    if not batch.checks:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    memory = batch.memory
    groups = np.arange(0, threads.size, _WARPS * batch.lanes)
    if threads.active is not None:
        groups = groups[threads.active[groups]]
    number = groups // (_WARPS * batch.lanes)
    keys = right.granules(threads)[number].reshape(-1)
    each = len(keys) // max(1, len(groups))
    who = np.repeat(groups, each)
    if not _learned_together(threads, groups, memory.writer[keys]):
        for warp in range(1, _WARPS):
            memory.check_asynchronous(threads, at, keys, who + warp * batch.lanes)
    if left is not None:
        # In order of rows (or of chunks of them), so that each warp's 16 stand together.
        parts = left.granules(threads)[number]
        parts = parts.reshape(len(number), at.attr.m, _WARPS, -1)  # type: ignore[union-attr]
        rows = parts.transpose(0, 2, 1, 3).reshape(-1)
        warps = (groups[:, None] + np.arange(_WARPS) * batch.lanes).reshape(-1)
        keys = np.concatenate([keys, rows])
        who = np.concatenate([who, np.repeat(warps, len(rows) // max(1, len(warps)))])
    memory.read_later(threads, at, keys, who, batch.clocks.units(threads.warp[who]))
    return keys, who


def _learned_together(threads: Threads, groups: Array, writers: Array) -> bool:
    """Whether bulk loads wrote all that is read, and the warps of each group know the same of those."""
    clocks = threads.batch.clocks
    if not clocks.by_signals(writers).all():
        return False
    warps = threads.warp[groups][:, None] + np.arange(_WARPS)
    known = clocks.known[threads.workgroup[groups][:, None], warps, clocks.readers :]
    return bool((known == known[:, :1]).all())


def _check_fenced(threads: Threads, at: Instruction, value: Instruction) -> None:
    """Report registers that other instructions wrote since the last fence."""
    if threads.written(threads.get(value)) > threads.fenced_at:
        text = f"uses registers that the {value.op} before it wrote, without a group_fence between"
        threads.batch.log.add("race", at, text)


def group_fence(threads: Threads, at: Instruction) -> None:
    threads.fenced_at = threads.step


def group_commit(threads: Threads, at: Instruction) -> None:
    threads.products.close(threads.active)


def group_wait(threads: Threads, at: Instruction) -> None:
    assert isinstance(at.attr, int)
    batch = threads.batch
    clocks = batch.clocks
    for flight, landing in threads.products.landing(at.attr, threads.active):
        if batch.checks:
            done = landing[flight.who]
            parts = clocks.units(threads.warp[flight.who[done]])
            batch.memory.finish_reading(flight.keys[done], parts)
            waiting = np.flatnonzero(landing[:: batch.lanes]) * batch.lanes
            warps = threads.warp[waiting]
            clocks.known[threads.workgroup[waiting], warps, clocks.units(warps)] = clocks.now + 1
    clocks.advance()
    threads.flying = {key: held for key, held in threads.flying.items() if held[1].left.any()}


# Registers in flight

RENAMED = frozenset("pick join bitcast".split())
_PASSED_ON = frozenset("loop branch when".split())


def check_registers(threads: Threads, at: Instruction) -> Multiplying | None:
    """Report an instruction that touches sums in flight; gives whose sums it only renames."""
    for arg in () if at.op == "result" else at.args:
        held = threads.flying.get(id(threads.get(arg)))
        if held is None:
            continue
        flight = held[1]
        if at.op in RENAMED:
            return flight
        as_sums = at.op == "group_mma" and arg is at.args[2]
        if not as_sums and at.op not in _PASSED_ON:
            threads.batch.log.add(
                "in flight", at, "touches the sums of a group_mma before a group_wait for it"
            )
    return None
