"""Kernels whose data say where elements are; the same bits on every device."""

from __future__ import annotations

import numpy as np
from gpu_cases import TYPES, Case, laid_out, numbers, room

import gizml_tile as tile
from gizml_tile import I32, I64


def places(count: int, size: int, *shape: int, kind: str = "i4", seed: int = 0) -> np.ndarray:
    """Places in an axis of a size, some of them outside at both ends."""
    found = np.random.default_rng([seed, count]).integers(-3, size + 3, count)
    return found.reshape(shape or (count,)).astype(np.dtype(kind))


def permutation(size: int) -> np.ndarray:
    return np.random.default_rng(size).permutation(size).astype(np.int32)


@tile.kernel(grid=lambda y, BR, BC: (tile.cdiv(y.shape[0], BR), tile.cdiv(y.shape[1], BC)))
def rows(p, table, ids, y, *, BR=8, BC=64):
    """Rows of a table, as an embedding looks them up."""
    i, j = p.id(0), p.id(1)
    columns = p.iota([1, BC], 1, I32) + j * BC
    found = p.read(table, [1, BC], pad=1).gather([p.read(ids, [BR], pad=-1)[i].T, columns])
    p.write(y, [BR, BC])[i, j] = found


@tile.kernel(grid=lambda order, BR, BC, **_: (tile.cdiv(order.shape[0], BR), BC))
def permute(p, x, order, y, z, *, BR=16, BC=4):
    """Rows go where an order says, and come back; columns of a transposed tensor likewise."""
    i, part = p.id(0), p.id(1)
    width = tile.cdiv(x.shape[1], BC)
    row = p.read(order, [BR], pad=-1)[i].T
    columns = p.iota([1, 32], 1, I64) + (part * width).value(I64)
    chosen = columns < (part * width + width).value(I64)
    taken = p.read(x, [1, 32]).gather([row, columns], mask=chosen)
    here = p.iota([BR, 1], 0, I32) + i * BR
    p.write(y, [1, 32]).scatter(taken, [here, columns], mask=chosen)
    p.write(z, [1, 32]).scatter(p.read(x, [1, 32]).gather([here, columns]), [row, columns], mask=chosen)


@tile.kernel(grid=lambda y, B: tile.cdiv(y.shape[0], B))
def flat(p, x, offsets, y, z, *, B=128):
    """Single elements of a flat tensor, and where they came from."""
    i = p.id(0)
    at = p.read(offsets, [B], pad=-1)[i]
    p.write(y, [B])[i] = p.read(x, [1], pad=9).gather([at])
    p.write(z, [1]).scatter(i * B + p.iota([1, B], 1, I32), [at])


@tile.kernel(grid=lambda y, PAGE, **_: (tile.cdiv(y.shape[1], PAGE), y.shape[0]))
def pages(p, x, table, y, *, PAGE=16, D=32):
    """Blocks of a cache, each where a table says: x [pages, heads, PAGE, D], y [heads, rows, D]."""
    block, head = p.id(0), p.id(1)
    page = p.read(table, [1], pad=-1)[block]
    row, column = p.iota([PAGE, 1], 0, I32), p.iota([1, D], 1, I32)
    p.write(y, [PAGE, D])[head, block, 0] = p.read(x, [PAGE, D]).gather([page, head, row, column])


@tile.kernel(grid=lambda y, BM, BN: (tile.cdiv(y.shape[0], BM), tile.cdiv(y.shape[1], BN)))
def masks(p, x, y, z, *, BM=8, BN=32):
    """Blocks of which a mask reads and writes some rows, columns or elements."""
    i, j = p.id(0), p.id(1)
    X, Y, Z = p.read(x, [BM, BN], pad=7), p.write(y, [BM, BN]), p.write(z, [BM, BN])
    row, column = p.iota([BM, 1], 0, I32), p.iota([1, BN], 1, I32)
    a = X.at([i, j], mask=row % 3 != 1)
    b = X.window([i * BM - 1, j * BN + 2], mask=(column & 1) == 0)
    c = X.at([i, j], mask=a > b)
    Y.put(a + b, [i, j], mask=column != 5)
    Z.put_window(c, [i * BM + 1, j * BN - 3], mask=(row + column) % 5 != 0)


@tile.kernel(grid=lambda y, B: tile.cdiv(y.shape[0], B))
def of_neighbours(p, x, edges, y, *, B=16):
    """Softmax over the elements that each row's list of neighbours names: gathers that are reduced."""
    i = p.id(0)
    ids = p.read(edges, [B, 8], pad=-1)[i, 0]
    own = p.iota([B, 1], 0, I32) + i * B
    near = p.read(x, [1, 1], pad=-1e30).gather([own, ids], mask=ids >= 0)
    p.write(y, [B, 8])[i, 0] = near - near.max(1)


