"""Factors that wait until few numbers are left, or until they cost nothing."""

from __future__ import annotations

import math

from gizml_tile.dtypes import F32
from gizml_tile.lowering.tile_passes.dce import eliminate_dead
from gizml_tile.lowering.tile_passes.rewriting import Emit, Rewriting
from gizml_tile.nodes import Const, Node, TileProgram, make, rebuild


def sink_scales(program: TileProgram) -> TileProgram:
    """The program with positive factors behind selects of -infinity and behind ``max``.

    Rounding keeps the order of numbers, so every bit stays. It pays where exponentials of a product's results
    are made by a special-function unit, and take the factor for nothing.
    """
    nodes = list(program.body.walk())
    if not any(node.op == "exp" and node.attr is True for node in nodes):
        return program
    if not any(node.op == "dot" for node in nodes):
        return program
    return eliminate_dead(Rewriting(_sunk).program(program))


def scaled(node: Node) -> tuple[Node, float] | None:
    """The tile and the constant whose product a node is."""
    if node.op != "mul" or node.dtype is not F32:
        return None
    for tile, factor in (node.args, reversed(node.args)):
        number = _number(factor)
        if number is not None and tile.shape == node.shape:
            return tile, number
    return None


def _sunk(node: Node, emit: Emit) -> Node:
    if node.op == "select":
        mask, yes, no = node.args
        found = _positive(yes)
        if found is not None and _number(no) == -math.inf and found[0].dtype is F32:
            inner = emit(rebuild(node, (mask, found[0], no)))
            return emit(rebuild(yes, _product(yes, found[0], inner)))
    elif node.op == "max":
        (operand,) = node.args
        found = _positive(operand)
        if found is not None and found[0].dtype is F32:
            inner = emit(rebuild(node, (found[0],)))
            return emit(make("mul", _product(operand, found[0], inner), place=node.place))
    return node


def _positive(node: Node) -> tuple[Node, float] | None:
    found = scaled(node)
    return found if found is not None and 0 < found[1] < math.inf else None


def _product(product: Node, old: Node, new: Node) -> tuple[Node, ...]:
    """A product's operands with another tile."""
    return tuple(new if arg is old else arg for arg in product.args)


def _number(node: Node) -> float | None:
    return float(node.attr.value) if node.op == "const" and isinstance(node.attr, Const) else None
