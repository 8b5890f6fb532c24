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
def attention(
    p,
    q,
    k,
    v,
    out,
    *,
    D,
    BM=128,
    BN=128,
    CAUSAL=False,
    APPROX=False,
    KIND="bf16",
    TURNS="",
    LOOP="",
    PROGRAMS="",
    ORDER="",
):
    if PROGRAMS:
        p.variant("programs", PROGRAMS)
    if LOOP:
        p.variant("loop", LOOP)
    if ORDER:
        p.variant("order", ORDER)
    if APPROX:
        p.approx()
    if TURNS:
        p.variant("turns", TURNS)
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


@tile.kernel(grid=lambda q, BM, **_: (tile.cdiv(q.shape[1], BM), q.shape[0]))
def varied(
    p,
    q,
    k,
    v,
    bias,
    out,
    *,
    D=64,
    BM=128,
    BN=128,
    WINDOW=0,
    CAP=0.0,
    BIAS=False,
    SHARED=1,
    SCALED=False,
    LOOP="",
    PROGRAMS="",
    ORDER="",
):
    """Attention with a window, a cap on the scores, a bias, heads that share keys, or scaled queries."""
    if PROGRAMS:
        p.variant("programs", PROGRAMS)
    if LOOP:
        p.variant("loop", LOOP)
    if ORDER:
        p.variant("order", ORDER)
    p.approx()
    i, head = p.id(0), p.id(1)
    Q, K, V, Bias = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D]), p.read(bias, [BM, BN])
    query = Q[head, i, 0]
    if SCALED:
        query = (query * D**-0.5).to(tile.BF16)
    top, total, acc = p.full([BM, 1], -1e30), p.zeros([BM, 1]), p.zeros([BM, D])
    first, last = 0, K.blocks(1)
    if WINDOW:
        first, last = max(0, (i * BM - WINDOW) // BN), min(last, tile.cdiv((i + 1) * BM, BN))
    for j in range(first, last):
        scores = query @ K[head // SHARED, j, 0].T
        if not SCALED:
            scores = scores * D**-0.5
        if CAP:
            scores = (scores * (1 / CAP)).tanh() * CAP
        if BIAS:
            scores = scores + Bias[i, j]
        row, column = p.iota([BM, 1], 0) + i * BM, p.iota([1, BN], 1) + j * BN
        seen = column < K.dim(1)
        if WINDOW:
            seen = seen and column <= row and column > row - WINDOW
        scores = scores if seen else -math.inf
        higher = max(top, scores.max(1))
        weights = (scores - higher).exp()
        shrink = (top - higher).exp()
        total = total * shrink + weights.sum(1)
        acc = acc * shrink + weights.to(tile.BF16) @ V[head // SHARED, j, 0]
        top = higher
    p.write(out, [BM, D])[head, i, 0] = acc / total


@tile.kernel(grid=lambda q, BM, **_: (tile.cdiv(q.shape[1], BM), q.shape[0]))
def linear_attention(p, q, k, v, out, *, D=64, BM=128, BN=64, TURNED=False, LOOP=""):
    """Products of products without a softmax; with TURNED, where a computed tile is the right operand."""
    if LOOP:
        p.variant("loop", LOOP)
    i, head = p.id(0), p.id(1)
    Q, K, V = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D])
    query, acc = Q[head, i, 0], p.zeros([D, BM] if TURNED else [BM, D])
    for j in range(K.blocks(1)):
        scores = (query @ K[head, j, 0].T).relu().to(tile.BF16)
        if TURNED:
            acc += V[head, j, 0].T @ scores.T
        else:
            acc += scores @ V[head, j, 0]
    p.write(out, [BM, D])[head, i, 0] = acc.T if TURNED else acc


@tile.kernel(grid=lambda x, BM, **_: tile.cdiv(x.shape[0], BM))
def two_layers(p, x, w, v, y, *, D=64, N=64, H=64, BM=128, LOOP=""):
    """Two products with an activation between them, over blocks of the hidden layer."""
    if LOOP:
        p.variant("loop", LOOP)
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
    (256, 256, 64, {"BN": 256, "APPROX": True}),
    (128, 192, 256, {"BN": 64, "APPROX": True}),
    # Sizes that are no powers of two, of columns and of blocks of keys
    (200, 328, 96, {"CAUSAL": True, "APPROX": True}),
    (136, 200, 80, {"BM": 64, "BN": 64, "KIND": "f16"}),
    (192, 296, 96, {"BM": 64, "BN": 96, "CAUSAL": True}),
    # Three programs in a workgroup, of which some are missing, or take fewer turns
    (384, 200, 64, {"BM": 64, "APPROX": True, "PROGRAMS": "3 together"}),
    (200, 328, 64, {"BM": 64, "APPROX": True, "PROGRAMS": "3 together", "KIND": "f16"}),
    (520, 520, 64, {"BM": 64, "BN": 64, "CAUSAL": True, "APPROX": True, "PROGRAMS": "3 together"}),
    (40, 40, 64, {"BM": 64, "CAUSAL": True, "APPROX": True, "PROGRAMS": "3 together"}),
    (200, 328, 64, {"BM": 64, "BN": 64, "PROGRAMS": "3 together"}),
    (328, 328, 64, {"BM": 64, "BN": 64, "CAUSAL": True, "PROGRAMS": "3 together"}),
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


VARIED = [
    {"SHARED": 2},
    {"WINDOW": 100},
    {"WINDOW": 100, "ORDER": "one each"},
    {"WINDOW": 100, "BM": 64, "BN": 64},
    {"CAP": 20.0},
    {"BIAS": True, "D": 128},
    {"SCALED": True},
    # In these some of three programs in a workgroup begin and end later than others.
    {"WINDOW": 100, "BM": 64, "BN": 64, "PROGRAMS": "3 together"},
    {"WINDOW": 100, "BM": 64, "BN": 64, "PROGRAMS": "3 together", "ORDER": "one each"},
    {"SCALED": True, "BM": 64, "BN": 64, "PROGRAMS": "3 together"},
    {"BIAS": True, "BM": 64, "BN": 64, "PROGRAMS": "3 together"},
    {"SHARED": 2, "BM": 64, "PROGRAMS": "3 together"},
]


@pytest.mark.parametrize("constants", VARIED, ids=str)
def test_varied_attention(constants):
    depth, shared, rows = constants.get("D", 64), constants.get("SHARED", 1), 264
    q = numbers(2, rows, depth, kind="bf16")
    k, v = (numbers(2 // shared, rows, depth, kind="bf16", seed=seed) for seed in (1, 2))
    bias, out = numbers(rows, rows, kind="bf16", seed=3), room(2, rows, depth, kind="bf16")
    assert is_chained(varied, q, k, v, bias, out, **constants)
    simulated(varied, q, k, v, bias, out, **constants)
    scores = wide(q) @ np.repeat(wide(k), shared, 0).swapaxes(1, 2) * depth**-0.5
    if "CAP" in constants:
        scores = np.tanh(scores / 20) * 20
    if "BIAS" in constants:
        scores = scores + wide(bias)
    if "WINDOW" in constants:
        apart = np.arange(rows)[:, None] - np.arange(rows)
        scores = np.where((apart >= 0) & (apart < 100), scores, -np.inf)
    weights = np.exp(scores - scores.max(2, keepdims=True))
    want = weights @ np.repeat(wide(v), shared, 0) / weights.sum(2, keepdims=True)
    assert np.abs(wide(out) - want).max() <= 2.0**-7 * np.abs(want).max()


@pytest.mark.parametrize("constants", [{}, {"PROGRAMS": "3 together"}], ids=str)
def test_windows_beyond_the_last_key(constants):
    """Between programs that multiply a workgroup has some without turns, which have sums of nothing."""
    rows, keys = 600, 200
    q, out = numbers(2, rows, 64, kind="bf16"), room(2, rows, 64, kind="bf16")
    k, v = (numbers(2, keys, 64, kind="bf16", seed=seed) for seed in (1, 2))
    given = q, k, v, numbers(rows, keys, kind="bf16", seed=3), out
    simulated(varied, *given, WINDOW=100, BM=64, BN=64, **constants)
    apart = np.arange(rows)[:, None] - np.arange(keys)
    scores = wide(q) @ wide(k).swapaxes(1, 2) / 8
    weights = np.where((apart >= 0) & (apart < 100), np.exp(scores), 0)
    seen = slice(0, keys + 99)
    want = weights[:, seen] @ wide(v) / weights[:, seen].sum(2, keepdims=True)
    assert np.abs(wide(out)[:, seen] - want).max() <= 2.0**-7 * np.abs(want).max()
    assert np.isnan(wide(out)[:, -64:]).all()


def test_linear_attention():
    q, k, v = (numbers(1, 200, 64, kind="bf16", seed=seed) for seed in range(3))
    out = room(1, 200, 64)
    assert is_chained(linear_attention, q, k, v, out)
    simulated(linear_attention, q, k, v, out)
    want = np.maximum(wide(q) @ wide(k).swapaxes(1, 2), 0) @ wide(v)
    assert np.abs(wide(out) - want).max() <= 2.0**-7 * np.abs(want).max()


def test_where_a_product_cannot_take_what_is_computed():
    q, k, v = (numbers(1, 128, 64, kind="bf16", seed=seed) for seed in range(3))
    given = q, k, v, room(1, 128, 64)
    assert "no        the right operand of a product is computed in the loop" in linear_attention.explain(
        *given, **HOPPER, TURNED=True, BM=64
    )
    simulated(linear_attention, *given, TURNED=True, BM=64)


def test_all_warps_do_the_same_where_asked():
    given = *(numbers(1, 128, 64, kind="bf16", seed=seed) for seed in range(3)), room(1, 128, 64)
    assert "wgmma" not in attention.source(*given, **HOPPER, D=64, LOOP="uniform")
    assert "wgmma" in attention.source(*given, **HOPPER, D=64)


@pytest.mark.parametrize(
    "constants, why",
    [
        ({"D": 64, "BN": 256}, "the tiles of two turns take 297 registers of each thread, which has 236"),
        ({"D": 256, "BN": 64}, "the tiles of two turns take 249 registers of each thread, which has 236"),
    ],
)
def test_where_no_product_is_left_to_the_next_turn(constants, why):
    q, k, v = (numbers(1, 256, constants["D"], kind="bf16", seed=seed) for seed in range(3))
    given = q, k, v, room(1, 256, constants["D"], kind="bf16")
    told = attention.explain(*given, **HOPPER, **constants)
    assert f"rotated   no        {why}" in told
    assert "in order  chosen" in told


@pytest.mark.parametrize("turns", ["rotated", "in order"])
def test_turns_can_be_chosen(turns):
    q, k, v = (numbers(1, 328, 64, kind="bf16", seed=seed) for seed in range(3))
    out = room(1, 328, 64, kind="bf16")
    assert is_chained(attention, q, k, v, out, D=64, TURNS=turns)
    simulated(attention, q, k, v, out, D=64, TURNS=turns)
    assert np.abs(wide(out) - softmax_of(q, k, v, False)).max() <= 2.0**-7


def test_groups_alone_share_a_multiprocessor():
    q, k, v = (numbers(1, 64, 64, kind="bf16", seed=seed) for seed in range(3))
    told = attention.explain(q, k, v, room(1, 64, 64, kind="bf16"), **HOPPER, D=64, BM=64)
    assert "a multiprocessor has 2 workgroups, each of which runs programs in turn" in told
    assert "2 rings of 3 turns' blocks, the last product of a turn made beside the first ones" in told


@pytest.mark.parametrize("order", ["", "in turn", "one each"])
@pytest.mark.parametrize("causal", [False, True])
def test_workgroups_run_many_programs(causal, order):
    """The next program's queries come while the last weighted values of one are being made."""
    q, k, v = (numbers(3, 300, 64, kind="bf16", seed=seed) for seed in range(3))
    out, asked = room(3, 300, 64, kind="bf16"), {"BM": 64, "BN": 64, "CAUSAL": causal, "ORDER": order}
    simulated(attention, q, k, v, out, D=64, **asked)
    assert np.abs(wide(out) - softmax_of(q, k, v, causal)).max() <= 2.0**-7
    told = attention.explain(q, k, v, out, **HOPPER, D=64, **asked)
    assert ("with one program each" in told) is (order == "one each" or (not order and causal))


@tile.kernel(grid=lambda x, **_: x.shape[0] // 64)
def bounded(p, x, y, first, *, BOUNDS):
    """Products of products in loops of various bounds."""
    i, X = p.id(0), p.read(x, [64, 64])
    rows, acc = X[i, 0], p.zeros([64, 64])
    bounds = {
        "triangle": (0, i + 1, 1),
        "rest": (i, X.blocks(0), 1),
        "backwards": (i, -1, -1),
        "rest backwards": (X.blocks(0) - 1, i - 1, -1),
        "window": (max(0, i - 3), i + 1, 1),
        "all": (0, X.blocks(0), 1),
        "shifted": (first, X.blocks(0), 1),
    }
    start, stop, step = bounds[BOUNDS]
    for j in range(start, stop, step):
        acc += (rows @ X[j, 0].T).relu().to(tile.BF16) @ X[j, 0]
    p.write(y, [64, 64])[i, 0] = acc


@pytest.mark.parametrize(
    "bounds, in_turn, later_first",
    [
        ("triangle", False, True),
        ("rest", False, False),
        ("backwards", False, True),
        ("rest backwards", False, False),
        ("window", True, False),
        ("all", True, False),
        ("shifted", True, False),
    ],
)
def test_which_programs_run_in_turn(bounds, in_turn, later_first):
    x, y = numbers(320, 64, kind="bf16"), room(320, 64)
    told = bounded.explain(x, y, 1, **HOPPER, BOUNDS=bounds)
    assert ("runs programs in turn" in told) is in_turn
    assert ("programs later along axis 0 begin first" in told) is later_first
    simulated(bounded, x, y, 1, BOUNDS=bounds)
    steps = np.arange(5)
    taken = {
        "triangle": steps[:, None] >= steps,
        "rest": steps[:, None] <= steps,
        "window": (steps[:, None] >= steps) & (steps[:, None] - 3 <= steps),
        "all": np.ones((5, 5), bool),
        "shifted": np.broadcast_to(steps >= 1, (5, 5)),
    }
    taken |= {"backwards": taken["triangle"], "rest backwards": taken["rest"]}
    scores = np.maximum(wide(x) @ wide(x).T, 0) * np.kron(taken[bounds], np.ones((64, 64)))
    want = scores @ wide(x)
    assert np.abs(wide(y) - want).max() <= 2.0**-7 * np.abs(want).max()


def longest(kernel, *tensors, **constants):
    """Whether programs later along the first axis begin first."""
    return "programs later along axis 0 begin first" in kernel.explain(*tensors, **HOPPER, **constants)


def test_long_programs_begin_first():
    q, k, v = (numbers(1, 384, 64, kind="bf16", seed=seed) for seed in range(3))
    given = q, k, v, room(1, 384, 64, kind="bf16")
    assert longest(attention, *given, D=64, CAUSAL=True)
    assert not longest(attention, *given, D=64)


def test_masks_that_are_set_as_a_whole_are_passed_over():
    q, k, v = (numbers(1, 384, 64, kind="bf16", seed=seed) for seed in range(3))
    text = attention.source(q, k, v, room(1, 384, 64, kind="bf16"), **HOPPER, D=64, CAUSAL=True, APPROX=True)
    # In the first turn and in the others a branch of the whole group leads around the comparisons.
    around = [part for part in text.split("bra.uni") if part.count("setp.le.f32") >= 32]
    assert len(around) == 2
    told = attention.explain(q, k, v, room(1, 384, 64, kind="bf16"), **HOPPER, D=64, CAUSAL=True, APPROX=True)
    assert "passed over in turns where bounds of what is compared set the whole mask" in told
    assert "made as 2^(x s - y s), of which y s is rounded once for a whole row" in told


def test_the_scale_of_scores_is_part_of_the_exponentials():
    q, k, v = (numbers(1, 256, 64, kind="bf16", seed=seed) for seed in range(3))
    given = q, k, v, room(1, 256, 64, kind="bf16")
    scale = "0f3E000000"
    approximate, exact = (attention.source(*given, **HOPPER, D=64, APPROX=each) for each in (True, False))
    # Of a thread's two rows the largest, in the first turn and in the others.
    assert approximate.count(scale) == 4
    assert exact.count(scale) > 64


@tile.kernel(grid=1)
def rounded_mask(p, q, k, v, out, *, D=64, BN=64):
    Q, K, V = p.read(q, [64, D]), p.read(k, [BN, D]), p.read(v, [BN, D])
    queries, acc = Q[0, 0], p.zeros([64, D])
    for j in range(K.blocks(0)):
        scores = queries @ K[j, 0].T
        seen = p.iota([1, BN], 1) + 16777216.0 < 16777280.0
        acc += (scores if seen else 0.5).to(tile.F16) @ V[j, 0]
    p.write(out, [64, D])[0, 0] = acc


def test_masks_whose_sums_are_rounded_are_looked_at():
    """Smallest case: 16777216 + 63 is 16777280 in F32, so the last column of each block is not seen."""
    q, k, v = (numbers(rows, 64, kind="f16", seed=rows) for rows in (64, 128, 128))
    out = room(64, 64)
    simulated(rounded_mask, q, k, v, out)
    scores = (wide(q) @ wide(k).T).astype(np.float16)
    scores[:, 63::64] = 0.5
    want = wide(scores) @ wide(v)
    assert np.abs(wide(out) - want).max() <= 2.0**-7 * np.abs(want).max()


@pytest.mark.parametrize("turned", [False, True])
def test_results_of_programs_together_that_the_copy_engine_cannot_store(turned):
    """Rows of 130 bytes, and rows that are the tensor's columns: tiles change their layout on the way."""
    q, k, v = (numbers(1, 200, 64, kind="bf16", seed=seed) for seed in range(3))
    whole = room(1, 65, 208, kind="bf16") if turned else room(1, 200, 65, kind="bf16")
    out = whole[:, :64, :200].swapaxes(1, 2) if turned else whole[:, :, :64]
    asked = {"D": 64, "BM": 64, "BN": 64, "APPROX": True, "PROGRAMS": "3 together"}
    assert is_chained(attention, q, k, v, out, **asked)
    simulated(attention, q, k, v, out, **asked)
    assert np.abs(wide(out) - softmax_of(q, k, v, False)).max() <= 2.0**-7


@pytest.mark.parametrize(
    "constants, why",
    [
        ({"BM": 128}, "a program's rows are those of 2 x 4 warps"),
        ({"BN": 256}, "the tiles of two turns take 249 registers of each thread, which has 156"),
        ({"APPROX": False}, "the tiles of two turns take 201 registers of each thread, which has 156"),
        ({"TURNS": "in order"}, "products are asked for in order"),
    ],
)
def test_which_programs_cannot_share_a_workgroup(constants, why):
    given = *(numbers(1, 256, 64, kind="bf16", seed=seed) for seed in range(3)), room(1, 256, 64, kind="bf16")
    told = attention.explain(*given, **HOPPER, D=64, **{"BM": 64, "APPROX": True} | constants)
    assert f"3 together  no        {why}" in told


@tile.kernel(grid=lambda q, BM, **_: (tile.cdiv(q.shape[1], BM), q.shape[0]))
def of_own_keys(p, q, k, v, out, *, D=64, BM=64, BN=64):
    """Each block of queries meets its own keys alone."""
    i, head = p.id(0), p.id(1)
    Q, K, V = p.read(q, [BM, D]), p.read(k, [BN, D]), p.read(v, [BN, D])
    query, acc = Q[head, i, 0], p.zeros([BM, D])
    for j in range(2):
        acc += (query @ K[head, 2 * i + j, 0].T).relu().to(tile.BF16) @ V[head, 2 * i + j, 0]
    p.write(out, [BM, D])[head, i, 0] = acc


def test_programs_with_blocks_of_their_own_share_no_workgroup():
    given = *(numbers(1, 256, 64, kind="bf16", seed=seed) for seed in range(3)), room(1, 256, 64, kind="bf16")
    assert "3 together  no        loops take other blocks in each program" in of_own_keys.explain(
        *given, **HOPPER
    )


@pytest.mark.parametrize(
    "heads, rows, shared",
    [(64, 2048, True), (64, 256, False), (3, 2048, False), (12, 2048, True), (1024, 64, False)],
)
def test_programs_share_workgroups_where_there_are_many(heads, rows, shared):
    """132 multiprocessors have three programs each, and few groups of warps have none."""
    given = (room(heads, rows, 64, kind="bf16") for _ in range(4))
    told = attention.explain(*given, **HOPPER, D=64, BM=64, APPROX=True)
    assert ("3 together  chosen" in told) is shared
    assert ("3 neighbours along axis 0 share a workgroup, each with warps of its own" in told) is shared
