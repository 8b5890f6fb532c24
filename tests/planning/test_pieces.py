"""Products whose blocks do not fit workgroup memory are made in pieces of k."""

from __future__ import annotations

import numpy as np
import pytest

import gizml_tile as tile

APPLE = {"kind": "metal", "arch": "apple9"}


@tile.kernel(grid=lambda c, SIDE, **_: (tile.cdiv(c.shape[0], SIDE), tile.cdiv(c.shape[1], SIDE)))
def matmul(p, a, b, c, *, SIDE=64, DEPTH=256):
    A, B = p.read(a, [SIDE, DEPTH]), p.read(b, [DEPTH, SIDE])
    acc = p.zeros([SIDE, SIDE])
    for k in range(A.blocks(1)):
        acc += A[p.id(0), k] @ B[k, p.id(1)]
    p.write(c, [SIDE, SIDE])[p.id(0), p.id(1)] = acc


@tile.kernel(grid=1)
def turned(p, a, b, c, *, FIRST=3):
    """Windows, of which the first is turned, and read for its largest elements too."""
    A = p.read(a, [256, 64]).window([0, FIRST])
    B = p.read(b, [256, 64]).window([FIRST, 0])
    p.write(c, [64, 64])[0, 0] = A.T @ B + A.T.max(1)


@tile.kernel(grid=1)
def overwritten(p, a, b):
    A, B = p.read(a, [64, 256]), p.read(b, [256, 64])
    product = A[0, 0] @ B[0, 0]
    p.write(a, [64, 64])[0, 0] = product


def whole(*shape):
    return np.random.default_rng(0).integers(-8, 9, shape).astype(np.float32)


@pytest.mark.parametrize(
    "target", [APPLE, {"kind": "cuda", "arch": "sm_75"}, {"kind": "hip", "arch": "gfx942"}]
)
@pytest.mark.parametrize("m, n, k", [(128, 64, 512), (100, 70, 300)])
def test_large_blocks(target, m, n, k):
    a, b, c = whole(m, k), whole(k, n), np.zeros((m, n), np.float32)
    ran = matmul.simulate(a, b, c, **target)
    assert not [each for each in ran.findings if not each.is_cost]
    assert (c == a @ b).all()


def test_the_pieces_are_seen_in_the_plan():
    a, b, c = whole(64, 256), whole(256, 64), np.zeros((64, 64), np.float32)
    told = matmul.explain(a, b, c, **APPLE)
    assert "32768 of 32768 bytes" in told
    assert told.count("K 64 in steps of 8") == 4
    assert "K 256 in steps of 4" in matmul.explain(a, b, c, kind="hip", arch="gfx950")


@pytest.mark.parametrize("first", [0, 3])
def test_windows_that_something_else_reads_too(first):
    a, b, c = whole(256, 70), whole(270, 64), np.zeros((64, 64), np.float32)
    ran = turned.simulate(a, b, c, FIRST=first, **APPLE)
    assert not [each for each in ran.findings if not each.is_cost]
    part = a[:, first : first + 64].T
    assert (c == part @ b[first : first + 256] + part.max(1, keepdims=True)).all()


def test_blocks_that_the_program_overwrites_are_read_once():
    message = "the program needs 65536 bytes of workgroup memory and a workgroup has 32768"
    with pytest.raises(tile.TileError, match=message):
        overwritten.simulate(whole(64, 256), whole(256, 64), **APPLE)
