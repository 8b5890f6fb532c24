"""Whether programs that no benchmark names get roles, what tells why others do not, and their results."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from found_programs import (
    activated,
    attention,
    batched,
    centred,
    classified,
    cosines,
    dequantised,
    difference,
    gated_layers,
    gated_unit,
    gram,
    linear_attention,
    low_rank,
    normalised,
    normalised_before,
    row_maxima,
    scaled_operand,
    squared_distances,
    transposed_result,
    two_layers,
    upper_triangle,
)
from gpu_cases import numbers, room, wide

from gizml_tile.lowering.simulate.findings import COSTS

sys.path.append(str(Path(__file__).parents[1] / "assemble"))

from ptxas import assemble

HOPPER = {"kind": "cuda", "arch": "sm_90a"}
ROLES = "chosen    1 x 4 warps multiply, one thread brings blocks"
TEAMS = "chosen    2 x 4 warps multiply, in two teams with a program each, one thread brings blocks"
ROTATED = "rotated   chosen    the last product beside the next turn's first ones"
M, N, K = 72, 136, 200


def bf16(*shape, seed=0):
    return numbers(*shape, kind="bf16", seed=seed)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rounded(x):
    """Through BF16, as programs round operands that they compute."""
    return wide(x.astype(bf16(1).dtype))


def over_rms(x):
    return x / np.sqrt(np.square(x).mean(1, keepdims=True))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def distances(x, z):
    return np.square(x[:, None] - z[None]).sum(2)


A, B, C, D = bf16(M, K), bf16(K, N, seed=1), bf16(M, K, seed=2), bf16(K, N, seed=3)
Z, BIAS, SCALE = bf16(N, K, seed=4), numbers(N, seed=5), abs(numbers(M, 1, seed=6)) + 0.5
NORMS, OTHERS = (np.linalg.norm(wide(each), axis=1).astype(np.float32) for each in (A, Z))
SQUARE = np.triu(wide(bf16(N, N))).astype(A.dtype)
X, W, U, V = bf16(M, 64), bf16(64, 128, seed=1), bf16(64, 128, seed=2), bf16(128, 64, seed=3)
KEYS, VALUES = bf16(104, 64, seed=7), bf16(104, 64, seed=8)

# The program, its inputs, the shape of what it gives, that by NumPy, and what explain says.
PROGRAMS = [
    (transposed_result, (Z, bf16(K, M)), (M, N), lambda a, b: (a @ b).T, TEAMS),
    (gated_unit, (A, B, D), (M, N), lambda x, w, v: (x @ w) * (x @ v) * sigmoid(x @ v), TEAMS),
    (normalised, (A, B), (M, N), lambda x, w: over_rms(x) @ w, ROLES),
    (normalised_before, (A, B), (M, N), lambda x, w: over_rms(x) @ w, TEAMS),
    (centred, (A, B), (M, N), lambda x, w: (x - x.mean(1, keepdims=True)) @ w, TEAMS),
    (squared_distances, (A, Z), (M, N), distances, TEAMS),
    (cosines, (A, Z, NORMS[:, None], OTHERS), (M, N), lambda x, z, n, m: x @ z.T / (n * m), TEAMS),
    (row_maxima, (A, B[:, :64].copy()), (M, 1), lambda a, b: (a @ b).max(1, keepdims=True), TEAMS),
    (classified, (A, B[:, :64].copy()), (M, 64), lambda a, b: softmax(a @ b), TEAMS),
    (batched, (bf16(2, M, K), bf16(2, N, K)), (2, M, N), lambda a, b: a @ b.swapaxes(1, 2), TEAMS),
    (activated, (A, B, BIAS), (M, N), lambda a, b, bias: gelu(a @ b + bias), TEAMS),
    (
        dequantised,
        (A, numbers(K, 144, kind="fp8"), numbers(144)),
        (M, 144),
        lambda a, w, scale: a @ rounded(w * scale),
        "rows and columns exchanged, asynchronous, 64 x 64 by each four warps, the right operand computed",
    ),
    (
        scaled_operand,
        (A, SCALE, B),
        (M, N),
        lambda a, scale, b: rounded(a * scale) @ b,
        "asynchronous, 64 x 64 by each four warps, the left operand computed in registers",
    ),
    (gram, (B,), (N, N), lambda a: a.T @ a, TEAMS),
    (difference, (A, B, C, D), (M, N), lambda a, b, c, d: a @ b - c @ d, TEAMS),
    (upper_triangle, (SQUARE, bf16(N, M)), (N, M), lambda a, b: a @ b, TEAMS),
    (
        low_rank,
        (A, B[:, :64].copy(), bf16(64, N)),
        (M, N),
        lambda a, b, c: rounded(a @ b) @ c,
        ROLES,
    ),
    (two_layers, (X, W, V), (M, 64), lambda x, w, v: gelu(x @ w) @ v, ROTATED),
    (gated_layers, (X, W, U, V), (M, 64), lambda x, w, u, v: (x @ w * sigmoid(x @ w) * (x @ u)) @ v, ROTATED),
    (linear_attention, (X, KEYS, VALUES), (M, 64), lambda q, k, v: np.maximum(q @ k.T, 0) @ v, ROTATED),
]


def simulated(program, *tensors, **constants):
    """What explain says, of a program that the simulator and the assembler have nothing against."""
    ran = program.simulate(*tensors, **HOPPER, **constants)
    assert not [str(each) for each in ran.findings if each.kind not in COSTS]
    report = assemble(program.source(*tensors, **HOPPER, **constants), "sm_90a")
    assert (report.spills, report.warnings) == (0, ())
    return program.explain(*tensors, **HOPPER, **constants)


@pytest.mark.parametrize(
    "program, given, shape, by_numpy, told", PROGRAMS, ids=[each[0].__name__ for each in PROGRAMS]
)
def test_programs(program, given, shape, by_numpy, told):
    y = room(*shape)
    assert told in simulated(program, *given, y)
    want = by_numpy(*map(wide, given))
    assert np.abs(wide(y) - want).max() <= 2.0**-7 * np.abs(want).max()


@pytest.mark.parametrize(
    "constants", [{}, {"SHARED": 2}, {"WINDOW": 70}, {"CAP": 5.0}, {"SLOPE": 0.25}], ids=str
)
def test_attention(constants):
    """Every variant is rotated; keys and queries differ in number where nothing is causal."""
    shared, window = constants.get("SHARED", 1), constants.get("WINDOW", 0)
    rows, keys = 136, 136 if window else 200
    q, y = bf16(2, rows, 64), room(2, rows, 64)
    k, v = (bf16(2 // shared, keys, 64, seed=seed) for seed in (1, 2))
    told = simulated(attention, q, k, v, y, **constants)
    assert ROLES in told
    assert ROTATED in told
    scores = wide(q) @ np.repeat(wide(k), shared, 0).swapaxes(1, 2) / 8
    apart = np.arange(rows)[:, None] - np.arange(keys)
    if "CAP" in constants:
        scores = np.tanh(scores / 5) * 5
    scores = scores - abs(apart) * constants.get("SLOPE", 0)
    if window:
        scores = np.where((apart >= 0) & (apart < window), scores, -np.inf)
    want = softmax(scores) @ np.repeat(wide(v), shared, 0)
    assert np.abs(wide(y) - want).max() <= 2.0**-7 * np.abs(want).max()
