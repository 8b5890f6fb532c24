"""Whether workgroups run programs in turn, as many as a multiprocessor holds, or one each.

In turn, the blocks of the next program come while the last one is stored. Where some programs take more turns
of a loop than others, workgroups of one program balance better: the hardware begins them as others end, the
longest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gizml_tile.lowering.planning.masks import grows
from gizml_tile.lowering.planning.variants import Candidate, Choice, choose
from gizml_tile.nodes import Node

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

ORDER = "order"
IN_TURN, ONE_EACH = "in turn", "one each"


def runs_in_turn(state: Planning, loops: Sequence[Node]) -> bool:
    """Whether each workgroup runs programs in turn; ``loops`` are those that take most of the time."""
    uneven = any(takes_longer(loop) or _takes_less(loop) for loop in loops)
    in_turn = Candidate(IN_TURN, True, "the next program's blocks come while the last is stored")
    one_each = Candidate(ONE_EACH, True, "workgroups begin as others end, which balances uneven programs")
    candidates = (one_each, in_turn) if uneven else (in_turn, one_each)
    chosen = choose(ORDER, candidates, state.forced.get(ORDER), loops[0].place)
    state.chose(loops[0], ORDER, Choice(candidates, chosen))
    return chosen == IN_TURN


def takes_longer(loop: Node) -> bool:
    """Whether programs later along axis 0 take more turns of a loop.

    Its end moves on from program to program, and its beginning stays. Where both move on, as in a window that
    slides, programs take about as many turns.
    """
    first, last = _ends(loop)
    return grows(last, 0) and not grows(first, 0)


def _takes_less(loop: Node) -> bool:
    first, last = _ends(loop)
    return grows(first, 0) and not grows(last, 0)


def _ends(loop: Node) -> tuple[Node, Node]:
    """The lower bound of what a loop counts, and the upper one."""
    start, stop, step = loop.args[:3]
    return (stop, start) if isinstance(step.attr, int) and step.attr < 0 else (start, stop)
