"""The instructions of matrix units as data: their sizes, types, and which lane holds which element.

Each family's fragments follow one rule, which its function tells. Registers are numbered as the instruction
has them: in order in a lane's vector or words.
"""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.dtypes import BF16, E5M2, F16, F32, F64, FP8, I8, U8, DType, math_dtype
from gizml_tile.layout import Linear
from gizml_tile.layout.bits import bit_length
from gizml_tile.lowering.kernel_ir.instructions import Atom
from gizml_tile.target import Target

Bases = list[tuple[int, int]]

# TF32 is the upper 19 bits of an F32.
_IGNORED_BY_TF32 = 13
# What these units keep of sums of FP8 products.
_FP8_SUM_BITS = 14
_DOUBLE_BITS = 53


def _bits(count: int, step: int = 1) -> list[int]:
    """The steps of the bits that number ``count`` neighbours."""
    return [step << bit for bit in range(bit_length(count))]


def _rows(count: int, step: int = 1) -> Bases:
    return [(row, 0) for row in _bits(count, step)]


def _columns(count: int, step: int = 1) -> Bases:
    return [(0, column) for column in _bits(count, step)]


def _atom(
    name: str,
    size: tuple[int, int, int],
    dtypes: tuple[DType, DType],
    a: tuple[Bases, Bases],
    b: tuple[Bases, Bases],
    c: tuple[Bases, Bases],
    needs: str = "",
    ignored_bits: int = 0,
    sum_bits: int = 24,
    turned: bool = False,
) -> Atom:
    """An atom from the registers and lanes of each fragment; b's are those of its transpose, as (n, k)."""
    m, n, k = size
    return Atom(
        name,
        m,
        n,
        k,
        *dtypes,
        math_dtype(dtypes[0]),
        Linear.of((m, k), register=a[0], lane=a[1]),
        Linear.of((n, k), register=b[0], lane=b[1]).transposed(),
        Linear.of((m, n), register=c[0], lane=c[1]),
        needs or name,
        ignored_bits,
        sum_bits,
        turned,
    )


def _pairs(first: DType, second: DType) -> tuple[tuple[str, DType, DType], ...]:
    """The four pairs of two types, which come together, and their names."""
    return tuple(
        (a.text if a is b else f"{a.text}_{b.text}", a, b)
        for a, b in ((first, first), (second, second), (first, second), (second, first))
    )


# Bytes with and without a sign, and OCP's two forms of floats. The ability is named after the first.
_INTEGERS, _FLOATS = _pairs(I8, U8), _pairs(FP8, E5M2)
_ABILITIES = {U8: I8.text, E5M2: FP8.text}


# Words of 32 bits: PTX ISA, "Matrix Fragments for mma.mNnNkN"


