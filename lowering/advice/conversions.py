"""Tiles that go through workgroup memory in the turns of a loop, to be held by other threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gizml_tile.lowering.advice.prediction import Advice, Prediction
from gizml_tile.lowering.expand.expansion import Move
from gizml_tile.lowering.planning.classes import Uses, find_uses
from gizml_tile.nodes import ALONG, EFFECTS, MOVES, READS, Node
from gizml_tile.text import line_of

# What the compiler makes of two operations that a person wrote.
_SPOKEN = {"fma": "multiply-add"}


def slow_conversions(found: Prediction, moves: Sequence[Move]) -> Iterator[Advice]:
    """Conversions in loops: between which operations, and what would do without them."""
    uses = find_uses(found.plan.program)
    for move in moves:
        loop = None if move.user is None else found.loops.get(move.user)
        if move.user is None or loop is None or not move.turns:
            continue
        maker, taker = _ends(move, uses)
        shape = list(found.plan.program.written_shape(maker))
        text = (
            f"a {shape} tile goes through workgroup memory in every turn of the loop at "
            f"{line_of(loop.place)}, from the {_named(maker)} to the {_named(taker)}, as the two have its "
            "elements in different threads"
        )
        if move.turns > move.ideal:
            text += f", with bank conflicts: {move.turns} turns of the banks where {move.ideal} would do"
        # What warps wait for each other beside that, other workgroups fill.
        seconds = found.cycles(move.user, move.turns)
        yield Advice("conversion", move.place, text, _fix(maker, taker), seconds)


def _ends(move: Move, uses: Uses) -> tuple[Node, Node]:
    """The operation that made a tile which moves, and the one that takes it."""
    user = move.user
    assert user is not None
    if move.moved is not None and move.moved is not user:
        return move.moved, user
    if user.op in EFFECTS:
        return user.args[0], user
    takers = [taker for taker, _ in uses.of(user)]
    return user, takers[0] if takers else user


def _named(node: Node) -> str:
    return f"{_SPOKEN.get(node.op, node.op)} at {line_of(node.place)}"


def _fix(maker: Node, taker: Node) -> str:
    """What would keep the elements where they are, or move them less often."""
    if "transpose" in (maker.op, taker.op):
        return (
            "transpose once, outside of the loop, or pass the tensor's .T as another argument and read the "
            "block from that"
        )
    if taker.op in EFFECTS:
        return "put once, after the loop"
    moving = next((node.op for node in (maker, taker) if node.op in MOVES), None)
    if moving is not None:
        return f"do the {moving} once: after the loop, or before the launch for the whole tensor"
    along = next((node.op for node in (taker, maker) if node.op in ALONG), None)
    if along is not None:
        return f"let the loop carry the whole tile, and do the {along} once, after it"
    if maker.op in READS:
        return (
            "read it before the loop if it is the same in every turn, or pass a copy of the tensor whose "
            f"axes lie as the {taker.op} wants them"
        )
    return "compute it before the loop if it is the same in every turn"
