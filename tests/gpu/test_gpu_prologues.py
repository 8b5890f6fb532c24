"""Products of operands that groups of four warps compute in registers from blocks in workgroup memory."""

import sys
from pathlib import Path

import numpy as np
import pytest
from gpu_cases import TYPES, numbers, room, wide

import gizml_tile as tile
from gizml_tile.lowering.simulate.findings import COSTS

sys.path.append(str(Path(__file__).parents[1] / "assemble"))

from ptxas import assemble

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def by_tiles(y, BM, BN, **_):
    return tile.cdiv(y.shape[0], BM), tile.cdiv(y.shape[1], BN)


def made(kernel, *tensors, **constants):
    """The text of a kernel that computes in registers, without spills, and that simulates without races."""
    text = kernel.source(*tensors, **HOPPER, **constants)
    report = assemble(text, "sm_90a")
    assert (report.spills, report.warnings) == (0, ())
    assert "computed in registers" in kernel.explain(*tensors, **HOPPER, **constants)
    first = tensors[-1].copy()
    for _ in range(2):
        tensors[-1][...] = np.nan
        ran = kernel.simulate(*tensors, **HOPPER, **constants)
        assert not [str(each) for each in ran.findings if each.kind not in COSTS]
        first, second = tensors[-1].copy(), first
    assert first.tobytes() == second.tobytes()
    return text


def through(x, kind):
    """Numbers rounded to a type."""
    return wide(x.astype(np.float32).astype(TYPES[kind]))


def assert_near(y, want, times=1):
    assert np.abs(wide(y) - want).max() <= times * 2.0**-8 * np.abs(want).max()


@tile.kernel(grid=by_tiles)
def scaled_left(p, a, scale, b, y, *, BM=64, BN=64, BK=64, TURN_A=False, TURN_B=False, TO=tile.BF16, LOOP=""):
    if LOOP:
        p.variant("loop", LOOP)
    i, j = p.id(0), p.id(1)
    A = p.read(a, [BK, BM] if TURN_A else [BM, BK])
    B = p.read(b, [BN, BK] if TURN_B else [BK, BN])
    rows = p.read(scale, [1, BM] if TURN_A else [BM, 1])[(0, i) if TURN_A else (i, 0)]
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(0 if TURN_A else 1)):
        left = (A[k, i].to(tile.F32) * rows).to(TO).T if TURN_A else (A[i, k].to(tile.F32) * rows).to(TO)
        acc += left @ (B[j, k].T if TURN_B else B[k, j])
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=by_tiles)
def scaled_right(p, a, b, scale, y, *, BM=64, BN=64, BK=64, TURN_A=False, TURN_B=False, TO=tile.BF16):
    i, j = p.id(0), p.id(1)
    A = p.read(a, [BK, BM] if TURN_A else [BM, BK])
    B = p.read(b, [BN, BK] if TURN_B else [BK, BN])
    columns = p.read(scale, [BN, 1] if TURN_B else [1, BN])[(j, 0) if TURN_B else (0, j)]
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(0 if TURN_A else 1)):
        right = B[j, k] if TURN_B else B[k, j]
        right = (right.to(tile.F32) * columns).to(TO)
        acc += (A[k, i].T if TURN_A else A[i, k]) @ (right.T if TURN_B else right)
    p.write(y, [BM, BN])[i, j] = acc


@pytest.mark.parametrize("m, n, k", [(72, 136, 200), (64, 64, 64), (8, 8, 8), (136, 264, 528)])
@pytest.mark.parametrize("size", [(64, 64, 64), (128, 128, 32), (64, 256, 128), (256, 128, 64)], ids=str)
def test_sizes(m, n, k, size):
    constants = dict(zip(("BM", "BN", "BK"), size, strict=True))
    a, b, y = numbers(m, k, kind="bf16"), numbers(k, n, kind="bf16", seed=1), room(m, n, kind="bf16")
    scale = abs(numbers(m, 1, seed=2)) + 0.5
    made(scaled_left, a, scale, b, y, **constants)
    assert_near(y, through(wide(a) * scale, "bf16") @ wide(b))


@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("kind", ["bf16", "fp8", "i1", "u1"])
def test_left_operands(turn_a, turn_b, kind):
    m, n, k = 80, 144, 208
    a, b = numbers(m, k, kind=kind), numbers(k, n, kind="f16", seed=1)
    scale, y = (abs(numbers(m, 1, seed=2)) + 0.5) / (64 if kind[1] == "1" else 1), room(m, n)
    given = np.ascontiguousarray(a.T) if turn_a else a, np.ascontiguousarray(b.T) if turn_b else b
    made(
        scaled_left,
        given[0],
        np.ascontiguousarray(scale.T) if turn_a else scale,
        given[1],
        y,
        TURN_A=turn_a,
        TURN_B=turn_b,
        TO=tile.F16,
    )
    assert_near(y, through(wide(a).astype(np.float32) * scale.astype(np.float32), "f16") @ wide(b), 2**-6)