def _words(side: int, depth: int, word: int) -> tuple[Bases, Bases]:
    """A lane holds ``word`` neighbours of a row of A (column of B) in each word.

    Lanes 0 to 3 have neighbouring words, each further lane bit the next row; the registers go on with the
    next 8 rows and then with the rest of k.
    """
    register = _columns(word)
    register += [(8, 0)] if side == 16 else []
    register += _columns(depth // (4 * word), 4 * word)
    return register, [(0, word), (0, 2 * word), (1, 0), (2, 0), (4, 0)]


def _of_words(
    m: int,
    k: int,
    a_dtype: DType,
    b_dtype: DType,
    name: str = "",
    needs: str = "",
    ignored_bits: int = 0,
    sum_bits: int = 24,
) -> Atom:
    word = max(4 // a_dtype.bytes, 1)
    size = f"{m}x8x{k}"
    return _atom(
        f"{name or a_dtype.text}_{size}",
        (m, 8, k),
        (a_dtype, b_dtype),
        _words(m, k, word),
        _words(8, k, word),
        _words(m, 8, 2),
        f"{needs}_{size}" if needs else "",
        ignored_bits,
        sum_bits,
    )


def _integers_of_words(m: int, k: int) -> tuple[Atom, ...]:
    return tuple(_of_words(m, k, a, b, name, "i8") for name, a, b in _INTEGERS)


# Best first. FP8's own atom comes after F16's, to which FP8 converts exactly, as its sums are short.
_WORDS = (
    _of_words(16, 16, F16, F16),
    _of_words(16, 16, BF16, BF16),
    _of_words(16, 8, F16, F16),
    _of_words(16, 8, BF16, BF16),
    *(_of_words(16, 32, a, b, name, "fp8", sum_bits=_FP8_SUM_BITS) for name, a, b in _FLOATS),
    _of_words(16, 8, F32, F32, "tf32", ignored_bits=_IGNORED_BY_TF32),
    *_integers_of_words(16, 32),
    *_integers_of_words(8, 16),
    _of_words(16, 16, F64, F64, sum_bits=_DOUBLE_BITS),
    _of_words(8, 4, F64, F64, sum_bits=_DOUBLE_BITS),
)

# AMD's matrix cores: the ISA guides' chapters on matrix instructions, AMD's Matrix Instruction Calculator.
# Both operands have one form there, b's columns as a's rows. Where lanes have columns of a result and their
# registers neighbours in a column, the operands are exchanged: so a row's neighbours are in registers, to be
# stored and reduced together, and a result is at once the left operand of another product.


def _mfma(side: int, k: int, a: DType, b: DType, name: str = "") -> Atom:
    """CDNA, 64 lanes: those have the rows of A (columns of B) and then the parts of k, one each.

    Of C a lane has one row: four neighbouring columns, the lanes that share the row the next four each,
    and so on.
    """
    parts = 64 // side
    own = k // parts
    operand = _columns(own), [*_rows(side), *_columns(parts, own)]
    sums = [*_columns(4), *_columns(side // 4 // parts, 4 * parts)], [*_rows(side), *_columns(parts, 4)]
    needs = f"mfma_{_ABILITIES.get(a, a.text)}_{side}x{side}x{k}"
    name = f"mfma_{name or a.text}_{side}x{side}x{k}"
    return _atom(name, (side, side, k), (a, b), operand, operand, sums, needs, turned=True)


def _mfma_double() -> Atom:
    """CDNA's product of F64: of C a lane has every fourth column of a row, 16 lanes on the next."""
    operand: tuple[Bases, Bases] = [], [*_rows(16), *_columns(4)]
    sums = _columns(4, 4), [*_rows(16), *_columns(4)]
    name, size = "mfma_f64_16x16x4", (16, 16, 4)
    return _atom(name, size, (F64, F64), operand, operand, sums, sum_bits=_DOUBLE_BITS, turned=True)


def _wmma11(a: DType, b: DType, name: str = "") -> Atom:
    """RDNA 3, 32 lanes: one has a row of A (column of B), and so has the lane 16 further on.

    Of C a lane has every second row of a column, the lane 16 further on the others.
    """
    operand = _columns(16), [*_rows(16), (0, 0)]
    sums = _rows(8, 2), [*_columns(16), (1, 0)]
    needs = f"wmma11_{_ABILITIES.get(a, a.text)}_16x16x16"
    return _atom(f"wmma11_{name or a.text}_16x16x16", (16, 16, 16), (a, b), operand, operand, sums, needs)


def _wmma12(a: DType, b: DType, name: str = "") -> Atom:
    """RDNA 4, 32 lanes: one has half of a row of A (column of B), the lane 16 further on the other half.

    Of C a lane has 8 neighbouring columns of one row. With 16 bits the unit takes the halves to alternate
    every four elements; a product is the same in whatever order of k both operands have.
    """
    operand = _columns(8), [*_rows(16), (0, 8)]
    needs = f"wmma12_{_ABILITIES.get(a, a.text)}_16x16x16"
    name = f"wmma12_{name or a.text}_16x16x16"
    return _atom(name, (16, 16, 16), (a, b), operand, operand, operand, needs, turned=True)


# Longest first, and of equal ones the smaller result, which leaves more to choose. FP8 has F32 sums here.
# CDNA 2's units take subnormal F16 and BF16 operands for zeros (PyTorch, "Numerical accuracy"), which loses
# F16 products of numbers below 2^-14; no other does.
_MFMA = (
    *(_mfma(side, k, a, b, name) for side, k in ((16, 32), (32, 16)) for name, a, b in _FLOATS),
    *(
        _mfma(side, k, dtype, dtype)
        for side, k in ((16, 32), (32, 16), (16, 16), (32, 8))
        for dtype in (F16, BF16)
    ),
    *(_mfma(side, k, F32, F32) for side, k in ((16, 4), (32, 2))),
    _mfma_double(),
    *(_mfma(side, k, I8, I8) for side, k in ((16, 64), (32, 32), (16, 32), (32, 16), (16, 16), (32, 8))),
)
_WMMA11 = (
    *(_wmma11(dtype, dtype) for dtype in (F16, BF16)),
    *(_wmma11(a, b, name) for name, a, b in _INTEGERS),
)
_WMMA12 = (
    *(_wmma12(a, b, name) for name, a, b in _FLOATS),
    *(_wmma12(dtype, dtype) for dtype in (F16, BF16)),
    *(_wmma12(a, b, name) for name, a, b in _INTEGERS),
)

# Apple's SIMD-group matrices, 32 lanes. Metal's specification leaves their elements open; the places are
# those that public kernels rely on since M1


def _simdgroup(dtype: DType) -> Atom:
    """A lane has two neighbours of a row, of A, B and C alike."""
    register, lane = [(0, 1)], [(0, 2), (1, 0), (2, 0), (0, 4), (4, 0)]
    turned = [(column, row) for row, column in register], [(column, row) for row, column in lane]
    name = f"simdgroup_{dtype.text}_8x8x8"
    return _atom(name, (8, 8, 8), (dtype, dtype), (register, lane), turned, (register, lane))


_SIMDGROUP = tuple(map(_simdgroup, (F16, BF16, F32)))

# A target's atoms are of one family.
_FAMILIES = (_WORDS, _MFMA, _WMMA11, _WMMA12, _SIMDGROUP)
ATOMS: tuple[Atom, ...] = tuple(atom for family in _FAMILIES for atom in family)


def family(target: Target) -> tuple[Atom, ...]:
    """The atoms of the kind of unit that a target has, best first, also those which others like it have."""
    return next(each for each in _FAMILIES if any(target.can(atom.needs) for atom in each))


@dataclass(frozen=True, slots=True)
class GroupUnit:
    """How asynchronous products of four warps treat operands of two types.

    ``turned`` operands may have k as their slow axis in workgroup memory. With a ``step`` the products of so
    many elements of k, and what they are added to, are aligned to the largest and keep ``sum_bits`` bits of
    it; else sums are in the type of the result.
    """

    turned: bool
    step: int = 0
    sum_bits: int = 24


# PTX ISA, "wgmma.mma_async": only 16-bit operands can be transposed; F32 stands for TF32. That FP8 sums keep
# about 14 bits is from the DeepSeek-V3 report, arXiv 2412.19437, section 3.3.2.
GROUP_UNITS: dict[tuple[DType, DType], GroupUnit] = {
    (F16, F16): GroupUnit(turned=True),
    (BF16, BF16): GroupUnit(turned=True),
    **{(a, b): GroupUnit(turned=False, step=32, sum_bits=_FP8_SUM_BITS) for _, a, b in _FLOATS},
    **{(a, b): GroupUnit(turned=False) for _, a, b in _INTEGERS},
    (F32, F32): GroupUnit(turned=False),
}


def atoms(target: Target) -> tuple[Atom, ...]:
    """The atoms that a target has, best first."""
    return tuple(atom for atom in ATOMS if target.can(atom.needs))
