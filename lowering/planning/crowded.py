"""Whether a launch has so many programs that neighbours can share workgroups.

Every launch looks at that, so nothing else of planning is loaded here.
"""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.lowering.planning.operands import operand
from gizml_tile.nodes import EARLY, Node, TileProgram
from gizml_tile.target import Target

# Groups of four warps that fill a multiprocessor's registers where each has 64 rows of a chained product.
# Measured on an H200 by hand: attention with D 64 is ahead of two such groups by 19 %.
TOGETHER = 3


def common_axis(loops: Sequence[Node], rank: int) -> int | None:
    """The first axis of a grid along which loops multiply with the same blocks in all programs."""
    taken = [
        read
        for loop in loops
        for product in loop.regions[0].walk()
        if product.op == "dot"
        for read in (operand(arg).node for arg in product.args[:2])
        if read.op == "read" and read in loop.regions[0].nodes
    ]
    places = [arg for read in taken for arg in read.args]
    free = (axis for axis in range(rank) if not any(rests_on(place, axis) for place in places))
    return next(free, None) if taken else None


def rests_on(node: Node, axis: int) -> bool:
    """Whether an index follows from a program's place along an axis of the grid."""
    seen, open_ = set[Node](), [node]
    while open_:
        each = open_.pop()
        if each.op == "id" and each.attr == axis:
            return True
        if each not in seen:
            seen.add(each)
            open_ += each.args
    return False


def is_crowded(program: TileProgram, target: Target, grid: Sequence[int]) -> bool:
    """Whether neighbours that share workgroups still keep so many multiprocessors busy, and few are missing.

    Of an axis of 8 programs the last three are two, which costs an eighth; of 4 it would be a third.
    """
    loops = [
        node
        for node in program.body.nodes
        if node.op == "loop" and node.attr != EARLY and _is_chained(node)
    ]
    axis = common_axis(loops, len(grid))
    if axis is None or not target.can("group_matrix"):
        return False
    size, programs = grid[axis], 1
    for each in grid:
        programs *= each
    whole = -(-size // TOGETHER) * TOGETHER
    return programs * whole >= target.facts.units * TOGETHER * size and 8 * whole <= 9 * size


def _is_chained(loop: Node) -> bool:
    """Whether a product of a loop takes something else than a block, as only such loops are looked at."""
    products = [node for node in loop.regions[0].nodes if node.op == "dot"]
    taken = [operand(arg).node for product in products for arg in product.args[:2]]
    return len(products) > 1 and any(node.op != "read" for node in taken)
