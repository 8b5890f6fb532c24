"""Kernels that reduce: softmax, norms, statistics, in one block or block after block."""

from __future__ import annotations

import math

import numpy as np
from gpu_cases import HALF_ULP, Case, numbers, of_sum, room, wide, within

import gizml_tile as tile


def by_rows(y, ROWS, **_):
    return tile.cdiv(y.shape[0], ROWS)


@tile.kernel(grid=by_rows)
def softmax(p, x, y, *, COLUMNS, ROWS=4):
    i = p.id(0)
    row = p.read(x, [ROWS, COLUMNS], pad=-math.inf)[i, 0]
    e = (row - row.max(1)).exp()
    p.write(y, [ROWS, COLUMNS])[i, 0] = e / e.sum(1)


@tile.kernel(grid=by_rows)
def online_softmax(p, x, y, *, ROWS=8, BLOCK=64):
    i = p.id(0)
    X, Y = p.read(x, [ROWS, BLOCK], pad=-math.inf), p.write(y, [ROWS, BLOCK])
    top, total = p.full([ROWS, 1], -math.inf), p.zeros([ROWS, 1])
    for k in range(X.blocks(1)):
        block = X[i, k]
        higher = max(top, block.max(1))
        total = total * (top - higher).exp() + (block - higher).exp().sum(1)
        top = higher
    for k in range(X.blocks(1)):
        Y[i, k] = (X[i, k] - top).exp() / total


@tile.kernel(grid=by_rows)
def layernorm(p, x, w, b, y, *, COLUMNS, ROWS=4):
    i, n = p.id(0), x.shape[1]
    row = p.read(x, [ROWS, COLUMNS])[i, 0]
    centred = row - row.sum(1) / n if p.iota([1, COLUMNS], 1) < n else 0
    scale = ((centred * centred).sum(1) / n + 1e-5).rsqrt()
    p.write(y, [ROWS, COLUMNS])[i, 0] = centred * scale * p.read(w, [COLUMNS])[0] + p.read(b, [COLUMNS])[0]


@tile.kernel(grid=by_rows)
def rmsnorm(p, x, residual, w, y, s, *, COLUMNS, ROWS=2):
    i = p.id(0)
    row = p.read(x, [ROWS, COLUMNS])[i, 0] + p.read(residual, [ROWS, COLUMNS])[i, 0]
    p.write(s, [ROWS, COLUMNS])[i, 0] = row
    scale = ((row * row).sum(1) * (1 / COLUMNS) + 1e-6).rsqrt()
    p.write(y, [ROWS, COLUMNS])[i, 0] = row * scale * p.read(w, [COLUMNS])[0]


@tile.kernel(grid=lambda low, BN, **_: tile.cdiv(low.shape[0], BN))
def columns(p, x, low, high, first, total, *, BM=32, BN=64):
    """Statistics of columns over blocks of rows, and where the smallest is."""
    j = p.id(0)
    X = p.read(x, [BM, BN], pad=math.inf)
    least, most = p.full([1, BN], math.inf), p.full([1, BN], -math.inf)
    where, all = p.zeros([1, BN], tile.I32), p.zeros([1, BN])
    for k in range(X.blocks(0)):
        block = X[k, j]
        inside = p.iota([BM, 1], 0, tile.I32) + k * BM < X.dim(0)
        here = block.min(0)
        rows = (p.iota([BM, 1], 0, tile.I32) + k * BM) if block == here else 1 << 20
        where = rows.min(0) if here < least else where
        least = min(least, here)
        most = max(most, (block if inside else -math.inf).max(0))
        all = all + (abs(block) if inside else 0).sum(0)
    for out, value in [(low, least), (high, most), (first, where), (total, all)]:
        p.write(out, [BN])[j] = value


@tile.kernel(grid=lambda y, **_: 1)
def both_ways(p, x, y, z, w, *, N=64):
    """A tile's sum from its rows and from its columns, integers and masks too."""
    a = p.read(x, [N, N])[0, 0]
    p.write(y, [N])[0] = a.max(1).T - a.min(0)
    counted = (a * 3).to(tile.I32)
    p.write(z, [N, 1])[0, 0] = counted.sum(1) + counted.max(0).sum(1) * (a > 0).sum(0).max(1)
    p.write(w, [N, N])[0, 0] = ((a > 1).max(0) and (a > -3).min(1)) or a > a.max(0).max(1) - 1


@tile.kernel(grid=lambda loss, **named: by_rows(loss, **named))
def cross_entropy(p, logits, labels, loss, *, ROWS=4, BLOCK=128):
    i = p.id(0)
    X = p.read(logits, [ROWS, BLOCK], pad=-math.inf)
    label = p.read(labels, [ROWS, 1])[i, 0]
    top, total, chosen = p.full([ROWS, 1], -math.inf), p.zeros([ROWS, 1]), p.zeros([ROWS, 1])
    for k in range(X.blocks(1)):
        block = X[i, k]
        higher = max(top, block.max(1))
        total = total * (top - higher).exp() + (block - higher).exp().sum(1)
        top = higher
        mine = p.iota([1, BLOCK], 1, tile.I32) + k * BLOCK == label
        chosen = chosen + (block if mine else 0).sum(1)
    p.write(loss, [ROWS, 1])[i, 0] = top + total.log() - chosen


