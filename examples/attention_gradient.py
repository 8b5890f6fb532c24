"""The gradient of causal attention without the matrix of weights: they are computed again, block by block.

The forward pass keeps one number of each row: the logarithm ``lse`` of the sum of its exponentials, so that
a weight is exp(score - lse). With O = P V and dP = dO V', the gradient of the scores is P (dP - delta),
where delta is the row's sum of O dO. One kernel holds a block of keys and goes down the queries, the other
holds a block of queries and goes along the keys; so no two programs add to the same place.
"""

import math

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda dk, BN, **_: (tile.cdiv(dk.shape[1], BN), dk.shape[0]))
def of_keys(p, q, k, v, do, lse, delta, dk, dv, *, D, BM=32, BN=32):
    j, head = p.id(0), p.id(1)
    Q, DO = p.read(q, [BM, D]), p.read(do, [BM, D])
    # Past the end lse is infinite, so a row that is not there has weights 0.
    L, E = p.read(lse, [BM], pad=math.inf), p.read(delta, [BM])
    key, value = p.read(k, [BN, D])[head, j, 0], p.read(v, [BN, D])[head, j, 0]
    row, column = p.iota([1, BM], 1, tile.I32), p.iota([BN, 1], 0, tile.I32) + j * BN
    of_key, of_value = p.zeros([BN, D]), p.zeros([BN, D])
    for i in range(j * BN // BM, Q.blocks(1)):
        query, gradient = Q[head, i, 0], DO[head, i, 0]
        weights = ((key @ query.T) * D**-0.5 - L[head, i]).exp()  # transposed: [keys, queries]
        weights = weights if column <= row + i * BM else 0
        of_value += weights.to(v.dtype) @ gradient
        scores = weights * (value @ gradient.T - E[head, i])
        of_key += scores.to(k.dtype) @ query
    p.write(dk, [BN, D])[head, j, 0] = of_key * D**-0.5
    p.write(dv, [BN, D])[head, j, 0] = of_value


@tile.kernel(grid=lambda dq, BM, **_: (tile.cdiv(dq.shape[1], BM), dq.shape[0]))
def of_queries(p, q, k, v, do, lse, delta, dq, *, D, BM=32, BN=32):
    i, head = p.id(0), p.id(1)
    K, V = p.read(k, [BN, D]), p.read(v, [BN, D])
    query, gradient = p.read(q, [BM, D])[head, i, 0], p.read(do, [BM, D])[head, i, 0]
    logarithm, sums = p.read(lse, [BM])[head, i].T, p.read(delta, [BM])[head, i].T
    row, column = p.iota([BM, 1], 0, tile.I32) + i * BM, p.iota([1, BN], 1, tile.I32)
    acc = p.zeros([BM, D])
    for j in range(min(K.blocks(1), tile.cdiv((i + 1) * BM, BN))):
        key = K[head, j, 0]
        weights = ((query @ key.T) * D**-0.5 - logarithm).exp()
        weights = weights if column + j * BN <= row else 0
        scores = weights * (gradient @ V[head, j, 0].T - sums)
        acc += scores.to(q.dtype) @ key
    p.write(dq, [BM, D])[head, i, 0] = acc * D**-0.5


def forward(q, k, v):
    """The result, the weights, and the logarithm of each row's sum."""
    scores = q @ k.swapaxes(1, 2) * q.shape[2] ** -0.5
    scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    top = scores.max(2, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(2, keepdims=True)
    weights /= total
    return weights @ v, weights, (top + np.log(total))[..., 0]


def reference(q, k, v, do):
    out, weights, _ = forward(q, k, v)
    scores = weights * (do @ v.swapaxes(1, 2) - (out * do).sum(2, keepdims=True)) * q.shape[2] ** -0.5
    return scores @ k, scores.swapaxes(1, 2) @ q, weights.swapaxes(1, 2) @ do


def main(quick=False):
    shape = (2, 70, 32) if quick else (8, 1000, 64)
    q, k, v, do = (measure.random(*shape, seed=seed) for seed in range(4))
    out, _, lse = forward(q, k, v)
    given = [q, k, v, do, lse, (out * do).sum(2)]
    dq, dk, dv = (np.empty_like(q) for _ in range(3))

    def ours():
        of_keys(*given, dk, dv, D=shape[2])
        of_queries(*given, dq, D=shape[2])

    ours()
    truth = reference(*(array.astype(np.float64) for array in (q, k, v, do)))
    for name, result, expected in zip("qkv", (dq, dk, dv), truth, strict=True):
        measure.check(f"attention_gradient, of {name}", result, expected, 1e-4)
    work = 7e-9 * q.size * shape[1]
    title = f"gradient of attention {'x'.join(map(str, shape))}"
    measure.compare(title, work, "GFLOP/s", ours, quick, NumPy=lambda: reference(q, k, v, do))


if __name__ == "__main__":
    measure.run(main)
