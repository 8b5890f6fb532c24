"""Our kernels of what people bring from elsewhere: plain programs, as in ``gpu_kernels``."""

from __future__ import annotations

import math

import gizml_tile as tile
from gizml_tile import I32


@tile.kernel(grid=lambda y, BR, BC: (tile.cdiv(y.shape[1], BC), tile.cdiv(y.shape[0], BR)))
def lookup(p, table, ids, y, *, BR=4, BC=1024):
    j, i = p.id(0), p.id(1)
    columns = p.iota([1, BC], 1, I32) + j * BC
    p.write(y, [BR, BC])[i, j] = p.read(table, [1, BC]).gather([p.read(ids, [BR])[i].T, columns])


@tile.kernel(grid=lambda x, BR, BC, **_: (tile.cdiv(x.shape[1], BC), tile.cdiv(x.shape[0], BR)))
def permuted(p, x, order, y, *, BR=4, BC=1024):
    j, i = p.id(0), p.id(1)
    columns = p.iota([1, BC], 1, I32) + j * BC
    p.write(y, [1, BC]).scatter(p.read(x, [BR, BC])[i, j], [p.read(order, [BR], pad=-1)[i].T, columns])


@tile.kernel(grid=lambda g, BR, BC, **_: (tile.cdiv(g.shape[1], BC), tile.cdiv(g.shape[0], BR)))
def gradient(p, g, ids, table, *, BR=4, BC=256, EXACT=False):
    j, i = p.id(0), p.id(1)
    columns = p.iota([1, BC], 1, I32) + j * BC
    rows = p.read(ids, [BR], pad=-1)[i].T
    p.write(table, [1, BC]).scatter_add(p.read(g, [BR, BC])[i, j], [rows, columns], deterministic=EXACT)


@tile.kernel(grid=lambda y, BC, **_: (tile.cdiv(y.shape[1], BC), y.shape[0]))
def segmented_sum(p, x, starts, y, *, BR=16, BC=256):
    j, i = p.id(0), p.id(1)
    X, S, total = p.read(x, [BR, BC]), p.read(starts, [1]), p.zeros([1, BC])
    stop = S.index([i + 1])
    for first in range(S.index([i]), stop, BR):
        inside = p.iota([BR, 1], 0, I32) + first < stop
        total += X.window([first, j * BC], mask=inside).sum(0)
    p.write(y, [1, BC])[i, j] = total


@tile.kernel(grid=lambda out, **_: (out.shape[0], out.shape[1]))
def paged_decode(p, q, keys, values, table, lengths, out, *, PAGE, GROUP, D):
    """Keys and values [pages, heads, PAGE, D]; each sequence's pages are in its row of a table."""
    p.approx()
    batch, head = p.id(0), p.id(1)
    K, V, T = p.read(keys, [PAGE, D]), p.read(values, [PAGE, D]), p.read(table, [1])
    length = p.read(lengths, [1]).index([batch])
    query, column = p.read(q, [GROUP, D])[batch, head, 0, 0], p.iota([1, PAGE], 1, I32)
    acc, total, high = p.zeros([GROUP, D]), p.zeros([GROUP, 1]), p.full([GROUP, 1], -1e30)
    for block in range(tile.cdiv(length, PAGE)):
        page = T.index([batch, block])
        scores = (query @ K[page, head, 0, 0].T) * D**-0.5
        scores = scores if column + block * PAGE < length else -1e30
        higher = max(high, scores.max(1))
        weights, shrink = (scores - higher).exp(), (high - higher).exp()
        total = total * shrink + weights.sum(1)
        acc = acc * shrink + weights.to(values.dtype) @ V[page, head, 0, 0]
        high = higher
    p.write(out, [GROUP, D])[batch, head, 0, 0] = acc / total


@tile.kernel(grid=lambda x, ROWS, **_: tile.cdiv(x.shape[0], ROWS))
def gating(p, x, experts, weights, *, EXPERTS=64, K=8, ROWS=32):
    i = p.id(0)
    best, expert = p.read(x, [ROWS, EXPERTS], pad=-math.inf)[i, 0].topk(K, 1)
    e = (best - best.max(1)).exp()
    p.write(experts, [ROWS, K])[i, 0] = expert
    p.write(weights, [ROWS, K])[i, 0] = e / e.sum(1)


@tile.kernel(grid=lambda loss, ROWS, **_: tile.cdiv(loss.shape[0], ROWS))
def cross_entropy(p, logits, labels, loss, *, ROWS=1, BLOCK=4096, APPROX=False):
    if APPROX:
        p.approx()
    i = p.id(0)
    X = p.read(logits, [ROWS, BLOCK], pad=-math.inf)
    top, total = p.full([ROWS, 1], -math.inf), p.zeros([ROWS, 1])
    for k in range(X.blocks(1)):
        block = X[i, k]
        higher = max(top, block.max(1))
        total = total * (top - higher).exp() + (block - higher).exp().sum(1)
        top = higher
    row = p.iota([ROWS, 1], 0, I32) + i * ROWS
    p.write(loss, [ROWS])[i] = (top + total.log() - X.gather([row, p.read(labels, [ROWS])[i].T])).T


