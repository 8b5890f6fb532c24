"""Our kernels of the GPU table: plain programs, without a word on layouts, roles or barriers."""

from __future__ import annotations

import math

import gizml_tile as tile


@tile.kernel(grid=lambda y, BLOCK: tile.cdiv(y.shape[0], BLOCK))
def copy(p, x, y, *, BLOCK=1024):
    i = p.id(0)
    p.write(y, [BLOCK])[i] = p.read(x, [BLOCK])[i]


@tile.kernel(grid=lambda z, BLOCK, **_: tile.cdiv(z.shape[0], BLOCK))
def add(p, x, y, z, *, BLOCK=1024):
    i = p.id(0)
    p.write(z, [BLOCK])[i] = p.read(x, [BLOCK])[i] + p.read(y, [BLOCK])[i]


@tile.kernel(grid=lambda z, BLOCK, **_: tile.cdiv(z.shape[0], BLOCK))
def scaled(p, x, y, z, n, factor, shift, *, BLOCK=256):
    """Three tensors and three ints, for the host's time of a launch."""
    i = p.id(0)
    inside = p.iota([1, BLOCK], 1, tile.I32) + i * BLOCK < n
    sum = p.read(x, [BLOCK])[i] + p.read(y, [BLOCK])[i] * factor + shift
    p.write(z, [BLOCK])[i] = sum if inside else 0


@tile.kernel(grid=lambda y, BM, BN, **_: (tile.cdiv(y.shape[1], BN), tile.cdiv(y.shape[0], BM)))
def gelu(p, x, w, b, y, *, BM=1, BN=2048, APPROX=False):
    if APPROX:
        p.approx()
    j, i = p.id(0), p.id(1)
    X, W, B = p.read(x, [BM, BN]), p.read(w, [BN]), p.read(b, [BN])
    p.write(y, [BM, BN])[i, j] = (X[i, j] * W[j] + B[j]).gelu()


@tile.kernel(grid=lambda y, ROWS, **_: tile.cdiv(y.shape[0], ROWS))
def softmax(p, x, y, *, COLUMNS, ROWS=1, APPROX=False):
    if APPROX:
        p.approx()
    i = p.id(0)
    row = p.read(x, [ROWS, COLUMNS], pad=-math.inf)[i, 0]
    e = (row - row.max(1)).exp()
    p.write(y, [ROWS, COLUMNS])[i, 0] = e / e.sum(1)


@tile.kernel(grid=lambda y, ROWS, **_: tile.cdiv(y.shape[0], ROWS))
def layernorm(p, x, w, b, y, *, COLUMNS, ROWS=1, APPROX=False):
    if APPROX:
        p.approx()
    i = p.id(0)
    row = p.read(x, [ROWS, COLUMNS])[i, 0]
    centred = row - row.sum(1) * (1 / COLUMNS)
    scale = ((centred * centred).sum(1) * (1 / COLUMNS) + 1e-5).rsqrt()
    p.write(y, [ROWS, COLUMNS])[i, 0] = centred * scale * p.read(w, [COLUMNS])[0] + p.read(b, [COLUMNS])[0]


@tile.kernel(grid=lambda y, ROWS, **_: tile.cdiv(y.shape[0], ROWS))
def rmsnorm(p, x, w, y, *, COLUMNS, ROWS=1, APPROX=False):
    if APPROX:
        p.approx()
    i = p.id(0)
    row = p.read(x, [ROWS, COLUMNS])[i, 0]
    scale = ((row * row).sum(1) * (1 / COLUMNS) + 1e-5).rsqrt()
    p.write(y, [ROWS, COLUMNS])[i, 0] = row * scale * p.read(w, [COLUMNS])[0]


@tile.kernel(grid=lambda y, BM, BN: (tile.cdiv(y.shape[1], BN), tile.cdiv(y.shape[0], BM)))
def transpose(p, x, y, *, BM=64, BN=64):
    j, i = p.id(0), p.id(1)
    p.write(y, [BM, BN])[i, j] = p.read(x, [BN, BM])[j, i].T


@tile.kernel(grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def matmul(p, a, b, c, *, BM=128, BN=128, BK=64, DOT="", DOUBLE=False):
    if DOT:
        p.variant("dot", DOT)
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN], tile.F64 if DOUBLE else tile.F32)
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = acc


@tile.kernel(grid=lambda q, BM, **_: (tile.cdiv(q.shape[2], BM), q.shape[1], q.shape[0]))
def attention(p, q, k, v, out, *, D=64, BM=64, BN=64):
    i, head, batch = p.id(0), p.id(1), p.id(2)
    Q, K, V, Out = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D]), p.write(out, [BM, D])
    queries = Q[batch, head, i, 0]
    top, total, acc = p.full([BM, 1], -math.inf), p.zeros([BM, 1]), p.zeros([BM, D])
    for j in range(K.blocks(2)):
        scores = (queries @ K[batch, head, j, 0].T) * D**-0.5
        scores = scores if p.iota([1, BN], 1) + j * BN < K.dim(2) else -math.inf
        higher = max(top, scores.max(1))
        weights = (scores - higher).exp()
        shrink = (top - higher).exp()
        total = total * shrink + weights.sum(1)
        acc = acc * shrink + weights.to(tile.F16) @ V[batch, head, j, 0]
        top = higher
    Out[batch, head, i, 0] = acc / total


@tile.kernel(grid=lambda q, BM, **_: (tile.cdiv(q.shape[2], BM), q.shape[1], q.shape[0]))
def attention_bf16(p, q, k, v, out, *, D, CAUSAL=False, APPROX=False, BM=128, BN=128):
    if APPROX:
        p.approx()
    i, head, batch = p.id(0), p.id(1), p.id(2)
    Q, K, V, Out = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D]), p.write(out, [BM, D])
    queries = Q[batch, head, i, 0]
    top, total, acc = p.full([BM, 1], -math.inf), p.zeros([BM, 1]), p.zeros([BM, D])
    blocks = min(K.blocks(2), tile.cdiv((i + 1) * BM, BN)) if CAUSAL else K.blocks(2)
    for j in range(blocks):
        scores = (queries @ K[batch, head, j, 0].T) * D**-0.5
        if CAUSAL:
            seen = p.iota([1, BN], 1) + j * BN <= p.iota([BM, 1], 0) + i * BM
            scores = scores if seen else -math.inf
        higher = max(top, scores.max(1))
        weights = (scores - higher).exp()
        shrink = (top - higher).exp()
        total = total * shrink + weights.sum(1)
        acc = acc * shrink + weights.to(tile.BF16) @ V[batch, head, j, 0]
        top = higher
    Out[batch, head, i, 0] = acc / total
