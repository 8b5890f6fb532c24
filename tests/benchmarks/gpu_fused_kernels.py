"""Our kernels of fused products and of attention's variants: plain programs, as in ``gpu_kernels``."""

from __future__ import annotations

import math

import gizml_tile as tile


def by_tiles(c, BM, BN, **_):
    return tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)


@tile.kernel(grid=by_tiles)
def biased_gelu(p, a, b, bias, c, *, BM=128, BN=128, BK=64, APPROX=False):
    if APPROX:
        p.approx()
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = (acc + p.read(bias, [BN])[j]).gelu()


@tile.kernel(grid=by_tiles)
def with_residual(p, a, b, residual, c, *, BM=128, BN=128, BK=64):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = acc + p.read(residual, [BM, BN])[i, j]


@tile.kernel(grid=by_tiles)
def scaled_rows(p, a, scale, b, c, *, BM=128, BN=128, BK=64):
    """Rows of the left operand times their scales, rounded to the type of the other operand."""
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    rows, acc = p.read(scale, [BM, 1])[i, 0], p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += (A[i, k] * rows).to(b.dtype) @ B[k, j]
    C[i, j] = acc


@tile.kernel(grid=by_tiles)
def dequantised(p, a, w, scale, c, *, BM=128, BN=128, BK=64):
    """Weights in 8 bits times the scales of their columns, rounded to the type of the other operand."""
    i, j = p.id(0), p.id(1)
    A, W, C = p.read(a, [BM, BK]), p.read(w, [BK, BN]), p.write(c, [BM, BN])
    columns, acc = p.read(scale, [BN])[j], p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ (W[k, j].to(tile.F32) * columns).to(a.dtype)
    C[i, j] = acc


@tile.kernel(grid=by_tiles)
def dequantised_in_groups(p, a, w, scale, c, *, GROUP, BM=128, BN=128, BK=64):
    """Weights [N, K] in 8 bits times a scale for each row and so many elements of k."""
    i, j = p.id(0), p.id(1)
    A, W, Scale, C = p.read(a, [BM, BK]), p.read(w, [BN, BK]), p.read(scale, [BN, 1]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ (W[j, k].to(tile.F32) * Scale[j, k // (GROUP // BK)]).to(a.dtype).T
    C[i, j] = acc


@tile.kernel(grid=lambda q, BM, **_: (tile.cdiv(q.shape[2], BM), q.shape[1], q.shape[0]))
def attention(p, q, k, v, bias, out, *, D, SHARED=1, WINDOW=0, BIASED=False, APPROX=False, BM=128, BN=128):
    """Causal attention with heads that share keys, a window of keys, or numbers added to the scores."""
    if APPROX:
        p.approx()
    i, head, batch = p.id(0), p.id(1), p.id(2)
    Q, K, V, Bias = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D]), p.read(bias, [BM, BN])
    queries, row = Q[batch, head, i, 0], p.iota([BM, 1], 0) + i * BM
    top, total, acc = p.full([BM, 1], -1e30), p.zeros([BM, 1]), p.zeros([BM, D])
    first = max(0, (i * BM - WINDOW + 1) // BN) if WINDOW else 0
    for j in range(first, min(K.blocks(2), tile.cdiv((i + 1) * BM, BN))):
        scores = (queries @ K[batch, head // SHARED, j, 0].T) * D**-0.5
        if BIASED:
            scores = scores + Bias[i, j]
        column = p.iota([1, BN], 1) + j * BN
        seen = column <= row and column > row - WINDOW if WINDOW else column <= row
        scores = scores if seen else -math.inf
        higher = max(top, scores.max(1))
        weights = (scores - higher).exp()
        shrink = (top - higher).exp()
        total = total * shrink + weights.sum(1)
        acc = acc * shrink + weights.to(tile.BF16) @ V[batch, head // SHARED, j, 0]
        top = higher
    p.write(out, [BM, D])[batch, head, i, 0] = acc / total
