"""Kernels whose making is timed beside those of the GPU table."""

from __future__ import annotations

import gizml_tile as tile


@tile.kernel(grid=lambda z, BLOCK, **_: tile.cdiv(z.shape[0], BLOCK))
def many(p, x, y, z, *, BLOCK=1024, TURNS=50):
    """A little more than 200 nodes of tile IR with the defaults."""
    i = p.id(0)
    a, b = p.read(x, [BLOCK])[i], p.read(y, [BLOCK])[i]
    for k in tile.unroll(TURNS):
        a = (a * b + k).maximum(b) - a
    p.write(z, [BLOCK])[i] = a
