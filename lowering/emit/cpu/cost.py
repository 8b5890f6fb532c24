"""A rough guess of a program's time, for the choice how much of a launch one core takes at a time."""

from __future__ import annotations

from gizml_tile.lowering.emit.cpu.homes import COSTS
from gizml_tile.lowering.emit.cpu.schedule import AlongItem, CondItem, DeepItem, Group, LoopItem, RegionPlan
from gizml_tile.nodes import Node

# Turns that a loop is taken to make when their number is not known.
USUAL_TURNS = 8
# Elements of simple work, and multiplications of a product, that a core does in a nanosecond.
ELEMENTS_PER_NANOSECOND = 8
PRODUCTS_PER_NANOSECOND = 50
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


def _element(node: Node) -> float:
    """What a task's element costs beside an addition, without looking far."""
    nodes = (node, *node.args, *(arg for first in node.args for arg in first.args))
    # What has one column costs nothing beside the columns that use it.
    each = (value for value in nodes if not value.is_tile or value.shape[1] > 1)
    return 1.0 + sum(COSTS.get(value.op, 1) for value in each)
