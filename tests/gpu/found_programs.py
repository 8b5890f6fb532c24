"""Products in the shapes that people write them: programs that no benchmark names, at small sizes."""

from __future__ import annotations

import math

import gizml_tile as tile


def by_tiles(y, BM, BN, **_):
    return tile.cdiv(y.shape[-2], BM), tile.cdiv(y.shape[-1], BN)


def by_rows(y, BM, **_):
    return tile.cdiv(y.shape[0], BM)


@tile.kernel(grid=by_tiles)
def transposed_result(p, a, b, y, *, BM=64, BN=64, BK=64):
    """(A B)^T, stored as columns."""
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [BN, BK]), p.read(b, [BK, BM])
    acc = p.zeros([BN, BM])
    for k in range(A.blocks(1)):
        acc += A[j, k] @ B[k, i]
    p.write(y, [BM, BN])[i, j] = acc.T


@tile.kernel(grid=by_tiles)
def gated_unit(p, x, w, v, y, *, BM=64, BN=64, BK=64):
    i, j = p.id(0), p.id(1)
    X, W, V = p.read(x, [BM, BK]), p.read(w, [BK, BN]), p.read(v, [BK, BN])
    up, gate = p.zeros([BM, BN]), p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        up += X[i, k] @ W[k, j]
        gate += X[i, k] @ V[k, j]
    p.write(y, [BM, BN])[i, j] = up * gate * gate.sigmoid()


@tile.kernel(grid=by_tiles)
def normalised(p, x, w, y, *, BM=64, BN=64, BK=64):
    """Rows over their root mean square, found beside the product from the same blocks."""
    i, j = p.id(0), p.id(1)
    X, W = p.read(x, [BM, BK]), p.read(w, [BK, BN])
    acc, squares = p.zeros([BM, BN]), p.zeros([BM, 1])
    for k in range(X.blocks(1)):
        block = X[i, k]
        squares += (block * block).sum(1)
        acc += block @ W[k, j]
    p.write(y, [BM, BN])[i, j] = acc * (squares / X.dim(1)).rsqrt()


@tile.kernel(grid=by_tiles)
def normalised_before(p, x, w, y, *, BM=64, BN=64, BK=64):
    """The same with a loop for the norm and one for the product."""
    i, j = p.id(0), p.id(1)
    X, W = p.read(x, [BM, BK]), p.read(w, [BK, BN])
    acc, squares = p.zeros([BM, BN]), p.zeros([BM, 1])
    for k in range(X.blocks(1)):
        block = X[i, k]
        squares += (block * block).sum(1)
    for k in range(X.blocks(1)):
        acc += X[i, k] @ W[k, j]
    p.write(y, [BM, BN])[i, j] = acc * (squares / X.dim(1)).rsqrt()


@tile.kernel(grid=by_tiles)
def centred(p, x, w, y, *, BM=64, BN=64, BK=64):
    """(X - mean of each row) W as X W less the mean times the sums of W's columns."""
    i, j = p.id(0), p.id(1)
    X, W, Rows, Columns = p.read(x, [BM, BK]), p.read(w, [BK, BN]), p.read(x, [BM, BK]), p.read(w, [BK, BN])
    acc, rows, columns = p.zeros([BM, BN]), p.zeros([BM, 1]), p.zeros([1, BN])
    for k in range(X.blocks(1)):
        rows += Rows[i, k].sum(1)
        columns += Columns[k, j].sum(0)
    for k in range(X.blocks(1)):
        acc += X[i, k] @ W[k, j]
    p.write(y, [BM, BN])[i, j] = acc - rows / X.dim(1) * columns


@tile.kernel(grid=by_tiles)
def squared_distances(p, x, z, y, *, BM=64, BN=64, BK=64):
    i, j = p.id(0), p.id(1)
    X, Z = p.read(x, [BM, BK]), p.read(z, [BN, BK])
    acc, left, right = p.zeros([BM, BN]), p.zeros([BM, 1]), p.zeros([BN, 1])
    for k in range(X.blocks(1)):
        left += (X[i, k] * X[i, k]).sum(1)
        right += (Z[j, k] * Z[j, k]).sum(1)
    for k in range(X.blocks(1)):
        acc += X[i, k] @ Z[j, k].T
    p.write(y, [BM, BN])[i, j] = (left + right.T - acc * 2).relu()


