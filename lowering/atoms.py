"""The instructions of matrix units as data: their sizes, types, and which lane holds which element.

The fragments are those of the PTX ISA's chapter "Matrix Fragments for mma.mNnNkN". They follow one rule:
a lane holds 32-bit words, with ``word`` neighbouring elements of one row of A, or of one column of B.
Lanes 0 to 3 have neighbouring words, each further lane bit the next row of A (column of B); the registers
go on with the next 8 rows and then with the other half of k.
"""

from __future__ import annotations

from gizml_tile.dtypes import BF16, F16, F32, FP8, I8, I32, U8, DType
from gizml_tile.layout import Linear
from gizml_tile.lowering.kernel_ir.instructions import Atom
from gizml_tile.target import Target


def _bits(count: int, step: int = 1) -> list[int]:
    """The steps of the bits that number ``count`` neighbours."""
    return [step << bit for bit in range(count.bit_length() - 1)]


def _operand(side: int, depth: int, word: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Registers and lanes of an operand with ``side`` rows and ``depth`` steps of k, as (row, k)."""
    register = [(0, step) for step in _bits(word)]
    register += [(8, 0)] if side == 16 else []
    register += [(0, 4 * word)] if depth == 8 * word else []
    return register, [(0, word), (0, 2 * word), (1, 0), (2, 0), (4, 0)]


def _atom(m: int, k: int, a_dtype: DType, b_dtype: DType, name: str = "", needs: str = "") -> Atom:
    word = 4 // a_dtype.bytes
    a_register, a_lane = _operand(m, k, word)
    b_register, b_lane = _operand(8, k, word)
    c_register, c_lane = _operand(m, 8, 2)
    name = f"{name or a_dtype.text}_{m}x8x{k}"
    return Atom(
        name,
        m,
        8,
        k,
        a_dtype,
        b_dtype,
        F32 if a_dtype.is_float else I32,
        Linear.of((m, k), register=a_register, lane=a_lane),
        Linear.of((8, k), register=b_register, lane=b_lane).transposed(),
        Linear.of((m, 8), register=c_register, lane=c_lane),
        f"{needs}_{m}x8x{k}" if needs else name,
    )


def _integers(m: int, k: int) -> tuple[Atom, ...]:
    """All four pairs of signed and unsigned bytes, which come together."""
    return (
        _atom(m, k, I8, I8),
        _atom(m, k, U8, U8, needs="i8"),
        _atom(m, k, I8, U8, "i8_u8", "i8"),
        _atom(m, k, U8, I8, "u8_i8", "i8"),
    )


# Best first. FP8's own atom comes after F16's, to which FP8 converts exactly: it sums in about 14 bits.
# A TF32 operand is an F32 of which the unit reads the upper 19 bits.
ATOMS: tuple[Atom, ...] = (
    _atom(16, 16, F16, F16),
    _atom(16, 16, BF16, BF16),
    _atom(16, 8, F16, F16),
    _atom(16, 8, BF16, BF16),
    _atom(16, 32, FP8, FP8),
    _atom(16, 8, F32, F32, "tf32"),
    *_integers(16, 32),
    *_integers(8, 16),
)


def atoms(target: Target) -> tuple[Atom, ...]:
    """The atoms that a target has, best first."""
    return tuple(atom for atom in ATOMS if target.can(atom.needs))
