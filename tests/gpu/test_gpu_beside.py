"""Blocks that are computed on beside chained products: the copy engine brings each group its own rows."""

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

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


@tile.kernel(grid=lambda q, BM, **_: (tile.cdiv(q.shape[1], BM), q.shape[0]))
def attention(
    p,
    q,
    k,
    v,
    bias,
    out,
    *,
    D=64,
    BM=128,
    BN=64,
    FORM="[S, S]",
    CAUSAL=False,
    PAD=0.0,
    APPROX=True,
    PROGRAMS="",
    TURNS="",
):
    """Attention with a block of each head's or all heads' added to the scores, or telling what is seen."""
    if APPROX:
        p.approx()
    if PROGRAMS:
        p.variant("programs", PROGRAMS)
    if TURNS:
        p.variant("turns", TURNS)
    i, head = p.id(0), p.id(1)
    Q, K, V = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D])
    Bias = p.read(bias, [BM, BN], pad=PAD)
    query, row = Q[head, i, 0], p.iota([BM, 1], 0) + i * BM
    top, total, acc = p.full([BM, 1], -1e30), p.zeros([BM, 1]), p.zeros([BM, D])
    last = K.blocks(1)
    if CAUSAL:
        last = min(last, tile.cdiv((i + 1) * BM, BN))
    for j in range(last):
        scores = (query @ K[head, j, 0].T) * D**-0.5
        if FORM == "[S, S]":
            scores = scores + Bias[i, j]
        if FORM == "integers":
            scores = scores + Bias[i, j].to(tile.F32)
        if FORM == "[H, S, S]":
            scores = scores + Bias[head, i, j]
        if FORM == "twice":
            scores = scores * Bias[i, j] + Bias[i, j + 1]
        if FORM == "window":
            scores = scores + Bias.window((i * BM, j * BN))
        if FORM == "keys":
            scores = scores + p.read(bias, [1, BN])[0, j]
        if FORM == "mask":
            scores = scores if Bias[i, j] else -1e30
        column = p.iota([1, BN], 1) + j * BN
        seen = column < K.dim(1)
        if CAUSAL:
            seen = seen and column <= row
        scores = scores if seen else -math.inf
        higher = max(top, scores.max(1))
        weights = (scores - higher).exp()
        shrink = (top - higher).exp()
        total = total * shrink + weights.sum(1)
        acc = acc * shrink + weights.to(tile.BF16) @ V[head, j, 0]
        top = higher
    p.write(out, [BM, D])[head, i, 0] = acc / total


