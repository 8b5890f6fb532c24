"""Kernels whose elements move: slices, tiles joined and other shapes, with the same bits on every device."""

from __future__ import annotations

import numpy as np
from gpu_cases import Case, numbers, of_product, of_sum, room, within

import gizml_tile as tile


def by_blocks(y, R, C, **_):
    return tile.cdiv(y.shape[0], R), tile.cdiv(y.shape[1], C)


@tile.kernel(grid=by_blocks)
def rotate_halves(p, x, cos, sin, y, *, R=16, C=64):
    i, j = p.id(0), p.id(1)
    H = C // 2
    X, Y = p.read(x, [R, C]), p.write(y, [R, C])
    c, s = p.read(cos, [R, H])[i, 0], p.read(sin, [R, H])[i, 0]
    a, b = X[i, j].split(1)
    Y[i, j] = (a * c - b * s).concat(b * c + a * s, 1)


@tile.kernel(grid=by_blocks)
def rotate_pairs(p, x, cos, sin, y, *, R=16, C=64):
    i, j = p.id(0), p.id(1)
    H = C // 2
    X, Y = p.read(x, [R, C]), p.write(y, [R, C])
    c, s = p.read(cos, [R, H])[i, 0], p.read(sin, [R, H])[i, 0]
    a, b = X[i, j].deinterleave(1)
    Y[i, j] = (a * c - b * s).interleave(b * c + a * s, 1)


@tile.kernel(grid=lambda y, N, **_: tile.cdiv(y.shape[0], N))
def softmax_of_groups(p, x, y, *, N=1024, G=32):
    """The softmax of each G neighbours of a long row."""
    i = p.id(0)
    t = p.read(x, [N])[i].reshape([-1, G])
    e = (t - t.max(1)).exp()
    p.write(y, [N])[i] = (e / e.sum(1)).reshape(N)


