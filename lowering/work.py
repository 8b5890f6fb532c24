"""What a kernel does, counted: bytes, multiply-adds and instructions of one program, and of a launch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from gizml_tile.dtypes import BF16, F16, F64, DType
from gizml_tile.errors import Place
from gizml_tile.lowering.kernel_ir.instructions import (
    APPROXIMATE,
    BINARY,
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
from gizml_tile.lowering.planning.turns import turns
from gizml_tile.nodes import Node
from gizml_tile.target import Target
from gizml_tile.text import line_of

_MATRIX_ROW_BYTES = 16
_MATRIX_ROWS = 8
# An asynchronous matrix operation is of four warps and 64 rows.
_GROUP_WARPS = 4
_GROUP_ROWS = 64


MEMORY = "the memory of the device"


@dataclass(slots=True)
class Work:
    """Bytes by tensor, multiply-adds by unit, barriers, and instructions that warps issue.

    ``functions`` are the instructions that units for approximate functions take, ``doubles`` those that units
    for F64 do.
    """

    read: dict[int, float] = field(default_factory=dict)
    written: dict[int, float] = field(default_factory=dict)
    shared: float = 0
    barriers: float = 0
    instructions: float = 0
    functions: float = 0
    doubles: float = 0
    multiply_adds: dict[str, float] = field(default_factory=dict)
    matrix: dict[int, float] = field(default_factory=dict)  # bits of an operand -> multiply-adds

    def seconds(self, target: Target) -> dict[str, float]:
        """How long each resource of one multiprocessor takes at its full rate, of memory its share."""
        facts = target.facts
        moved = sum(self.read.values()) + sum(self.written.values())
        rates = dict(facts.matrix_rates)
        cycles = {
            "workgroup memory": self.shared / (4 * facts.banks),
            "the matrix units": sum(count / rates[bits] for bits, count in self.matrix.items()),
            "issuing instructions": self.instructions * facts.lanes / facts.multiply_adds,
            "special functions": self.functions * facts.lanes / facts.functions,
            "units for F64": self.doubles * facts.lanes / max(facts.doubles, 1),
        }
        times = {MEMORY: moved * facts.units / facts.memory_rate}
        times |= {name: each / facts.clock for name, each in cycles.items()}
        return {name: time for name, time in times.items() if time}

    def multiplied(self, unit: str, count: int, bits: int = 0) -> None:
        """Count multiply-adds of a unit, of a matrix unit with the bits of an operand."""
        _add_to(self.multiply_adds, unit, count)
        if bits:
            _add_to(self.matrix, bits, count)

    def add(self, other: Work, times: float = 1) -> None:
        """Count what another part does too, so many times."""
        self.shared += times * other.shared
        self.barriers += times * other.barriers
        self.instructions += times * other.instructions
        self.functions += times * other.functions
        self.doubles += times * other.doubles
        _add_all(self.read, other.read, times)
        _add_all(self.written, other.written, times)
        _add_all(self.multiply_adds, other.multiply_adds, times)
        _add_all(self.matrix, other.matrix, times)


_Key = TypeVar("_Key", int, str)


def _add_to(counts: dict[_Key, float], key: _Key, count: float) -> None:
    counts[key] = counts.get(key, 0) + count


def _add_all(counts: dict[_Key, float], others: Mapping[_Key, float], times: float) -> None:
    for key, count in others.items():
        _add_to(counts, key, times * count)


Lines = dict[Place | None, Work]


@dataclass(frozen=True, slots=True)
class Part:
    """The work of a part of a kernel by the person's lines; it stands in some loops, the innermost last."""

    title: str
    lines: Lines
    loops: tuple[Instruction, ...]

    @property
    def work(self) -> Work:
        """That of all lines together."""
        return total(self.lines)


def total(lines: Lines) -> Work:
    """The work of some lines together."""
    found = Work()
    for work in lines.values():
        found.add(work)
    return found


@dataclass(frozen=True, slots=True)
class Launch:
    """What a launch has beside its plan: of each tensor the shape, the strides in elements and the bytes of
    memory; the grid and run-time numbers."""

    shapes: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...]
    bytes: tuple[int, ...]
    grid: tuple[int, ...]
    scalars: tuple[float, ...]

    @property
    def programs(self) -> int:
        """How many programs it has."""
        return math.prod(self.grid)


def launch_lines(plan: Plan, kernel: Kernel, launch: Launch) -> Lines | None:
    """The work of a whole launch by lines; None where it is not known how many turns its loops take."""
    found: Lines = {}
    known = _turns(plan, launch)
    for part in parts_of(plan, kernel):
        times = _times(kernel, launch, part.loops, known)
        if times is None:
            return None
        for place, work in part.lines.items():
            found.setdefault(place, Work()).add(work, times)
    return found


