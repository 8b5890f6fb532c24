"""What makes a product, why, and how fragments, threads and warps cover its tiles."""

from __future__ import annotations

from itertools import product

import pytest

from gizml_tile.dtypes import BF16, E5M2, F16, F32, FP8, I8, I32, U8
from gizml_tile.errors import TileError
from gizml_tile.layout import wavefronts
from gizml_tile.lowering.planning.dots import automatic_warps, plan_dot
from gizml_tile.lowering.planning.plan import UNIFORM
from gizml_tile.lowering.planning.shared import shared_tile
from gizml_tile.target import Target

ARCHS = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_120a")


def planned(arch, a_dtype, b_dtype, shape=(64, 64, 32), warps=4, **options):
    return plan_dot(Target("cuda", arch), a_dtype, b_dtype, shape, warps, **options)


def reasons(choice):
    return {each.name: each.reason for each in choice.candidates if not each.accepted}


@pytest.mark.parametrize(
    ("arch", "a_dtype", "b_dtype", "precision", "chosen", "operand"),
    [
        ("sm_75", F16, F16, "f32", "f16_16x8x8", F16),
        ("sm_75", BF16, BF16, "f32", "multiply-add", F32),
        ("sm_75", F16, BF16, "f32", "multiply-add", F32),
        ("sm_75", FP8, FP8, "f32", "f16_16x8x8", F16),
        ("sm_75", FP8, BF16, "f32", "multiply-add", F32),
        ("sm_75", F32, F32, "tf32", "multiply-add", F32),
        ("sm_75", I8, I8, "f32", "i8_8x8x16", I8),
        ("sm_80", F16, F16, "f32", "f16_16x8x16", F16),
        ("sm_80", BF16, BF16, "f32", "bf16_16x8x16", BF16),
        ("sm_80", F32, F32, "f32", "multiply-add", F32),
        ("sm_80", F32, F32, "tf32", "tf32_16x8x8", F32),
        ("sm_80", F32, F16, "f32", "multiply-add", F32),
        ("sm_80", F16, BF16, "f32", "tf32_16x8x8", F32),
        ("sm_80", FP8, F16, "f32", "f16_16x8x16", F16),
        ("sm_80", BF16, FP8, "f32", "bf16_16x8x16", BF16),
        ("sm_80", FP8, E5M2, "f32", "f16_16x8x16", F16),
        ("sm_80", E5M2, BF16, "f32", "bf16_16x8x16", BF16),
        ("sm_80", U8, I8, "f32", "u8_i8_16x8x32", (U8, I8)),
        ("sm_89", FP8, FP8, "f32", "f16_16x8x16", F16),
        ("sm_90a", FP8, FP8, "f32", "f16_16x8x16", F16),
        ("sm_120a", BF16, BF16, "f32", "bf16_16x8x16", BF16),
    ],
)
def test_chosen(arch, a_dtype, b_dtype, precision, chosen, operand):
    dot, choice = planned(arch, a_dtype, b_dtype, precision=precision)
    assert choice.chosen == chosen
    assert (dot.atom.name if dot.atom else "multiply-add") == chosen
    assert dot.operands == (operand if isinstance(operand, tuple) else (operand, operand))
    assert choice.candidates[-1].name == "multiply-add"
    assert choice.candidates[-1].accepted


def test_reasons():
    _, choice = planned("sm_80", F32, F32)
    assert reasons(choice) == {
        "f16_16x8x16": "F32 would not convert to F16 exactly",
        "bf16_16x8x16": "F32 would not convert to BF16 exactly",
        "f16_16x8x8": "F32 would not convert to F16 exactly",
        "bf16_16x8x8": "F32 would not convert to BF16 exactly",
        "tf32_16x8x8": "operands are F32: TF32 keeps 10 bits of 23; ask for it with precision='tf32'",
    }
    _, choice = planned("sm_80", F16, F16, (64, 64, 8))
    assert reasons(choice)["f16_16x8x16"] == "K 8 is not a multiple of 16"
    assert choice.chosen == "f16_16x8x8"
    _, choice = planned("sm_80", F16, BF16, (64, 64, 4))
    assert reasons(choice)["tf32_16x8x8"] == "K 4 is not a multiple of 8"
    assert reasons(choice)["f16_16x8x16"] == "BF16 would not convert to F16 exactly"
    _, choice = planned("sm_80", F16, F16, (1, 1, 32))
    assert reasons(choice)["f16_16x8x16"] == "the result is a single element"
    assert choice.chosen == "multiply-add"
    _, choice = planned("sm_80", I8, U8, (8, 64, 16))
    assert reasons(choice) == {"i8_u8_16x8x32": "K 16 is not a multiple of 32"}
    assert choice.chosen == "i8_u8_8x8x16"
    _, choice = planned("sm_80", FP8, E5M2)
    assert reasons(choice)["fp8_e5m2_16x8x32"] == "the target has no fp8_e5m2_16x8x32"
    assert "fp8_16x8x32" not in reasons(choice)


