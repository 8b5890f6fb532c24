"""Slices of tiles that repeat: their places count on from the other end, so that nothing is repeated.

Blocks of sizes that are no powers of two are reversed and joined by such slices. 48 of 64 columns backwards
are columns 47, 46, ... 0, and then -1, which is column 63, on to -16, which is 48: what nobody sees.
"""

from __future__ import annotations

from gizml_tile.lowering.tile_passes.dce import eliminate_dead
from gizml_tile.lowering.tile_passes.rewriting import Emit, Rewriting
from gizml_tile.nodes import Node, TileProgram, rebuild


def wrap_slices(program: TileProgram) -> TileProgram:
    """The program with slices of the tiles themselves in place of slices of tiles joined to themselves.

    Place n of an axis of such a slice is element n modulo the axis' size.
    """
    if not any(node.op == "slice" and _repeats(node.args[0]) for node in program.body.walk()):
        return program
    return eliminate_dead(Rewriting(_wrapped).program(program))


def _wrapped(node: Node, emit: Emit) -> Node:
    if node.op != "slice" or not _repeats(node.args[0]):
        return node
    tile = node.args[0]
    while _repeats(tile):
        tile = tile.args[0]
    return emit(rebuild(node, (tile,)))


def _repeats(tile: Node) -> bool:
    return tile.op == "concat" and tile.args[0] is tile.args[1]