@tile.kernel(grid=lambda g, BR, BC, **_: (tile.cdiv(g.shape[0], BR), tile.cdiv(g.shape[1], BC)))
def gradients(p, g, ids, table, largest, *, BR=8, BC=32):
    """Rows added to the rows of a table that ids name, and the largest and smallest of each."""
    i, j = p.id(0), p.id(1)
    rows = p.read(ids, [BR], pad=-1)[i].T
    columns = p.iota([1, BC], 1, I32) + j * BC
    G = p.read(g, [BR, BC])[i, j]
    p.write(table, [1, BC]).scatter_add(G, [rows, columns])
    out = p.write(largest, [1, BC])
    out.scatter_max(G, [0, rows, columns])
    out.scatter_min(G, [1, rows, columns], mask=G > -900)


@tile.kernel(grid=lambda x, counts, BLOCK: tile.cdiv(x.shape[0], BLOCK))
def histogram(p, x, counts, *, BLOCK=256):
    """How many elements fall into each bin, and their sum beside it."""
    a = p.read(x, [BLOCK], pad=-1)[p.id(0)]
    bins = a // 64
    out = p.write(counts, [1])
    out.scatter_add(1, [0, bins])
    out.scatter_add(a, [1, bins], mask=a > 99)


@tile.kernel(grid=lambda y, BC, **_: (y.shape[0], tile.cdiv(y.shape[1], BC)))
def segmented_sum(p, x, starts, y, *, BR=16, BC=64):
    """The sum of the rows of each segment, which the starts of all and the end of the last tell."""
    i, j = p.id(0), p.id(1)
    X, S = p.read(x, [BR, BC]), p.read(starts, [1])
    stop = S.index([i + 1])
    total = p.zeros([1, BC])
    for first in range(S.index([i]), stop, BR):
        row = p.iota([BR, 1], 0, I32) + first
        total += X.window([first, j * BC], mask=row < stop).sum(0)
    p.write(y, [1, BC])[i, j] = total


@tile.kernel(grid=lambda x, BR, BC, **_: (tile.cdiv(x.shape[0], BR), tile.cdiv(x.shape[1], BC)))
def sum_by_id(p, x, ids, y, *, BR=16, BC=64, EXACT=False):
    """The same of rows in any order: each is added where its id says, those of one run together."""
    i, j = p.id(0), p.id(1)
    row = p.read(ids, [BR], pad=-1)[i].T
    columns = p.iota([1, BC], 1, I32) + j * BC
    p.write(y, [1, BC]).scatter_add(p.read(x, [BR, BC])[i, j], [row, columns], deterministic=EXACT)


@tile.kernel(grid=lambda out, **_: (out.shape[0], out.shape[1]))
def paged_decode(p, q, keys, values, table, lengths, out, *, PAGE, GROUP, D):
    """Attention of a step of decoding: q [batch, heads, GROUP, D], keys [pages, heads, PAGE, D].

    Each sequence's keys and values lie in the pages that its row of a table names.
    """
    batch, head = p.id(0), p.id(1)
    K, V, T = p.read(keys, [PAGE, D]), p.read(values, [PAGE, D]), p.read(table, [1])
    length = p.read(lengths, [1]).index([batch])
    query = (p.read(q, [GROUP, D])[batch, head, 0, 0] * D**-0.5).to(q.dtype)
    column = p.iota([1, PAGE], 1, I32)
    acc, total, high = p.zeros([GROUP, D]), p.zeros([GROUP, 1]), p.full([GROUP, 1], -1e30)
    for block in range(tile.cdiv(length, PAGE)):
        page = T.index([batch, block])
        scores = (column + block * PAGE < length).select(query @ K[page, head, 0, 0].T, -1e30)
        above = max(high, scores.max(1))
        weights, before = (scores - above).exp(), (high - above).exp()
        acc = acc * before + weights.to(q.dtype) @ V[page, head, 0, 0]
        total, high = total * before + weights.sum(1), above
    p.write(out, [GROUP, D])[batch, head, 0, 0] = acc / total


def cache(kind: str, group: int, page: int, depth: int) -> list[np.ndarray]:
    """Queries, pages of two heads, a table, lengths and room for three sequences."""
    q, keys = numbers(3, 2, group, depth, kind=kind), numbers(11, 2, page, depth, kind=kind, seed=1)
    values, table = numbers(11, 2, page, depth, kind=kind, seed=2), permutation(11)[:9].reshape(3, 3)
    lengths = np.array([1, 2 * page, 2 * page + 5], np.int32)
    return [q, keys, values, table, lengths, room(3, 2, group, depth, kind=kind)]


