"""Neighbouring programs that share a workgroup, because their loops multiply with the same blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gizml_tile.lowering.planning.chained import IN_ORDER, TURNS, why_not_rotated
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.lowering.planning.variants import Candidate, Choice, choose
from gizml_tile.nodes import Node, TileProgram
from gizml_tile.target import Target

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

PROGRAMS = "programs"
# Groups of four warps that fill a multiprocessor's registers where each has 64 rows of a chained product.
# Measured on an H200 by hand: attention with D 64 is ahead of two such groups by 19 %.
TOGETHER = 3
_APART, _TOGETHER = "apart", f"{TOGETHER} together"
# Registers of a thread that brings, and of one of those groups, of 65536 for 512 threads.
REGISTERS = (32, 160)
_GROUP_THREADS = 128


@dataclass(frozen=True, slots=True)
class Together:
    """The axis of the grid along which programs are neighbours, and the loops whose bounds differ there."""

    axis: int
    uneven: frozenset[Node]


def plan_together(
    state: Planning, chained: Mapping[Node, list[Node]], limit: int, fixed_bytes: int, turn_bytes: int
) -> Together | None:
    """Whether neighbours share a workgroup: each has one group of warps, and empties the rings' slots too.

    ``chained`` has the products of each loop with chained ones, ``limit`` is how many registers a thread
    may hold of tiles, and the bytes are those of workgroup memory for all programs, and for a turn's blocks.
    """
    axis = common_axis(list(chained), state.signature.grid_rank)
    uneven = frozenset(loop for loop in chained if axis is not None and _is_uneven(loop, axis))
    found = None if axis is None else Together(axis, uneven)
    why = next(_refusals(state, chained, found, limit), None)
    room, slots = state.target.facts.workgroup_memory - fixed_bytes, max(state.program.stages, 2)
    if why is None and slots * turn_bytes > room:
        why = (
            f"{slots} turns of {turn_bytes} bytes are more than the {room} bytes of workgroup memory for them"
        )
    together = Candidate(_TOGETHER, why is None, why or "each takes the same blocks by a group of its own")
    apart = Candidate(_APART, True, "each program in a workgroup of its own")
    candidates = (together, apart) if state.signature.crowded else (apart, together)
    loop = next(iter(chained))
    chosen = choose(PROGRAMS, candidates, state.forced.get(PROGRAMS), loop.place)
    state.chose(loop, PROGRAMS, Choice(candidates, chosen))
    return found if chosen == _TOGETHER else None


def _refusals(
    state: Planning, chained: Mapping[Node, list[Node]], found: Together | None, limit: int
) -> Iterator[str]:
    """Why programs cannot share a workgroup, if something is in the way."""
    specialised = state.specialised
    assert specialised is not None
    if specialised.groups > 1:
        yield f"a program's rows are those of {specialised.groups} x 4 warps"
    if specialised.computed:
        yield "operands are computed from blocks"
    if len(chained) < len(specialised.loops):
        yield "a loop has no product that takes what is computed of another"
    if state.program.warps:
        yield f"{state.program.warps} warps are asked for"
    if found is None:
        yield "loops take other blocks in each program"
        return
    if any(loop.args[2].attr not in (1, -1) for loop in found.uneven):
        yield "turns of a loop with a step end at other places in each program"
    for loop, products in chained.items():
        why = why_not_rotated(state, loop, products, _GROUP_THREADS, limit)
        if why is not None:
            yield why
    if state.forced.get(TURNS) == IN_ORDER:
        yield "products are asked for in order"


def common_axis(loops: Sequence[Node], rank: int) -> int | None:
    """The first axis of a grid along which loops multiply with the same blocks in all programs."""
    taken = [
        read
        for loop in loops
        for product in loop.regions[0].walk()
        if product.op == "dot"
        for read in (operand(arg).node for arg in product.args[:2])
        if read.op == "read" and read in loop.regions[0].nodes
    ]
    places = [arg for read in taken for arg in read.args]
    free = (axis for axis in range(rank) if not any(rests_on(place, axis) for place in places))
    return next(free, None) if taken else None


def _is_uneven(loop: Node, axis: int) -> bool:
    return any(rests_on(arg, axis) for arg in loop.args[:3])


def rests_on(node: Node, axis: int) -> bool:
    """Whether an index follows from a program's place along an axis of the grid."""
    seen, open_ = set[Node](), [node]
    while open_:
        each = open_.pop()
        if each.op == "id" and each.attr == axis:
            return True
        if each not in seen:
            seen.add(each)
            open_ += each.args
    return False


def is_crowded(program: TileProgram, target: Target, grid: Sequence[int]) -> bool:
    """Whether neighbours that share workgroups still keep so many multiprocessors busy, and few are missing.

    Of an axis of 8 programs the last three are two, which costs an eighth; of 4 it would be a third.
    """
    loops = [node for node in program.body.nodes if node.op == "loop" and _is_chained(node)]
    axis = common_axis(loops, len(grid))
    if axis is None or not target.can("group_matrix"):
        return False
    size, programs = grid[axis], 1
    for each in grid:
        programs *= each
    whole = -(-size // TOGETHER) * TOGETHER
    return programs * whole >= target.facts.units * TOGETHER * size and 8 * whole <= 9 * size


def _is_chained(loop: Node) -> bool:
    """Whether a product of a loop takes something else than a block, as only such loops are looked at."""
    products = [node for node in loop.regions[0].nodes if node.op == "dot"]
    taken = [operand(arg).node for product in products for arg in product.args[:2]]
    return len(products) > 1 and any(node.op != "read" for node in taken)
