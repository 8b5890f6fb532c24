"""Threads that do the same, hold too much, or have nothing to do."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gizml_tile.errors import Place
from gizml_tile.lowering.advice.prediction import Advice, Prediction
from gizml_tile.lowering.planning.plan import Plan
from gizml_tile.lowering.planning.registers import thread_registers
from gizml_tile.lowering.planning.residency import BESIDE, most_held
from gizml_tile.lowering.work import MEMORY
from gizml_tile.nodes import Node
from gizml_tile.text import line_of

# A single multiprocessor moves so many bytes of memory in a cycle at most.
_UNIT_BYTES = 64
# A register that is spilled is stored and loaded again. What all threads spill is more than caches hold.
_SPILLS, _REGISTER_BYTES = 2, 4
# Products have fragments of their operands, too. Found with ptxas for sm_80 and attention in blocks of eight
# sizes: 192 registers of tiles fit into a thread's 255, and with 224 some 60 to 75 spill.
_BESIDE_PRODUCTS = 64
# So many times the multiprocessors that have programs are most of them idle.
_MOSTLY_IDLE = 3


def replicated_work(found: Prediction) -> Iterator[Advice]:
    """The time in which several threads compute the same elements, where tiles have too few for all."""
    plan = found.plan
    if plan.specialised is not None:
        return
    wasted: dict[Place, float] = {}
    copies: dict[Place, int] = {}
    for node in plan.program.body.walk():
        layout = plan.layouts.get(node)
        if layout is None or node.place is None:
            continue
        times = plan.threads * layout.registers // (node.shape[0] * node.shape[1])
        copies[node.place] = min(times, copies.get(node.place, times))
    for place, times in copies.items():
        wasted[place] = found.issued(place) * (1 - 1 / times)
    if not wasted:
        return
    most = max(wasted, key=lambda place: wasted[place])
    largest = max((node for node in plan.layouts), key=lambda node: math.prod(node.shape))
    rows, columns = largest.shape
    if rows * columns >= plan.threads:
        return  # all have work: what they repeat is what a reduction left of it
    text = (
        f"{copies[most]} threads each compute the same elements here, as the workgroup has {plan.threads} "
        f"and the largest tile is {list(plan.program.written_shape(largest))}"
    )
    fits = max(rows * columns // plan.target.facts.lanes, 1)
    if plan.program.warps and fits < plan.warps:
        fix = f"leave out warps, or ask for {max(fits * plan.target.facts.lanes // 32, 1)}"
    else:
        fix = f"use blocks of at least {plan.threads} elements, or of several rows"
    yield Advice("replicated work", most, text, fix, sum(wasted.values()))


def spills(found: Prediction) -> Iterator[Advice]:
    """Tiles that are in use together and take more registers than threads have."""
    plan = found.plan
    held, room, where = registers_held(plan)
    spilled = held - room
    if spilled <= 0 or where is None:
        return
    text = (
        f"the tiles that are in use together at this {where.op} take {held} registers of each of "
        f"{plan.threads} threads, and beside addresses and the like there is room for {room}: "
        f"about {spilled} spill to memory"
    )
    seconds = found.moved(where, _SPILLS * _REGISTER_BYTES * spilled * plan.threads)
    yield Advice("spill", where.place, text, smaller(plan), seconds, beyond=True)


def registers_held(plan: Plan) -> tuple[int, int, Node | None]:
    """The most registers of tiles that a thread holds at once, those that there are for them, and where.

    Warps with roles have been planned to fit.
    """
    if plan.specialised is not None:
        return 0, 0, None
    held, where = most_held(plan.program, plan.layouts, plan.again, plan.parked)
    return held, _room(plan, plan.warps * plan.resident), where


def _room(plan: Plan, warps: int) -> int:
    """The registers of a thread for tiles where so many warps share a multiprocessor."""
    return thread_registers(plan.target, warps) - (_BESIDE_PRODUCTS if plan.dots else BESIDE)


def smaller(plan: Plan) -> str:
    """What takes fewer registers of a thread: smaller blocks, or twice the warps if they have more room."""
    fits = 2 * plan.threads <= plan.target.facts.workgroup_threads
    if fits and 2 * _room(plan, 2 * plan.warps) > _room(plan, plan.warps):
        return f"use warps={2 * plan.threads // 32}, which halves what a thread holds, or smaller blocks"
    return "use smaller blocks"


def few_programs(found: Prediction) -> Iterator[Advice]:
    """The time that most multiprocessors have nothing to do."""
    facts, node = found.plan.target.facts, _longest(found)
    busy, units = found.busy, facts.units
    if _MOSTLY_IDLE * busy > units or node is None or not found.seconds:
        return
    moved = found.seconds.get(MEMORY, 0) * facts.memory_rate
    now = max(found.bound, moved / (busy * _UNIT_BYTES * facts.clock))
    best = max(time if name == MEMORY else time * busy / units for name, time in found.seconds.items())
    programs = found.launch.programs
    keep = "program keeps" if programs == 1 else "programs keep"
    text = f"{programs} {keep} {busy} of {units} multiprocessors busy"
    fix = "use smaller blocks, so that there are more programs"
    if node.op == "loop":
        text += f", each for all turns of the loop at {line_of(node.place)}"
        fix += ", or let several programs share the turns and add up what they found with scatter_add"
    yield Advice("few programs", node.place, text, fix, now - best, beyond=now > found.bound)


def _longest(found: Prediction) -> Node | None:
    """The loop that takes most turns, or what stores the result."""
    loops = [node for node in found.plan.program.body.nodes if node.op == "loop"]
    if loops:
        return max(loops, key=lambda node: found.turns.get(node, 0))
    stores = [node for node in found.plan.program.body.walk() if node.op in ("put", "scatter")]
    return stores[0] if stores else None
