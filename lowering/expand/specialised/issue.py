"""Asynchronous products that are waited for elsewhere."""

from __future__ import annotations

from gizml_tile.dtypes import F32, I32
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.specialised.product import GROUP_WARPS, ROWS
from gizml_tile.lowering.expand.specialised.side import side
from gizml_tile.lowering.expand.storage import convert
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import GroupMatrix
from gizml_tile.lowering.planning.grown import depth_of
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.lowering.planning.plan import UNIFORM
from gizml_tile.nodes import Node


def issue(x: Expansion, product: Node, total: Value | None = None, held: Value | None = None) -> Value:
    """Begin a product whose blocks are there.

    What it adds to and a left operand in registers are found, unless they are given.
    """
    build, dot = x.build, x.plan.dots[product]
    columns, whole, depth = product.shape[1], product.args[0].shape[1], depth_of(product)
    fresh = len(product.args) == 2
    if fresh:
        total = build.spread(build.constant(0.0, F32), dot.c.registers)
    elif total is None:
        total = x.registers(product.args[2], dot.c)
    right = side(x, product.args[1], 0)
    pieces: list[Value] = []
    if dot.a is UNIFORM:
        left = side(x, product.args[0], 1)
        piece, described = min(left.piece, right.piece, depth), left.operand
        group = build.map("ushr", build.warp(), build.constant(GROUP_WARPS.bit_length() - 1, I32))
        base = build.add(left.base, build.mul(group, build.constant(left.across(ROWS), I32)))
        for first in range(0, depth, piece):
            pieces.append(build.add(base, build.constant(left.along(first), I32)))
    else:
        piece, described = min(right.piece, depth), None
        held = left_operand(x, product) if held is None else held
        for first in range(0, depth, piece):
            last = min(first + piece, depth)
            pieces.append(build.pick(held, range(held.count * first // whole, held.count * last // whole)))
    build.emit("group_fence")
    for number, a in enumerate(pieces):
        first = number * piece
        b = build.add(right.base, build.constant(right.along(first), I32))
        size = min(piece, depth - first)
        matrix = GroupMatrix(columns, size, dot.given, described, right.operand, fresh and not number)
        total = build.group_mma(matrix, a, b, total)
    build.emit("group_commit")
    return total


def left_operand(x: Expansion, product: Node) -> Value:
    """A computed left operand as the product takes it from registers."""
    dot = x.plan.dots[product]
    value = x.registers(operand(product.args[0]).node, dot.a)
    return convert(x.build, x.target, value, dot.given[0])
