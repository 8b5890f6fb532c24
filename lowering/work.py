"""What a kernel does, counted: bytes, multiply-adds and instructions of one program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from gizml_tile.dtypes import DType
from gizml_tile.lowering.kernel_ir.instructions import (
    ELEMENTWISE,
    GLOBAL,
    Access,
    Block,
    Copy,
    Instruction,
    Kernel,
    Matrix,
    MatrixAccess,
)
from gizml_tile.lowering.planning.plan import Plan
from gizml_tile.target import Target

_MATRIX_ROW_BYTES = 16
_MATRIX_ROWS = 8


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

    def multiplied(self, unit: str, count: int) -> None:
        """Count multiply-adds of a unit."""
        self.multiply_adds[unit] = self.multiply_adds.get(unit, 0) + count


def work_of(plan: Plan, kernel: Kernel) -> Iterator[tuple[str, Work]]:
    """The work outside of loops, and of one turn of each loop, with a title for each."""
    yield from _parts(
        plan, kernel, kernel.body, "outside of loops" if _has_loop(kernel.body) else "all of it"
    )


def _has_loop(block: Block) -> bool:
    return any(instruction.op == "loop" for instruction in block.walk())


def _parts(plan: Plan, kernel: Kernel, block: Block, title: str) -> Iterator[tuple[str, Work]]:
    work = Work()
    loops: list[Instruction] = []
    _count(plan, kernel, block, work, loops)
    if work.instructions:
        yield title, work
    for loop in loops:
        place = loop.place
        where = f" at {os.path.basename(place.filename)}:{place.line}" if place else ""
        yield from _parts(plan, kernel, loop.blocks[0], f"each turn of the loop{where}")


def _count(plan: Plan, kernel: Kernel, block: Block, work: Work, loops: list[Instruction]) -> None:
    for instruction in block.instructions:
        if instruction.op == "loop":
            loops.append(instruction)
            continue
        # Of a branch the first way is the usual one.
        for inside in instruction.blocks[:1]:
            _count(plan, kernel, inside, work, loops)
        _add(plan, kernel, instruction, work)


def _add(plan: Plan, kernel: Kernel, i: Instruction, work: Work) -> None:
    threads, warps = kernel.threads, plan.warps
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
        case Matrix():
            atom, atoms = i.attr.atom, i.attr.m * i.attr.n * i.attr.k * warps
            count = atoms * atom.m * atom.n * atom.k
            work.multiplied(atom.name, count)
            work.matrix[_bits(atom.a_dtype)] = work.matrix.get(_bits(atom.a_dtype), 0) + count
            work.instructions += atoms
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
