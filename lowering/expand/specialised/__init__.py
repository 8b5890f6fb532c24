"""Warps with roles: one brings blocks by the copy engine, the others multiply and store."""

from gizml_tile.lowering.expand.specialised.chained import expand_chained_loop
from gizml_tile.lowering.expand.specialised.clusters import (
    add_columns,
    add_first,
    cluster_of,
    first_alone,
    is_shared,
    open_sums,
    turns_of,
)
from gizml_tile.lowering.expand.specialised.kept import keep, open_kept
from gizml_tile.lowering.expand.specialised.ring import give_once, open_rings, take_once
from gizml_tile.lowering.expand.specialised.roles import expand_roles
from gizml_tile.lowering.expand.specialised.store import open_pieces, store_in_bulk

__all__ = [
    "add_columns",
    "add_first",
    "cluster_of",
    "expand_chained_loop",
    "expand_roles",
    "first_alone",
    "give_once",
    "is_shared",
    "keep",
    "open_kept",
    "open_pieces",
    "open_rings",
    "open_sums",
    "store_in_bulk",
    "take_once",
    "turns_of",
]