@tile.kernel(grid=lambda y, **_: 1)
def whole(p, x, y, *, BM=32, BN=64):
    """Mean and spread of everything by one program, block by block."""
    X = p.read(x, [BM, BN])
    total = squares = p.k(0)
    for i in range(X.blocks(0)):
        for j in range(X.blocks(1)):
            block = X[i, j]
            total = total + block.sum(1).sum(0)
            squares = squares + (block * block).sum(0).sum(1)
    n = X.dim(0) * X.dim(1)
    p.write(y, [1])[0] = total / n
    p.write(y, [1])[1] = (squares / n - (total / n) * (total / n)).sqrt()


@tile.kernel(grid=lambda y, **_: 1)
def forgotten(p, x, y, z, *, N=16):
    """Values that a loop replaces by constants, and that a branch gives and nobody takes."""
    p.warps(4)
    X = p.read(x, [N, N])
    top, rows = X[0, 0].max(1), X[0, 0]
    for _ in range(X.blocks(0) - 1):
        top, rows = p.full([N, 1], -30.0), rows + 1
    if X.blocks(1) > 1:
        top, unused = top * 2, p.zeros([N, 1])
    else:
        top, unused = top - rows.min(1), p.full([N, 1], 1.0)  # noqa: F841
    for _ in range(X.blocks(1)):
        rows, _unused = rows + top, rows.max(1)
    p.write(y, [N, N])[0, 0] = rows
    p.write(z, [N])[0] = top.T


def labels(rows: int, columns: int) -> np.ndarray:
    return (np.arange(rows, dtype=np.int32) * 17 % columns)[:, None].copy()


def of_norm(arrays, result):
    return 4e-6 * (1 + np.abs(wide(result)) + np.abs(wide(arrays[1])).max())


CASES = [
    *(
        Case(
            f"softmax {kind} {rows} x {columns}",
            softmax,
            lambda kind=kind, rows=rows, columns=columns: [
                numbers(rows, columns, kind=kind),
                room(rows, columns, kind=kind),
            ],
            {"COLUMNS": block, "ROWS": height},
            of_sum(block, 1.1),
        )
        for kind, rows, columns, block, height in [
            ("f32", 9, 200, 256, 4),
            ("bf16", 4, 1024, 1024, 1),
            ("f16", 3, 4096, 4096, 1),
            ("f32", 70, 20, 32, 32),
            ("bf16", 2, 16384, 16384, 1),
        ]
    ),
    *(
        Case(
            f"online softmax {kind}",
            online_softmax,
            lambda kind=kind: [numbers(20, 300, kind=kind), room(20, 300, kind=kind)],
            {},
            of_sum(300, 4),
        )
        for kind in ("f32", "bf16")
    ),
    *(
        Case(
            f"layernorm {kind} {columns}",
            layernorm,
            lambda kind=kind, columns=columns: [
                numbers(7, columns, kind=kind),
                numbers(columns),
                numbers(columns, seed=1),
                room(7, columns, kind=kind),
            ],
            {"COLUMNS": block, "ROWS": rows},
            of_norm,
        )
        for kind, columns, block, rows in [("f32", 300, 512, 4), ("bf16", 1024, 1024, 1)]
    ),
    Case(
        "rmsnorm bf16",
        rmsnorm,
        lambda: [
            *(numbers(5, 512, kind="bf16", seed=s) for s in (1, 2)),
            numbers(512, kind="bf16"),
            room(5, 512, kind="bf16"),
            room(5, 512, kind="bf16"),
        ],
        {"COLUMNS": 512},
        of_norm,
    ),
    *(
        Case(
            f"columns {order}",
            columns,
            lambda order=order: [
                numbers(100, 150, order=order),
                room(150),
                room(150),
                room(150, kind="i4"),
                room(150),
            ],
            {},
            of_sum(100),
        )
        for order in ("C", "F")
    ),
    Case("forgotten", forgotten, lambda: [numbers(30, 40), room(16, 16), room(16)]),
    Case(
        "both ways",
        both_ways,
        lambda: [numbers(64, 64), room(64), room(64, 1, kind="i4"), np.zeros((64, 64), bool)],
    ),
    Case(
        "cross entropy",
        cross_entropy,
        lambda: [numbers(10, 1000), labels(10, 1000), room(10, 1)],
        {},
        within(2e-5),
    ),
    Case("whole", whole, lambda: [numbers(90, 130), room(2)], {}, within(90 * 130 * HALF_ULP)),
]