@tile.kernel(grid=by_blocks)
def pieces(p, x, y, z, *, R=16, C=64):
    """Slices anywhere, backwards and in steps; a block's middle; rows that change places."""
    i, j = p.id(0), p.id(1)
    t = p.read(x, [R, C])[i, j]
    middle = t[R // 4 + 1 : R // 4 + 1 + R // 2, 3 : 3 + C // 2]
    turned = t.flip(0)[: R // 2, ::-2]
    Y = p.write(y, [R, C])
    Y[i, j] = middle.concat(turned, 1).interleave(t[R // 2 :, :], 0)
    p.write(z, [R, C])[i, j] = t[::-1, ::-1] + t[5:6].concat(t[:1], 0)[1:] * t[:, 7:8]


@tile.kernel(grid=lambda y, M, **_: tile.cdiv(y.shape[0], M))
def gated(p, x, w, y, *, M=32, K=64, N=32):
    """One product for a value and its gate: x @ w whose halves are multiplied."""
    i = p.id(0)
    X, W = p.read(x, [M, K]), p.read(w, [K, 2 * N])
    acc = p.zeros([M, 2 * N])
    for k in range(X.blocks(1)):
        acc += X[i, k] @ W[k, 0]
    value, gate = acc.split(1)
    p.write(y, [M, N])[i, 0] = value * gate.relu()


@tile.kernel(grid=lambda y, M, **_: tile.cdiv(y.shape[0], M))
def product_of_parts(p, x, w, y, *, M=32, K=32, N=32):
    """Operands put together of two blocks, and what is made of both halves of k."""
    i = p.id(0)
    X, W = p.read(x, [M, 2 * K]), p.read(w, [2 * K, N])
    a, b = X[i, 0].split(1)
    left = b.concat(a, 1)
    low, high = W[0, 0].split(0)
    p.write(y, [M, N])[i, 0] = left @ high.concat(low, 0) + (a @ low).flip(1).flip(1)


@tile.kernel(grid=by_blocks)
def odd_softmax(p, x, y, z, *, R=5, C=200):
    """Whole rows in blocks of their own size, with their largest elements and where these are."""
    i, j = p.id(0), p.id(1)
    t = p.read(x, [R, C])[i, j]
    e = (t - t.max(1)).exp()
    p.write(y, [R, C])[i, j] = e / e.sum(1)
    first, places = t.topk(3, 1)
    p.write(z, [R, 6])[i, 0] = first.concat(places.to(tile.F32), 1)


@tile.kernel(grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def odd_matmul(p, a, b, c, *, BM=48, BN=80, BK=24):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = acc.relu()


@tile.kernel(grid=by_blocks)
def odd_pieces(p, x, y, z, *, R=6, C=20):
    i, j = p.id(0), p.id(1)
    t = p.read(x, [R, C], pad=1)[i, j]
    a, b = t.split(1)
    p.write(y, [R, C])[i, j] = b.flip(0).concat(a.interleave(a, 1)[:, 3:13] * 2, 1)
    p.write(z, [R, C])[i, j] = t.flip(1).cumsum(1, reverse=True) * t.argmin(0).to(tile.F32) - t[
        1:, ::-1
    ].concat(t[:1], 0)


@tile.kernel(grid=by_blocks)
def odd_rows(p, x, y, *, R=12, C=20):
    """Rows of 20 as rows of 15, whose largest elements are taken from all 16 of them, and back."""
    i, j = p.id(0), p.id(1)
    t = p.read(x, [R, C])[i, j].reshape([-1, 15])
    columns = (t - t.max(1)).reshape([-1, 1]).reshape([1, -1])
    p.write(y, [R, C])[i, j] = columns.reshape([R, C])


@tile.kernel(grid=lambda c, B, M, **_: (tile.cdiv(c.shape[1], M), tile.cdiv(c.shape[0], B)))
def batched(p, a, b, c, *, B=2, M=32, N=32, K=32):
    i, g = p.id(0), p.id(1)
    A, W, C = p.read(a, [B, M, K]), p.read(b, [B, K, N]), p.write(c, [B, M, N])
    acc = p.zeros([B, M, N])
    for k in range(A.blocks(2)):
        acc += A[g, i, k] @ W[g, k, 0]
    C[g, i, 0] = acc.relu()


def angles(rows, columns):
    where = np.arange(rows)[:, None] / 10000 ** (np.arange(columns) / columns)
    return np.cos(where).astype(np.float32), np.sin(where).astype(np.float32)


CASES = [
    *(
        Case(
            f"rotary embedding by {name} {kind} {rows} x {columns}",
            kernel,
            lambda kind=kind, rows=rows, columns=columns: [
                numbers(rows, columns, kind=kind),
                *angles(rows, 32),
                room(rows, columns, kind=kind),
            ],
        )
        for name, kernel in (("halves", rotate_halves), ("pairs", rotate_pairs))
        for kind, rows, columns in (("f32", 40, 128), ("bf16", 33, 128), ("f16", 16, 100))
    ),
    Case("softmax of groups", softmax_of_groups, lambda: [numbers(4000), room(4000)], {}, of_sum(32, 4)),
    *(
        Case(
            f"pieces {kind}",
            pieces,
            lambda kind=kind, sums=sums: [
                numbers(30, 130, kind=kind),
                room(30, 130, kind=kind),
                room(30, 130, kind=sums),
            ],
        )
        for kind, sums in (("f32", "f32"), ("i4", "i4"), ("bf16", "f32"))
    ),
    *(
        Case(
            f"rows of their own size {kind} {columns}",
            odd_softmax,
            lambda kind=kind, columns=columns: [
                numbers(13, columns, kind=kind),
                room(13, columns, kind=kind),
                room(13, 6),
            ],
            {"C": columns},
            within(1e-5),
        )
        for kind, columns in (("f32", 200), ("bf16", 96), ("f16", 3))
    ),
    *(
        Case(
            f"product of blocks {m} x {n} by {k} {kind}",
            odd_matmul,
            lambda kind=kind: [
                numbers(100, 60, kind=kind),
                numbers(60, 170, kind=kind, seed=1),
                room(100, 170),
            ],
            {"BM": m, "BN": n, "BK": k},
            of_product,
        )
        for kind, m, n, k in (
            ("f32", 48, 80, 24),
            ("bf16", 96, 80, 48),
            ("f16", 80, 3, 32),
            ("f16", 64, 96, 32),
        )
    ),
    Case(
        "pieces of odd sizes",
        odd_pieces,
        lambda: [numbers(20, 50), room(20, 50), room(20, 50)],
        {},
        within(1e-4),
    ),
    *(
        Case(
            f"rows of another length {kind}",
            odd_rows,
            lambda kind=kind, sums=sums: [numbers(24, 50, kind=kind), room(24, 50, kind=sums)],
        )
        for kind, sums in (("f32", "f32"), ("bf16", "f32"), ("i4", "i4"))
    ),
    Case(
        "batched product",
        batched,
        lambda: [numbers(5, 40, 70, kind="f16"), numbers(5, 70, 32, kind="f16", seed=1), room(5, 40, 32)],
        {},
        of_product,
    ),
    Case(
        "gated product",
        gated,
        lambda: [numbers(50, 100, kind="f16"), numbers(100, 64, kind="f16", seed=1), room(50, 32)],
        {},
        lambda arrays, result: 1e-2,
    ),
    Case(
        "product of parts",
        product_of_parts,
        lambda: [numbers(40, 64, kind="bf16"), numbers(64, 32, kind="bf16", seed=1), room(40, 32)],
        {},
        lambda arrays, result: 2 * of_product(arrays, result),
    ),
]
