"""Where tiles lie: a layout for each class of tiles that lie alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gizml_tile.lowering.planning import accesses
from gizml_tile.lowering.planning.classes import Class
from gizml_tile.lowering.planning.elements import widest_atomic
from gizml_tile.lowering.planning.group_products import layout_computed_on
from gizml_tile.lowering.planning.moves import links, seeds, spread, views_around
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.lowering.planning.plan import UNIFORM, TileLayout
from gizml_tile.lowering.planning.stages import fast_axis
from gizml_tile.lowering.planning.vectors import Traffic, traffic
from gizml_tile.nodes import ALONG, COMBINING, Node, axis_of

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning


def lay_out(state: Planning) -> None:
    """A layout for each class: the product's, an operand's, a slice of another's, or the tensors'."""
    order = list(dict.fromkeys(state.classes.values()))
    order.sort(key=lambda each: -each.shape[0] * each.shape[1])
    for each in order:
        found = _of_product(state, each) or _of_operand(state, each) or _of_computed_on(state, each)
        if found is not None:
            state.layouts[each] = found
    moves = links(state)
    for each in list(state.layouts):
        spread(state, moves, each)
    for each in seeds(state, moves, order):
        if each not in state.layouts:
            views = views_around(state, moves, each)
            state.layouts[each] = _of_slice(state, each) or _of_memory(state, each, views)
            spread(state, moves, each)


def _of_product(state: Planning, each: Class) -> TileLayout | None:
    products = [node for node in each.nodes if node in state.dots]
    if not products:
        return None
    node = max(products, key=lambda node: state.uses.depth[node])
    return state.dots[node].c


def _of_operand(state: Planning, each: Class) -> TileLayout | None:
    """The fragment's layout for a tile that is read and computed for one operand of products alone."""
    if any(node.op in ("param", "result", "dot", "part", "gather", *ALONG) for node in each.nodes):
        return None
    found: TileLayout | None = None
    computed = False
    for node in each.nodes:
        computed = computed or operand(node).node.op != "read"
        for user, number in state.uses.of(node):
            if state.classes.get(user) is each and user.op != "dot":
                continue
            layout = _fragment(state, node, user, number)
            if layout is None or (found is not None and found.linear != layout.linear):
                return None
            found = layout
    if found is None or not computed:
        return None
    state.fragments.add(each)
    return found


def _of_computed_on(state: Planning, each: Class) -> TileLayout | None:
    """The layout of what groups of warps compute on a block beside the product that takes it."""
    if state.specialised is None:
        return None
    blocks = (node for node in each.nodes if node in state.specialised.computed_on)
    return next((layout_computed_on(state, block) for block in blocks), None)


def _fragment(state: Planning, node: Node, user: Node, number: int) -> TileLayout | None:
    """The layout that a product wants of an operand, which may go through transposes and conversions."""
    if user.op == "dot" and number in (0, 1):
        dot = state.dots[user]
        layout = (dot.a, dot.b)[number]
        return None if (dot.atom is None and not dot.groups) or layout is UNIFORM else layout
    if user.op == "transpose":
        layouts = [_fragment(state, user, *each) for each in state.uses.of(user)]
        if len(layouts) == 1 and layouts[0] is not None:
            return layouts[0].transposed()
    return None


def traffic_of(state: Planning, node: Node, axis: int | None) -> Traffic:
    """What an access could move at once in the best of layouts."""
    found = traffic(state.program, node, axis, state.signature, state.facts[node])
    widest = widest_atomic(state.program, node, state.target)
    return found if widest is None else replace(found, vector=min(found.vector, widest))


def _of_slice(state: Planning, each: Class) -> TileLayout | None:
    if 1 not in each.shape:
        return None
    for other, axis in each.relations:
        if other in state.layouts and other is not each:
            return state.layouts[other].slice(axis)
    return None


def _of_memory(state: Planning, each: Class, views: list[Node]) -> TileLayout:
    """The spread that suits the tensors which most bytes of the class come from or go to."""
    votes = {0: 0, 1: 0}
    moves: dict[int, list[Traffic]] = {0: [], 1: []}
    overlaps = [overlap for overlap in state.overlaps if not set(each.nodes).isdisjoint(overlap.reads)]
    beside = {read for overlap in overlaps for read in overlap.reads if read is not overlap.base}
    for view in views:
        if view in beside:
            continue
        axis = fast_axis(state.signature, view)
        move = traffic_of(state, view, axis)
        moves[1 if axis is None else axis].append(move)
        if axis is not None:
            votes[axis] += move.bytes * (1 + state.uses.depth[view])
    axis = 0 if votes[0] > votes[1] else 1
    shared = _shared_along(state, each)
    running = {
        axis_of(user)
        for node in each.nodes
        for user in (node, *(user for user, _ in state.uses.of(node)))
        if user.op in COMBINING
    }
    if not running and any(shift[1 - axis] for overlap in overlaps for shift in overlap.shifts):
        running = {1 - axis}  # neighbours along the other axis share what they load, too
    runs = running.pop() if len(running) == 1 else None
    return accesses.best_blocked(
        each.shape, moves[axis], axis, state.target, state.warps, shared=shared, runs=runs
    )


def _shared_along(state: Planning, each: Class) -> int | None:
    """The axis that something read broadcasts along, where no reduction wants the warps otherwise."""
    slices = [
        (other, axis)
        for other in dict.fromkeys(state.classes.values())
        for related, axis in other.relations
        if related is each
    ]
    if any(node.op in ALONG for other, _ in slices for node in other.nodes):
        return None
    axes = {axis for other, axis in slices if any(node.op == "read" for node in other.nodes)}
    return axes.pop() if len(axes) == 1 else None