@tile.kernel(grid=by_tiles)
def cosines(p, x, z, norms, others, y, *, BM=64, BN=64, BK=64):
    i, j = p.id(0), p.id(1)
    X, Z = p.read(x, [BM, BK]), p.read(z, [BN, BK])
    acc = p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        acc += X[i, k] @ Z[j, k].T
    p.write(y, [BM, BN])[i, j] = acc / (p.read(norms, [BM, 1])[i, 0] * p.read(others, [BN])[j])


@tile.kernel(grid=by_rows)
def row_maxima(p, a, b, y, *, BM=64, BN=64, BK=64):
    """The largest of each row of a block of a product, which is not stored itself."""
    i = p.id(0)
    A, B = p.read(a, [BM, BK]), p.read(b, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, 0]
    p.write(y, [BM, 1])[i, 0] = acc.max(1)


@tile.kernel(grid=by_rows)
def classified(p, x, w, y, *, BM=64, BN=64, BK=64):
    """Softmax of a product's rows."""
    i = p.id(0)
    X, W = p.read(x, [BM, BK]), p.read(w, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        acc += X[i, k] @ W[k, 0]
    e = (acc - acc.max(1)).exp()
    p.write(y, [BM, BN])[i, 0] = e / e.sum(1)


@tile.kernel(grid=lambda y, BM, BN, **_: (*by_tiles(y, BM, BN), y.shape[0]))
def batched(p, a, b, y, *, BM=64, BN=64, BK=64):
    i, j, n = p.id(0), p.id(1), p.id(2)
    A, B = p.read(a, [BM, BK]), p.read(b, [BN, BK])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(2)):
        acc += A[n, i, k] @ B[n, j, k].T
    p.write(y, [BM, BN])[n, i, j] = acc


@tile.kernel(grid=by_tiles)
def activated(p, a, b, bias, y, *, BM=64, BN=64, BK=64):
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK]), p.read(b, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    p.write(y, [BM, BN])[i, j] = (acc + p.read(bias, [BN])[j]).gelu()


@tile.kernel(grid=by_tiles)
def dequantised(p, a, w, scale, y, *, BM=64, BN=64, BK=64):
    i, j = p.id(0), p.id(1)
    A, W, columns = p.read(a, [BM, BK]), p.read(w, [BK, BN]), p.read(scale, [BN])[j]
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ (W[k, j].to(tile.F32) * columns).to(tile.BF16)
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=by_tiles)
def scaled_operand(p, a, scale, b, y, *, BM=64, BN=64, BK=64):
    i, j = p.id(0), p.id(1)
    A, B, rows = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.read(scale, [BM, 1])[i, 0]
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += (A[i, k] * rows).to(tile.BF16) @ B[k, j]
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=by_tiles)
def gram(p, a, y, *, BM=64, BN=64, BK=64):
    """A^T A, a sum of outer products of rows."""
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [BK, BM]), p.read(a, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(0)):
        acc += A[k, i].T @ B[k, j]
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=by_tiles)
def difference(p, a, b, c, d, y, *, BM=64, BN=64, BK=64):
    """A B - C D by two loops: the real part of a complex product."""
    i, j = p.id(0), p.id(1)
    A, B, C, D = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.read(c, [BM, BK]), p.read(d, [BK, BN])
    first, second = p.zeros([BM, BN]), p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        first += A[i, k] @ B[k, j]
    for k in range(C.blocks(1)):
        second += C[i, k] @ D[k, j]
    p.write(y, [BM, BN])[i, j] = first - second


