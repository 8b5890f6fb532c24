"""Blocks that results are computed with, brought to the memory of the results' panels while a loop runs."""

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
AHEAD = "while the loop runs, to the memory of the result's"


def by_tiles(c, BM, BN, **_):
    return tile.cdiv(c.shape[0], BM), tile.cdiv(c.shape[1], BN)


@tile.kernel(grid=by_tiles)
def added(p, a, b, residual, c, *, BM=128, BN=128, BK=64, LOOP="", READ="", STAGES=0, BELOW=0, TWICE=False):
    """A product and a residual, whose blocks may begin further down."""
    if LOOP:
        p.variant("loop", LOOP)
    if READ:
        p.variant("read", READ)
    if STAGES:
        p.stages(STAGES)
    i, j = p.id(0), p.id(1)
    A, B, R = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.read(residual, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    more = R.window([i * BM + BELOW, j * BN]) if BELOW else R[i, j]
    if TWICE:
        more = more + p.read(residual, [BM, BN])[i + 1, j]
    p.write(c, [BM, BN])[i, j] = (acc + more).relu()


def operands(m, n, k, kind="bf16", made="bf16"):
    given = [numbers(*shape, kind=kind, seed=seed) for seed, shape in enumerate(((m, k), (k, n), (m, n)))]
    return *given, room(m, n, kind=made)


def below(residual, rows):
    """The residual moved up by some rows, with zeros below."""
    moved = np.zeros_like(wide(residual))
    moved[: max(len(moved) - rows, 0)] = wide(residual)[rows:]
    return moved


def check(m, n, k, kind="bf16", **constants):
    a, b, residual, c = operands(m, n, k, kind, kind)
    assert AHEAD in added.explain(a, b, residual, c, **HOPPER, **constants)
    report = assemble(added.source(a, b, residual, c, **HOPPER, **constants), "sm_90a")
    assert (report.spills, report.warnings) == (0, ())
    ran = added.simulate(a, b, residual, c, **HOPPER, **constants)
    assert not [str(each) for each in ran.findings if each.kind not in COSTS]
    more = below(residual, constants.get("BELOW", 0))
    if constants.get("TWICE"):
        more = more + below(residual, constants.get("BM", 128))
    want = np.maximum(wide(a) @ wide(b) + more, 0)
    assert np.abs(wide(c) - want).max() <= 2.0**-8 * np.abs(want).max()


@pytest.mark.parametrize(
    "m, n, k, constants",
    [
        (256, 256, 128, {}),
        (256, 512, 64, {"BN": 256}),
        (512, 128, 128, {"BM": 256}),
        (200, 328, 72, {"BN": 256}),
        (136, 200, 200, {"LOOP": "specialised"}),
        (328, 136, 8, {"BM": 64, "BN": 64}),
        (200, 72, 64, {"BM": 64, "BN": 32, "kind": "f16"}),
        (256, 128, 128, {"BELOW": 72}),
        (256, 128, 128, {"TWICE": True}),
    ],
)
def test_added(m, n, k, constants):
    check(m, n, k, **constants)


def test_loops_without_turns():
    """Nothing is multiplied, and the residual comes all the same."""
    a, b, residual, c = operands(256, 256, 0)
    for constants in ({}, {"BN": 256}):
        added.simulate(a, b, residual, c, **HOPPER, **constants)
        assert np.array_equal(wide(c), np.maximum(wide(residual), 0))


@tile.kernel(grid=by_tiles)
def some_turns(p, a, b, residual, c, *, BM=64, BN=64, BK=64):
    """As many turns as the program's place along the first axis says: none in the first."""
    i, j = p.id(0), p.id(1)
    A, B, acc = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.zeros([BM, BN])
    for k in range(i):
        acc += A[i, k] @ B[k, j]
    p.write(c, [BM, BN])[i, j] = acc + p.read(residual, [BM, BN])[i, j]


def test_programs_of_which_some_have_no_turn():
    a, b, residual, c = operands(320, 128, 256)
    assert AHEAD in some_turns.explain(a, b, residual, c, **HOPPER)
    ran = some_turns.simulate(a, b, residual, c, **HOPPER)
    assert not [str(each) for each in ran.findings if each.kind not in COSTS]
    want = wide(residual).copy()
    for row in range(64, 320):
        depth = min(row // 64 * 64, 256)
        want[row] += wide(a)[row, :depth] @ wide(b)[:depth]
    assert np.abs(wide(c) - want).max() <= 2.0**-8 * np.abs(want).max()


@pytest.mark.parametrize(
    "constants, given, why",
    [
        ({}, {"made": "f32"}, "a panel of BF16 lies otherwise than one of F32"),
        ({"BN": 256, "STAGES": 4}, {}, "its panels would leave too little workgroup memory for blocks"),
        ({"READ": "vector 4 bytes"}, {}, "reads are asked for by vector 4 bytes"),
    ],
)
def test_where_blocks_are_read_by_their_threads(constants, given, why):
    tensors = operands(256, 256, 128, **given)
    told = added.explain(*tensors, **HOPPER, **constants)
    assert f"not brought by the copy engine: {why}" in told
    assert AHEAD not in told
    added.simulate(*tensors, **HOPPER, **constants)
    a, b, residual, c = map(wide, tensors)
    want = np.maximum(a @ b + residual, 0)
    assert np.abs(c - want).max() <= 2.0**-8 * np.abs(want).max()


@tile.kernel(grid=by_tiles)
def quotients_outside(p, a, b, residual, c, *, BM=64, BN=64, BK=64):
    """Outside of the residual there is -0.0, one over which is negative."""
    i, j = p.id(0), p.id(1)
    A, B, acc = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    p.write(c, [BM, BN])[i, j] = acc + 1.0 / p.read(residual, [BM, BN], pad=-0.0)[i + 1, j]


@tile.kernel(grid=by_tiles)
def quotients_in_turns(p, a, b, residual, c, *, BM=64, BN=64, BK=64):
    """The same outside of a left operand that is computed."""
    i, j = p.id(0), p.id(1)
    A, B, acc = p.read(a, [BM, BK], pad=-0.0), p.read(b, [BK, BN]), p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += (1.0 / A[i + 1, k]).to(b.dtype) @ B[k, j]
    p.write(c, [BM, BN])[i, j] = acc


@pytest.mark.parametrize("kernel", [quotients_outside, quotients_in_turns])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_outside_is_negative_zero(kernel, arch):
    a, b, residual, c = (abs(each) for each in operands(64, 64, 64))
    kernel.simulate(a, b, residual, c, kind="cuda", arch=arch)
    assert (wide(c) == -np.inf).all()


@tile.kernel(grid=by_tiles)
def stored_between(p, a, b, residual, bias, c, d, *, BM=64, BN=64, BK=64):
    """The first loop's result is stored before the second loop."""
    i, j = p.id(0), p.id(1)
    A, B, acc, more = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.zeros([BM, BN]), p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
    p.write(c, [BM, BN])[i, j] = acc + p.read(residual, [BM, BN])[i, j] + p.read(bias, [1, BN])[0, j]
    for k in range(1, A.blocks(1)):
        more += A[i, k] @ B[k, j]
    p.write(d, [BM, BN])[i, j] = more


def test_results_that_are_stored_before_the_last_loop():
    a, b, residual, c = operands(200, 72, 136)
    bias, d = numbers(1, 72), room(200, 73)[:, 1:]
    ran = stored_between.simulate(a, b, residual, bias, c, d, **HOPPER)
    assert not [str(each) for each in ran.findings if each.kind not in COSTS]
    want = wide(a) @ wide(b) + wide(residual) + bias
    assert np.abs(wide(c) - want).max() <= 2.0**-8 * np.abs(want).max()
    assert np.abs(d - wide(a)[:, 64:] @ wide(b)[64:]).max() <= 2.0**-14 * np.abs(want).max()
