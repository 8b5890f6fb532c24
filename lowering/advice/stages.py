"""Loops that wait for the blocks of each turn, as too few turns' blocks are copied ahead."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gizml_tile.lowering.advice.prediction import WRITE_APART, Advice, Prediction
from gizml_tile.lowering.planning.plan import Stage
from gizml_tile.nodes import Node
from gizml_tile.text import line_of

# From the request of a block until it is there. Published measurements of GPUs' memory lie between 0.4 and
# 0.8 us.
_LATENCY = 0.6e-6
# Turns of blocks that a loop has where nobody asks for fewer.
_USUAL = 4


def few_stages(found: Prediction) -> Iterator[Advice]:
    """Loops of which fewer turns' blocks are copied ahead than would fit, for a reason that can be mended."""
    plan = found.plan
    asked = plan.program.stages
    for loop, nodes in _staged(found).items():
        slots = max(plan.stages[node].slots for node in nodes)
        fitting = _fitting(found, [plan.stages[node] for node in nodes], slots)
        if fitting <= slots:
            continue
        waits = f"so that the turns of the loop at {line_of(loop.place)} wait for memory"
        if asked == slots:
            text = f"stages={asked} copies the blocks of {asked - 1 or 'no'} turns ahead, {waits}"
            fix = f"leave out stages, or ask for {fitting}, which fit the workgroup memory"
        elif plan.signature.may_alias and slots == 1:
            text = f"no blocks are copied ahead, as a written tensor shares memory with another one, {waits}"
            fix = WRITE_APART
        else:
            continue
        seconds = _saved(found, loop, slots, fitting)
        yield Advice("few stages", nodes[0].place, text, fix, seconds, beyond=True)


def _staged(found: Prediction) -> dict[Node, list[Node]]:
    """The loops that take blocks from workgroup memory, with these blocks."""
    by_loop: dict[Node, list[Node]] = {}
    for node, stage in found.plan.stages.items():
        loop = stage.loop or found.loops.get(node)
        if loop is not None:
            by_loop.setdefault(loop, []).append(node)
    return by_loop


def _saved(found: Prediction, loop: Node, slots: int, more: int) -> float:
    """The seconds of a launch that a loop would take less with more slots for blocks."""
    each, alone = (_turn(found, loop, time) for time in (found.bound, sum(found.seconds.values())))
    # What one workgroup does in a turn follows one after the other, while others do the same.
    waits = (_LATENCY + alone) / _resident(found)
    now, then = (max(each, waits / count) for count in (slots, more))
    return (now - then) * found.turns_of(loop) / found.busy


def _fitting(found: Prediction, stages: list[Stage], slots: int) -> int:
    """The stages that fit, up to the usual ones."""
    turn = sum(stage.tile.elements * stage.tile.dtype.bytes for stage in stages)
    facts = found.plan.target.facts
    room = facts.workgroup_memory - found.kernel.workgroup_memory
    return min(slots + room // turn, _USUAL)


def _resident(found: Prediction) -> int:
    """The workgroups that a multiprocessor holds at once."""
    facts, kernel = found.plan.target.facts, found.kernel
    by_memory = facts.unit_memory // max(kernel.workgroup_memory + facts.reserved_memory, 1)
    by_registers = facts.unit_registers // (kernel.threads * min(facts.registers, 128))
    most = min(facts.unit_threads // kernel.threads, facts.unit_workgroups, by_memory, by_registers)
    programs = math.ceil(found.launch.programs / facts.units)
    return max(min(most, programs), 1)


def _turn(found: Prediction, loop: Node, seconds: float) -> float:
    """The part of a turn of a loop in the seconds of a launch, on one multiprocessor."""
    turns = found.turns_of(loop)
    return seconds * found.busy / turns if turns else 0.0
