"""Whether the warps of a program get roles: one brings blocks by the copy engine, the others multiply."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gizml_tile.lowering.planning.beside import blocks_beside
from gizml_tile.lowering.planning.boxes import (
    is_known_before,
    is_once,
    loop_of,
    why_not_brought,
)
from gizml_tile.lowering.planning.brought import (
    FEWEST_SLOTS,
    block_bytes,
    brought_blocks,
    fixed_bytes,
    kept_operands,
    turn_bytes,
)
from gizml_tile.lowering.planning.chained import is_chained, of_computed, plan_rotation, powers
from gizml_tile.lowering.planning.classes import is_wide
from gizml_tile.lowering.planning.computed_on import blocks_computed_on, why_not_computed_on
from gizml_tile.lowering.planning.crowded import TOGETHER
from gizml_tile.lowering.planning.group_products import (
    MOST_IN_PARTS,
    is_turned,
    parts_of,
    sides_of,
    why_not_by_groups,
    why_not_turned,
)
from gizml_tile.lowering.planning.grown import why_not_grown
from gizml_tile.lowering.planning.masks import is_bounded
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.lowering.planning.panels import SPANS
from gizml_tile.lowering.planning.persistence import runs_in_turn, takes_longer
from gizml_tile.lowering.planning.plan import Specialised
from gizml_tile.lowering.planning.prologues import commits_of, prologues_of, why_not_computed
from gizml_tile.lowering.planning.residency import half_memory
from gizml_tile.lowering.planning.together import REGISTERS, plan_together
from gizml_tile.lowering.planning.turn_ahead import reads_a_turn_ahead
from gizml_tile.lowering.planning.variants import Candidate, Cause, Choice, Refusal, choose
from gizml_tile.nodes import ALONG, EARLY, REDUCTIONS, Node

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

LOOP = "loop"
SPECIALISED, ALTERNATING, UNIFORM_WARPS = "specialised", "alternating", "uniform"

_ROWS = 64  # of a product by four warps
_COLUMNS = (16, 256)
_MOST_GROUPS = 2
_GROUP_WARPS = 4
# A group with as many by itself keeps the matrix units busy while another stores.
_MANY_ACCUMULATORS = 128
# Elements of accumulators that leave a thread enough registers for the rest.
_MOST_ACCUMULATORS = 160
# In chained loops results of products turn into others; threads get more registers there.
_MOST_CHAINED = 192
# The registers of a thread that brings, and of one that multiplies, where there are two groups of those:
# of 65536 each of 384 threads begins with 168.
_TRADED_REGISTERS = (40, 232)
# Likewise where products are chained, which takes more.
_CHAINED_REGISTERS = (24, 240)
# And where two workgroups of 256 threads share a multiprocessor.
_SHARED_REGISTERS = (24, 232)
# Of a thread's registers the assembler takes so many for itself.
_KEPT_REGISTERS = 4
# What a product becomes in 64 bits must leave registers for what it is made of.
_MOST_WIDE = 160


def plan_roles(state: Planning) -> None:
    """Decide whether warps get roles; then the products are asynchronous ones of four warps."""
    products = [node for node in state.program.body.walk() if node.op == "dot"]
    loops = list(dict.fromkeys(loop_of(state, node) for node in products))
    if not products:
        return
    why = next(_refusals(state, products, loops), None)
    forms = _forms(state, products, loops)
    candidates = []
    for name, (teams, groups) in forms.items():
        refusal = why or next(_refusals_of_form(state, products, loops, teams, groups), None)
        turns = "in two teams with a program each, " if teams > 1 else ""
        told = f"{teams * groups} x 4 warps multiply, {turns}one thread brings blocks"
        candidates.append(Candidate.of(name, refusal, told))
    candidates.append(Candidate(UNIFORM_WARPS, True, "all warps do the same"))
    place = (loops[0] or products[0]).place
    chosen = choose(LOOP, candidates, state.forced.get(LOOP), place)
    if state.target.can("group_matrix"):
        state.chose(loops[0] or products[0], LOOP, Choice(tuple(candidates), chosen))
    if chosen in forms:
        teams, groups = forms[chosen]
        traded = _TRADED_REGISTERS if teams * groups > 1 else (0, 0)
        brought = tuple(loop for loop in loops if loop is not None)
        # Measured on an H200: two groups with many accumulators cover each other's waiting.
        covered = groups > 1 and _accumulators(state, products, loops, groups) >= _MANY_ACCUMULATORS
        flows = teams > 1 and not covered
        flowing = {
            loop: sum(commits_of(state, node) for node in inside)
            for loop in brought
            if _flows(state, inside := [node for node in products if loop_of(state, node) is loop], loop)
            and (flows or _computes(state, inside))
        }
        computed = frozenset(_computed(state, products))
        computed_on = frozenset(blocks_computed_on(state, products))
        for block in computed_on:
            state.reasons[block] = "goes to registers, too, where something else is computed of it"
        state.specialised = Specialised(
            *(teams, groups, brought, traded), computed=computed, computed_on=computed_on, flowing=flowing
        )
        _chain(state, products)
        found = state.specialised
        alone = [loop for loop in brought if loop not in found.chained]
        state.specialised = replace(found, turn_ahead=reads_a_turn_ahead(state, alone))


def _chain(state: Planning, products: list[Node]) -> None:
    """Decide how loops with chained products run, if there are some."""
    assert state.specialised is not None
    found, resident = state.specialised, 1
    loops = {
        loop: inside
        for loop in found.loops
        if is_chained(state, inside := [node for node in products if loop_of(state, node) is loop], loop)
    }
    if not loops:
        return
    fixed, turn = fixed_bytes(state, products, 1, found.groups), turn_bytes(state, products)
    together = plan_together(state, loops, REGISTERS[1] - _KEPT_REGISTERS, TOGETHER * fixed, turn)
    registers = _CHAINED_REGISTERS if found.groups > 1 else (0, 0)
    if together is not None:
        registers, fixed = REGISTERS, TOGETHER * fixed
        found = replace(found, together=TOGETHER, along=together.axis, uneven=together.uneven)
    fixed += max(state.program.stages, FEWEST_SLOTS) * turn
    beside = blocks_beside(state, loops, found.together, state.target.facts.workgroup_memory - fixed)
    if found.all_groups == 1 and fixed + sum(map(block_bytes, beside)) <= half_memory(state.target):
        # A group alone waits for its own products: another workgroup should use the units meanwhile.
        registers, resident = _SHARED_REGISTERS, 2
    limit = (registers[1] or state.target.facts.registers) - _KEPT_REGISTERS
    threads = found.groups * _GROUP_WARPS * state.target.facts.lanes
    chained = {
        loop: plan_rotation(state, loop, inside, beside, threads, limit) for loop, inside in loops.items()
    }
    for node in powers(state):
        state.reasons[node] = "made as 2^(x s - y s), of which y s is rounded once for a whole row"
    for node in _guarded(state):
        state.reasons[node] = "passed over in turns where bounds of what is compared set the whole mask"
    state.specialised = replace(
        found,
        registers=registers,
        flowing={loop: count for loop, count in found.flowing.items() if loop not in chained},
        chained=chained,
        beside=beside,
        resident=resident,
        powers=powers(state),
        guarded=_guarded(state),
        longest_first=any(map(takes_longer, chained)),
        in_order=found.all_groups > 1 and any(rotation is not None for rotation in chained.values()),
        persistent=runs_in_turn(state, list(chained)),
    )


def _guarded(state: Planning) -> frozenset[Node]:
    """The selects in loops whose masks can be told to be set as a whole."""
    return frozenset(
        node
        for node in state.program.body.walk()
        if node.op == "select" and state.uses.depth[node] and is_bounded(node.args[0]) and is_wide(node)
    )


def _flows(state: Planning, products: list[Node], loop: Node) -> bool:
    """Whether products of a turn can be waited for in the next one."""
    in_parts = any(parts_of(state, node) is not None for node in products if loop_of(state, node) is loop)
    # A single slot must be free before the next turn's blocks can come.
    return not in_parts and state.program.stages != 1 and _only_accumulates(state, loop)


def _only_accumulates(state: Planning, loop: Node) -> bool:
    """Whether nothing but the next turn uses what products of a turn give."""
    (region,) = loop.regions
    carried = {id(param): result for param, result in zip(region.params[1:], region.results, strict=True)}
    for node in region.walk():
        if node.op != "dot":
            continue
        first, last = node, node
        while len(first.args) == 3 and first.args[2].op == "dot":
            first = first.args[2]
        while len(state.uses.of(last)) == 1 and state.uses.of(last)[0][0].op == "dot":
            last = state.uses.of(last)[0][0]
        start = first.args[2] if len(first.args) == 3 else None
        alone = start is not None and len(state.uses.of(start)) == 1 and len(state.uses.of(last)) == 1
        if start is None or not alone or carried.get(id(start)) is not last:
            return False
    return loop.args[2].op == "index"


def _are_chained(state: Planning, products: list[Node], loops: list[Node | None]) -> bool:
    """Whether a product in a loop takes what is computed of another."""
    return any(
        is_chained(state, [node for node in products if loop_of(state, node) is loop], loop)
        for loop in loops
        if loop is not None
    )


def _forms(state: Planning, products: list[Node], loops: list[Node | None]) -> dict[str, tuple[int, int]]:
    """The ways to give roles, best first: teams, and groups of four warps in each.

    Measured on an H200: two teams are ahead by 2 to 10 % where a group holds all sums of a program and the
    products of a turn are waited for in the next; else they are behind. Few programs share clusters instead.
    """
    rows, columns = sides_of(state, products[0])
    groups = state.program.warps // _GROUP_WARPS or (1 if rows == _ROWS else 2)
    together, apart = (SPECIALISED, (1, groups)), (ALTERNATING, (2, 1))
    fits = rows * columns <= _MANY_ACCUMULATORS * _GROUP_WARPS * state.target.facts.lanes
    flows = all(loop is not None and _flows(state, products, loop) for loop in loops)
    alone = state.signature.room == 1 and "workgroups" not in state.forced
    # What one group computes is hidden by what another multiplies at the same time.
    best = fits and flows and alone and not _computes(state, products)
    return dict([apart, together] if best else [together, apart])


def _refusals(state: Planning, products: list[Node], loops: list[Node | None]) -> Iterator[str | Refusal]:
    """Why warps cannot have roles, if something is in the way."""
    target = state.target
    if not target.can("bulk"):
        yield f"{target.arch} has no copy engine for boxes"
    if not target.can("group_matrix"):
        yield f"{target.arch} has no asynchronous matrix operations of four warps"
    if state.signature.may_alias:
        yield Refusal(Cause.OVERLAP, "tensors may overlap", products[0])
    if None in loops:
        yield from _of_place(state, products)
    for loop in loops:
        if loop is not None and not all(is_known_before(state, arg) for arg in loop.args[:3]):
            yield "the loop's bounds depend on what tensors hold"
        if loop is not None and loop.attr == EARLY:
            yield "the loop may end before its last turn"
    if len({(sides_of(state, node)[0], is_turned(state, node)) for node in products}) > 1:
        yield "products have different numbers of rows"
    rows, _ = sides_of(state, products[0])
    if rows % _ROWS and is_turned(state, products[0]):
        yield f"a right operand is computed and has {rows} columns, no multiple of {_ROWS}"
    if rows % _ROWS:
        yield f"products have {rows} rows, no multiple of {_ROWS}"
    if _are_chained(state, products, loops) and _computes(state, products):
        yield "a product takes what is computed of another, beside what else is computed of blocks"
    for node in products:
        loop = loop_of(state, node)
        if loop is not None:
            yield from _of_product(state, node, loop)
    for node in state.program.body.walk():
        if node.op in ALONG - REDUCTIONS:
            yield f"a {node.op} along an axis may take more workgroup memory than is kept beside blocks"
    if not brought_blocks(state, products):
        yield "no operand is a block of a tensor"


def _of_place(state: Planning, products: list[Node]) -> Iterator[str | Refusal]:
    """Why a product is at no place where its blocks can be brought."""
    for node in products:
        around = state.uses.loops.get(state.uses.region[node])
        branch = None if around is None else state.uses.loops.get(state.uses.region[around])
        if around is not None and around.op == "loop" and branch is not None and branch.op == "cond":
            yield Refusal(Cause.BRANCH, "the loop with the product stands in a branch", around)
    yield "a product stands outside of loops, or in a loop or branch inside another"


def _refusals_of_form(
    state: Planning, products: list[Node], loops: list[Node | None], teams: int, groups: int
) -> Iterator[str]:
    (rows, _), warps = sides_of(state, products[0]), state.program.warps
    if groups > _MOST_GROUPS or rows % (_ROWS * groups):
        yield f"{rows} rows are not shared by {groups} x 4 warps"
    if warps not in (0, _GROUP_WARPS * teams * groups):
        yield f"{warps} warps are asked for, and {teams * groups} x 4 multiply"
    if teams > 1 and any(loop is not None and loop.args[2].op != "index" for loop in loops):
        yield "the loop's step is no constant, so nobody knows how many turns another team takes"
    chained = _are_chained(state, products, loops)
    once = any(is_once(state, node) for node in brought_blocks(state, products))
    if chained and (teams > 1 or rows != _ROWS * groups):
        yield "a product takes what is computed of another"
    if (once or kept_operands(state, products)) and teams > 1:
        yield "blocks stay for a whole program"
    in_parts = [node for node in products if parts_of(state, node) is not None]
    if chained and in_parts:
        yield "a product whose sums are made in parts stands beside products of products"
    most = _MOST_CHAINED if chained else MOST_IN_PARTS if in_parts else _MOST_ACCUMULATORS
    needed = _accumulators(state, products, loops, groups)
    if needed > most:
        yield f"accumulators take {needed} registers of each thread, and {most} leave enough"
    if (wide := _widest(state, products, groups)) > _MOST_WIDE:
        yield f"what is made of it takes {wide} registers of each thread, and {_MOST_WIDE} leave enough"
    turn, slots = turn_bytes(state, products), max(state.program.stages, FEWEST_SLOTS)
    room = state.target.facts.workgroup_memory - fixed_bytes(state, products, teams, groups)
    if slots * turn > room:
        yield f"{slots} turns of {turn} bytes are more than the {room} bytes of workgroup memory for them"


def _of_product(state: Planning, node: Node, loop: Node) -> Iterator[str | Refusal]:
    (_, columns), depth = sides_of(state, node), node.args[0].shape[1]
    if not _COLUMNS[0] <= columns <= _COLUMNS[1]:
        yield f"a product has {columns} columns, not {_COLUMNS[0]} to {_COLUMNS[1]}"
    yield from why_not_turned(state, node)
    yield from why_not_by_groups(state, node, alone=not _only_accumulates(state, loop))
    if any(operand(arg).node.dtype.bytes * depth < SPANS[-1] for arg in node.args[:2]):  # type: ignore[union-attr]
        yield f"a block has {depth} elements of k"
    yield from why_not_computed(state, node)
    yield from why_not_computed_on(state, node, is_turned(state, node))
    computed = {prologue.side: prologue for prologue in prologues_of(state, node)}
    for side, arg in enumerate(node.args[:2]):
        found = operand(arg)
        if side in computed:
            for block in computed[side].blocks:
                yield from why_not_grown(state, node, block)
                yield from why_not_brought(state, block, loop)
        elif found.node.op == "read":
            yield from why_not_grown(state, node, found.node)
            yield from why_not_brought(state, found.node, loop)
        else:
            yield from of_computed(state, found, side, loop)


def _widest(state: Planning, products: list[Node], groups: int) -> int:
    """The registers of a thread for the largest tile of a product's shape whose elements have 64 bits."""
    shapes, threads = {node.shape for node in products}, groups * _GROUP_WARPS * state.target.facts.lanes
    tiles = [node for node in state.program.body.walk() if node.shape in shapes and node.dtype is not None]
    wide = (2 * math.prod(node.shape) for node in tiles if node.dtype.bits == 64)  # type: ignore[union-attr]
    return max(wide, default=0) // threads


def _accumulators(state: Planning, products: list[Node], loops: list[Node | None], groups: int) -> int:
    """The most registers of a thread for what a loop carries, the largest product beside, and its part."""
    threads = groups * _GROUP_WARPS * state.target.facts.lanes
    most = 0
    for loop in filter(None, loops):
        carried = [param for param in loop.regions[0].params if param.is_tile]
        kept = {state.classes[param] for param in carried if param in state.classes}
        inside = [node for node in products if loop_of(state, node) is loop]
        beside = [math.prod(node.shape) for node in inside if state.classes[node] not in kept]
        found = [parts_of(state, node) for node in inside]
        parts = [_ROWS * groups * each.columns for each in found if each is not None]
        held = sum(math.prod(param.shape) for param in carried)
        most = max(most, held + max(beside, default=0) + max(parts, default=0))
    return most // threads


def _computes(state: Planning, products: list[Node]) -> bool:
    """Whether groups compute on blocks in the turns of their products."""
    return bool(_computed(state, products) or blocks_computed_on(state, products))


def _computed(state: Planning, products: list[Node]) -> set[Node]:
    """What products compute of blocks for an operand in registers."""
    return {made for node in products for each in prologues_of(state, node) for made in each.made}
