"""How many workgroups of the device there are for each program of a launch."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.lowering.planning.bounds import Shapes, fewest_turns
from gizml_tile.nodes import EARLY, Node, TileProgram
from gizml_tile.target import Target

# Of clusters that share a program.
SIZES = (2, 4, 8)
# Turns of each workgroup that make up for the sums which they send each other. Measured on an H200: with
# eight a product of 1024^3 in tiles of 128 x 128 takes 0.9 of the time that single workgroups take.
_FEWEST_TURNS = 8


def room(
    program: TileProgram,
    target: Target,
    shapes: Shapes,
    grid: Sequence[int],
    scalars: Sequence[int | float],
) -> int:
    """How many workgroups each program of a launch could have: 1, 2, 4 or 8.

    All together fill the device's multiprocessors at most once, and each has some turns of the loops with
    products. 1 where programs have no such loop, or the target no clusters.
    """
    programs = 1
    for size in grid:
        programs *= size
    most = target.facts.units // max(programs, 1)
    loops = [
        node
        for node in program.body.nodes
        if node.op == "loop" and node.attr != EARLY and _multiplies(node)
    ]
    if most < SIZES[0] or not loops or not target.can("cluster"):
        return 1
    turns = fewest_turns(program, loops, shapes, grid, scalars)
    return max((size for size in SIZES if size <= most and size * _FEWEST_TURNS <= turns), default=1)


def _multiplies(loop: Node) -> bool:
    return any(node.op == "dot" for node in loop.regions[0].nodes)
