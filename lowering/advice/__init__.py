"""What costs time in a plan that need not, and what the person can do about it.

Each part looks for one kind of slow thing in the data of a plan, and predicts by the rates of the device how
much of a launch's time it takes. What takes little of it is not told: a scalar copy of a few numbers, or a
workgroup without work in a launch that is over at once, is nobody's concern.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gizml_tile.lowering.advice.accesses import slow_accesses, slow_loops
from gizml_tile.lowering.advice.banks import bank_conflicts
from gizml_tile.lowering.advice.conversions import slow_conversions
from gizml_tile.lowering.advice.prediction import Advice, Prediction, predict
from gizml_tile.lowering.advice.stages import few_stages
from gizml_tile.lowering.advice.threads import few_programs, replicated_work, spills
from gizml_tile.lowering.expand.expansion import Move

# The share of a launch's time from which on something is told.
_NOTABLE = 0.2


def advise(found: Prediction, moves: Sequence[Move]) -> tuple[Advice, ...]:
    """What takes a notable share of a launch's time and need not, the largest first, once for each line."""
    parts = (
        slow_accesses(found),
        slow_loops(found),
        slow_conversions(found, moves),
        bank_conflicts(found),
        few_stages(found),
        replicated_work(found),
        spills(found),
        few_programs(found),
    )
    together: dict[tuple[str, object], Advice] = {}
    for advice in (each for part in parts for each in part):
        key = advice.kind, advice.place
        known = together.get(key)
        seconds = advice.seconds + (known.seconds if known else 0)
        together[key] = replace(known or advice, seconds=seconds)
    whole = found.bound + sum(each.seconds for each in together.values() if each.beyond)
    shares = [replace(each, share=each.seconds / whole) for each in together.values() if whole]
    return tuple(sorted((each for each in shares if each.share >= _NOTABLE), key=lambda each: -each.share))


__all__ = ["Advice", "Prediction", "advise", "predict"]
