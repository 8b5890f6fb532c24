"""The passes over the tile IR that every device shares, in order, each with its reason to stand there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gizml_tile.lowering.tile_passes.cse import eliminate_common
from gizml_tile.lowering.tile_passes.dce import eliminate_dead
from gizml_tile.lowering.tile_passes.fma import fuse_products
from gizml_tile.lowering.tile_passes.fold import fold
from gizml_tile.lowering.tile_passes.hoist import hoist
from gizml_tile.lowering.tile_passes.pad import pad
from gizml_tile.lowering.tile_passes.records import store_records
from gizml_tile.nodes import TileProgram

Pass = Callable[[TileProgram], TileProgram]


def passes(*, may_alias: bool = False) -> tuple[Pass, ...]:
    """The passes in order."""
    common = partial(eliminate_common, may_alias=may_alias)
    return (
        store_records,  # before all that knows loads and stores alone
        pad,  # then all others see powers of two alone
        fold,  # early: what is known needs no further thought, and branches that are known disappear
        common,  # folding made equal constants
        fold,  # common values make x - x and equal branches visible
        eliminate_dead,  # a use that nobody needs must not keep a product from being used once
        fuse_products,  # before hoisting, so that the choice depends on the program's own blocks alone
        partial(hoist, may_alias=may_alias),
        common,  # what sibling loops computed alike now stands beside each other
        eliminate_dead,  # products that were fused
    )


def simplify(program: TileProgram, *, may_alias: bool = False) -> TileProgram:
    """The program as every device compiles it.

    ``may_alias`` says that two of its tensors may share memory, so that a store to one may change
    what another reads.
    """
    for step in passes(may_alias=may_alias):
        program = step(program)
    return program


def settle(program: TileProgram) -> TileProgram:
    """A program whose fused multiply-adds are decided: programs that are made of it compute the same bits."""
    for step in passes():
        if program.fused:
            break
        program = step(program)
    return program
