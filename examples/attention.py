"""softmax(q k^T / sqrt(d)) v without ever holding the scores of a whole row: the online softmax.

The rows of one block of queries meet the keys block by block. ``top`` is the largest score so far and
``total`` the sum of exponentials below it; when a block brings a larger score, what was accumulated is
scaled down to it.
"""

import math
from functools import partial

import measure
import numpy as np

import gizml_tile as tile


@tile.kernel(grid=lambda q, BM: (tile.cdiv(q.shape[2], BM), q.shape[1], q.shape[0]))
def attention(p, q, k, v, out, *, D=64, CAUSAL=False, RAGGED=True, BM=64, BN=64):
    i, head, batch = p.id(0), p.id(1), p.id(2)
    Q, K, V, Out = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D]), p.write(out, [BM, D])
    queries = Q[batch, head, i, 0] * D**-0.5
    top, total, acc = p.full([BM, 1], -math.inf), p.zeros([BM, 1]), p.zeros([BM, D])
    blocks = K.blocks(2)
    if CAUSAL:  # a constant, so this is Python's own `if`: keys right of the diagonal are never read
        blocks = min(blocks, tile.cdiv((i + 1) * BM, BN))
    for j in range(blocks):
        scores = queries @ K[batch, head, j, 0].T
        if CAUSAL or RAGGED:  # the last block of keys may have columns that no key fills
            column = p.iota([1, BN], 1) + j * BN
            seen = column < K.dim(2)
            if CAUSAL:
                seen = seen and column <= p.iota([BM, 1], 0) + i * BM
            scores = scores if seen else -math.inf
        higher = max(top, scores.max(1))
        weights = (scores - higher).exp()
        shrink = (top - higher).exp()
        total = total * shrink + weights.sum(1)
        acc = acc * shrink + weights @ V[batch, head, j, 0]
        top = higher
    Out[batch, head, i, 0] = acc / total


def reference(q, k, v, causal):
    scores = q @ k.swapaxes(2, 3) * q.shape[3] ** -0.5
    if causal:
        scores = np.where(np.tri(q.shape[2], k.shape[2], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(3, keepdims=True))
    return weights @ v / weights.sum(3, keepdims=True)


def main(quick=False):
    for length, depth, causal in [(1000, 64, False), (1024, 64, True), (512, 128, False)]:
        shape = (1, 2, length // 5, depth) if quick else (1, 8, length, depth)
        q, k, v = (measure.random(*shape, seed=seed) for seed in (1, 2, 3))
        out = np.empty_like(q)
        width = 128 if causal else 256
        # Blocks of 64 fit every device; this computer's caches like larger ones.
        blocks = {"BM": 128, "BN": width, "RAGGED": shape[2] % width != 0}
        constants = {"D": depth, "CAUSAL": causal, **blocks}
        attention(q, k, v, out, **constants)
        name = f"attention {'x'.join(map(str, shape))}{' causal' if causal else ''}"
        wide = [array.astype(np.float64) for array in (q, k, v)]
        measure.check(name, out, reference(*wide, causal), 1e-5)
        ours = partial(attention, q, k, v, out, **constants)
        peers = {"NumPy": partial(reference, q, k, v, causal)}
        if measure.torch:
            tensors = [measure.torch.from_numpy(array) for array in (q, k, v)]
            peers["PyTorch"] = partial(
                measure.torch.nn.functional.scaled_dot_product_attention, *tensors, is_causal=causal
            )
        work = 4e-9 * q.size * shape[2] / (2 if causal else 1)
        measure.compare(name, work, "GFLOP/s", ours, quick, **peers)


if __name__ == "__main__":
    measure.run(main)
