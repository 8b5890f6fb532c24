"""The planner: from a simplified program, a target and a launch's facts to a `Plan`.

Decisions are made once, each resting on those before it; read `plan` for their order.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

from gizml_tile.lowering.planning import accesses, copies, dots
from gizml_tile.lowering.planning.ahead import plan_ahead
from gizml_tile.lowering.planning.along import meeting_layout, meeting_reason
from gizml_tile.lowering.planning.brought import plan_brought_stages
from gizml_tile.lowering.planning.bulk_stores import plan_stores
from gizml_tile.lowering.planning.classes import (
    Class,
    Uses,
    find_classes,
    find_free,
    find_uses,
)
from gizml_tile.lowering.planning.clusters import plan_cluster
from gizml_tile.lowering.planning.elements import widest_atomic
from gizml_tile.lowering.planning.group_products import group_dot
from gizml_tile.lowering.planning.in_memory import plan_in_memory
from gizml_tile.lowering.planning.laying_out import lay_out, traffic_of
from gizml_tile.lowering.planning.operands import operand, used_by_products_only
from gizml_tile.lowering.planning.overlaps import find_overlaps, plan_overlaps, warps_that_share
from gizml_tile.lowering.planning.parts import find_parts
from gizml_tile.lowering.planning.pieces import cut_products
from gizml_tile.lowering.planning.plan import (
    Access,
    Chain,
    Dot,
    Overlap,
    Plan,
    Specialised,
    Stage,
    TileLayout,
)
from gizml_tile.lowering.planning.registers import check_registers, check_types
from gizml_tile.lowering.planning.residency import residents
from gizml_tile.lowering.planning.scales import sink_scales
from gizml_tile.lowering.planning.signature import AccessFacts, Signature
from gizml_tile.lowering.planning.specialised import plan_roles
from gizml_tile.lowering.planning.stages import fast_axis, plan_stages
from gizml_tile.lowering.planning.variants import Choice
from gizml_tile.lowering.planning.vectors import access_cost
from gizml_tile.lowering.planning.wrapped import wrap_slices
from gizml_tile.nodes import (
    ACCESSES,
    ALONG,
    EFFECTS,
    READS,
    REDUCTIONS,
    Elements,
    Node,
    TileProgram,
    View,
    axis_of,
    tensor_of,
)
from gizml_tile.target import Target


@dataclass(slots=True)
class Planning:
    """What has been decided so far."""

    program: TileProgram
    target: Target
    signature: Signature
    forced: dict[str, str]
    uses: Uses
    facts: dict[Node, AccessFacts]
    classes: dict[Node, Class]
    warps: int = 0
    dots: dict[Node, Dot] = field(default_factory=dict)
    layouts: dict[Class, TileLayout] = field(default_factory=dict)
    accesses: dict[Node, Access] = field(default_factory=dict)
    stages: dict[Node, Stage] = field(default_factory=dict)
    choices: dict[Node, list[tuple[str, Choice]]] = field(default_factory=dict)
    reasons: dict[Node, str] = field(default_factory=dict)
    chains: dict[Node, Chain] = field(default_factory=dict)
    fragments: set[Class] = field(default_factory=set)
    specialised: Specialised | None = None
    overlaps: list[Overlap] = field(default_factory=list)

    def chose(self, node: Node, what: str, choice: Choice) -> None:
        """Keep the table of variants of an operation."""
        self.choices.setdefault(node, []).append((what, choice))

    def because(self, node: Node, reason: str) -> None:
        """Keep a reason, beside others that there are for a node."""
        known = self.reasons.get(node)
        self.reasons[node] = f"{known}; {reason}" if known else reason


def plan(
    program: TileProgram,
    target: Target,
    signature: Signature,
) -> Plan:
    """All decisions about a simplified program on a GPU.

    Raises TileError where a variant that the program asks for cannot serve, or the program does not fit
    the device, or computes in F64 where the device does not.
    """
    check_types(program, target)
    program, signature = cut_products(sink_scales(wrap_slices(program)), target, signature)
    uses = find_uses(program)
    reads_and_puts = [node for node in program.body.walk() if node.op in ACCESSES]
    state = Planning(
        program,
        target,
        signature,
        dict(program.variants),
        uses,
        dict(zip(reads_and_puts, signature.facts, strict=True)),
        find_classes(program, find_free(program), uses),
    )
    for node in reads_and_puts:
        if tensor_of(node) in signature.copied:
            state.chose(node, copies.TENSORS, copies.told())
    plan_roles(state)
    if state.specialised is None and "read" not in state.forced:
        state.overlaps = find_overlaps(program, state.facts, uses, signature.may_alias)
    _choose_warps(state)
    # Products first: their results' layouts are the instruction's, and everything else can follow.
    _plan_dots(state)
    lay_out(state)
    if state.specialised is not None:
        plan_stores(state)
        plan_cluster(state)
        plan_ahead(state)
        plan_brought_stages(state)
    else:
        plan_cluster(state)
        plan_stages(state)
        plan_in_memory(state)
    _plan_accesses(state)
    overlaps = plan_overlaps(state)
    bypassed = frozenset(node for node in state.classes if _is_bypassed(state, node))
    homes = _homes(state, bypassed)
    check_registers(program, target, state.warps, homes)
    parts = find_parts(program, uses, homes, target, state.warps)
    for total in itertools.chain(*parts.values()):
        state.reasons[total] = "each thread adds up its own part, and the threads meet after the loop"
    for node in program.body.walk():
        if node.op == "histogram":
            state.reasons[node] = "in workgroup memory, to which every thread adds at once"
        elif node.op in ALONG - REDUCTIONS:
            meeting = meeting_layout(node, homes.get, target, state.warps)
            state.reasons[node] = meeting_reason(node, meeting)
    resident, again, parked = residents(program, target, state.warps, homes)
    if state.specialised is not None:
        resident = state.specialised.resident
    return Plan(
        program,
        target,
        signature,
        state.warps,
        resident,
        _group(state),
        homes,
        state.accesses,
        state.dots,
        state.stages,
        bypassed,
        {node: tuple(table) for node, table in state.choices.items()},
        state.reasons,
        state.chains,
        state.specialised,
        again,
        parked,
        parts,
        overlaps,
    )


def _is_bypassed(state: Planning, node: Node) -> bool:
    found = operand(node).node
    return found is not node and found in state.stages and used_by_products_only(node, state.uses)


def _homes(state: Planning, bypassed: frozenset[Node]) -> dict[Node, TileLayout]:
    """The layouts of tiles in registers; blocks that only products take never are."""
    beside = () if state.specialised is None else state.specialised.beside
    return {
        node: state.layouts[each]
        for node, each in state.classes.items()
        if each in state.layouts
        and node not in bypassed
        and (node not in state.stages or each in state.fragments or node in beside)
    }


# Neighbouring programs that share blocks in the last-level cache.
_GROUP = 8


def _group(state: Planning) -> int:
    """Programs that run together share blocks of two operands where a loop multiplies blocks."""
    multiplies = any(stage.loop is not None for stage in state.stages.values())
    return _GROUP if multiplies and state.signature.grid_rank >= 2 else 0


def _choose_warps(state: Planning) -> None:
    program = state.program
    if state.specialised is not None:
        state.warps = 4 * state.specialised.groups
        return
    if program.warps:
        state.warps = state.target.warps(program.warps)
        return
    products = [node for node in program.body.walk() if node.op == "dot"]
    if products:
        atoms = all(_unit(state, node).chosen != dots.MULTIPLY_ADD for node in products)
        elements = _accumulated(program, products)
        state.warps = dots.automatic_warps(state.target, elements, atoms=atoms)
    else:
        state.warps = warps_that_share(state, accesses.automatic_warps(program, state.target))


def _unit(state: Planning, node: Node) -> Choice:
    """The unit that makes a product, with what else was considered."""
    a, b = operand(node.args[0]).node, operand(node.args[1]).node
    assert a.dtype is not None and b.dtype is not None
    shape = (node.shape[0], node.shape[1], node.args[0].shape[1])
    return dots.choose_unit(
        state.target, a.dtype, b.dtype, shape, str(node.attr), state.forced.get("dot"), node.place
    )


def _accumulated(program: TileProgram, products: list[Node]) -> int:
    """The most registers of accumulators, and of what is made of one, that there are together.

    That are those which one loop carries, and after it those of 64 bits as which it may go on.
    """
    shapes = {node.shape for node in products}
    carried = [
        sum(map(_words, (param for param in node.regions[0].params if param.shape in shapes)))
        for node in program.body.walk()
        if node.op == "loop"
    ]
    return max(carried + [_words(node) for node in program.body.walk() if node.shape in shapes])


def _words(tile: Node) -> int:
    """The registers, of 32 bits, of a tile: one or two for an element."""
    assert tile.dtype is not None
    return math.prod(tile.shape) * max(tile.dtype.bytes // 4, 1)


def _plan_dots(state: Planning) -> None:
    for node in state.program.body.walk():
        if node.op != "dot":
            continue
        if state.specialised is not None:
            state.dots[node] = group_dot(state, node)
            continue
        a, b = operand(node.args[0]).node, operand(node.args[1]).node
        assert a.dtype is not None and b.dtype is not None
        rows, columns = node.shape
        dot, choice = dots.plan_dot(
            state.target,
            a.dtype,
            b.dtype,
            (rows, columns, node.args[0].shape[1]),
            state.warps,
            str(node.attr),
            forced=state.forced.get("dot"),
            place=node.place,
            a_registers=_product_layout(state, a),
            prefer_rows=_is_reduced_along_columns(state, node),
            stored_bytes=_stored_bytes(state, node),
        )
        state.dots[node] = dot
        state.chose(node, "dot", choice)


def _product_layout(state: Planning, node: Node) -> TileLayout | None:
    """The layout of a tile that was made from an earlier product; it may serve as an operand as it lies."""
    if node not in state.classes:
        return None
    made = [member for member in state.classes[node].nodes if member in state.dots]
    return state.dots[made[0]].c if made else None


def _is_reduced_along_columns(state: Planning, node: Node) -> bool:
    """Whether rows of a product's class are reduced: then a warp should have whole rows."""
    members = state.classes[node].nodes if node in state.classes else [node]
    return any(axis_of(user) == 1 for member in members for user, _ in state.uses.of(member))


