"""Products beside which groups of four warps compute on the blocks of the left operand, as norms of rows."""

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


def by_tiles(y, BM, BN, **_):
    return tile.cdiv(y.shape[0], BM), tile.cdiv(y.shape[1], BN)


@tile.kernel(grid=by_tiles)
def normalised(
    p,
    x,
    w,
    gain,
    y,
    *,
    BM=128,
    BN=128,
    BK=64,
    TURN_X=False,
    TURN_W=False,
    GAIN=False,
    LATE=False,
    LOOP="",
    PRECISION="f32",
):
    """Rows over their root mean square, found beside the product from the same blocks."""
    if LOOP:
        p.variant("loop", LOOP)
    i, j = p.id(0), p.id(1)
    X, W = p.read(x, [BK, BM] if TURN_X else [BM, BK]), p.read(w, [BN, BK] if TURN_W else [BK, BN])
    gains = p.read(gain, [BK, 1] if TURN_X else [1, BK])
    acc, squares = p.zeros([BM, BN]), p.zeros([1, BM] if TURN_X else [BM, 1])
    for k in range(X.blocks(0 if TURN_X else 1)):
        block = X[k, i] if TURN_X else X[i, k]
        number = block.to(tile.F32)
        if not LATE:
            squares += (number * number).sum(0 if TURN_X else 1)
        left = (number * (gains[k, 0] if TURN_X else gains[0, k])).to(x.dtype) if GAIN else block
        left = left.T if TURN_X else left
        acc += left.dot(W[j, k].T if TURN_W else W[k, j], precision=PRECISION)
        if LATE:
            squares += (number * number).sum(0 if TURN_X else 1)
    scale = (squares / X.dim(0 if TURN_X else 1) + 2.0**-10).rsqrt()
    p.write(y, [BM, BN])[i, j] = acc * (scale.T if TURN_X else scale)


def ran(kernel, *tensors, **constants):
    """Two simulations with equal bits and without races; nothing spills. Gives what explain says."""
    results = []
    for _ in range(2):
        tensors[-1][...] = np.nan
        found = kernel.simulate(*tensors, **HOPPER, **constants)
        assert not [str(each) for each in found.findings if each.kind not in COSTS]
        results.append(tensors[-1].copy())
    assert results[0].tobytes() == results[1].tobytes()
    report = assemble(kernel.source(*tensors, **HOPPER, **constants), "sm_90a")
    assert (report.spills, report.warnings) == (0, ())
    told = kernel.explain(*tensors, **HOPPER, **constants)
    assert "one thread brings blocks\n" in told and "asynchronous" in told
    assert "goes to registers, too, where something else is computed of it" in told
    return told


def wanted(x, w, gain=None):
    given = wide(x)
    scale = 1 / np.sqrt(np.square(given).mean(1, keepdims=True) + 2.0**-10)
    if gain is not None:
        given = wide((wide(x).astype(np.float32) * gain).astype(x.dtype))
    return given @ wide(w) * scale


CASES = [
    # rows, columns, k, constants
    (136, 136, 200, {}),
    (136, 264, 200, {"BN": 256}),
    (264, 136, 136, {"BM": 256, "LATE": True}),
    (72, 72, 64, {"BM": 64, "BN": 64, "BK": 128}),
    (136, 136, 200, {"LOOP": "alternating"}),
    (136, 136, 200, {"TURN_W": True, "LATE": True}),
    (136, 144, 200, {"TURN_X": True}),
    (136, 136, 600, {"BN": 256, "LATE": True}),
    (24, 136, 200, {"BM": 16}),
    (24, 136, 200, {"BM": 32, "BN": 64, "LATE": True, "TURN_W": True}),
    (24, 136, 200, {"BM": 16, "TURN_X": True}),
    (136, 136, 200, {"GAIN": True}),
    (136, 264, 200, {"GAIN": True, "BN": 256, "LATE": True}),
    (136, 136, 200, {"GAIN": True, "TURN_X": True}),
]


