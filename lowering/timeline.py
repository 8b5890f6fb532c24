"""When a loop's blocks are copied to workgroup memory, waited for and read, from the plan and the kernel.

The plan tells in how many slots blocks lie and how many turns ahead they are begun. What the threads of each
role do in a turn, and in which order, the kernel's loop tells: its copies, waits, barriers and products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gizml_tile.errors import Place
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    WORKGROUP,
    Access,
    Barrier,
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
from gizml_tile.nodes import Node, View

FILL, WAIT, MEET, READ, MULTIPLY, FREE = "fill", "wait", "meet", "read", "multiply", "free"
# So many steps at most are looked for again behind them.
_TOGETHER = 6


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that threads do in a turn: its kind, in words, where it comes from, and how often.

    Neighbours with the same number of ``times`` above 1 are done in turn, so often.
    """

    kind: str
    text: str
    place: Place | None
    times: int = 1


@dataclass(frozen=True, slots=True)
class Track:
    """What the threads of a role do in each turn, in order."""

    role: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """A loop whose ``blocks`` lie in ``slots``: copies are begun ``ahead`` turns before a block is read.

    The first ones are begun ``before`` the loop. A slot is free ``kept`` turns after its block was read.
    """

    loop: Node
    blocks: tuple[str, ...]
    slots: int
    ahead: int
    before: int
    kept: int
    tracks: tuple[Track, ...]


def timelines(plan: Plan, kernel: Kernel) -> list[Timeline]:
    """One for each stream of blocks that loops take from workgroup memory."""
    found = []
    for loop, nodes, slots, kept in _streams(plan):
        names = tuple(_tensor(plan, node) for node in nodes)
        tracks = tuple(_tracks(kernel, loop, names))
        if tracks:
            # Warps that only bring blocks fill each slot that is free; others take care of one a turn.
            ahead, before = (slots - 1, slots - 1) if plan.specialised is None else (slots - kept, slots)
            found.append(Timeline(loop, names, slots, ahead, before, kept, tracks))
    return found


def _streams(plan: Plan) -> Iterator[tuple[Node, tuple[Node, ...], int, int]]:
    """Loop, blocks, slots, turns that slots are kept."""
    if plan.specialised is not None:
        flowing = plan.specialised.flowing
        for stream in plan.specialised.streams:
            if stream.loop is not None:
                yield stream.loop, stream.nodes, stream.slots, int(stream.loop in flowing)
        return
    around = {node: loop for loop in _all_loops(plan) for node in loop.regions[0].nodes}
    loops: dict[tuple[Node, int], list[Node]] = {}
    for node, stage in plan.stages.items():
        loop = stage.loop or around.get(node)
        if loop is not None:
            loops.setdefault((loop, stage.slots), []).append(node)
    for (loop, slots), nodes in loops.items():
        yield loop, tuple(nodes), slots, 0


def _all_loops(plan: Plan) -> list[Node]:
    return [node for node in plan.program.body.walk() if node.op == "loop"]


def _tensor(plan: Plan, node: Node) -> str:
    assert isinstance(node.attr, View)
    return plan.program.tensors[node.attr.tensor].name


def _tracks(kernel: Kernel, loop: Node, names: tuple[str, ...]) -> Iterator[Track]:
    """The tracks of the kernel's loops that come from a loop of the program, one for all who do the same."""
    buffers = {
        number
        for number, buffer in enumerate(kernel.buffers)
        if any(buffer.name.endswith(f" of {name}") for name in names)
    }
    found: dict[object, tuple[list[str], tuple[Step, ...]]] = {}
    for role, instruction in _loops(kernel.body, "all threads"):
        if instruction.place == loop.place:
            steps = tuple(_folded(list(_steps(kernel, instruction.blocks[0], buffers))))
            touches = any(step.kind in (FILL, READ, MULTIPLY) for step in steps)
            alike = tuple((step.kind, step.text, step.times) for step in steps)
            roles, _ = found.setdefault(alike, ([], steps))
            if touches and role not in roles:
                roles.append(role)
    for roles, steps in found.values():
        if roles:
            yield Track(" and ".join(roles), steps)


def _loops(block: Block, role: str) -> Iterator[tuple[str, Instruction]]:
    for instruction in block.instructions:
        if instruction.op == "loop":
            yield role, instruction
        names = [role] * len(instruction.blocks)
        if instruction.op == "roles":
            assert isinstance(instruction.attr, tuple)
            roles = [each for each in instruction.attr if isinstance(each, Role)]
            names = [f"{each.name}, {each.warps} warps" for each in roles]
        for name, inner in zip(names, instruction.blocks, strict=True):
            yield from _loops(inner, name)


def _folded(steps: list[Step]) -> Iterator[Step]:
    """Steps of which those that are done again and again, alone or a few in turn, are told once.

    So a a b c b c is a twice, then b and c twice in turn.
    """
    told = [(step.kind, step.text) for step in steps]
    first = 0
    while first < len(steps):
        size, times = 1, 1
        for size in range(1, _TOGETHER + 1):
            times = 1
            while told[first : first + size] == told[first + times * size : first + (times + 1) * size]:
                times += 1
            if times > 1:
                break
        else:
            size = 1
        yield from (replace(step, times=times) for step in steps[first : first + size])
        first += size * times


def _steps(kernel: Kernel, block: Block, buffers: set[int]) -> Iterator[Step]:
    for instruction in block.instructions:
        told = _told(kernel, instruction, buffers)
        if told is not None:
            yield Step(*told, instruction.place)
        if instruction.op != "loop":
            for inner in instruction.blocks:
                yield from _steps(kernel, inner, buffers)


def _told(kernel: Kernel, instruction: Instruction, buffers: set[int]) -> tuple[str, str] | None:
    """The kind of an instruction, and what it does in words; None for one that is no step."""
    attr, tensors = instruction.attr, kernel.tensors
    match instruction.op, attr:
        case "copy", Copy() if attr.buffer in buffers:
            return FILL, f"begin to copy a block of {tensors[attr.tensor].name}"
        case "bulk_load", Bulk() if attr.buffer in buffers:
            return FILL, f"ask the copy engine for a block of {tensors[attr.tensor].name}"
        case "load", Access(space=space) if space == GLOBAL:
            return FILL, f"load from {tensors[attr.memory].name} to registers"
        case "store", Access(space=space) if space == WORKGROUP and attr.memory in buffers:
            return FILL, f"store to {kernel.buffers[attr.memory].name}"
        case "load", Access(space=space) if space == WORKGROUP and attr.memory in buffers:
            return READ, f"read {kernel.buffers[attr.memory].name}"
        case "matrix_load", MatrixAccess() if attr.memory in buffers:
            return READ, f"read fragments of {kernel.buffers[attr.memory].name}"
        case "mma", Matrix():
            return MULTIPLY, f"multiply by {attr.atom.name}"
        case "group_mma", GroupMatrix():
            return MULTIPLY, f"begin the product 64 x {attr.n} x {attr.k}, from workgroup memory"
        case "copy_wait", _:
            return WAIT, f"wait until at most {attr} groups of copies are in flight"
        case "group_wait", _:
            return WAIT, f"wait until at most {attr} groups of products are under way"
        case "signal_wait", _:
            return WAIT, "wait for the slot's signal"
        case "signal_arrive", _:
            return FREE, "tell that a slot is free"
        case "signal_expect", _:
            return WAIT, f"expect {attr} bytes at the slot's signal"
        case "barrier", Barrier():
            return MEET, f"barrier {attr.number} of {attr.threads} threads"
    return None
