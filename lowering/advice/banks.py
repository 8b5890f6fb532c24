"""Bank conflicts of elementwise operations on tiles in workgroup memory."""

from __future__ import annotations

from collections.abc import Iterator

from gizml_tile.lowering.advice.prediction import Advice, Prediction
from gizml_tile.lowering.expand.shared import shared_side
from gizml_tile.nodes import tensor_of


def bank_conflicts(found: Prediction) -> Iterator[Advice]:
    """The blocks that lie in workgroup memory otherwise than threads take them."""
    plan = found.plan
    banks = plan.target.facts.banks
    for node, chain in plan.chains.items():
        if node not in plan.stages:
            continue
        side = shared_side(chain.layout.linear, plan.stages[node].tile)
        accesses = len(side.groups) * plan.warps
        turns, ideal = side.wavefronts(banks) * accesses, side.ideal_wavefronts(banks) * accesses
        if turns <= ideal:
            continue
        name = plan.program.tensors[tensor_of(node)].name
        text = (
            f"the block of {name} stays in workgroup memory as the tensor lies, and threads take it along "
            f"the other axis: {turns} turns of the banks where {ideal} would do"
        )
        fix = (
            f"pass a copy of {name} whose axes lie in memory as those of the tensors beside it, or use "
            "smaller blocks, which registers hold"
        )
        yield Advice("bank conflict", node.place, text, fix, found.cycles(node, turns - ideal), beyond=True)