def wanted(q, k, v, bias, causal=False, form="[S, S]", BN=64):
    scores = wide(q) @ wide(k).swapaxes(1, 2) * q.shape[2] ** -0.5
    keys = k.shape[1]
    if form == "twice":
        scores = scores * wide(bias)[:, :keys] + wide(bias)[:, BN : BN + keys]
    else:
        scores = np.where(bias, scores, -np.inf) if form == "mask" else scores + wide(bias)
    if causal:
        scores = np.where(np.tri(q.shape[1], keys, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(2, keepdims=True))
    return weights @ wide(v) / weights.sum(2, keepdims=True)


def brought(told):
    """Whether the copy engine brings blocks of bias."""
    return "stages of bias" in told


def ran(q, k, v, bias, **constants):
    """The result of two simulations with equal bits and without races; nothing spills."""
    results = []
    for _ in range(2):
        out = room(*q.shape, kind="bf16")
        found = attention.simulate(q, k, v, bias, out, **HOPPER, D=q.shape[2], **constants)
        assert not [str(each) for each in found.findings if each.kind not in COSTS]
        results.append(out)
    assert results[0].tobytes() == results[1].tobytes()
    report = assemble(attention.source(q, k, v, bias, out, **HOPPER, D=q.shape[2], **constants), "sm_90a")
    assert (report.spills, report.warnings) == (0, ())
    told = attention.explain(q, k, v, bias, out, **HOPPER, D=q.shape[2], **constants)
    assert brought(told) or "goes to registers while products of its turn are made" in told
    return results[0]


def heads(number, rows, keys, depth):
    return (numbers(number, size, depth, kind="bf16", seed=n) for n, size in enumerate((rows, keys, keys)))


def assert_near(out, want):
    assert np.abs(wide(out) - want).max() <= 2.0**-7 * np.abs(want).max()


SIZES = [
    # rows, keys, depth, constants
    (200, 136, 64, {}),
    (8, 328, 128, {"BN": 128}),
    (264, 264, 128, {"BN": 128, "CAUSAL": True}),
    (136, 136, 64, {"CAUSAL": True, "APPROX": False}),
    (136, 200, 128, {"BN": 128, "APPROX": False}),
    (136, 200, 64, {"TURNS": "in order"}),
    (72, 200, 64, {"BM": 64, "BN": 128}),
    (264, 264, 64, {"BM": 64, "CAUSAL": True, "PROGRAMS": "3 together"}),
    (136, 72, 64, {"BM": 64, "BN": 128, "PROGRAMS": "3 together"}),
]


@pytest.mark.parametrize("rows, keys, depth, constants", SIZES)
def test_sizes(rows, keys, depth, constants):
    q, k, v = heads(1, rows, keys, depth)
    bias = numbers(rows, keys, kind="bf16", seed=3)
    assert_near(ran(q, k, v, bias, **constants), wanted(q, k, v, bias, constants.get("CAUSAL", False)))


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "fp8", "i1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_types(kind, order):
    q, k, v = heads(1, 144, 208, 64)
    bias, form = numbers(144, 208, kind=kind, seed=3), "integers" if kind == "i1" else "[S, S]"
    bias = bias // 16 if kind == "i1" else bias
    given = np.asfortranarray(bias) if order == "F" else bias
    assert_near(ran(q, k, v, given, FORM=form), wanted(q, k, v, bias))


@pytest.mark.parametrize("programs", ["apart", "3 together"])
def test_blocks_of_each_head(programs):
    q, k, v = heads(2, 136, 136, 64)
    bias = numbers(2, 136, 136, kind="bf16", seed=3)
    found = ran(q, k, v, bias, FORM="[H, S, S]", BM=64, PROGRAMS=programs)
    assert_near(found, wanted(q, k, v, bias))


@pytest.mark.parametrize("turns", ["rotated", "in order"])
def test_reads_come_before_the_slot_is_given_back(turns):
    """The copy engine knows nothing of reads by threads: without a fence it may write before them."""
    q, k, v = heads(1, 136, 136, 64)
    given = q, k, v, numbers(136, 136, kind="bf16", seed=3), room(1, 136, 64, kind="bf16")
    text = attention.source(*given, **HOPPER, TURNS=turns)
    reads = [part for part in text.split("mbarrier.arrive.shared::cta.b64") if "ldmatrix.sync" in part]
    assert len(reads) == (2 if turns == "rotated" else 1)
    for part in reads:
        assert "fence.proxy.async.shared::cta;" in part.rpartition("ldmatrix.sync")[2]


@pytest.mark.parametrize("form", ["twice", "window"])
def test_other_places(form):
    q, k, v = heads(1, 136, 136, 64)
    bias = numbers(136, 200, kind="f16", seed=3)
    kept = bias if form == "twice" else bias[:, :136]
    assert_near(ran(q, k, v, bias, FORM=form), wanted(q, k, v, kept, form=form))


@pytest.mark.parametrize(
    "kind, constants",
    [("f32", {"D": 128, "BN": 128}), ("bf16", {}), ("f32", {"BM": 64, "PROGRAMS": "3 together"})],
)
def test_rows_for_all_queries(kind, constants):
    """Each thread reads what it needs of a row itself, but before it waits for products."""
    q, k, v = heads(1, 136, 200, constants.pop("D", 64))
    bias = numbers(1, 200, kind=kind, seed=3)
    assert_near(ran(q, k, v, bias, FORM="keys", **constants), wanted(q, k, v, bias))


def test_masks():
    q, k, v = heads(1, 144, 208, 64)
    seen = numbers(144, 208, seed=3) > 0
    assert_near(ran(q, k, v, seen, FORM="mask"), wanted(q, k, v, seen, form="mask"))


@pytest.mark.parametrize(
    "constants, sooner",
    [
        ({"D": 128, "BN": 128}, True),
        ({"D": 128, "BN": 128, "TURNS": "in order"}, False),
        ({"D": 128, "BM": 64, "BN": 128}, True),
        ({"D": 128, "BN": 64}, False),
        ({"BN": 128}, False),
        ({"BM": 64, "BN": 128, "PROGRAMS": "3 together"}, False),
    ],
)
def test_blocks_go_to_registers_while_products_are_made(constants, sooner):
    """Where the products are long, and there are registers for them beside the results."""
    depth = constants.get("D", 64)
    q, k, v = heads(1, 136, 208, depth)
    given = q, k, v, numbers(136, 208, kind="bf16", seed=3), room(1, 136, depth, kind="bf16")
    told = attention.explain(*given, **HOPPER, **{"D": depth} | constants)
    assert brought(told)
    assert ("goes to registers while products of its turn are made" in told) is sooner
    text = attention.source(*given, **HOPPER, **{"D": depth} | constants)
    in_flight = text.partition("wgmma.wait_group.sync.aligned 1;")[0].rpartition("wgmma.commit_group")[2]
    assert ("ldmatrix" in in_flight) is sooner


@pytest.mark.parametrize(
    "columns, constants, why",
    [
        (204, {}, "the copy engine cannot move boxes of bias: an address or step is no multiple of 16 bytes"),
        (208, {"PAD": -1.0}, "outside bias the copy engine gives zeros, and pad is -1.0"),
        (
            208,
            {"D": 128, "BN": 128, "KIND": "f32"},
            "a block of 65536 bytes is more than the 34816 bytes left for it",
        ),
    ],
)
def test_which_blocks_threads_read_themselves(columns, constants, why):
    depth, kind = constants.pop("D", 64), constants.pop("KIND", "bf16")
    q, k, v = heads(1, 136, 208, depth)
    bias, out = numbers(136, columns, kind=kind, seed=3), room(1, 136, depth, kind="bf16")
    told = attention.explain(q, k, v, bias, out, **HOPPER, D=depth, **constants)
    assert f"by each thread itself: {why}" in told
    assert not brought(told)