def launch_work(lines: Lines, launch: Launch) -> Work:
    """The work of a launch's lines together.

    What programs read of a tensor, or write, moves once at least, and no more often is counted: blocks may
    be shared in the cache.
    """
    found = total(lines)
    for moved in (found.read, found.written):
        for tensor, count in moved.items():
            moved[tensor] = min(count, launch.bytes[tensor])
    return found


def busy_units(plan: Plan, launch: Launch) -> int:
    """The multiprocessors that have programs of a launch."""
    return min(plan.target.facts.units, launch.programs * plan.cluster_size)


def launch_seconds(plan: Plan, work: Work, launch: Launch) -> dict[str, float]:
    """How long each resource of the device takes for the work of a launch at its full rate."""
    units, busy = plan.target.facts.units, busy_units(plan, launch)
    return {
        name: time / (units if name == MEMORY else busy) for name, time in work.seconds(plan.target).items()
    }


def _turns(plan: Plan, launch: Launch) -> dict[Place, float]:
    """The turns of a kernel's loops, all workgroups' together, by the places of the program's loops."""
    found = turns(plan.program, launch.shapes, launch.grid, launch.scalars)
    loops: dict[Place, list[Node]] = {}
    for node in plan.program.body.walk():
        if node.op == "loop" and node.place is not None:
            loops.setdefault(node.place, []).append(node)
    chained = {} if plan.specialised is None else plan.specialised.chained
    together = 1 if plan.specialised is None else plan.specialised.together
    result = {}
    for place, nodes in loops.items():
        if all(node in found for node in nodes):
            # A turn of a rotated loop stands in pieces before the loop and after it.
            taken = [found[node] - (launch.programs if chained.get(node) else 0) for node in nodes]
            result[place] = sum(max(each, 0) for each in taken) / len(nodes) / together
    return result


def _times(
    kernel: Kernel, launch: Launch, loops: Sequence[Instruction], known: Mapping[Place, float]
) -> float | None:
    """How often a part of a kernel runs."""
    neighbours = launch.grid[kernel.along]
    times: float = launch.programs // neighbours * -(-neighbours // kernel.together) * kernel.cluster
    for loop in loops:
        if loop.place is None:
            continue  # a workgroup's programs
        if loop.place in known:
            times = known[loop.place]
        else:
            bounds = [arg.attr for arg in loop.args[:3] if arg.op == "constant"]
            if len(bounds) < 3 or loop.attr is not None:
                return None
            times *= len(range(*bounds))  # type: ignore[arg-type]
    return times


@dataclass(frozen=True, slots=True)
class _Counting:
    """What is counted, of which workgroup of a cluster, and by how many warps it is run; where the person's
    branches stand."""

    plan: Plan
    kernel: Kernel
    rank: int
    warps: int
    branches: frozenset[Place | None]

    @property
    def threads(self) -> int:
        return self.warps * self.plan.target.facts.lanes


def parts_of(plan: Plan, kernel: Kernel) -> Iterator[Part]:
    """The work outside of loops, and of one turn of each loop.

    What roles do in loops of the same place counts together, of teams with a program each one of them, and
    of a cluster's workgroups their average.
    """
    title = "outside of loops" if _has_loop(kernel.body) else "all of it"
    branches = frozenset(node.place for node in plan.program.body.walk() if node.op == "cond")
    found: dict[tuple[str, tuple[Instruction, ...]], Part] = {}
    for rank in range(plan.cluster_size):
        counting = _Counting(plan, kernel, rank, plan.warps, branches)
        for part in _parts(counting, kernel.body, title, ()):
            mean = found.setdefault((part.title, part.loops), replace(part, lines={}))
            _add_lines(mean.lines, part.lines, 1 / plan.cluster_size)
    yield from found.values()


def _add_lines(lines: Lines, others: Lines, times: float = 1) -> None:
    for place, work in others.items():
        lines.setdefault(place, Work()).add(work, times)


def _has_loop(block: Block) -> bool:
    return any(instruction.op == "loop" for instruction in block.walk())


