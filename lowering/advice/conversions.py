"""Tiles that go through workgroup memory in the turns of a loop, to be held by other threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gizml_tile.lowering.advice.prediction import Advice, Prediction
from gizml_tile.lowering.expand.expansion import Move
from gizml_tile.nodes import ALONG, EFFECTS, MOVES, Node
from gizml_tile.text import line_of

# Cycles that the warps of a workgroup wait for each other, twice.
_BARRIERS = 60


def slow_conversions(found: Prediction, moves: Sequence[Move]) -> Iterator[Advice]:
    """Conversions in loops, and those whose threads meet in the same banks."""
    for move in moves:
        if move.user is None or not move.turns:
            continue
        loop = found.loops.get(move.user)
        maker = _maker(move)
        cycles = move.turns + _BARRIERS
        if loop is not None:
            text = (
                f"the {_named(maker)} goes through workgroup memory to the {_user(move)} in every turn of "
                f"the loop at {line_of(loop.place)}, as the two want its elements in different threads"
            )
            seconds = found.cycles(move.user, cycles)
            yield Advice("conversion", move.place, text, _fix(move, maker), seconds)
        elif move.turns > move.ideal:
            text = (
                f"the {_named(maker)} goes through workgroup memory to the {_user(move)} with bank "
                f"conflicts: {move.turns} turns of the banks where {move.ideal} would do"
            )
            seconds = found.cycles(move.user, move.turns - move.ideal)
            yield Advice("bank conflict", move.place, text, _fix(move, maker), seconds)


def _maker(move: Move) -> Node:
    """The operation whose tile moves."""
    assert move.user is not None
    if move.moved is not None:
        return move.moved
    return move.user.args[0] if move.user.op in EFFECTS else move.user


def _named(node: Node) -> str:
    rows, columns = node.shape
    return f"[{rows}, {columns}] tile of the {node.op} at {line_of(node.place)}"


def _user(move: Move) -> str:
    assert move.user is not None
    if _maker(move) is move.user:
        return "operations that take it"
    return f"{move.user.op} at {line_of(move.user.place)}"


def _fix(move: Move, maker: Node) -> str:
    """What would keep the elements where they are, or move them less often."""
    assert move.user is not None
    pair = (maker.op, move.user.op)
    if "transpose" in pair:
        return "transpose outside of the loop, or read the other operand with a tensor's .T"
    if move.user.op in EFFECTS:
        return "put once after the loop instead of in each turn"
    if maker.op in ("read", "gather") and move.user is maker:
        return (
            "give the tensors that meet there the same order of axes in memory (a contiguous copy of one), "
            "or read what does not change before the loop"
        )
    if move.user.op in MOVES or maker.op in MOVES:
        return f"do the {move.user.op if move.user.op in MOVES else maker.op} once, outside of the loop"
    if move.user.op in ALONG:
        return f"let the loop carry the whole tile and do the {move.user.op} once, after the loop"
    return "compute it before the loop if it is the same in every turn, or in the layout of what takes it"
