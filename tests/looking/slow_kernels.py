"""Kernels that are slow or wrong on purpose; with other constants or tensors they are mended.

A comment names each line that is to blame.
"""

import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda y, BR, BC, **_: (tile.cdiv(y.shape[1], BC), tile.cdiv(y.shape[0], BR)))
def doubled(p, x, y, *, BR=1, BC=1024):
    j, i = p.id(0), p.id(1)
    t = p.read(x, [BR, BC])[i, j]  # uncoalesced
    p.write(y, [BR, BC])[i, j] = t * 2.0


@tile.kernel(grid=lambda z, BR, BC, **_: (tile.cdiv(z.shape[1], BC), tile.cdiv(z.shape[0], BR)))
def added(p, x, y, z, *, BR=1, BC=1024, ELEMENTWISE=None):
    if ELEMENTWISE:
        p.variant("elementwise", ELEMENTWISE)
    j, i = p.id(0), p.id(1)
    s = p.read(x, [BR, BC])[i, j]
    t = p.read(y, [BR, BC])[i, j]  # mixed
    p.write(z, [BR, BC])[i, j] = s + t


@tile.kernel(grid=lambda y, B, **_: tile.cdiv(y.shape[0], B))
def turned_in_the_loop(p, x, w, y, *, B=32):
    i = p.id(0)
    X, W, acc = p.read(x, [B, B]), p.read(w, [B, B]), p.zeros([B, B])
    for k in range(X.blocks(1)):
        acc += (X[i, k] @ W[k, 0]).T  # converted
    p.write(y, [B, B])[i, 0] = acc


@tile.kernel(grid=lambda y, B, **_: tile.cdiv(y.shape[0], B))
def turned_after_the_loop(p, x, w, y, *, B=32):
    i = p.id(0)
    X, W, acc = p.read(x, [B, B]), p.read(w, [B, B]), p.zeros([B, B])
    for k in range(X.blocks(1)):
        acc += X[i, k] @ W[k, 0]
    p.write(y, [B, B])[i, 0] = acc.T


@tile.kernel(grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def matmul(p, a, b, c, *, BM=128, BN=128, BK=64, PAD=0.0):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK], pad=PAD), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]  # product
    C[i, j] = acc


@tile.kernel(grid=lambda c, BM, BN, **_: (tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)))
def shifted_matmul(p, a, b, c, *, BM=128, BN=128, BK=64, SHIFT=1):
    i, j = p.id(0), p.id(1)
    A, B, C = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.write(c, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(tile.cdiv(a.shape[1], BK)):
        acc += A.window([i * BM, k * BK + SHIFT]) @ B[k, j]  # unaligned
    C[i, j] = acc


@tile.kernel(grid=lambda c, B, **_: (tile.cdiv(c.shape[0], B), tile.cdiv(c.shape[1], B)))
def lower_matmul(p, a, b, c, *, B=128, BK=64, RETURN=True):
    i, j = p.id(0), p.id(1)
    A, W, C = p.read(a, [B, BK]), p.read(b, [BK, B]), p.write(c, [B, B])
    turns = A.blocks(1)
    if RETURN:
        if i < j:
            return
    else:
        turns = turns if i >= j else 0
    acc = p.zeros([B, B])
    for k in range(turns):  # in a branch
        acc += A[i, k] @ W[k, j]
    C[i, j] = acc


@tile.kernel(grid=lambda y, R, **_: tile.cdiv(y.shape[0], R))
def three_norms(p, x, y, *, R=16, N=1024):
    i = p.id(0)
    t = p.read(x, [R, N])[i, 0]  # too large
    e = (t - t.max(1)).exp()
    s = (t - t.min(1)).exp()
    total = (t * t).sum(1).sqrt()
    p.write(y, [R, N])[i, 0] = e / e.sum(1) + s / s.sum(1) + t / total  # spill


@tile.kernel(grid=lambda y, **_: y.shape[0])
def sigmoids(p, x, y, *, N=4096, APPROX=False):
    i = p.id(0)
    t = p.read(x, [1, N])[i, 0]
    for _ in tile.unroll(4):
        t = t.sigmoid(approx=APPROX)  # sigmoids
    p.write(y, [1, N])[i, 0] = t


@tile.kernel(grid=lambda y, **_: y.shape[0])
def softmax(p, x, y, *, N=1024, PAD=0.0):
    i = p.id(0)
    t = p.read(x, [1, N], pad=PAD)[i, 0]
    e = (t - t.max(1)).exp()  # no pad
    p.write(y, [1, N])[i, 0] = e / e.sum(1)


@tile.kernel(grid=lambda y, B, **_: tile.cdiv(y.shape[0], B))
def smoothed(p, x, y, *, B=64):
    i = p.id(0)
    X = p.read(x, [B])
    left, right = X.window([i * B - 1]), X.window([i * B + 1])
    p.write(y, [B])[i] = (left + X[i] + right) / 3.0  # race


@tile.kernel(grid=lambda y, R, **_: tile.cdiv(y.shape[0], R))
def activated(p, x, y, *, R=1, N=64):
    i = p.id(0)
    t = p.read(x, [R, N])[i, 0]
    p.write(y, [R, N])[i, 0] = t.sigmoid() * t.gelu() + t.tanh()  # replicated


@tile.kernel(grid=lambda y, R, **_: tile.cdiv(y.shape[0], R))
def row_sums(p, x, y, *, R=64, N=64):
    i = p.id(0)
    X, total = p.read(x, [R, N]), p.zeros([R, N])
    for k in range(X.blocks(1)):  # few programs
        total += X[i, k]
    p.write(y, [R, 1])[i, 0] = total.sum(1)


def zeros(*shape, dtype=np.float32):
    """A tensor that takes no memory until it is written."""
    return np.zeros(shape, dtype)


def column_major(*shape, dtype=np.float32):
    """A tensor whose first axis is contiguous."""
    return np.zeros(shape[::-1], dtype).T