@pytest.mark.parametrize("m, n, k, constants", CASES)
def test_norms_beside_products(m, n, k, constants):
    x, w, gain = numbers(m, k, kind="bf16"), numbers(k, n, kind="bf16", seed=1), numbers(1, k, seed=2)
    given = [x, w, gain]
    if constants.get("TURN_X"):
        given[0], given[2] = np.ascontiguousarray(x.T), np.ascontiguousarray(gain.T)
    if constants.get("TURN_W"):
        given[1] = np.ascontiguousarray(w.T)
    y = room(m, n)
    ran(normalised, *given, y, **constants)
    want = wanted(x, w, gain if constants.get("GAIN") else None)
    assert np.abs(wide(y) - want).max() <= 2.0**-14 * np.abs(want).max()


@pytest.mark.parametrize("x_kind, w_kind", [("f16", "f16"), ("fp8", "bf16")])
def test_types(x_kind, w_kind):
    x, w, y = numbers(144, 208, kind=x_kind), numbers(208, 144, kind=w_kind, seed=1), room(144, 144)
    ran(normalised, x, w, numbers(1, 208), y)
    assert np.abs(wide(y) - wanted(x, w)).max() <= 2.0**-14 * np.abs(wanted(x, w)).max()


@tile.kernel(grid=by_tiles)
def layer_norm(p, x, w, y, *, BM=128, BN=128, BK=64):
    """(x - mean) / deviation @ w, as x @ w and what rows of x and columns of w add up to."""
    i, j = p.id(0), p.id(1)
    X, W = p.read(x, [BM, BK]), p.read(w, [BK, BN])
    acc, sums, squares = p.zeros([BM, BN]), p.zeros([BM, 1]), p.zeros([BM, 1])
    for k in range(X.blocks(1)):
        number = X[i, k].to(tile.F32)
        sums += number.sum(1)
        squares += (number * number).sum(1)
        acc += X[i, k] @ W[k, j]
    mean = sums / X.dim(1)
    p.write(y, [BM, BN])[i, j] = acc * (squares / X.dim(1) - mean * mean).rsqrt()


def test_several_sums():
    x, w, y = numbers(136, 200, kind="bf16"), numbers(200, 136, kind="bf16", seed=1), room(136, 136)
    ran(layer_norm, x, w, y)
    want = wide(x) @ wide(w) / wide(x).std(1, keepdims=True)
    assert np.abs(wide(y) - want).max() <= 2.0**-14 * np.abs(want).max()


@tile.kernel(grid=by_tiles)
def over_columns(p, x, w, y, *, BM=64, BN=64, BK=64, PRECISION="f32"):
    """The product over the norms of its columns."""
    i, j = p.id(0), p.id(1)
    X, W = p.read(x, [BM, BK]), p.read(w, [BK, BN])
    acc, columns = p.zeros([BM, BN]), p.zeros([1, BN])
    for k in range(X.blocks(1)):
        acc += X[i, k].dot(W[k, j], precision=PRECISION)
        columns += (W[k, j] * W[k, j]).sum(0)
    p.write(y, [BM, BN])[i, j] = acc * columns.rsqrt()


@pytest.mark.parametrize(
    "kernel, kinds, constants, why",
    [
        (
            normalised,
            "bf16 fp8",
            {},
            "blocks of x are computed on, too, and all 8192 elements of a right operand by each warp",
        ),
        (
            over_columns,
            "f16 f16",
            {},
            "blocks of w are computed on, too, and all 4096 elements of a right operand by each warp",
        ),
        (
            normalised,
            "f32 f32",
            {"BK": 32, "TURN_W": True, "PRECISION": "tf32"},
            "blocks of x are computed on, too, and rounded to TF32 on the way",
        ),
    ],
)
def test_where_all_warps_do_the_same(kernel, kinds, constants, why):
    x, w = (numbers(144, 144, kind=kind, seed=seed) for seed, kind in enumerate(kinds.split()))
    given = (x, w, numbers(1, 144), room(144, 144)) if kernel is normalised else (x, w, room(144, 144))
    assert f"no        {why}" in kernel.explain(*given, **HOPPER, **constants)


