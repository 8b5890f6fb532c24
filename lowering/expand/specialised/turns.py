"""Turns that groups of four warps take at beginning their products."""

from __future__ import annotations

from gizml_tile.dtypes import I32
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.specialised.product import GROUP_WARPS
from gizml_tile.lowering.expand.specialised.ring import GROUP_THREADS

# The first of the barriers where teams, or the groups of one, take turns.
TURNS = 8


def open_turns(x: Expansion) -> None:
    """The first group may begin, as the last tells."""
    build, groups = x.build, _groups(x)
    group = build.map("ushr", build.warp(), build.constant(GROUP_WARPS.bit_length() - 1, I32))
    last = build.map("eq", group, build.constant(groups - 1, I32))
    build.when(last, lambda: leave(x))


def enter(x: Expansion) -> None:
    """Wait until the group before has begun its products, where groups do so in order."""
    if _groups(x):
        x.build.barrier(TURNS, 2 * GROUP_THREADS, ring=_groups(x))


def leave(x: Expansion) -> None:
    """Let the next group begin."""
    if _groups(x):
        x.build.barrier(TURNS, 2 * GROUP_THREADS, arrive=True, ring=_groups(x))


def _groups(x: Expansion) -> int:
    assert x.plan.specialised is not None
    return x.plan.specialised.all_groups if x.plan.specialised.in_order else 0
