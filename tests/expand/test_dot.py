"""Products in the simulator against NumPy, for every atom, order in memory and kind of operand."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from dot_kernels import Case, product_kernel, run

from gizml_tile.dtypes import BF16, E5M2, F16, F32, FP8, I8, U8
from gizml_tile.lowering.kernel_ir.instructions import MatrixAccess
from gizml_tile.lowering.planning.dots import plan_dot
from gizml_tile.target import Target

FLOATS = [
    (F16, F16, "f32"),
    (BF16, BF16, "f32"),
    (FP8, FP8, "f32"),
    (FP8, E5M2, "f32"),
    (E5M2, FP8, "f32"),
    (FP8, F16, "f32"),
    (BF16, FP8, "f32"),
    (F16, BF16, "f32"),
    (F16, F32, "f32"),
    (F32, F32, "f32"),
    (F32, F32, "tf32"),
    (F32, BF16, "tf32"),
]
INTEGERS = [(I8, I8, "f32"), (U8, I8, "f32"), (I8, U8, "f32"), (U8, U8, "f32")]
ARCHS = ("sm_75", "sm_80", "sm_90a")


def agrees(case, *, conflicts=False):
    """Run a case: nothing wrong is found, no bank conflicts, and the result is within the bound."""
    result, exact, bound, found, dot = run(case)
    assert not found.wrong, found
    assert conflicts or not found.of("bank conflict"), found
    if dot.atom is not None and dot.atom.name.startswith("tf32") and F32 in (case.a_dtype, case.b_dtype):
        bound = bound + 2.0**-10 * bound / (2.0**-24 * (case.shape[2] + 1))
    if not case.a_dtype.is_float:
        bound = np.zeros_like(exact)
    assert (np.abs(result - exact) <= bound).all(), np.abs(result - exact).max()
    return dot


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("a_dtype", "b_dtype", "precision"), FLOATS + INTEGERS)
def test_orders_and_sizes(arch, a_dtype, b_dtype, precision):
    for fast, shape in product(product((0, 1), (0, 1)), ((64, 64, 32), (32, 16, 64), (16, 32, 32))):
        agrees(Case(arch, a_dtype, b_dtype, shape, fast, 4, precision))


@pytest.mark.parametrize("arch", [*ARCHS, "sm_89"])
@pytest.mark.parametrize(("a_dtype", "b_dtype", "precision"), FLOATS + INTEGERS)
def test_every_variant(arch, a_dtype, b_dtype, precision):
    shape = (32, 32, 32)
    _, choice = plan_dot(Target("cuda", arch), a_dtype, b_dtype, shape, 4, precision)
    names = [each.name for each in choice.candidates if each.accepted]
    for name, fast in product(names, ((1, 1), (0, 0))):
        dot = agrees(Case(arch, a_dtype, b_dtype, shape, fast, 4, precision, name))
        assert (dot.atom.name if dot.atom else "multiply-add") == name


@pytest.mark.parametrize("registers", ["a", "b", "ab"])
@pytest.mark.parametrize(("a_dtype", "b_dtype"), [(F16, F16), (F32, F32), (FP8, F16), (U8, I8), (E5M2, FP8)])
def test_operands_in_registers(registers, a_dtype, b_dtype):
    for shape in ((32, 16, 64), (16, 8, 32)):
        agrees(Case("sm_80", a_dtype, b_dtype, shape, registers=registers))
        if (a_dtype, b_dtype) == (E5M2, FP8):
            own = {"forced": "e5m2_fp8_16x8x32", "registers": registers}
            agrees(Case("sm_89", a_dtype, b_dtype, (16, 8, 32), **own))


@pytest.mark.parametrize(("a_dtype", "b_dtype"), [(F16, F16), (F32, F32), (I8, I8)])
def test_small_tiles(a_dtype, b_dtype):
    """Rows and columns that an atom has too many of are computed again, and warps too many do the same."""
    for m, n, warps in product((1, 2, 8), (1, 4, 16), (1, 4)):
        agrees(Case("sm_80", a_dtype, b_dtype, (m, n, 32), warps=warps))
        agrees(Case("sm_80", a_dtype, b_dtype, (n, m, 32), (0, 0), warps))


@pytest.mark.parametrize("dtype", [F16, F32])
def test_slots_and_no_sum_before(dtype):
    agrees(Case("sm_80", dtype, dtype, (32, 32, 32), slot=2))
    agrees(Case("sm_80", dtype, dtype, (32, 32, 32), accumulates=False))


@pytest.mark.parametrize("fast", list(product((0, 1), (0, 1))))
def test_long_multiply_adds_loop(fast):
    """Beyond a few thousand multiply-adds of a thread there is a loop over k; the order stays."""
    for dtype, k in ((F32, 128), (F16, 256)):
        case = Case("sm_90a", dtype, dtype, (128, 64, k), fast, 4, forced="multiply-add", accumulates=False)
        kernel, _ = product_kernel(case)
        assert [each.op for each in kernel.body.instructions].count("loop") == 1
        agrees(case)


def test_multiply_adds_are_one_chain_in_order():
    """Bit for bit what a loop over k with one fused multiply-add for each element gives."""
    import math

    case = Case("sm_80", F32, F32, (16, 16, 32), accumulates=False)
    result, *_ = run(case, seed=3)
    random = np.random.default_rng(3)
    a = random.standard_normal((16, 32)).astype(np.float32)
    b = random.standard_normal((32, 16)).astype(np.float32)
    for i, j in ((0, 0), (3, 9), (15, 15)):
        total = np.float32(0)
        for k in range(32):
            exact = float(a[i, k]) * float(b[k, j])  # exact in float64
            total = np.float32(math.fsum((exact, float(total))))
        assert result[i, j] == total


@pytest.mark.parametrize(
    ("arch", "dtype", "fast", "loads"),
    [
        # x4 where there are four matrices: 64x64 by 2 x 2 warps, each 32 rows and 32 columns.
        ("sm_80", F16, (1, 0), {(4, False): 8}),
        ("sm_80", F16, (0, 1), {(4, True): 8}),
        ("sm_75", F16, (1, 1), {(4, False): 4, (4, True): 4}),
        ("sm_80", I8, (1, 0), {(4, False): 4}),
        ("sm_80", I8, (0, 1), {}),
    ],
)
def test_matrix_loads(arch, dtype, fast, loads):
    kernel, _ = product_kernel(Case(arch, dtype, dtype, (64, 64, 32), fast))
    found: dict[tuple[int, bool], int] = {}
    for each in kernel.body.walk():
        if isinstance(each.attr, MatrixAccess):
            key = each.attr.matrices, each.attr.transposed
            found[key] = found.get(key, 0) + len(each.attr.places)
    assert found == loads


def test_tf32_rounds_to_nearest():
    """The unit cuts bits off, so F32 operands are rounded before; NaN and infinity stay."""
    case = Case("sm_80", F32, F32, (16, 8, 8), precision="tf32", accumulates=False)
    up = np.float32(1 + 2.0**-11 + 2.0**-20)  # nearer to 1 + 2^-10
    down = np.float32(1 + 2.0**-12)
    special = np.array([0xFFFFFFFF, 0x7F800000, 0x7FFFFFFF], np.uint32).view(np.float32)
    from gizml_tile.lowering.simulate import simulation
    from gizml_tile.lowering.simulate.tensors import Memory

    kernel, _ = product_kernel(case)
    a, b, c = np.zeros((16, 8), np.float32), np.eye(8, dtype=np.float32), np.zeros((16, 8), np.float32)
    a[0, 0], a[1, 0], a[2, 0], a[3, 0], a[4, 0] = up, down, *special
    simulation.simulate(kernel, [Memory.of(each) for each in (a, b, c)])
    assert c[0, 0] == 1 + 2.0**-10
    assert c[1, 0] == 1
    assert np.isnan(c[2, 0])
    assert c[3, 0] == np.inf
    assert np.isnan(c[4, 0])


@pytest.mark.parametrize("seed", range(4))
def test_random_cases(seed):
    """Any sizes, orders, warps and forms of operands. Bank conflicts are looked at elsewhere."""
    random = Random(seed)
    done = 0
    while done < 40:
        a_dtype, b_dtype, precision = random.choice(FLOATS + INTEGERS)
        m, n, k = (random.choice((1, 2, 4, 8, 16, 32, 64, 128)) for _ in range(3))
        if m * n * k > 1 << 17:
            continue
        agrees(
            Case(
                random.choice((*ARCHS, "sm_89", "sm_120a")),
                a_dtype,
                b_dtype,
                (m, n, k),
                (random.randrange(2), random.randrange(2)),
                random.choice((1, 2, 4, 8)),
                precision,
                registers=random.choice(("", "", "a", "b", "ab")),
                accumulates=random.random() < 0.5,
                prefer_rows=random.random() < 0.5,
            ),
            conflicts=True,
        )
        done += 1
