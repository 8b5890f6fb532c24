"""Tiles that are made again after a reduction, from narrow blocks that take fewer registers to keep."""

from __future__ import annotations

from collections.abc import Mapping

from gizml_tile.dtypes import F32
from gizml_tile.lowering.planning.plan import TileLayout
from gizml_tile.nodes import REDUCTIONS, Node, TileProgram

# Instructions for each element that making a tile again may take, beside its conversion.
_COSTS = dict.fromkeys("add sub mul fma neg abs maximum minimum to".split(), 1)
# A product and an instruction of the special-function unit.
_APPROXIMATE_COSTS = dict.fromkeys("exp exp2".split(), 3)
_MOST = 4
_WORD_BYTES = 4


def made_again(program: TileProgram, homes: Mapping[Node, TileLayout]) -> frozenset[Node]:
    """The blocks of narrow floats, and what is cheap to make of them, that are used after a reduction.

    Only in programs without loops and branches, where each reduction is met once.
    """
    nodes = program.body.nodes
    if any(node.regions for node in nodes) or not any(node.op in REDUCTIONS for node in nodes):
        return frozenset()
    costs: dict[Node, int] = {}
    for node in nodes:
        cost = _cost(node, homes, costs)
        if cost is not None and cost <= _MOST:
            costs[node] = cost
    return frozenset(costs)


def _cost(node: Node, homes: Mapping[Node, TileLayout], costs: Mapping[Node, int]) -> int | None:
    """Instructions for an element from narrow blocks; None for what is made of anything else."""
    if node.dtype is None or not node.dtype.is_float or node not in homes:
        return None
    if node.op == "read":
        return 0 if node.dtype.bytes < _WORD_BYTES else None
    costs_of = _APPROXIMATE_COSTS if node.attr is True else _COSTS
    if node.op not in costs_of or node.dtype is not F32:
        return None
    whole = homes[node].registers
    parts = [arg for arg in node.args if arg.is_tile and arg.op != "const"]
    wide = [arg for arg in parts if arg in costs]
    small = all(arg in costs or arg.shape == (1, 1) for arg in parts)
    alike = all(homes[arg].linear == homes[node].linear for arg in wide)
    if not wide or not small or not alike or whole < 2:
        return None
    return costs_of[node.op] + sum(costs[arg] for arg in wide)
