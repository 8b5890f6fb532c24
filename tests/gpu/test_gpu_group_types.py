"""Products of FP8, integers and TF32 by groups of four warps: results, why not, and the text."""

import sys
from pathlib import Path

import numpy as np
import pytest
from gpu_cases import HALF_ULP, numbers, room, wide

import gizml_tile as tile
from gizml_tile.lowering.simulate.findings import COSTS

sys.path.append(str(Path(__file__).parents[1] / "assemble"))

from ptxas import assemble

pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")
HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def by_tiles(y, BM, BN, **_):
    return tile.cdiv(y.shape[-2], BM), tile.cdiv(y.shape[-1], BN)


@tile.kernel(grid=by_tiles)
def matmul(
    p,
    a,
    b,
    y,
    *,
    BM=128,
    BN=128,
    BK=128,
    SUM=tile.F32,
    LOOP="specialised",
    DOT="",
    WIDER=False,
    PRECISION="f32",
):
    if LOOP:
        p.variant("loop", LOOP)
    if DOT:
        p.variant("dot", DOT)
    i, j = p.id(0), p.id(1)
    A, B = p.read(a, [BM, BK]), p.read(b, [BK, BN])
    acc = p.zeros([BM, BN], SUM)
    for k in range(A.blocks(1)):
        left = A[i, k].to(tile.F16) if WIDER else A[i, k]
        acc += left.dot(B[k, j], precision=PRECISION)
    p.write(y, [BM, BN])[i, j] = acc


@tile.kernel(grid=by_tiles)
def scaled(p, a, b, scales, y, *, BM=64, BN=64, BK=128, ASKED=True):
    """Each block of k has a scale, so nothing but registers adds products."""
    p.variant("loop", "specialised")
    if ASKED:
        p.variant("dot", "group_matrix")
    i, j = p.id(0), p.id(1)
    A, B, S = p.read(a, [BM, BK]), p.read(b, [BN, BK]), p.read(scales, [BM, 1])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += (A[i, k] @ B[j, k].T) * S[i, k]
    p.write(y, [BM, BN])[i, j] = acc


def operands(m, n, k, kind="fp8", right=""):
    """A by rows and B by columns, so that both are contiguous along k."""
    return numbers(m, k, kind=kind), numbers(k, n, kind=right or kind, seed=1, order="F")


def checked(kernel, *tensors, **constants):
    """The text of a kernel that assembles without spills or waits, after a run without faults."""
    text = kernel.source(*tensors, **HOPPER, **constants)
    report = assemble(text, "sm_90a")
    assert (report.spills, report.warnings) == (0, ())
    ran = kernel.simulate(*tensors, **HOPPER, **constants)
    assert not [str(each) for each in ran.findings if each.kind not in COSTS]
    return text


def bound(a, b, steps=4):
    """As F32 sums; each step of the unit more that registers do not add may lose 2^-13 of its part's sum."""
    return (steps * 2.0**-13 + a.shape[1] * HALF_ULP) * (np.abs(wide(a)) @ np.abs(wide(b)))


BLOCKS = [
    (64, 16, 32),
    (64, 128, 128),
    (64, 256, 128),
    (128, 128, 64),
    (128, 128, 256),
    (128, 256, 128),
    (256, 128, 128),
]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
@pytest.mark.parametrize("dot", ["", "group_matrix"])
@pytest.mark.parametrize("shape", [(144, 272, 208), (16, 16, 16)], ids=str)
def test_fp8(block, dot, shape):
    """So few elements of k are summed by the unit only if a kernel asks for that."""
    a, b = operands(*shape)
    y = room(*shape[:2])
    text = checked(matmul, a, b, y, DOT=dot, **dict(zip(("BM", "BN", "BK"), block, strict=True)))
    assert f"wgmma.mma_async.sync.aligned.m64n{min(block[1], 128)}k32.f32.e4m3.e4m3" in text
    assert ("mma.sync" in text) != bool(dot)
    assert (np.abs(wide(y) - wide(a) @ wide(b)) <= bound(a, b, 4 if dot else 0)).all()


FORMS = {"fp8": "e4m3", "e5m2": "e5m2", "i1": "s8", "u1": "u8"}
MIXED = [("fp8", "e5m2"), ("e5m2", "fp8"), ("e5m2", "e5m2")]


