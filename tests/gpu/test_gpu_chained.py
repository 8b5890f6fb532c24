"""Loops whose products take what is computed of others: results, which programs qualify, and the code."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from gpu_cases import numbers, room, wide

import gizml_tile as tile
from gizml_tile.lowering.simulate.findings import COSTS

sys.path.append(str(Path(__file__).parents[1] / "assemble"))

from ptxas import assemble

pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")
HOPPER = {"kind": "cuda", "arch": "sm_90a"}
TYPES = {"bf16": tile.BF16, "f16": tile.F16}


@tile.kernel(grid=lambda q, BM, **_: (tile.cdiv(q.shape[1], BM), q.shape[0]))
def attention(p, q, k, v, out, *, D, BM=128, BN=128, CAUSAL=False, APPROX=False, KIND="bf16"):
    if APPROX:
        p.approx()
    i, head = p.id(0), p.id(1)
    Q, K, V = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D])
    query = Q[head, i, 0]
    top, total, acc = p.full([BM, 1], -math.inf), p.zeros([BM, 1]), p.zeros([BM, D])
    blocks = K.blocks(1)
    if CAUSAL:
        blocks = min(blocks, tile.cdiv((i + 1) * BM, BN))
    for j in range(blocks):
        scores = (query @ K[head, j, 0].T) * D**-0.5
        column = p.iota([1, BN], 1) + j * BN
        seen = column < K.dim(1)
        if CAUSAL:
            seen = seen and column <= p.iota([BM, 1], 0) + i * BM
        scores = scores if seen else -math.inf
        higher = max(top, scores.max(1))
        weights = (scores - higher).exp()
        shrink = (top - higher).exp()
        total = total * shrink + weights.sum(1)
        acc = acc * shrink + weights.to(TYPES[KIND]) @ V[head, j, 0]
        top = higher
    p.write(out, [BM, D])[head, i, 0] = acc / total


@tile.kernel(grid=lambda x, BM, **_: tile.cdiv(x.shape[0], BM))
def two_layers(p, x, w, v, y, *, D=64, N=64, H=64, BM=128):
    """Two products with an activation between them, over blocks of the hidden layer."""
    i = p.id(0)
    X, W, V = p.read(x, [BM, D]), p.read(w, [D, H]), p.read(v, [H, N])
    rows, acc = X[i, 0], p.zeros([BM, N])
    for h in range(W.blocks(1)):
        hidden = (rows @ W[0, h]).relu()
        acc += hidden.to(tile.BF16) @ V[h, 0]
    p.write(y, [BM, N])[i, 0] = acc


def softmax_of(q, k, v, causal):
    scores = wide(q) @ wide(k).swapaxes(1, 2) * q.shape[2] ** -0.5
    if causal:
        scores = np.where(np.tri(q.shape[1], k.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(2, keepdims=True))
    return weights @ wide(v) / weights.sum(2, keepdims=True)


def is_chained(kernel, *tensors, **constants):
    """Whether four warps multiply with blocks that are brought; then nothing may spill or be serialised."""
    text = kernel.source(*tensors, **HOPPER, **constants)
    report = assemble(text, "sm_90a")
    assert (report.spills, report.warnings) == (0, ())
    return "wgmma.mma_async" in text and "cp.async.bulk.tensor" in text


def simulated(kernel, *tensors, **constants):
    ran = kernel.simulate(*tensors, **HOPPER, **constants)
    assert not [str(each) for each in ran.findings if each.kind not in COSTS]


CASES = [
    # rows of queries, rows of keys, columns
    (256, 256, 64, {}),
    (256, 384, 128, {}),
    (72, 200, 64, {"KIND": "f16"}),
    (200, 8, 128, {"APPROX": True}),
    (384, 384, 64, {"CAUSAL": True, "APPROX": True}),
    (328, 328, 128, {"CAUSAL": True}),
    (192, 192, 64, {"CAUSAL": True, "BM": 64}),
    (256, 256, 64, {"BN": 64, "CAUSAL": True}),
]


@pytest.mark.parametrize("rows, keys, depth, constants", CASES)
def test_attention(rows, keys, depth, constants):
    kind = constants.get("KIND", "bf16")
    q, k, v = (numbers(2, size, depth, kind=kind, seed=n) for n, size in enumerate((rows, keys, keys)))
    out = room(2, rows, depth, kind=kind)
    assert is_chained(attention, q, k, v, out, D=depth, **constants)
    simulated(attention, q, k, v, out, D=depth, **constants)
    want = softmax_of(q, k, v, constants.get("CAUSAL", False))
    assert np.abs(wide(out) - want).max() <= 2.0**-7 * np.abs(want).max()


def test_two_layers():
    x, w, v = numbers(200, 64, kind="bf16"), numbers(64, 256, kind="bf16"), numbers(256, 64, kind="bf16")
    y = room(200, 64)
    assert is_chained(two_layers, x, w, v, y)
    simulated(two_layers, x, w, v, y)
    hidden = np.maximum(wide(x) @ wide(w), 0)
    assert np.abs(wide(y) - hidden @ wide(v)).max() <= 2.0**-7 * np.abs(wide(y)).max()