@tile.kernel(grid=by_tiles)
def upper_triangle(p, a, b, y, *, BM=64, BN=64, BK=64):
    """A triangular matrix times another: blocks before the diagonal are not visited."""
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK]), p.read(b, [BK, BN])
    acc = p.zeros([BM, BN])
    for k in range(i * BM // BK, A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=by_rows)
def low_rank(p, a, b, c, y, *, BM=64, BN=64, BK=64, RANK=64):
    """(A B) C of narrow B: a product that is an operand outside of loops."""
    i = p.id(0)
    A, B, C, Y = p.read(a, [BM, BK]), p.read(b, [BK, RANK]), p.read(c, [RANK, BN]), p.write(y, [BM, BN])
    inner = p.zeros([BM, RANK])
    for k in range(A.blocks(1)):
        inner += A[i, k] @ B[k, 0]
    narrow = inner.to(tile.BF16)
    for j in range(C.blocks(1)):
        Y[i, j] = narrow @ C[0, j]


@tile.kernel(grid=by_rows)
def two_layers(p, x, w, v, y, *, BM=64, D=64, H=64):
    i = p.id(0)
    X, W, V = p.read(x, [BM, D]), p.read(w, [D, H]), p.read(v, [H, D])
    rows, acc = X[i, 0], p.zeros([BM, D])
    for h in range(W.blocks(1)):
        acc += (rows @ W[0, h]).gelu().to(tile.BF16) @ V[h, 0]
    p.write(y, [BM, D])[i, 0] = acc


@tile.kernel(grid=by_rows)
def gated_layers(p, x, w, u, v, y, *, BM=64, D=64, H=64):
    """A gated layer and the one behind it in one kernel: two products feed the third."""
    i = p.id(0)
    X, W, U, V = p.read(x, [BM, D]), p.read(w, [D, H]), p.read(u, [D, H]), p.read(v, [H, D])
    rows, acc = X[i, 0], p.zeros([BM, D])
    for h in range(W.blocks(1)):
        gate = rows @ W[0, h]
        acc += (gate * gate.sigmoid() * (rows @ U[0, h])).to(tile.BF16) @ V[h, 0]
    p.write(y, [BM, D])[i, 0] = acc


@tile.kernel(grid=by_rows)
def linear_attention(p, q, k, v, y, *, BM=64, BN=64, D=64):
    i = p.id(0)
    Q, K, V = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D])
    query, acc = Q[i, 0], p.zeros([BM, D])
    for j in range(K.blocks(0)):
        acc += (query @ K[j, 0].T).relu().to(tile.BF16) @ V[j, 0]
    p.write(y, [BM, D])[i, 0] = acc


@tile.kernel(grid=lambda y, BM, **_: (tile.cdiv(y.shape[1], BM), y.shape[0]))
def attention(p, q, k, v, y, *, BM=64, BN=64, D=64, SHARED=1, WINDOW=0, CAP=0.0, SLOPE=0.0):
    """Attention with heads that share keys, a causal window, a cap on scores, or a slope by distance."""
    p.approx()
    i, head = p.id(0), p.id(1)
    Q, K, V = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D])
    query, row = Q[head, i, 0], p.iota([BM, 1], 0) + i * BM
    top, total, acc = p.full([BM, 1], -1e30), p.zeros([BM, 1]), p.zeros([BM, D])
    first, last = max(0, (i * BM - WINDOW + 1) // BN) if WINDOW else 0, K.blocks(1)
    for j in range(first, min(last, tile.cdiv((i + 1) * BM, BN)) if WINDOW else last):
        scores, column = (query @ K[head // SHARED, j, 0].T) * D**-0.5, p.iota([1, BN], 1) + j * BN
        if CAP:
            scores = (scores * (1 / CAP)).tanh() * CAP
        if SLOPE:
            scores = scores - abs(row - column) * SLOPE
        seen = column < K.dim(1)
        if WINDOW:
            seen = seen and column <= row and column > row - WINDOW
        scores = scores if seen else -math.inf
        higher = max(top, scores.max(1))
        weights, shrink = (scores - higher).exp(), (top - higher).exp()
        total = total * shrink + weights.sum(1)
        acc = acc * shrink + weights.to(tile.BF16) @ V[head // SHARED, j, 0]
        top = higher
    p.write(y, [BM, D])[head, i, 0] = acc / total