@pytest.mark.parametrize("kinds", MIXED, ids="-".join)
@pytest.mark.parametrize("dot", ["", "group_matrix"])
def test_both_forms_of_fp8(kinds, dot):
    """In F32 also subnormal numbers and the largest of each form, beside which others lose nothing."""
    a, b = operands(144, 72, 208, *kinds)
    if not dot:
        a[0, :4] = 2.0**-9 if kinds[0] == "fp8" else 2.0**-16
        b[:4, 0] = 448 if kinds[1] == "fp8" else 57344
    y = room(144, 72)
    text = checked(matmul, a, b, y, BN=64, DOT=dot)
    assert f"m64n64k32.f32.{'.'.join(FORMS[kind] for kind in kinds)}" in text
    assert ("mma.sync" in text) != bool(dot)
    assert (np.abs(wide(y) - wide(a) @ wide(b)) <= bound(a, b, 4 if dot else 0)).all()


@pytest.mark.parametrize("dot", ["", "group_matrix"])
def test_infinities_of_e5m2(dot):
    a, b, y = *operands(64, 16, 64, "e5m2", "fp8"), room(64, 16)
    a[:3, 5], b[5, :2] = [np.inf, -np.inf, np.nan], [0, -3]
    checked(matmul, a, b, y, BM=64, BN=16, BK=64, DOT=dot)
    assert np.isnan(y[:3, 0]).all() and np.isnan(y[2]).all()
    assert list(y[:2, 1]) == [-np.inf, np.inf]
    others = a[3:]
    assert (np.abs(wide(y[3:]) - wide(others) @ wide(b)) <= bound(others, b, 4 if dot else 0)).all()


@pytest.mark.parametrize("loop", ["specialised", "alternating"])
@pytest.mark.parametrize(
    "k, kinds",
    [*((k, ("fp8", "fp8")) for k in (128, 4064, 4096, 8192)), (4064, MIXED[0]), (4096, MIXED[1])],
    ids=str,
)
def test_sums_of_one_sign_are_as_of_f32(k, kinds, loop):
    """Where additions in F32 are too few for that, and those of 14 bits too coarse, others multiply."""
    a, b = (abs(each) for each in operands(64, 16, k, *kinds))
    y = room(64, 16)
    checked(matmul, a, b, y, BM=64, BN=16, LOOP=loop)
    assert (np.abs(wide(y) - wide(a) @ wide(b)) <= bound(a, b, 0)).all()


def test_sums_of_one_sign_that_a_kernel_asks_for():
    a, b = (abs(each) for each in operands(64, 16, 128))
    y = room(64, 16)
    checked(matmul, a, b, y, BM=64, BN=16, DOT="group_matrix")
    off = np.abs(wide(y) - wide(a) @ wide(b))
    assert (off > bound(a, b, 0)).any() and (off <= bound(a, b, 16)).all()


def test_a_scale_for_each_block():
    a, b = numbers(72, 400, kind="fp8"), numbers(80, 400, kind="fp8", seed=1)
    scales, y = numbers(72, 4, seed=2), room(72, 80)
    checked(scaled, a, b, scales, y)
    with pytest.raises(tile.TileError, match="a product of 128 elements of k alone would be summed in about"):
        scaled.source(a, b, scales, y, **HOPPER, ASKED=False)
    factor = wide(scales).repeat(128, axis=1)[:, :400]
    want = (wide(a) * factor) @ wide(b).T
    assert (np.abs(wide(y) - want) <= bound(wide(a) * factor, wide(b).T)).all()


@pytest.mark.parametrize("kind", ["fp8", "bf16"])
def test_panels_to_tensors(kind):
    a, b = operands(144, 272, 144)
    y = room(144, 272, kind=kind)
    assert "cp.async.bulk.tensor.2d.global.shared::cta" in checked(matmul, a, b, y)
    want = np.clip(wide(a) @ wide(b), -448, 448)
    assert (np.abs(wide(y) - want) <= bound(a, b, 0) + 2.0**-4 * np.abs(want) + 2.0**-10).all()


@pytest.mark.parametrize("kinds", [("i1", "i1"), ("u1", "u1"), ("i1", "u1"), ("u1", "i1")], ids="-".join)
@pytest.mark.parametrize("loop, rows", [("specialised", 128), ("alternating", 128), ("specialised", 16)])
def test_integers_are_exact(kinds, loop, rows):
    """Of 16 rows b' @ a' is made, whose operands are the other way round."""
    a, b = operands(144, 272, 400, *kinds)
    y = room(144, 272, kind="i4")
    text = checked(matmul, a, b, y, SUM=tile.I32, LOOP=loop, BM=rows)
    given = kinds if rows == 128 else kinds[::-1]
    assert f"k32.s32.{'.'.join(FORMS[kind] for kind in given)}" in text
    assert (y == a.astype(np.int64) @ b.astype(np.int64)).all()