@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("kind", ["f16", "fp8", "i1"])
@pytest.mark.parametrize("BM", [16, 64])
def test_right_operands(turn_a, turn_b, kind, BM):
    m, n, k = 48, 144, 208
    a, b = numbers(m, k, kind="f16"), numbers(k, n, kind=kind, seed=1)
    scale, y = (abs(numbers(1, n, seed=2)) + 0.5) / (64 if kind[1] == "1" else 1), room(m, n)
    given = np.ascontiguousarray(a.T) if turn_a else a, np.ascontiguousarray(b.T) if turn_b else b
    made(
        scaled_right,
        given[0],
        given[1],
        np.ascontiguousarray(scale.T) if turn_b else scale,
        y,
        BM=BM,
        BN=128,
        TURN_A=turn_a,
        TURN_B=turn_b,
        TO=tile.F16,
    )
    assert_near(y, wide(a) @ through(wide(b).astype(np.float32) * scale.astype(np.float32), "f16"), 2**-6)


@pytest.mark.parametrize(
    "kind, out", [("fp8", "bf16"), ("e5m2", "bf16"), ("i1", "f32"), ("i1", "fp8"), ("u1", "f16")]
)
@pytest.mark.parametrize("size", [(16, 128, 64), (256, 128, 64), (128, 256, 32)], ids=str)
def test_bytes_in_rows(kind, out, size):
    """Pairs of neighbouring rows go to registers as matrices, and from there to boxes of columns."""
    m, n, k = 136, 144, 80
    a, b, y = numbers(m, k, kind="bf16"), numbers(k, n, kind=kind, seed=1), room(m, n, kind=out)
    scale = (abs(numbers(1, n, seed=2)) + 0.5) / 64
    constants = dict(zip(("BM", "BN", "BK"), size, strict=True))
    text = made(scaled_right, a, b, scale, y, **constants)
    assert "ldmatrix.sync.aligned.m8n8.x4.trans" in text
    assert "ld.shared" not in text
    assert "cp.async.bulk.tensor.2d.global" in text
    want = wide(a) @ through(wide(b).astype(np.float32) * scale.astype(np.float32), "bf16")
    assert_near(y, want, 16 if out == "fp8" else 1)