@pytest.mark.parametrize("kind", ["bf16", "f32"])
@pytest.mark.parametrize("device", ["cuda sm_80", "cuda sm_90a", "hip gfx942", "metal apple9"])
@pytest.mark.parametrize(
    "constants", [{}, {"GAIN": True}, {"TURN_X": True}, {"TURN_W": True, "LATE": True}], ids=str
)
def test_without_roles(constants, device, kind):
    """Products take the block from workgroup memory, to which it is copied ahead, and threads load it."""
    on = dict(zip(("kind", "arch"), device.split(), strict=True)) | {"BM": 32, "BN": 32, "BK": 32}
    x, w, gain = numbers(72, 136, kind=kind), numbers(136, 72, kind=kind, seed=1), numbers(1, 136, seed=2)
    given = [x, w, gain]
    if "TURN_X" in constants:
        given[::2] = [np.ascontiguousarray(x.T), np.ascontiguousarray(gain.T)]
    if "TURN_W" in constants:
        given[1] = np.ascontiguousarray(w.T)
    loop = {"LOOP": "uniform"} if device == "cuda sm_90a" else {}
    y = room(72, 72)
    found = normalised.simulate(*given, y, **on, **constants, **loop)
    assert not [str(each) for each in found.findings if each.kind not in COSTS]
    truth = wanted(x, w, gain if "GAIN" in constants else None)
    np.testing.assert_allclose(wide(y), truth, rtol=1e-4, atol=2e-4)
    if device.startswith("cuda") and "GAIN" not in constants:
        told = normalised.explain(*given, y, **on, **constants, **loop)
        copied = told.partition("read x at 32x32: copy to workgroup memory\n")[2]
        assert copied.startswith("    asynchronous copy of 16 bytes  chosen\n"), told
        assert "operand of a product" not in told


def test_a_block_that_is_computed_on_stays_in_registers_where_there_is_no_room_to_copy_it_ahead():
    """Two turns of all blocks are more than the 32768 bytes of an Apple GPU, and one turn is not."""
    given = [numbers(64, 128, kind="f32"), numbers(128, 64, kind="f32", seed=1), numbers(1, 128, seed=2)]
    y = room(64, 64)
    on = {"kind": "metal", "arch": "apple9", "BM": 64, "BN": 64, "BK": 64}
    found = normalised.simulate(*given, y, **on)
    assert not [str(each) for each in found.findings if each.kind not in COSTS]
    np.testing.assert_allclose(wide(y), wanted(*given[:2]), rtol=1e-4, atol=2e-4)


USES = {
    "sum": lambda p, b, c: c + b.sum(1),
    "in order": lambda p, b, c: c + b.sort(1)[0][:, 3:4],
    "running sum": lambda p, b, c: c + b.cumsum(1)[:, 31:],
    "part": lambda p, b, c: c + b[:, 8:24].sum(1),
    "other shape": lambda p, b, c: c + b.reshape([64, 16]).reshape([32, 32]).sum(1),
    "joined": lambda p, b, c: c + b.concat(b, 1).sum(1),
    "turned": lambda p, b, c: c + (b.T * 2.0).sum(1),
    "chosen": lambda p, b, c: c + (b > 0).select(b, 0).sum(1),
    "in a branch": lambda p, b, c: p.cond(p.id(0).gt(0), lambda: c + b.sum(1), lambda: c - b.sum(1)),
    "in a loop": lambda p, b, c: p.fold(0, 3, c, lambda _, total: total + b.sum(1)),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("use", USES)
def test_what_else_is_made_of_a_block(use, turned):
    """The same as on the CPU, of a block that products take from workgroup memory."""
    x, w = numbers(*((96, 72) if turned else (72, 96)), kind="f16"), numbers(96, 32, kind="f16", seed=1)
    results = [np.zeros((72, 32), np.float32), np.zeros((72, 1), np.float32)]

    def body(p):
        X, W, i = p.read(x, [32, 32]), p.read(w, [32, 32]), p.id(0)

        def turn(k, carried):
            block = X[k, i] if turned else X[i, k]
            product = (block.T if turned else block) @ W[k, 0]
            return [carried[0] + product, USES[use](p, block, carried[1])]

        made = p.loop(0, X.blocks(0 if turned else 1), [p.zeros([32, 32]), p.zeros([32, 1])], turn)
        for tensor, each in zip(results, made, strict=True):
            p.write(tensor, list(each.shape))[i, 0] = each

    tile.run(3, body)
    wanted = [each.copy() for each in results]
    for arch in ("sm_80", "gfx942"):
        found = tile.simulate(3, body, kind="cuda" if arch == "sm_80" else "hip", arch=arch)
        assert not [str(each) for each in found.findings if each.kind not in COSTS]
        for made, each in zip(results, wanted, strict=True):
            np.testing.assert_allclose(made, each, rtol=1e-4, atol=1e-4)
            made[...] = np.nan