@tile.kernel(grid=lambda y, BLOCK, **_: tile.cdiv(y.shape[0], BLOCK))
def dropout(p, x, seed, y, *, SHARE=0.1, BLOCK=1024):
    i = p.id(0)
    kept = p.random(seed, i * (BLOCK // 4), [1, BLOCK], "uniform") >= SHARE
    t = p.read(x, [BLOCK])[i]
    p.write(y, [BLOCK])[i] = t * (1 / (1 - SHARE)) if kept else 0


@tile.kernel(grid=lambda x, BM, **_: (tile.cdiv(x.shape[1], BM), x.shape[0]))
def rotary(p, x, cos, sin, y, *, D, BM=32):
    i, head = p.id(0), p.id(1)
    c, s = p.read(cos, [BM, D // 2])[i, 0], p.read(sin, [BM, D // 2])[i, 0]
    a, b = p.read(x, [BM, D])[head, i, 0].split(1)
    p.write(y, [BM, D])[head, i, 0] = (a * c - b * s).concat(a * s + b * c, 1)


@tile.kernel(grid=lambda x, ROWS, **_: tile.cdiv(x.shape[0], ROWS))
def running_sum(p, x, y, *, COLUMNS, ROWS=1):
    i = p.id(0)
    p.write(y, [ROWS, COLUMNS])[i, 0] = p.read(x, [ROWS, COLUMNS])[i, 0].cumsum(1)


@tile.kernel(grid=lambda x, ROWS, **_: tile.cdiv(x.shape[0], ROWS))
def in_order(p, x, y, *, COLUMNS, ROWS=1):
    i = p.id(0)
    p.write(y, [ROWS, COLUMNS])[i, 0] = p.read(x, [ROWS, COLUMNS])[i, 0].sort(1)[0]


@tile.kernel(grid=lambda y, BR, BC, **_: (tile.cdiv(y.shape[1], BC), tile.cdiv(y.shape[0], BR)))
def nine_points(p, x, w, y, *, BR=16, BC=256):
    """A convolution with 3 x 3 weights of a plane, zeros around it."""
    j, i = p.id(0), p.id(1)
    X, W, total = p.read(x, [BR, BC]), p.read(w, [1, 1]), p.zeros([BR, BC])
    for row in tile.unroll(range(3)):
        for column in tile.unroll(range(3)):
            total += X.window([i * BR + row - 1, j * BC + column - 1]) * W[row, column]
    p.write(y, [BR, BC])[i, j] = total


@tile.kernel(grid=lambda y, BR, BC, **_: (tile.cdiv(y.shape[1], BC), tile.cdiv(y.shape[0], BR)))
def causal_convolution(p, x, w, y, *, BR=16, BC=256):
    """Each channel's last four times by its four weights, as before a selective scan."""
    j, i = p.id(0), p.id(1)
    X, W, total = p.read(x, [BR, BC]), p.read(w, [1, BC]), p.zeros([BR, BC])
    for back in tile.unroll(range(4)):
        total += X.window([i * BR - back, j * BC]) * W[back, j]
    p.write(y, [BR, BC])[i, j] = total


@tile.kernel(grid=lambda h, C, **_: tile.cdiv(h.shape[1], C))
def recurrence(p, a, b, h, *, T=16, C=32):
    """h[t] = a[t] h[t - 1] + b[t] for each channel, a block of times after the other."""

    def follow(a1, b1, a2, b2):
        return a1 * a2, b1 * a2 + b2

    j = p.id(0)
    A, B, H = p.read(a, [T, C], pad=1), p.read(b, [T, C]), p.write(h, [T, C])
    state = p.zeros([1, C])
    for t in range(A.blocks(0)):
        decay, inner = A[t, j].associative_scan(follow, 0, B[t, j])
        whole = decay * state + inner
        H[t, j] = whole
        state = whole[T - 1 :]


@tile.kernel(grid=lambda x, BLOCK, COUNT, **_: tile.cdiv(x.shape[0], BLOCK * COUNT))
def histogram(p, x, counts, *, BINS=256, BLOCK=4096, COUNT=16):
    i = p.id(0)
    X, total = p.read(x, [BLOCK]), p.zeros([1, BINS], I32)
    for k in range(COUNT):
        total = total + X[i * COUNT + k].to(I32).histogram(BINS)
    p.write(counts, [1]).scatter_add(total, [p.iota([1, BINS], 1, I32)])


@tile.kernel(grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def quantised(p, a, b, rows, columns, c, *, BM=128, BN=128, BK=128):
    """Products of I8, [M, K] and [N, K], times a number for each row and column."""
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK]), p.read(b, [BN, BK])
    acc = p.zeros([BM, BN], I32)
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[j, k].T
    scaled = acc.to(tile.F32) * p.read(rows, [BM, 1])[i, 0] * p.read(columns, [BN])[j]
    p.write(c, [BM, BN])[i, j] = scaled
