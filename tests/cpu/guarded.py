"""Launches in a pool of their own, whose arenas are full of NaN and watched behind their ends."""

from __future__ import annotations

import ctypes

import numpy as np

from gizml_tile.runtime.pool import Pool
from gizml_tile.runtime.pool_code import ARENAS

# What is looked at behind each arena.
WATCHED = 1 << 20
THREADS = 2
_pools: list[Pool] = []


def launch(entry: int, args: int | bytes, arena_bytes: int) -> None:
    """Runs a kernel's entry; fails where it writes to its arena's outside.

    Every byte of the arenas is set before, so that a value that is read before it was written is a NaN.
    """
    if not _pools:
        _pools.append(Pool(THREADS))
    (pool,) = _pools
    pool.ensure_arena(arena_bytes + WATCHED)
    arenas = [_arena(pool, number) for number in range(THREADS)]
    for arena in arenas:
        arena[: arena_bytes + WATCHED] = 0xFF
    assert pool.launch(entry, args, arena_bytes) == 0
    for arena in arenas:
        touched = np.flatnonzero(arena[arena_bytes : arena_bytes + WATCHED] != 0xFF)
        assert not len(touched), f"{len(touched)} bytes behind an arena of {arena_bytes} were written"


def _arena(pool: Pool, number: int) -> np.ndarray:
    address = ctypes.c_int64.from_address(pool.address + ARENAS + 8 * number).value
    return np.ctypeslib.as_array((ctypes.c_uint8 * pool.arena_bytes).from_address(address))
