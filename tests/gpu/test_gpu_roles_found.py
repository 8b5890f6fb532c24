"""Smallest cases that random programs of products found wrong, with roles."""

import numpy as np
import pytest
from gpu_cases import numbers, room, wide

import gizml_tile as tile
from gizml_tile.lowering.simulate.findings import COSTS


@tile.kernel(grid=lambda y, **_: tile.cdiv(y.shape[0], 64))
def two_puts(p, a, b, c, y, z, *, LOOP="specialised", STAGES=0):
    """Products of which one is stored in one panel and the other in two, from the same pieces of memory."""
    p.variant("loop", LOOP)
    if STAGES:
        p.stages(STAGES)
    i = p.id(0)
    A, B, C = p.read(a, [64, 64]), p.read(b, [64, 32]), p.read(c, [64, 64])
    narrow, broad = p.zeros([64, 32]), p.zeros([64, 64])
    for k in range(A.blocks(1)):
        narrow += A[i, k] @ B[k, 0]
        broad += A[i, k] @ C[k, 0]
    p.write(y, [64, 32])[i, 0] = narrow
    p.write(z, [64, 64])[i, 0] = broad


@pytest.mark.parametrize("loop", ["specialised", "alternating"])
@pytest.mark.parametrize("stages", [0, 1, 2])
def test_puts_that_share_pieces_and_single_slots(stages, loop):
    a, b, c = (numbers(*shape, kind="bf16") for shape in ((128, 128), (128, 32), (128, 64)))
    y, z = room(128, 32), room(128, 64)
    ran = two_puts.simulate(a, b, c, y, z, arch="sm_90a", STAGES=stages, LOOP=loop)
    assert not [each for each in ran.findings if each.kind not in COSTS]
    np.testing.assert_allclose(wide(y), wide(a) @ wide(b), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(wide(z), wide(a) @ wide(c), rtol=1e-4, atol=1e-4)
