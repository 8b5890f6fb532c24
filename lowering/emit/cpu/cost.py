"""A rough guess of a program's time, for the choice how much of a launch one core takes at a time."""

from __future__ import annotations

from collections.abc import Mapping

from gizml_tile.lowering.emit.cpu.homes import COSTS
from gizml_tile.lowering.emit.cpu.schedule import (
    AlongItem,
    CondItem,
    DeepItem,
    Group,
    LoopItem,
    RegionPlan,
    Step,
)
from gizml_tile.lowering.emit.cpu.shapes import CACHE_LINE_BYTES
from gizml_tile.lowering.steps import is_masked_along, run_axis
from gizml_tile.nodes import Node, tensor_of

# Turns that a loop is taken to make when their number is not known.
USUAL_TURNS = 8
# Elements of simple work, and multiplications of a product, that a core does in a nanosecond.
ELEMENTS_PER_NANOSECOND = 8
PRODUCTS_PER_NANOSECOND = 50
# Vectors of columns in one turn of a pass, for what costs little; costly values need no more overlap.
UNROLL = 4
# How often an element of a row meets another.
_MEETINGS = 4
# The cost of an element from which on a pass is heavy: an exponential is, a division is not.
HEAVY_COST = 14


def program_cost(plan: RegionPlan) -> int:
    """Nanoseconds that one program may take."""
    return int(_region(plan))


def _region(plan: RegionPlan) -> float:
    total = 0.0
    for item in plan.items:
        if isinstance(item, Group):
            for task in item.tasks:
                if task.kind == "dot":
                    depth = task.node.args[0].shape[1]
                    total += task.rows * task.columns * depth / PRODUCTS_PER_NANOSECOND
                else:
                    total += task.rows * task.columns * _element(task.node) / ELEMENTS_PER_NANOSECOND
        elif isinstance(item, AlongItem):
            rows, columns = item.node.args[0].shape
            elements = rows * columns * len(item.node.args)
            total += elements * _element(item.node) * _MEETINGS / ELEMENTS_PER_NANOSECOND
        elif isinstance(item, LoopItem):
            total += USUAL_TURNS * _region(item.body)
        elif isinstance(item, CondItem):
            total += max(_region(arm) for arm in item.arms)
        elif isinstance(item, DeepItem):
            for term in item.terms:
                shape = term.left.packing.shape
                work = shape.rows * shape.columns * term.left.depth * USUAL_TURNS
                total += work / PRODUCTS_PER_NANOSECOND
    return total


def is_heavy(group: Group) -> bool:
    """Whether a pass after the first computes longer than memory takes to bring a row."""
    return any(_element(task.node) >= HEAVY_COST for step in group.steps[1:] for task in step.tasks)


def only_stores(group: Group, step: Step, element_bytes: Mapping[int, int], lanes: int) -> bool:
    """Whether a pass is but stores of whole cache lines into tensors that are only stored into.

    ``element_bytes`` are those tensors'. Where much is computed, memory is not what the pass waits for.
    """
    if group.heavy or step.key[0] != "wide":
        return False
    for task in step.tasks:
        node, number = task.node, tensor_of(task.node) if task.kind in ("put", "scatter") else -1
        if number not in element_bytes or _element(node) >= HEAVY_COST:
            return False
        if task.kind == "scatter" and (run_axis(node, 1) is None or is_masked_along(node, 1)):
            return False
        if min(task.columns, UNROLL * lanes) * element_bytes[number] % CACHE_LINE_BYTES:
            return False
    return True


def _element(node: Node) -> float:
    """What a task's element costs beside an addition, without looking far."""
    nodes = (node, *node.args, *(arg for first in node.args for arg in first.args))
    # What has one column costs nothing beside the columns that use it.
    each = (value for value in nodes if not value.is_tile or value.shape[1] > 1)
    return 1.0 + sum(COSTS.get(value.op, 1) for value in each)
