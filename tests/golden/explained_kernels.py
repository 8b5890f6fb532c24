"""The kernels whose explanations are kept as golden texts."""

import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def matmul(p, a, b, c, *, BM=128, BN=128, BK=64):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    C[i, j] = acc.relu()


@tile.kernel(grid=lambda y, **_: y.shape[0])
def softmax(p, x, y, *, N=4096):
    i = p.id(0)
    t = p.read(x, [1, N], pad=-np.inf)[i, 0]
    e = (t - t.max(1)).exp()
    p.write(y, [1, N])[i, 0] = e / e.sum(1)


@tile.kernel(grid=lambda y, B, **_: (tile.cdiv(y.shape[1], B), tile.cdiv(y.shape[0], B)))
def transpose(p, x, y, *, B=64):
    j, i = p.id(0), p.id(1)
    p.write(y, [B, B])[i, j] = p.read(x, [B, B])[j, i].T


@tile.kernel(grid=lambda o, BM, **_: (tile.cdiv(o.shape[1], BM), o.shape[0]))
def attention(p, q, k, v, o, scale, *, BM=64, BN=64, D=64):
    i, head = p.id(0), p.id(1)
    Q, K, V = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D])
    query = Q[head, i, 0]
    top, total, acc = p.full([BM, 1], -np.inf), p.zeros([BM, 1]), p.zeros([BM, D])
    for j in range(K.blocks(1)):
        scores = (query @ K[head, j, 0].T) * scale
        new_top = max(top, scores.max(1))
        weights = (scores - new_top).exp()
        shrink = (top - new_top).exp()
        total = total * shrink + weights.sum(1)
        acc = acc * shrink + weights.to(tile.BF16) @ V[head, j, 0]
        top = new_top
    p.write(o, [BM, D])[head, i, 0] = acc / total