def _stored_bytes(state: Planning, node: Node) -> int:
    """The bytes of an element of the widest tensor that tiles of a product's class go to; 0 for none."""
    members = state.classes[node].nodes if node in state.classes else [node]
    puts = [user for member in members for user, number in state.uses.of(member) if number == 0]
    puts = [user for user in puts if user.op in EFFECTS]
    return max((state.program.tensors[tensor_of(put)].dtype.bytes for put in puts), default=0)


def _plan_accesses(state: Planning) -> None:
    for node in state.program.body.walk():
        if node.op not in ACCESSES or node.op == "element" or node in state.stages:
            continue
        if state.specialised is not None and node in state.specialised.in_boxes:
            continue
        tile = node if node.op in READS else node.args[0]
        assert isinstance(node.attr, View | Elements)
        layout = _access_layout(state, node, tile, node.attr.shape)
        what = "read" if node.op in READS else "put"
        access, choice = accesses.plan_access(
            state.program,
            node,
            layout,
            state.signature,
            state.facts[node],
            state.forced.get(what),
            widest_atomic(state.program, node, state.target),
        )
        state.accesses[node] = access
        state.chose(node, what, choice)


def _access_layout(state: Planning, node: Node, tile: Node, shape: tuple[int, int]) -> TileLayout:
    """The tile's home, or the tensor's own spread where moving between the two costs less."""
    home = state.layouts.get(state.classes[tile]) if tile in state.classes else None
    if home is not None and state.specialised is not None and node.op in READS:
        return home  # workgroup memory is for what the copy engine moves
    if home is not None and any(node in overlap.reads for overlap in state.overlaps):
        return home  # as those that it is read with
    axis = fast_axis(state.signature, node)
    fast = 1 if axis is None else axis
    moves = [traffic_of(state, node, axis)]
    own = accesses.best_blocked(shape, moves, fast, state.target, state.warps)
    if home is None or home.linear.shape != shape:
        return own
    # Rows and columns alone move few bytes, but each atomic operation on them goes to memory.
    if axis is None or (1 in shape and widest_atomic(state.program, node, state.target) is None):
        return home
    share = access_cost(own.linear, axis, moves[0]) / access_cost(home.linear, axis, moves[0])
    if share > _CONVERTED_SHARE:
        return home
    state.reasons[node] = (
        f"converted from {home.name} to {own.name}, in {share:.0%} of the accesses and pieces of 32 bytes"
    )
    return own


# What a tile that is moved first may take of the accesses that it would take as it is.
_CONVERTED_SHARE = 0.5