def test_recommendations():
    def recommended(choice):
        return next(each.reason for each in choice.candidates if each.name == choice.chosen)

    assert recommended(planned("sm_80", F16, F16)[1]) == "K 32 in steps of 16"
    text = "FP8 converts to F16 exactly, K 32 in steps of 16, uses 4 of 16 rows, uses 2 of 8 columns"
    assert recommended(planned("sm_80", FP8, FP8, (4, 2, 32))[1]) == text
    assert recommended(planned("sm_80", F16, BF16)[1]) == "operands become TF32 exactly, K 32 in steps of 8"
    text = "operands become TF32, K 32 in steps of 8"
    assert recommended(planned("sm_80", F32, F32, precision="tf32")[1]) == text


def test_forced():
    dot, choice = planned("sm_80", F16, F16, forced="multiply-add")
    assert dot.atom is None
    assert choice.chosen == "multiply-add"
    dot, _ = planned("sm_89", FP8, FP8, forced="fp8_16x8x32")
    assert dot.operands == (FP8, FP8)
    dot, choice = planned("sm_89", E5M2, FP8, forced="e5m2_fp8_16x8x32")
    assert dot.operands == (E5M2, FP8)
    assert "sums keep about 14 bits" in {each.name: each.reason for each in choice.candidates}[choice.chosen]
    with pytest.raises(TileError) as error:
        planned("sm_80", F32, F32, forced="tf32_16x8x8")
    assert error.value.message == (
        "dot cannot be made by 'tf32_16x8x8': operands are F32: TF32 keeps 10 bits of 23; ask for it with "
        "precision='tf32'; variants that can: multiply-add"
    )
    with pytest.raises(
        TileError, match="there is no such variant; variants that can: f16_16x8x16, f16_16x8x8"
    ):
        planned("sm_80", F16, F16, forced="wgmma")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("a_dtype", "b_dtype"), [(F16, F16), (F32, F32), (I8, I8), (FP8, BF16)])
def test_layouts_cover_their_tiles(arch, a_dtype, b_dtype):
    """Every element has a holder, and a product needs of a and b only what the same thread's warp has."""
    sizes = (1, 2, 4, 8, 16, 64, 128)
    for m, n, k, warps in product(sizes, sizes, (8, 32), (1, 4, 8)):
        dot, _ = planned(arch, a_dtype, b_dtype, (m, n, k), warps)
        for layout, shape in ((dot.a, (m, k)), (dot.b, (k, n)), (dot.c, (m, n))):
            assert layout.linear.shape == shape
            assert layout.linear.is_surjective
        if (m, n) == (1, 1):
            assert dot.c is UNIFORM
            continue
        for layout in (dot.a, dot.b, dot.c):
            assert layout.linear.size("lane") == 32
            assert layout.linear.size("warp") == warps
        rows = [row for row, _ in dot.c.linear.bases("warp")]
        columns = [column for _, column in dot.c.linear.bases("warp")]
        assert dot.a.linear.bases("warp") == tuple((row, 0) for row in rows)
        assert dot.b.linear.bases("warp") == tuple((0, column) for column in columns)
        busy = dot.warps[0] * dot.warps[1]
        assert sum(any(basis) for basis in dot.c.linear.bases("warp")) == busy.bit_length() - 1
        if dot.atom is None:
            # Each thread has the rows and columns of its own elements of c.
            assert {row for row, _ in dot.a.linear.table()} == {row for row, _ in dot.c.linear.table()}
            assert {column for _, column in dot.b.linear.table()} == {
                column for _, column in dot.c.linear.table()
            }


def test_order_of_registers():
    """Atoms in the order of `Matrix`: the fragment's own registers, then columns (or k), then rows."""
    dot, _ = planned("sm_80", F16, F16, (128, 128, 64), 4)
    assert dot.warps == (2, 2)
    assert dot.c.linear.bases("register") == ((0, 1), (8, 0), (0, 8), (0, 16), (0, 32), (16, 0), (32, 0))
    assert dot.a.linear.bases("register") == ((0, 1), (8, 0), (0, 8), (0, 16), (0, 32), (16, 0), (32, 0))
    assert dot.b.linear.bases("register") == ((1, 0), (8, 0), (16, 0), (32, 0), (0, 8), (0, 16), (0, 32))
    assert dot.c.linear.bases("warp") == ((64, 0), (0, 64))


