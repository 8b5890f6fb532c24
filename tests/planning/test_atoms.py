"""Every atom's fragments against the formulas of the PTX ISA, element by element.

The formulas are written from the ISA's chapter on the fragments of mma, with its own names: ``group`` is
groupID (the lane divided by 4), ``thread`` is threadID_in_group (the lane modulo 4), ``i`` the number of
the element that a lane holds.
"""

from __future__ import annotations

import pytest

from gizml_tile.dtypes import BF16, E5M2, F16, F32, F64, FP8, I8, I32, U8
from gizml_tile.lowering.atoms import ATOMS, atoms, family
from gizml_tile.target import Target


def half_16x8x16_a(group, thread, i):
    row = group if i in (0, 1, 4, 5) else group + 8
    return row, thread * 2 + i % 2 + (8 if i >= 4 else 0)


def half_16x8x16_b(group, thread, i):
    return thread * 2 + i % 2 + (8 if i >= 2 else 0), group


def half_16x8x8_a(group, thread, i):
    return (group if i < 2 else group + 8), thread * 2 + i % 2


def half_16x8x8_b(group, thread, i):
    return thread * 2 + i, group


def tf32_16x8x8_a(group, thread, i):
    return (group if i in (0, 2) else group + 8), (thread if i < 2 else thread + 4)


def tf32_16x8x8_b(group, thread, i):
    return (thread if i == 0 else thread + 4), group


def byte_16x8x32_a(group, thread, i):
    row = group if i // 4 in (0, 2) else group + 8
    return row, thread * 4 + i % 4 + (16 if i >= 8 else 0)


def byte_16x8x32_b(group, thread, i):
    return thread * 4 + i % 4 + (16 if i >= 4 else 0), group


def byte_8x8x16_a(group, thread, i):
    return group, thread * 4 + i


def byte_8x8x16_b(group, thread, i):
    return thread * 4 + i, group


def sums_of_16_rows(group, thread, i):
    return (group if i < 2 else group + 8), thread * 2 + i % 2


def sums_of_8_rows(group, thread, i):
    return group, thread * 2 + i


def double_8x8x4_a(group, thread, i):
    return group, thread


def double_8x8x4_b(group, thread, i):
    return thread, group


def double_16x8x16_a(group, thread, i):
    return (group if i % 2 == 0 else group + 8), (i * 2 if i % 2 == 0 else i * 2 - 2) + thread


def double_16x8x16_b(group, thread, i):
    return thread + i * 4, group


HALF_16 = half_16x8x16_a, half_16x8x16_b, sums_of_16_rows
HALF_8 = half_16x8x8_a, half_16x8x8_b, sums_of_16_rows
TF32 = tf32_16x8x8_a, tf32_16x8x8_b, sums_of_16_rows
BYTE_32 = byte_16x8x32_a, byte_16x8x32_b, sums_of_16_rows
BYTE_16 = byte_8x8x16_a, byte_8x8x16_b, sums_of_8_rows
DOUBLE_4 = double_8x8x4_a, double_8x8x4_b, sums_of_8_rows
DOUBLE_16 = double_16x8x16_a, double_16x8x16_b, sums_of_16_rows

