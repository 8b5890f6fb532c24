"""The fragments of AMD's and Apple's matrix units against formulas, element by element.

AMD's are what the public Matrix Instruction Calculator answers for element ``e`` of a lane's vector. Apple's
are those of public kernels. Where an atom exchanges the operands, the formula for A is held against its b.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from gizml_tile.dtypes import BF16, E5M2, F16, F32, F64, FP8, I8, U8, math_dtype
from gizml_tile.lowering.atoms import ATOMS, atoms, family
from gizml_tile.target import Target


@dataclass(frozen=True)
class Unit:
    """A hardware instruction: lanes, elements of a lane in A (as in B) and in C, and their formulas.

    ``along`` gives element e's place along k, ``row`` the row of C. The row of A, and the columns of B and of
    C, are lane % side.
    """

    lanes: int
    side: int
    k: int
    operand: int
    sums: int
    along: Any
    row: Any


def cdna_16(k: int) -> Unit:
    own = k // 4
    return Unit(64, 16, k, own, 4, lambda lane, e: lane // 16 * own + e, lambda lane, e: 4 * (lane // 16) + e)


def cdna_32(k: int) -> Unit:
    own = k // 2
    return Unit(
        64,
        32,
        k,
        own,
        16,
        lambda lane, e: lane // 32 * own + e,
        lambda lane, e: 8 * (e // 4) + 4 * (lane // 32) + e % 4,
    )


def rdna4(bytes: int) -> Unit:
    def along(lane: int, e: int) -> int:
        return 8 * (lane // 16) + e if bytes == 1 else 8 * (e // 4) + 4 * (lane // 16) + e % 4

    return Unit(32, 16, 16, 8, 8, along, lambda lane, e: 8 * (lane // 16) + e)


RDNA3 = Unit(32, 16, 16, 16, 8, lambda lane, e: e, lambda lane, e: 2 * e + lane // 16)
PAIRS = {"i8": (I8, I8), "u8": (U8, U8), "i8_u8": (I8, U8), "u8_i8": (U8, I8)}
FLOATS = {"fp8": (FP8, FP8), "e5m2": (E5M2, E5M2), "fp8_e5m2": (FP8, E5M2), "e5m2_fp8": (E5M2, FP8)}
# name: types of the operands, the ability, the instruction
EXPECTED = {
    **{f"mfma_{name}_16x16x32": (pair, "mfma_fp8_16x16x32", cdna_16(32)) for name, pair in FLOATS.items()},
    **{f"mfma_{name}_32x32x16": (pair, "mfma_fp8_32x32x16", cdna_32(16)) for name, pair in FLOATS.items()},
    **{f"mfma_f16_16x16x{k}": ((F16, F16), "", cdna_16(k)) for k in (16, 32)},
    **{f"mfma_f16_32x32x{k}": ((F16, F16), "", cdna_32(k)) for k in (8, 16)},
    **{f"mfma_bf16_16x16x{k}": ((BF16, BF16), "", cdna_16(k)) for k in (16, 32)},
    **{f"mfma_bf16_32x32x{k}": ((BF16, BF16), "", cdna_32(k)) for k in (8, 16)},
    # In which a lane's elements of C are four rows apart (Composable Kernel, "mfma_f64_16x16x4f64").
    "mfma_f64_16x16x4": (
        (F64, F64),
        "",
        Unit(64, 16, 4, 1, 4, lambda lane, e: lane // 16, lambda lane, e: 4 * e + lane // 16),
    ),
    "mfma_f32_16x16x4": ((F32, F32), "", cdna_16(4)),
    "mfma_f32_32x32x2": ((F32, F32), "", cdna_32(2)),
    **{f"mfma_i8_16x16x{k}": ((I8, I8), "", cdna_16(k)) for k in (16, 32, 64)},
    **{f"mfma_i8_32x32x{k}": ((I8, I8), "", cdna_32(k)) for k in (8, 16, 32)},
    "wmma11_f16_16x16x16": ((F16, F16), "", RDNA3),
    "wmma11_bf16_16x16x16": ((BF16, BF16), "", RDNA3),
    **{f"wmma11_{name}_16x16x16": (pair, "wmma11_i8_16x16x16", RDNA3) for name, pair in PAIRS.items()},
    "wmma12_f16_16x16x16": ((F16, F16), "", rdna4(2)),
    "wmma12_bf16_16x16x16": ((BF16, BF16), "", rdna4(2)),
    **{f"wmma12_{name}_16x16x16": (pair, "wmma12_fp8_16x16x16", rdna4(1)) for name, pair in FLOATS.items()},
    **{f"wmma12_{name}_16x16x16": (pair, "wmma12_i8_16x16x16", rdna4(1)) for name, pair in PAIRS.items()},
}


def places(linear: Any, lanes: int) -> list[tuple[int, int, tuple[int, int]]]:
    """Lane, register and element of a fragment."""
    assert linear.size("lane") == lanes
    return [
        (lane, register, linear.apply(lane=lane, register=register))
        for lane in range(lanes)
        for register in range(linear.size("register"))
    ]


@pytest.mark.parametrize("name", EXPECTED)
def test_fragments(name: str) -> None:
    (atom,) = [atom for atom in ATOMS if atom.name == name]
    dtypes, needs, unit = EXPECTED[name]
    assert (atom.m, atom.n, atom.k) == (unit.side, unit.side, unit.k)
    assert (atom.a_dtype, atom.b_dtype) == dtypes
    assert atom.c_dtype is math_dtype(dtypes[0])
    assert atom.needs == (needs or name)
    sizes = [linear.size("register") for linear in (atom.a, atom.b, atom.c)]
    assert sizes == [unit.operand, unit.operand, unit.sums]
    left = [(lane, e, row, k) for lane, e, (row, k) in places(atom.a, unit.lanes)]
    right = [(lane, e, column, k) for lane, e, (k, column) in places(atom.b, unit.lanes)]
    # Both operands may have k in one other order.
    orders = []
    for operand in (left, right):
        order: dict[int, int] = {}
        for lane, e, side, k in operand:
            assert side == lane % unit.side
            assert order.setdefault(k, unit.along(lane, e)) == unit.along(lane, e)
        assert sorted(order.values()) == list(range(unit.k))
        orders.append([order[k] for k in range(unit.k)])
    assert orders[0] == orders[1]
    assert orders[0] == list(range(unit.k)) or name in ("wmma12_f16_16x16x16", "wmma12_bf16_16x16x16")
    for lane, e, (row, column) in places(atom.c, unit.lanes):
        found = (column, row) if atom.turned else (row, column)
        assert found == (unit.row(lane, e), lane % unit.side), (lane, e)
    assert atom.c.is_injective


@pytest.mark.parametrize("dtype", [F16, BF16, F32])
def test_fragments_of_simdgroup_matrices(dtype: Any) -> None:
    """Row and column of element e in lane l, the same for A, B and C (MLX, "steel" products)."""
    (atom,) = [atom for atom in ATOMS if atom.name == f"simdgroup_{dtype.text}_8x8x8"]
    assert (atom.a_dtype, atom.b_dtype, atom.c_dtype) == (dtype, dtype, F32)
    assert (atom.m, atom.n, atom.k, atom.turned) == (8, 8, 8, False)
    for linear in (atom.a, atom.b, atom.c):
        assert linear.is_injective and linear.size("register") == 2
        for lane, e, place in places(linear, 32):
            assert place == (lane // 2 % 4 + 4 * (lane // 16), 2 * (lane % 2) + 4 * (lane // 8 % 2) + e)


def test_every_atom_is_checked() -> None:
    elsewhere = {atom.name for atom in family(Target("cuda", "sm_80"))}
    apple = {f"simdgroup_{dtype}_8x8x8" for dtype in ("f16", "bf16", "f32")}
    assert {atom.name for atom in ATOMS} == elsewhere | apple | set(EXPECTED)
    assert len(ATOMS) == len(elsewhere) + len(apple) + len(EXPECTED)


TARGETS = {
    **{
        ("hip", arch): [
            "mfma_f16_16x16x16",
            "mfma_bf16_16x16x16",
            "mfma_f32_16x16x4",
            "mfma_f64_16x16x4",
            f"mfma_i8_{bytes_}",
        ]
        for arch, bytes_ in (("gfx90a", "16x16x16"), ("gfx942", "16x16x32"))
    },
    ("hip", "gfx950"): [
        "mfma_f16_16x16x32",
        "mfma_bf16_16x16x32",
        "mfma_fp8_16x16x32",
        "mfma_e5m2_16x16x32",
        "mfma_f32_16x16x4",
        "mfma_f64_16x16x4",
        "mfma_i8_16x16x64",
    ],
    ("hip", "gfx1100"): ["wmma11_f16_16x16x16", "wmma11_bf16_16x16x16", "wmma11_i8_16x16x16"],
    ("hip", "gfx1151"): ["wmma11_f16_16x16x16", "wmma11_bf16_16x16x16", "wmma11_i8_16x16x16"],
    ("hip", "gfx1200"): [
        "wmma12_f16_16x16x16",
        "wmma12_bf16_16x16x16",
        "wmma12_fp8_16x16x16",
        "wmma12_e5m2_16x16x16",
        "wmma12_i8_16x16x16",
    ],
    ("hip", "gfx1201"): [
        "wmma12_f16_16x16x16",
        "wmma12_bf16_16x16x16",
        "wmma12_fp8_16x16x16",
        "wmma12_e5m2_16x16x16",
        "wmma12_i8_16x16x16",
    ],
    ("metal", "apple7"): ["simdgroup_f16_8x8x8", "simdgroup_f32_8x8x8"],
    ("metal", "apple8"): ["simdgroup_f16_8x8x8", "simdgroup_bf16_8x8x8", "simdgroup_f32_8x8x8"],
    ("metal", "apple9"): ["simdgroup_f16_8x8x8", "simdgroup_bf16_8x8x8", "simdgroup_f32_8x8x8"],
}


@pytest.mark.parametrize("kind, arch", TARGETS)
def test_first_atoms_of_a_target(kind: str, arch: str) -> None:
    """The one that is best for each pair of equal types, and no ability without its atom."""
    first: dict[Any, str] = {}
    target = Target(kind, arch)
    for atom in atoms(target):
        if atom.a_dtype is atom.b_dtype and atom.a_dtype is not U8:
            first.setdefault(atom.a_dtype, atom.name)
    order = [F16, BF16, FP8, E5M2, F32, F64, I8]
    assert [first[dtype] for dtype in order if dtype in first] == TARGETS[kind, arch]
    known = {atom.needs for atom in ATOMS}
    # Theirs have sizes in their names.
    assert {each for each in target.facts.abilities if re.search(r"\dx\d", each)} <= known
