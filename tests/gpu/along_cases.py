"""Kernels whose elements meet along an axis: running values, places, order, counts."""

from __future__ import annotations

import math

import numpy as np
from gpu_cases import HALF_ULP, Case, numbers, room, wide

import gizml_tile as tile
from gizml_tile import I32


def by_rows(x, ROWS, **_):
    return tile.cdiv(x.shape[0], ROWS)


@tile.kernel(grid=by_rows)
def running(p, x, sums, least, back, *, COLUMNS, ROWS=4):
    """Sums so far, the least from the end, and the running product of small integers."""
    i = p.id(0)
    row = p.read(x, [ROWS, COLUMNS])[i, 0]
    p.write(sums, [ROWS, COLUMNS])[i, 0] = row.cumsum(1)
    p.write(least, [ROWS, COLUMNS])[i, 0] = row.cummin(1, reverse=True)
    odd = (row * 8).to(I32) * 2 + 1
    p.write(back, [ROWS, COLUMNS])[i, 0] = odd.cumprod(1) + odd.T.cummax(0).T - odd.prod(1)


@tile.kernel(grid=lambda low, BN, **_: tile.cdiv(low.shape[0], BN))
def where(p, x, low, high, some, worst, *, BM=64, BN=32):
    """Of each column: where the least and largest are, whether any is large, and a maximum that NaN spoil."""
    j = p.id(0)
    block = p.read(x, [BM, BN], pad=-math.inf)[0, j]
    p.write(low, [BN])[j] = block.argmin(0)
    p.write(high, [BN])[j] = block.argmax(0)
    p.write(some, [BN])[j] = (block > 2).any(0) and (block < 9).all(0)
    p.write(worst, [BN])[j] = block.max(0, nan="propagate")


@tile.kernel(grid=lambda h, C, **_: tile.cdiv(h.shape[1], C))
def selective_scan(p, a, b, h, *, T=32, C=32):
    """h[t] = a[t] h[t - 1] + b[t] for each channel, a block of times after the other."""

    def follow(a1, b1, a2, b2):
        return a1 * a2, b1 * a2 + b2

    j = p.id(0)
    A, B, H = p.read(a, [T, C], pad=1), p.read(b, [T, C]), p.write(h, [T, C])
    state = p.zeros([1, C])
    for t in range(A.blocks(0)):
        decay, inner = A[t, j].associative_scan(follow, 0, B[t, j])
        H[t, j] = decay * state + inner
        whole, last = A[t, j].reduce(follow, 0, B[t, j])
        state = whole * state + last


@tile.kernel(grid=by_rows)
def in_order(p, x, values, places, few, *, COLUMNS, K=4, ROWS=4):
    """Rows in order with the places that elements had, and the smallest few of squares."""
    i = p.id(0)
    row = p.read(x, [ROWS, COLUMNS], pad=math.inf)[i, 0]
    ordered, order = row.sort(1, descending=True)
    p.write(values, [ROWS, COLUMNS])[i, 0] = ordered
    p.write(places, [ROWS, COLUMNS])[i, 0] = order
    p.write(few, [ROWS, K])[i, 0] = (row * row).topk(K, 1, largest=False)[0]


@tile.kernel(grid=lambda values, K, BLOCK, **_: (tile.cdiv(values.shape[1], K), values.shape[0]))
def best_of_blocks(p, x, values, places, *, K=8, BLOCK=256):
    """The largest K of each block of a row: candidates for the largest K of all."""
    j, i = p.id(0), p.id(1)
    found, at = p.read(x, [1, BLOCK], pad=-math.inf)[i, j].topk(K, 1)
    p.write(values, [1, K])[i, j] = found
    p.write(places, [1, K])[i, j] = at + j * BLOCK


@tile.kernel(grid=lambda y, **_: 1)
def ordered_columns(p, x, y, z, *, N=64, WARPS=4):
    """Columns in order, of integers, with warps that share them, and rows by what they sum to."""
    p.warps(WARPS)
    block = p.read(x, [N, N])[0, 0]
    values, places = block.sort(0)
    p.write(y, [N, N])[0, 0] = values * 2 + places
    p.write(z, [N])[0] = block.sum(1).sort(0)[1].T


