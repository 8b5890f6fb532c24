"""Kernels that read a tensor at places a few elements apart, with the same bits on every device."""

from __future__ import annotations

from gpu_cases import Case, by_blocks, numbers, room

import gizml_tile as tile
from gizml_tile import I32


@tile.kernel(grid=by_blocks)
def nine_points(p, x, y, *, BM=16, BN=64, PAD=0.0):
    i, j = p.id(1), p.id(0)
    X, total = p.read(x, [BM, BN], pad=PAD), p.zeros([BM, BN])
    for row in (-1, 0, 1):
        for column in (-1, 0, 1):
            total = total + X.window([i * BM + row, column + j * BN]) * (0.1 * (row + 2) * (column + 3))
    p.write(y, [BM, BN])[i, j] = total


@tile.kernel(grid=by_blocks)
def five_before(p, x, w, y, *, BM=8, BN=64):
    """A causal convolution along the last axis, the last first."""
    i, j = p.id(1), p.id(0)
    X, W, total = p.read(x, [BM, BN]), p.read(w, [1]), p.zeros([BM, BN])
    for back in range(5):
        total = total + X.window([i * BM, j * BN - back]) * W[back].to(tile.F32)
    p.write(y, [BM, BN])[i, j] = total


@tile.kernel(grid=by_blocks)
def four_times_before(p, x, w, y, *, BM=16, BN=64):
    """A causal convolution along the rows, a row of weights for each step."""
    i, j = p.id(1), p.id(0)
    X, W, total = p.read(x, [BM, BN]), p.read(w, [1, BN]), p.zeros([BM, BN])
    for back in range(4):
        total = total + X.window([i * BM - back, j * BN]) * W[back, j]
    p.write(y, [BM, BN])[i, j] = total


@tile.kernel(grid=lambda y, B, **_: tile.cdiv(y.shape[0], B))
def differences(p, x, y, *, B=256):
    """Of a row: blocks by their number beside windows."""
    i = p.id(0)
    X = p.read(x, [B], pad=7)
    y_i = X[i] * 2 - X.window([i * B - 1]) - X.window([1 + B * i])
    p.write(y, [B])[i] = y_i


@tile.kernel(grid=lambda y, BM, BN, **_: (tile.cdiv(y.shape[2], BN), tile.cdiv(y.shape[1], BM), y.shape[0]))
def of_planes(p, x, y, *, BM=8, BN=32):
    """Neighbours in the block's plane, and one in the next plane, which is by itself."""
    n, i, j = p.id(2), p.id(1), p.id(0)
    X = p.read(x, [BM, BN])
    here = X.window([n, i * BM, j * BN]) + X.window([n, i * BM + 2, j * BN - 3])
    p.write(y, [BM, BN])[n, i, j] = max(here, X.window([n + 1, i * BM, j * BN]))


@tile.kernel(grid=1)
def moving(p, x, y, *, B=64, TURNS=3):
    """Each turn reads what the one before has written, at its neighbours; stores stand between reads."""
    X, Y = p.read(x, [B]), p.write(x, [B])
    for turn in range(TURNS):
        one = X.window([turn]) + X.window([turn + 1])
        Y.put(one, [0])
        other = X.window([turn + 1]) - X.window([turn + 2])
        Y.put(other, [1])
    p.write(y, [B])[0] = X[0] + X.window([1])


@tile.kernel(grid=by_blocks)
def largest_around(p, x, y, *, BM=16, BN=32):
    """Integers, with the number of the window that has the largest."""
    i, j = p.id(1), p.id(0)
    X = p.read(x, [BM, BN], pad=-128)
    best, place = p.full([BM, BN], -1000, I32), p.zeros([BM, BN], I32)
    number = 0
    for row in (0, 1, 2):
        for column in (2, 1, 0):
            there = X.window([i * BM + row - 1, j * BN + column - 1]).to(I32)
            place = number if there > best else place
            best = max(there, best)
            number += 1
    p.write(y, [BM, BN])[i, j] = best * 16 + place


def _stencil(kind, shape=(45, 150), order="C", **constants):
    def tensors():
        return [numbers(*shape, kind=kind, order=order), room(*shape, kind=kind, order=order)]

    name = f"nine points {kind} {shape[0]}x{shape[1]} {order} {constants or ''}".strip()
    return Case(name, nine_points, tensors, constants)


CASES = [
    _stencil("f32", (64, 256)),
    _stencil("f32", PAD=1.5),
    _stencil("f16", (64, 256), BN=128),
    _stencil("f16", (33, 129), BM=8),
    _stencil("bf16", (48, 192), order="F", BM=64, BN=16),
    _stencil("f32", order="inside"),
    _stencil("fp8", (32, 144), order="steps"),
    _stencil("f32", (3, 5), BM=8, BN=16),
    Case(
        "five before",
        five_before,
        lambda: [numbers(24, 200, kind="f16"), numbers(5, seed=1), room(24, 200, kind="f16")],
    ),
    Case("four times before", four_times_before, lambda: [numbers(70, 96), numbers(4, 96), room(70, 96)]),
    Case("differences", differences, lambda: [numbers(1000), room(1000)]),
    Case("of planes", of_planes, lambda: [numbers(3, 20, 72), room(3, 20, 72)]),
    Case("moving", moving, lambda: [numbers(64), room(64)]),
    Case(
        "largest around",
        largest_around,
        lambda: [numbers(40, 100, kind="i1"), room(40, 100, kind="i4")],
    ),
]