def _parts(counting: _Counting, block: Block, title: str, around: tuple[Instruction, ...]) -> Iterator[Part]:
    lines: Lines = {}
    inner: list[Instruction] = []
    _count(counting, block, lines, inner)
    plan = counting.plan
    teams = plan.specialised.teams if plan.specialised else 1
    together = {title: Part(title, lines, around)}
    loops: list[Part] = []
    for instruction in inner:
        if instruction.op == "loop":
            loops += _parts(counting, instruction.blocks[0], _title(instruction), (*around, instruction))
            continue
        assert isinstance(instruction.attr, tuple)
        for role, body in zip(instruction.attr, instruction.blocks, strict=True):
            assert isinstance(role, Role)
            if 0 < role.first_warp < teams * plan.warps:
                continue
            for part in _parts(replace(counting, warps=role.warps), body, title, around):
                _add_lines(together.setdefault(part.title, replace(part, lines={})).lines, part.lines)
    yield from (part for part in [*together.values(), *loops] if part.work.instructions)


def _title(loop: Instruction) -> str:
    if loop.place is None:
        return "each program of a workgroup's"
    return f"each turn of the loop at {line_of(loop.place)}"


def _count(counting: _Counting, block: Block, lines: Lines, inner: list[Instruction]) -> None:
    for instruction in block.instructions:
        if instruction.op in ("loop", "roles"):
            inner.append(instruction)
            continue
        if instruction.blocks:
            _count(counting, _way(counting, instruction), lines, inner)
        _add(counting, instruction, lines.setdefault(instruction.place, Work()))


def _way(counting: _Counting, branch: Instruction) -> Block:
    """Which block of a branch counts: of the person's the one that takes longer, where workgroups of a
    cluster part the own one's, else the first."""
    if branch.place in counting.branches:
        return max(branch.blocks, key=partial(_length, counting))
    if branch.op == "update":
        return branch.blocks[0]
    (mask,) = branch.args
    if mask.op not in ("eq", "ne") or mask.args[0].op != "rank":
        return branch.blocks[0]
    return branch.blocks[(counting.rank == mask.args[1].attr) != (mask.op == "eq")]


def _length(counting: _Counting, block: Block) -> tuple[int, float]:
    """How long a block takes, to compare: loops, of which nobody may know the turns, longer than all else."""
    lines: Lines = {}
    inner: list[Instruction] = []
    _count(counting, block, lines, inner)
    return len(inner), max(total(lines).seconds(counting.plan.target).values(), default=0)


def _add(counting: _Counting, i: Instruction, work: Work) -> None:
    plan, kernel, threads, warps = counting.plan, counting.kernel, counting.threads, counting.warps
    match i.attr:
        case Access():
            count = i.attr.width * len(i.attr.places) * threads
            if i.attr.space == GLOBAL:
                size = count * plan.program.tensors[i.attr.memory].dtype.bytes
                _add_to(work.read if i.op == "load" else work.written, i.attr.memory, size)
            else:
                work.shared += count * kernel.buffers[i.attr.memory].dtype.bytes
            work.instructions += len(i.attr.places) * warps
        case MatrixAccess():
            moved = i.attr.matrices * len(i.attr.places) * warps
            work.shared += moved * _MATRIX_ROWS * _MATRIX_ROW_BYTES
            work.instructions += len(i.attr.places) * warps
        case Copy():
            size = i.attr.width * kernel.buffers[i.attr.buffer].dtype.bytes
            _add_to(work.read, i.attr.tensor, size * len(i.attr.to_places) * threads)
            work.shared += size * len(i.attr.to_places) * threads
            work.instructions += len(i.attr.to_places) * warps
        case Bulk():
            # One thread loads; of those that store each four warps have one.
            times = max(1, warps // _GROUP_WARPS) if i.op == "bulk_store" else 1
            size = math.prod(i.attr.box) * kernel.buffers[i.attr.buffer].dtype.bytes * times
            _add_to(work.read if i.op == "bulk_load" else work.written, i.attr.tensor, size)
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
            work.shared += pieces * rows * each.k * each.dtypes[0].bytes
            work.multiplied("group_matrix", pieces * _GROUP_ROWS * each.n * each.k, _bits(each.dtypes[0]))
            work.instructions += pieces * _GROUP_WARPS
        case _ if i.op == "outer":
            work.multiplied("fused multiply-adds", i.count * threads)
            work.instructions += i.count * warps
            work.doubles += i.count * warps if i.dtype is F64 else 0
        case _ if i.op == "barrier":
            work.barriers += 1
        case _ if i.op in ELEMENTWISE or i.op == "shuffle":
            # Extremes of 16 bits are of both halves of a word at once.
            packed = i.op in BINARY and i.dtype in (F16, BF16)
            work.instructions += (-(-i.count // 2) if packed else i.count) * warps
            work.functions += i.count * warps if i.op in APPROXIMATE else 0
            work.doubles += i.count * warps if any(arg.dtype is F64 for arg in i.args) else 0


def _bits(dtype: DType) -> int:
    """The size of a matrix operand: TF32, which has its own rate, counts as 32 bits."""
    return dtype.bits