def of_attention(arrays, result):
    """Weights of at most 1 rounded to the cache's type, and values below about 4."""
    return 2.0**-6 if arrays[0].dtype != np.float32 else 2.0**-18


def wholes(*shape: int, kind: str, low: int = -8, seed: int = 0) -> np.ndarray:
    """Whole numbers whose sums every type holds, so that their order does not matter."""
    rng = np.random.default_rng([seed, *shape])
    return rng.integers(low, 8, shape).astype(TYPES[kind])


CASES = [
    *(
        Case(
            f"gradients of {kind}",
            gradients,
            lambda kind=kind, width=width: [
                wholes(30, width, kind=kind),
                places(30, 6),
                wholes(6, width, kind=kind, seed=1),
                wholes(2, 6, width, kind=kind, seed=2),
            ],
        )
        for kind, width in [("f32", 40), ("f16", 33), ("bf16", 64), ("i4", 40)]
    ),
    *(
        Case(
            f"histogram of {kind}",
            histogram,
            lambda kind=kind: [
                np.abs(numbers(1000, kind="i4")).astype(TYPES[kind]),
                wholes(2, 12, kind=kind),
            ],
        )
        for kind in ("i4", "i8")
    ),
    Case(
        "sums of segments",
        segmented_sum,
        lambda: [wholes(70, 100, kind="bf16"), np.array([0, 3, 3, 40, 70], np.int64), room(4, 100)],
    ),
    Case(
        "sums by id",
        sum_by_id,
        lambda: [wholes(70, 100, kind="f32"), np.sort(places(70, 9)), room(9, 100)],
    ),
    *(
        Case(
            f"exact sums of {kind} by id",
            sum_by_id,
            lambda kind=kind: [
                numbers(70, 100, kind=kind),
                places(70, 9),
                numbers(9, 100, kind=kind, seed=1),
            ],
            {"EXACT": True},
        )
        for kind in ("f32", "bf16", "f16")
    ),
    *(
        Case(
            f"paged decode {kind} {group} x {depth}",
            paged_decode,
            lambda kind=kind, group=group, page=page, depth=depth: cache(kind, group, page, depth),
            {"PAGE": page, "GROUP": group, "D": depth},
            of_attention,
        )
        for kind, group, page, depth in [("f32", 4, 16, 32), ("bf16", 16, 32, 64), ("f16", 1, 16, 64)]
    ),
    *(
        Case(
            f"rows of {kind} {height}x{width} by {ids}",
            rows,
            lambda kind=kind, height=height, width=width, ids=ids: [
                numbers(height, width, kind=kind),
                places(37, height, kind=ids),
                room(37, width, kind=kind),
            ],
        )
        for kind, height, width, ids in [
            ("f32", 50, 96, "i4"),
            ("bf16", 20, 200, "i8"),
            ("u1", 9, 77, "i1"),
            ("i8", 1, 1, "i4"),
        ]
    ),
    Case(
        "rows of a transposed table",
        rows,
        lambda: [laid_out(numbers(40, 70), "F"), places(19, 40), room(19, 70)],
    ),
    Case(
        "rows permuted",
        permute,
        lambda: [numbers(33, 100), permutation(33), room(33, 100), room(33, 100)],
    ),
    Case(
        "rows backwards permuted",
        permute,
        lambda: [laid_out(numbers(33, 100, kind="f16"), "back"), permutation(33)]
        + [room(33, 100, kind="f16", order="steps") for _ in range(2)],
    ),
    Case(
        "single elements",
        flat,
        lambda: [numbers(1000), permutation(500), room(500), room(1000, kind="i4")],
    ),
    Case(
        "pages",
        pages,
        lambda: [numbers(7, 3, 16, 32, kind="bf16"), places(5, 7), room(3, 80, 32, kind="bf16")],
    ),
    Case("masked blocks", masks, lambda: [numbers(21, 70), room(21, 70), room(21, 70)]),
    *(
        Case(
            f"masked blocks of {kind}",
            masks,
            lambda kind=kind, out=out: [
                numbers(32, 128, kind=kind),
                *(room(32, 128, kind=out) for _ in range(2)),
            ],
        )
        for kind, out in (("bf16", "f32"), ("u1", "i4"))
    ),
    Case("neighbours", of_neighbours, lambda: [numbers(20, 30), places(160, 30, 20, 8), room(20, 8)]),
]