@tile.kernel(grid=by_rows)
def gating(p, x, weights, experts, load, *, EXPERTS=64, K=2, ROWS=32):
    """The K experts of each token with their weights, and for each block of tokens where experts' begin."""
    i = p.id(0)
    logits = p.read(x, [ROWS, EXPERTS], pad=-math.inf)[i, 0]
    best, expert = logits.topk(K, 1)
    e = (best - best.max(1)).exp()
    p.write(weights, [ROWS, K])[i, 0] = e / e.sum(1)
    p.write(experts, [ROWS, K])[i, 0] = expert
    inside = p.iota([ROWS, 1], 0, I32) + i * ROWS < x.shape[0]
    counts = (expert if inside else -1).histogram(EXPERTS)
    p.write(load, [EXPERTS])[i, 0] = counts.cumsum(1) - counts


@tile.kernel(grid=lambda y, **_: 1)
def counts(p, x, y, *, BINS=256, BLOCK=512):
    """How often each byte is in a flat tensor, a block of it after the other."""
    X, total = p.read(x, [BLOCK], pad=0), p.zeros([1, BINS], I32)
    for k in range(X.blocks(0)):
        inside = p.iota([1, BLOCK], 1, I32) + k * BLOCK < x.shape[0]
        total = total + (X[k].to(I32) if inside else -1).histogram(BINS)
    p.write(y, [BINS])[0] = total


def of_running(arrays, result):
    """Two running sums of the first tensor, each within the language's bound."""
    sizes = np.abs(wide(arrays[0]))
    return 2 * result.shape[1] * HALF_ULP * sizes.sum(1, keepdims=True) * np.ones(result.shape)


def spoiled(*shape: int) -> np.ndarray:
    found = numbers(*shape)
    found[np.random.default_rng(7).random(shape) < 0.02] = np.nan
    return found


CASES = [
    *(
        Case(
            f"running {kind} {rows} x {columns}",
            running,
            lambda kind=kind, rows=rows, columns=columns: [
                numbers(rows, columns, kind=kind),
                room(rows, columns),
                room(rows, columns),
                room(rows, columns, kind="i4"),
            ],
            {"COLUMNS": block, "ROWS": height},
            of_running,
        )
        for kind, rows, columns, block, height in [
            ("f32", 9, 100, 128, 4),
            ("bf16", 2, 1000, 1024, 1),
            ("f32", 40, 20, 32, 32),
        ]
    ),
    *(
        Case(
            f"where {order}",
            where,
            lambda order=order: [
                np.asarray(spoiled(50, 70), order=order),
                room(70, kind="i4"),
                room(70, kind="i4"),
                np.zeros(70, bool),
                room(70),
            ],
        )
        for order in ("C", "F")
    ),
    Case(
        "selective scan",
        selective_scan,
        lambda: [np.abs(numbers(70, 50)) * np.float32(0.4), numbers(70, 50, seed=1), room(70, 50)],
        {},
        lambda arrays, result: 70 * HALF_ULP * 8,
    ),
    *(
        Case(
            f"in order {kind} {rows} x {columns}",
            in_order,
            lambda kind=kind, rows=rows, columns=columns: [
                numbers(rows, columns, kind=kind),
                room(rows, columns),
                room(rows, columns, kind="i4"),
                room(rows, 4),
            ],
            {"COLUMNS": block, "ROWS": height},
        )
        for kind, rows, columns, block, height in [("f32", 5, 100, 128, 4), ("bf16", 70, 16, 16, 64)]
    ),
    Case(
        "gating",
        gating,
        lambda: [numbers(70, 64), room(70, 2), room(70, 2, kind="i4"), room(3, 64, kind="i4")],
        {},
        lambda arrays, result: 1e-6,
    ),
    Case("counts", counts, lambda: [numbers(1500, kind="u1"), room(256, kind="i4")]),
    Case(
        "best of blocks",
        best_of_blocks,
        lambda: [numbers(2, 700), room(2, 24), room(2, 24, kind="i4")],
    ),
    *(
        Case(
            f"ordered columns, {warps} warps",
            ordered_columns,
            lambda: [numbers(64, 64, kind="i2"), room(64, 64, kind="i4"), room(64, kind="i4")],
            {"WARPS": warps},
        )
        for warps in (2, 8)
    ),
]
