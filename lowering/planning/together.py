"""Neighbouring programs that share a workgroup, because their loops multiply with the same blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gizml_tile.lowering.planning.chained import IN_ORDER, TURNS, why_not_rotated
from gizml_tile.lowering.planning.crowded import TOGETHER, common_axis, rests_on
from gizml_tile.lowering.planning.variants import Candidate, Choice, choose
from gizml_tile.nodes import Node

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

PROGRAMS = "programs"
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


def _is_uneven(loop: Node, axis: int) -> bool:
    return any(rests_on(arg, axis) for arg in loop.args[:3])