@pytest.mark.parametrize("loop", ["specialised", "alternating"])
def test_tf32(loop):
    a, b = operands(144, 272, 136, "f32")
    y = room(144, 272)
    text = checked(matmul, a, b, y, BK=32, PRECISION="tf32", LOOP=loop)
    assert "m64n128k8.f32.tf32.tf32" in text
    size = np.abs(wide(a)) @ np.abs(wide(b))
    assert (np.abs(wide(y) - wide(a) @ wide(b)) <= (2.0**-10 + 136 * HALF_ULP) * size).all()


def test_tf32_is_rounded_to_nearest():
    a, b, y = np.zeros((64, 32), np.float32), np.eye(32, dtype=np.float32), room(64, 32)
    a[:4, 0] = 1 + 3 * 2.0**-12, 1 + 2.0**-12, -1 - 3 * 2.0**-12, np.inf
    checked(matmul, a, np.asfortranarray(b), y, BM=64, BN=32, BK=32, PRECISION="tf32")
    assert list(y[:4, 0]) == [1 + 2.0**-10, 1, -1 - 2.0**-10, np.inf]


FP8_ROWS = numbers(64, 64, kind="fp8")
F32_PAIR = {"a": numbers(64, 64), "b": numbers(64, 64, order="F")}
REFUSED = [
    ({"b": FP8_ROWS}, {}, "k is not the contiguous axis of both operands, as products of FP8 need it"),
    ({"a": FP8_ROWS.T}, {}, "k is not the contiguous axis of both operands, as products of FP8 need it"),
    ({}, {"WIDER": True}, "operands are converted from FP8, whose products are summed in fewer bits"),
    ({}, {"DOT": "f16_16x8x16"}, "products are asked for by f16_16x8x16"),
    ({}, {"BM": 256, "BN": 256}, "accumulators take 320 registers of each thread, and 192 leave enough"),
    ({}, {"BK": 16}, "a block has 16 elements of k"),
    (
        {"a": numbers(64, 64, kind="bf16"), "b": numbers(64, 64, kind="f16")},
        {},
        "operands are BF16 and F16, not both",
    ),
    ({"a": numbers(64, 64)}, {}, "operands are F32 and FP8, not both"),
    (F32_PAIR, {"BK": 32}, "operands are F32: TF32 keeps 10 bits of 23; ask for it with precision='tf32'"),
    (
        {"a": numbers(64, 64), "b": numbers(64, 64)},
        {"BK": 32, "PRECISION": "tf32"},
        "k is not the contiguous axis of both operands, as products of F32 need it",
    ),
]


@pytest.mark.parametrize("tensors, constants, why", REFUSED, ids=[each[2] for each in REFUSED])
def test_why_not(tensors, constants, why):
    plain = {"a": FP8_ROWS, "b": np.asfortranarray(FP8_ROWS), "y": room(64, 64)}
    given = (plain | tensors).values()
    if constants.get("BN") != 256:  # which no way of making it has the registers for
        assert why in matmul.explain(*given, **HOPPER, **constants, LOOP="")
    with pytest.raises(tile.TileError, match="loop cannot be made by 'specialised': ") as error:
        matmul.source(*given, **HOPPER, **constants)
    assert why in str(error.value)


@pytest.mark.parametrize("kind, total", [("fp8", tile.F32), ("i1", tile.I32), ("u1", tile.I32)])
def test_roles_without_being_asked_for(kind, total):
    a, b = operands(128, 128, 256, kind)
    y = room(128, 128, kind="f32" if kind == "fp8" else "i4")
    assert "wgmma" in matmul.source(a, b, y, **HOPPER, SUM=total, LOOP="")


def test_what_is_told():
    a, b = operands(128, 128, 256)
    asked = matmul.explain(a, b, room(128, 128), **HOPPER, DOT="group_matrix")
    assert "sums of 128 of k in about 14 bits added in F32\n" in asked
    told = matmul.explain(a, numbers(256, 128, kind="e5m2", order="F"), room(128, 128), **HOPPER)
    assert "asynchronous, 64 x 128 by each four warps" in told
    assert "sums of 64 of k in about 14 bits added in F32, but by f16_16x8x16 where there are less" in told
