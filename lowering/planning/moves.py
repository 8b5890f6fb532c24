"""Layouts that tiles get from one another where elements only move: slices, tiles joined, other shapes.

Where a tile's home follows from that of the tile it is made of, nothing has to move at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gizml_tile.layout import parts
from gizml_tile.layout.linear import Linear
from gizml_tile.lowering.planning.classes import Class
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.nodes import ALONG, EFFECTS, MOVES, READS, Node, Reflow, Steps, slices

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

# Registers of a thread that a tile may have beside those that it needs.
_SPARE_REGISTERS = 4


def strides(node: Node) -> tuple[parts.Stride, parts.Stride]:
    """What a slice takes along each axis."""
    rows, columns = (_stride(steps) for steps in slices(node.attr))
    return rows, columns


def _stride(steps: Steps) -> parts.Stride:
    return steps.start, steps.step, steps.size


def after(node: Node, layout: TileLayout) -> TileLayout | None:
    """The layout of what is made of a tile, if nothing moves; of tiles that are joined both have it."""
    axis, linear = node.attr, layout.linear
    match node.op:
        case "reshape" if isinstance(node.attr, Reflow):
            return None
        case "reshape":
            return TileLayout(
                f"{layout.name} as {_text(linear)}", linear.reshaped((node.shape[0], node.shape[1]))
            )
        case "slice":
            found = parts.part(linear, *strides(node))
            return None if found is None else TileLayout(f"part of {layout.name}", found.linear)
    assert isinstance(axis, int)
    return TileLayout(f"two of {layout.name}", parts.joined(linear, axis, node.op == "interleave"))


def before(node: Node, layout: TileLayout) -> TileLayout | None:
    """The layout of what a tile is made of, if nothing moves."""
    axis, linear = node.attr, layout.linear
    shape = (node.args[0].shape[0], node.args[0].shape[1])
    match node.op:
        case "reshape" if isinstance(node.attr, Reflow):
            return None
        case "reshape":
            return TileLayout(f"{layout.name} as {_text(linear)}", linear.reshaped(shape))
        case "slice":
            whole = parts.around(linear, shape, *strides(node))
            return None if whole is None else TileLayout(f"around {layout.name}", whole)
    assert isinstance(axis, int)
    found = parts.halves(linear, axis, node.op == "interleave")
    return None if found is None else TileLayout(f"half of {layout.name}", found[0])


def _text(linear: Linear) -> str:
    return f"[{linear.shape[0]}, {linear.shape[1]}]"


def links(state: Planning) -> list[Node]:
    """The operations that move elements from one class to another."""
    return [node for node in state.program.body.walk() if node.op in MOVES and node in state.classes]


def spread(state: Planning, moves: list[Node], start: Class) -> None:
    """From a class that has a layout to all that may follow it."""
    pending = [start]
    while pending:
        each = pending.pop()
        layout = state.layouts[each]
        for other, found in _followers(state, moves, each, layout):
            if other not in state.layouts and found is not None and _follows(state, moves, other, found):
                state.layouts[other] = found
                pending.append(other)


def _followers(
    state: Planning, moves: list[Node], each: Class, layout: TileLayout
) -> Iterator[tuple[Class, TileLayout | None]]:
    for node in moves:
        operands = [state.classes[arg] for arg in node.args if arg in state.classes]
        if each in operands:
            yield state.classes[node], after(node, layout)
        if state.classes[node] is each:
            for operand in operands:
                yield operand, before(node, layout)


def _follows(state: Planning, moves: list[Node], each: Class, layout: TileLayout) -> bool:
    """Whether a class should have a layout: not one that holds the tile several times over, nor where a
    reduction or a tensor of another shape says more."""
    elements = each.shape[0] * each.shape[1]
    threads = state.warps * state.target.facts.lanes
    if layout.registers > max(elements // threads, 1) + _SPARE_REGISTERS:
        return False
    if 1 in each.shape and each.relations:
        return False
    if any(node.op in ALONG or node.op == "part" for node in each.nodes):
        return False
    reshaped = any(node.op == "reshape" and _touches(state, node, each) for node in moves)
    return not (reshaped and has_views(state, each))


def _touches(state: Planning, node: Node, each: Class) -> bool:
    return each in [state.classes.get(tile) for tile in (node, *node.args)]


def has_views(state: Planning, each: Class) -> bool:
    """Whether tiles of a class come from tensors or go there."""
    return any(True for _ in views(state, each))


def views(state: Planning, each: Class) -> Iterator[Node]:
    """The reads and puts of a class."""
    for node in each.nodes:
        if node.op in READS:
            yield node
        yield from (user for user, number in state.uses.of(node) if user.op in EFFECTS and number == 0)


def views_around(state: Planning, moves: list[Node], each: Class) -> list[Node]:
    """The reads and puts of a class; of one that has none those of classes that it is a part of."""
    seen, pending = {each}, [each]
    while pending:
        found = [view for one in pending for view in views(state, one)]
        if found:
            return found
        pending = [
            state.classes[tile]
            for node in moves
            if node.op != "reshape" and any(_touches(state, node, one) for one in pending)
            for tile in (node, *node.args)
            if tile in state.classes and state.classes[tile] not in seen
        ]
        seen.update(pending)
    return []


def seeds(state: Planning, moves: list[Node], order: list[Class]) -> list[Class]:
    """The order in which classes without a layout get one: the parts of others first, which can follow them.

    Of tiles that only change their shape those that tensors say most about are first.
    """
    halved = {
        state.classes[tile]
        for node in moves
        if node.op != "reshape"
        for tile in (node, *node.args)
        if tile in state.classes
    }
    shaped = {
        state.classes[tile]
        for node in moves
        if node.op == "reshape"
        for tile in (node, *node.args)
        if tile in state.classes
    }
    first = [each for each in reversed(order) if each in halved and not (1 in each.shape and each.relations)]
    second = [each for each in order if each in shaped and has_views(state, each)]
    return list(dict.fromkeys((*first, *second, *order)))