# name: size (m, n, k), types of a, b and c, the ability, formulas
EXPECTED = {
    "f16_16x8x16": ((16, 8, 16), (F16, F16, F32), "f16_16x8x16", HALF_16),
    "bf16_16x8x16": ((16, 8, 16), (BF16, BF16, F32), "bf16_16x8x16", HALF_16),
    "f16_16x8x8": ((16, 8, 8), (F16, F16, F32), "f16_16x8x8", HALF_8),
    "bf16_16x8x8": ((16, 8, 8), (BF16, BF16, F32), "bf16_16x8x8", HALF_8),
    "tf32_16x8x8": ((16, 8, 8), (F32, F32, F32), "tf32_16x8x8", TF32),
    "fp8_16x8x32": ((16, 8, 32), (FP8, FP8, F32), "fp8_16x8x32", BYTE_32),
    "e5m2_16x8x32": ((16, 8, 32), (E5M2, E5M2, F32), "fp8_16x8x32", BYTE_32),
    "fp8_e5m2_16x8x32": ((16, 8, 32), (FP8, E5M2, F32), "fp8_16x8x32", BYTE_32),
    "e5m2_fp8_16x8x32": ((16, 8, 32), (E5M2, FP8, F32), "fp8_16x8x32", BYTE_32),
    "f64_8x8x4": ((8, 8, 4), (F64, F64, F64), "f64_8x8x4", DOUBLE_4),
    "f64_16x8x16": ((16, 8, 16), (F64, F64, F64), "f64_16x8x16", DOUBLE_16),
    "i8_16x8x32": ((16, 8, 32), (I8, I8, I32), "i8_16x8x32", BYTE_32),
    "u8_16x8x32": ((16, 8, 32), (U8, U8, I32), "i8_16x8x32", BYTE_32),
    "i8_u8_16x8x32": ((16, 8, 32), (I8, U8, I32), "i8_16x8x32", BYTE_32),
    "u8_i8_16x8x32": ((16, 8, 32), (U8, I8, I32), "i8_16x8x32", BYTE_32),
    "i8_8x8x16": ((8, 8, 16), (I8, I8, I32), "i8_8x8x16", BYTE_16),
    "u8_8x8x16": ((8, 8, 16), (U8, U8, I32), "i8_8x8x16", BYTE_16),
    "i8_u8_8x8x16": ((8, 8, 16), (I8, U8, I32), "i8_8x8x16", BYTE_16),
    "u8_i8_8x8x16": ((8, 8, 16), (U8, I8, I32), "i8_8x8x16", BYTE_16),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_fragments(name):
    (atom,) = [atom for atom in ATOMS if atom.name == name]
    size, dtypes, needs, formulas = EXPECTED[name]
    m, n, k = size
    assert (atom.m, atom.n, atom.k) == size
    assert (atom.a_dtype, atom.b_dtype, atom.c_dtype) == dtypes
    assert atom.needs == needs
    fragments = (atom.a, (m, k)), (atom.b, (k, n)), (atom.c, (m, n))
    for (linear, shape), formula in zip(fragments, formulas, strict=True):
        assert linear.shape == shape
        assert linear.size("lane") == 32
        assert linear.size("register") == shape[0] * shape[1] // 32
        for lane in range(32):
            for register in range(linear.size("register")):
                expected = formula(lane // 4, lane % 4, register)
                assert linear.apply(lane=lane, register=register) == expected, (lane, register)
        assert linear.is_injective


def test_every_atom_is_checked():
    found = family(Target("cuda", "sm_80"))
    assert {atom.name for atom in found} == set(EXPECTED)
    assert len(found) == len(EXPECTED)


@pytest.mark.parametrize(
    ("arch", "floats", "integers"),
    [
        ("sm_75", ["f16_16x8x8"], ["i8_8x8x16"]),
        (
            "sm_80",
            ["f16_16x8x16", "bf16_16x8x16", "f16_16x8x8", "bf16_16x8x8", "tf32_16x8x8"],
            ["i8_16x8x32", "i8_8x8x16"],
        ),
        (
            "sm_89",
            [
                *("f16_16x8x16", "bf16_16x8x16", "f16_16x8x8", "bf16_16x8x8"),
                *("fp8_16x8x32", "e5m2_16x8x32", "fp8_e5m2_16x8x32", "e5m2_fp8_16x8x32", "tf32_16x8x8"),
            ],
            ["i8_16x8x32", "i8_8x8x16"],
        ),
        (
            "sm_90a",
            ["f16_16x8x16", "bf16_16x8x16", "f16_16x8x8", "bf16_16x8x8", "tf32_16x8x8"],
            ["i8_16x8x32", "i8_8x8x16"],
        ),
    ],
)
def test_atoms_of_a_target(arch, floats, integers):
    found = atoms(Target("cuda", arch))
    assert [atom.name for atom in found if atom.c_dtype is F32] == floats
    assert [atom.name for atom in found if atom.a_dtype is I8 and atom.b_dtype is I8] == integers