def test_grid_of_warps():
    grids = {
        shape: planned("sm_80", F16, F16, (*shape, 32), warps)[0].warps
        for *shape, warps in (
            (128, 128, 4),
            (128, 256, 8),
            (256, 128, 8),
            (64, 16, 4),
            (16, 64, 4),
            (16, 8, 4),
        )
        for shape in [tuple(shape)]
    }
    assert grids == {
        (128, 128): (2, 2),
        (128, 256): (2, 4),
        (256, 128): (4, 2),
        (64, 16): (4, 1),
        (16, 64): (1, 4),
        (16, 8): (1, 1),
    }
    assert planned("sm_80", F16, F16, (128, 128, 32), 4, prefer_rows=True)[0].warps == (4, 1)
    assert planned("sm_80", F16, F16, (32, 128, 32), 4, prefer_rows=True)[0].warps == (2, 2)


def test_left_operand_stays_in_registers():
    """The result of one product, rounded to 16 bits, is the left operand of the next where it lies."""
    scores, _ = planned("sm_80", F16, F16, (64, 64, 64), 4, prefer_rows=True)
    assert scores.warps == (4, 1)
    square, _ = planned("sm_80", F16, F16, (64, 128, 64), 4)
    assert square.a.linear != scores.c.linear
    kept, _ = planned("sm_80", F16, F16, (64, 128, 64), 4, a_registers=scores.c)
    assert kept.a.linear == scores.c.linear


def test_automatic_warps():
    target = Target("cuda", "sm_90a")
    assert automatic_warps(target, 64 * 64, atoms=True) == 4
    assert automatic_warps(target, 128 * 128, atoms=True) == 4
    assert automatic_warps(target, 128 * 256, atoms=True) == 8
    assert automatic_warps(target, 128 * 64, atoms=False) == 4
    assert automatic_warps(target, 128 * 128, atoms=False) == 8


# Operands in workgroup memory

TILES = [
    (dtype, (rows, columns), fast)
    for dtype in (F16, F32, I8)
    for rows in (1, 2, 8, 16, 64, 128)
    for columns in (1, 4, 8, 16, 32, 64, 256)
    for fast in (0, 1)
]


@pytest.mark.parametrize(("dtype", "shape", "fast"), TILES)
def test_shared_tiles(dtype, shape, fast):
    """Elements have places of their own, in whole 16-byte pieces, which all banks take at once."""
    tile = shared_tile(dtype, shape, fast)
    slow = 1 - fast

    def offset(row, position):
        return tile.offset(*((row, position) if fast == 1 else (position, row))) * dtype.bytes

    everything = [offset(row, each) for row in range(shape[slow]) for each in range(shape[fast])]
    assert sorted(everything) == [each * dtype.bytes for each in range(tile.elements)]
    row_bytes = shape[fast] * dtype.bytes
    if row_bytes < 16:
        return
    chunk = 16 // dtype.bytes
    pieces = [(row, first) for row in range(shape[slow]) for first in range(0, shape[fast], chunk)]
    for row, first in pieces:
        assert offset(row, first) % 16 == 0
        assert [offset(row, first + each) - offset(row, first) for each in range(chunk)] == [
            each * dtype.bytes for each in range(chunk)
        ]
    # Writes: 32 lanes with the next 32 pieces.
    for start in range(0, len(pieces) - 31, 32):
        assert wavefronts([offset(*piece) for piece in pieces[start : start + 32]], 16) == 4
    # 8 rows of one chunk, next to each other or every second or fourth.
    for first in range(0, shape[fast], chunk):
        for step in (1, 2, 4):
            span = 8 * step if step < 4 else 16
            for start in range(0, shape[slow] - span + 1, span):
                rows = range(start, start + span, step)
                assert wavefronts([offset(row, first) for row in rows] * (32 // len(rows)), 16) == 4


def test_shared_tile_names():
    tile = shared_tile(F16, (64, 64), 1)
    assert tile.name == "rows of 128 bytes, 16-byte chunks swizzled by row"
    assert (tile.dtype, tile.shape, tile.elements) == (F16, (64, 64), 4096)
    assert shared_tile(F32, (4, 64), 0).name == "columns of 16 bytes, 16-byte chunks swizzled by column"
    assert shared_tile(I32, (1, 64), 1).name == "rows of 256 bytes"
