"""What a kernel does, counted: bytes, multiply-adds and instructions of one program."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gizml_tile.dtypes import DType
from gizml_tile.lowering.kernel_ir.instructions import (
    ELEMENTWISE,
    GLOBAL,
    Access,
    Block,
    Bulk,
    Copy,
    GroupMatrix,
    Instruction,
    Kernel,
    Matrix,
    MatrixAccess,
    Role,
)
from gizml_tile.lowering.planning.plan import Plan
from gizml_tile.target import Target

_MATRIX_ROW_BYTES = 16
_MATRIX_ROWS = 8
# An asynchronous matrix operation is of four warps and 64 rows.
_GROUP_WARPS = 4
_GROUP_ROWS = 64


@dataclass(slots=True)
class Work:
    """Bytes, multiply-adds by unit, barriers, and instructions that warps issue."""

    read: int = 0
    written: int = 0
    shared: int = 0
    barriers: int = 0
    instructions: int = 0
    multiply_adds: dict[str, int] = field(default_factory=dict)
    matrix: dict[int, int] = field(default_factory=dict)  # bits of an operand -> multiply-adds

    def matrix_cycles(self, target: Target) -> float:
        """Cycles of a multiprocessor's matrix units at their full rate."""
        rates = dict(target.facts.matrix_rates)
        return sum(count / rates[bits] for bits, count in self.matrix.items())

    def multiplied(self, unit: str, count: int, bits: int = 0) -> None:
        """Count multiply-adds of a unit, of a matrix unit with the bits of an operand."""
        self.multiply_adds[unit] = self.multiply_adds.get(unit, 0) + count
        if bits:
            self.matrix[bits] = self.matrix.get(bits, 0) + count

    def add(self, other: Work) -> None:
        """Count what another part does too."""
        self.read += other.read
        self.written += other.written
        self.shared += other.shared
        self.barriers += other.barriers
        self.instructions += other.instructions
        for unit, count in other.multiply_adds.items():
            self.multiplied(unit, count)
        for bits, count in other.matrix.items():
            self.matrix[bits] = self.matrix.get(bits, 0) + count


@dataclass(frozen=True, slots=True)
class _Counting:
    """What is counted, and by how many warps it is run."""

    plan: Plan
    kernel: Kernel
    warps: int

    @property
    def threads(self) -> int:
        return self.warps * self.plan.target.facts.lanes


def work_of(plan: Plan, kernel: Kernel) -> Iterator[tuple[str, Work]]:
    """The work outside of loops, and of one turn of each loop, with a title for each.

    What roles do in loops of the same place counts together, of teams with a program each one of them.
    """
    title = "outside of loops" if _has_loop(kernel.body) else "all of it"
    yield from _parts(_Counting(plan, kernel, plan.warps), kernel.body, title)


def _has_loop(block: Block) -> bool:
    return any(instruction.op == "loop" for instruction in block.walk())


def _parts(counting: _Counting, block: Block, title: str) -> Iterator[tuple[str, Work]]:
    work = Work()
    inner: list[Instruction] = []
    _count(counting, block, work, inner)
    plan = counting.plan
    teams = plan.specialised.teams if plan.specialised else 1
    together: dict[str, Work] = {title: work}
    loops: list[tuple[str, Work]] = []
    for instruction in inner:
        if instruction.op == "loop":
            loops += _parts(counting, instruction.blocks[0], _title(instruction))
            continue
        assert isinstance(instruction.attr, tuple)
        for role, body in zip(instruction.attr, instruction.blocks, strict=True):
            assert isinstance(role, Role)
            if 0 < role.first_warp < teams * plan.warps:
                continue
            for name, part in _parts(replace(counting, warps=role.warps), body, title):
                together.setdefault(name, Work()).add(part)
    yield from ((name, part) for name, part in [*together.items(), *loops] if part.instructions)


def _title(loop: Instruction) -> str:
    if loop.place is None:
        return "each program of a workgroup's"
    return f"each turn of the loop at {os.path.basename(loop.place.filename)}:{loop.place.line}"


def _count(counting: _Counting, block: Block, work: Work, inner: list[Instruction]) -> None:
    for instruction in block.instructions:
        if instruction.op in ("loop", "roles"):
            inner.append(instruction)
            continue
        # Of a branch the first way is the usual one.
        for inside in instruction.blocks[:1]:
            _count(counting, inside, work, inner)
        _add(counting, instruction, work)


def _add(counting: _Counting, i: Instruction, work: Work) -> None:
    plan, kernel, threads, warps = counting.plan, counting.kernel, counting.threads, counting.warps
    match i.attr:
        case Access():
            count = i.attr.width * len(i.attr.places) * threads
            if i.attr.space == GLOBAL:
                size = count * plan.program.tensors[i.attr.memory].dtype.bytes
                work.read += size if i.op == "load" else 0
                work.written += 0 if i.op == "load" else size
            else:
                work.shared += count * kernel.buffers[i.attr.memory].dtype.bytes
            work.instructions += len(i.attr.places) * warps
        case MatrixAccess():
            moved = i.attr.matrices * len(i.attr.places) * warps
            work.shared += moved * _MATRIX_ROWS * _MATRIX_ROW_BYTES
            work.instructions += len(i.attr.places) * warps
        case Copy():
            size = i.attr.width * kernel.buffers[i.attr.buffer].dtype.bytes
            work.read += size * len(i.attr.to_places) * threads
            work.shared += size * len(i.attr.to_places) * threads
            work.instructions += len(i.attr.to_places) * warps
        case Bulk():
            # One thread loads; of those that store each four warps have one.
            times = max(1, warps // _GROUP_WARPS) if i.op == "bulk_store" else 1
            size = math.prod(i.attr.box) * kernel.buffers[i.attr.buffer].dtype.bytes * times
            work.read += size if i.op == "bulk_load" else 0
            work.written += size if i.op == "bulk_store" else 0
            work.shared += size
            work.instructions += times
        case Matrix():
            atom, atoms = i.attr.atom, i.attr.m * i.attr.n * i.attr.k * warps
            work.multiplied(atom.name, atoms * atom.m * atom.n * atom.k, _bits(atom.a_dtype))
            work.instructions += atoms
        case GroupMatrix():
            each = i.attr
            # The parts of c that threads hold are together so many times 64 rows.
            pieces = i.count * threads // (_GROUP_ROWS * each.n)
            rows = each.n + (0 if each.a is None else _GROUP_ROWS)
            work.shared += pieces * rows * each.k * each.dtype.bytes
            work.multiplied("group_matrix", pieces * _GROUP_ROWS * each.n * each.k, _bits(each.dtype))
            work.instructions += pieces * _GROUP_WARPS
        case _ if i.op == "outer":
            work.multiplied("fused multiply-adds", i.count * threads)
            work.instructions += i.count * warps
        case _ if i.op == "barrier":
            work.barriers += 1
        case _ if i.op in ELEMENTWISE or i.op == "shuffle":
            work.instructions += i.count * warps


def _bits(dtype: DType) -> int:
    """The size of a matrix operand: TF32, which has its own rate, counts as 32 bits."""
    return dtype.bits