@tile.kernel(grid=by_tiles)
def grouped(p, a, b, scale, y, *, BM=64, BN=128, BK=64, GROUP=1, TURN_B=False, FIRST=0):
    """Weights with a scale for each column and group of blocks of k, which each turn reads."""
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK]), p.read(b, [BN, BK] if TURN_B else [BK, BN])
    scales, acc = p.read(scale, [BN, 1] if TURN_B else [1, BN]), p.zeros([BM, BN])
    for k in range(FIRST, A.blocks(1)):
        if TURN_B:
            right = (B[j, k].to(tile.F32) * scales[j, k // GROUP]).to(a.dtype).T
        else:
            right = (B[k, j].to(tile.F32) * scales[k // GROUP, j]).to(a.dtype)
        acc += A[i, k] @ right
    p.write(y, [BM, BN])[i, j] = acc


@pytest.mark.parametrize(
    "turn_b, kind, size, group",
    [
        (False, "i1", (64, 128, 64), 1),
        (True, "i1", (256, 128, 64), 2),
        (True, "fp8", (64, 256, 128), 1),
        (False, "fp8", (128, 128, 32), 3),
        (False, "bf16", (128, 256, 32), 4),
    ],
)
def test_scales_of_groups(turn_b, kind, size, group):
    m, n, k = 136, 144, 336
    constants = dict(zip(("BM", "BN", "BK"), size, strict=True))
    a, b, y = numbers(m, k, kind="bf16"), numbers(k, n, kind=kind, seed=1), room(m, n)
    blocks = -(-k // size[2])
    scale = (abs(numbers(-(-blocks // group), n, seed=2)) + 0.5) / (64 if kind == "i1" else 1)
    given = [b, scale] if not turn_b else [np.ascontiguousarray(each.T) for each in (b, scale)]
    made(grouped, a, *given, y, GROUP=group, TURN_B=turn_b, **constants)
    told = grouped.explain(a, *given, y, **HOPPER, GROUP=group, TURN_B=turn_b, **constants)
    assert "scale is read a turn before its use" in told
    each = np.repeat(scale, group * size[2], 0)[:k]
    assert_near(y, wide(a) @ through(wide(b).astype(np.float32) * each, "bf16"), 2**-6)


@tile.kernel(grid=by_tiles)
def grouped_backwards(p, a, b, scale, y, *, BM=64, BN=128, BK=64):
    i, j = p.id(0), p.id(1)
    A, B, scales, acc = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.read(scale, [1, BN]), p.zeros([BM, BN])
    for k in range(A.blocks(1) - 1, -1, -1):
        acc += A[i, k] @ (B[k, j].to(tile.F32) * scales[k, j]).to(a.dtype)
    p.write(y, [BM, BN])[i, j] = acc


@pytest.mark.parametrize(
    "kernel, first, k", [(grouped, 2, 128), (grouped, 1, 72), (grouped_backwards, 0, 200)]
)
def test_scales_of_few_turns(kernel, first, k):
    """No turn at all, a single one, and turns in falling order."""
    a, b, y = numbers(72, k, kind="bf16"), numbers(k, 144, kind="i1", seed=1), room(72, 144)
    scale = (abs(numbers(-(-k // 64), 144, seed=2)) + 0.5) / 64
    made(kernel, a, b, scale, y, **({"FIRST": first} if first else {}))
    weights = through(wide(b).astype(np.float32) * np.repeat(scale, 64, 0)[:k], "bf16")
    want = wide(a)[:, 64 * first :] @ weights[64 * first :]
    assert np.abs(wide(y) - want).max() <= 2.0**-14 * np.abs(want).max()


@tile.kernel(grid=by_tiles)
def refused(p, a, b, y, z, *, CASE, BM=64, BN=64, BK=64):
    i, j = p.id(0), p.id(1)
    A, B, Flat = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.read(b, [BM, BK])
    acc, sums = p.zeros([BM, BN], tile.I32 if CASE == "bytes" else tile.F32), p.zeros([BM, 1])
    for k in range(A.blocks(1)):
        left, right = A[i, k], B[k, j]
        if CASE == "both":
            left, right = left.relu().to(a.dtype), right.relu().to(a.dtype)
        if CASE == "bytes":
            left = (left + 1).to(a.dtype)
        if CASE == "transposed":
            left = ((left.T * 2).T + Flat[i, k]).to(a.dtype)
        if CASE == "sums":
            left = (left.to(tile.F32) / left.to(tile.F32).sum(1)).to(a.dtype)
        if CASE == "carried":
            left = (left + sums).to(a.dtype)
            sums += 1.0
        acc += left @ right
    p.write(y, [BM, BN])[i, j] = acc
    p.write(z, [BM, 1])[i, 0] = sums


@pytest.mark.parametrize(
    "case, why",
    [
        ("both", "both operands of a product are computed in the loop"),
        ("bytes", "a computed operand is I8, not F16 or BF16"),
        ("transposed", "blocks are transposed before an operand is computed of them"),
        ("sums", "an operand rests on sums of blocks of its loop"),
        ("carried", "an operand rests on what a loop carries, or on a branch"),
    ],
)
def test_which_operands_are_not_computed_in_registers(case, why):
    kind = "i1" if case == "bytes" else "f16"
    a, b = numbers(64, 128, kind=kind), np.asfortranarray(numbers(128, 64, kind=kind, seed=1))
    y = room(64, 64, kind="i4" if case == "bytes" else "f32")
    told = refused.explain(a, b, y, room(64, 1), **HOPPER, CASE=case)
    assert f"specialised  no        {why}" in told


def test_where_an_operand_is_computed():
    a, b, y = numbers(64, 64, kind="bf16"), numbers(64, 64, kind="bf16", seed=1), room(64, 64)
    told = scaled_left.explain(a, abs(numbers(64, 1)), b, y, **HOPPER)
    assert "computed in registers by the warps that multiply, where the product takes it, from blocks" in told


@tile.kernel(grid=by_tiles)
def differences(p, a, b, y, *, BM=64, BN=64, BK=64):
    i, j = p.id(0), p.id(1)
    A, B, acc = p.read(a, [BM, BK]), p.read(b, [BK, BN]), p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += (A[i, k] - 50.0).to(b.dtype) @ B[k, j]
    p.write(y, [BM, BN])[i, j] = acc


def test_blocks_of_f32_keep_their_bits():
    """Products of F32 blocks take TF32, of steps of 2^-5 next to 50; what is computed first does not."""
    a, b, y = 50 + numbers(72, 64), numbers(64, 72, kind="bf16", seed=1), room(72, 72)
    made(differences, a, b, y)
    assert_near(y, through(a - np.float32(50), "bf16") @ wide(b), 2**-6)
