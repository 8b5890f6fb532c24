"""Types, numbers and names as the Metal Shading Language writes them."""

from __future__ import annotations

import math
import re
import struct

from gizml_tile.dtypes import BF16, E5M2, F16, F32, FP8, I8, I16, I32, I64, MASK, U8, U16, U32, U64, DType
from gizml_tile.lowering.emit.arguments import identifier
from gizml_tile.lowering.emit.literals import bits
from gizml_tile.lowering.emit.metal.helpers import HELPERS
from gizml_tile.lowering.kernel_ir.instructions import Number
from gizml_tile.rounding import round_to
from gizml_tile.target import Target

_TYPES = {
    F32: "float",
    F16: "half",
    FP8: "uchar",
    E5M2: "uchar",
    I8: "char",
    U8: "uchar",
    I16: "short",
    I32: "int",
    I64: "long",
    U16: "ushort",
    U32: "uint",
    U64: "ulong",
    MASK: "bool",
}
_SUFFIXES = {U32: "u", U64: "ul"}
# What a name cannot be: C++'s words, Metal's, and everything that our own text says beside them.
RESERVED = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr "
    "const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern "
    "false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr "
    "operator or or_eq private protected public register reinterpret_cast return short signed sizeof static "
    "static_assert static_cast struct switch template this throw true try typedef typeid typename union "
    "unsigned using virtual void volatile wchar_t while xor xor_eq main NULL size_t ptrdiff_t "
    "kernel vertex fragment device constant thread threadgroup threadgroup_imageblock ray_data metal half "
    "bfloat uchar ushort uint ulong vec matrix packed_float as_type access sampler texture buffer "
    "INFINITY NAN UNROLL min max abs fma fmin fmax clamp mulhi popcount clz precise fast mem_flags vec "
    "simd_shuffle simd_shuffle_xor simdgroup_barrier threadgroup_barrier simdgroup_matrix "
    "r row column step tid lane simdgroup group groups memory thread_index lane_index simdgroup_index "
    "numbers scalars Numbers Scalars".split()
    + list(HELPERS)
)


def type_name(dtype: DType, target: Target) -> str:
    """The type of a register or an element. BF16 is its bits on a target without the type."""
    if dtype is BF16:
        return "bfloat" if has_bfloat(target) else "ushort"
    return _TYPES[dtype]


def has_bfloat(target: Target) -> bool:
    """Whether a target has the type bfloat, which its matrices may be of."""
    return target.can("simdgroup_bf16_8x8x8")


def literal(number: Number, dtype: DType, target: Target) -> str:
    """A number as an operand of its type."""
    if dtype is MASK:
        return "true" if number else "false"
    if not dtype.is_float:
        return _integer(int(number), dtype)
    value = round_to(number, dtype)
    if dtype is F32:
        return _float(value)
    if dtype is F16 or (dtype is BF16 and has_bfloat(target)):
        return f"{type_name(dtype, target)}({_float(value)})"
    return f"{type_name(dtype, target)}(0x{bits(number, dtype):x})"


def _integer(number: int, dtype: DType) -> str:
    if dtype in _SUFFIXES:
        return f"{number}{_SUFFIXES[dtype]}"
    if dtype not in (I32, I64):
        return f"{_TYPES[dtype]}({number})"
    suffix = "L" if dtype is I64 else ""
    if number == -(1 << dtype.bits - 1):
        return f"({number + 1}{suffix} - 1)"
    return f"{number}{suffix}" if number >= 0 else f"({number}{suffix})"


def _float(value: float) -> str:
    """The fewest digits that are this number and no other."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    exact = struct.pack("f", value)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("f", min(max(float(text), -3.4028235e38), 3.4028235e38)) == exact:
            break
    text = repr(float(text))
    return f"(-{text[1:]}f)" if text[0] == "-" else f"{text}f"


def name_of(name: str, other: str) -> str:
    """A person's name as C++ takes it; ``other`` makes one of what it does not."""
    plain = identifier(
        re.sub(r"^[\W\d_]+|[\W_]+$", "", re.sub(r"[\W_]+", "_", name, flags=re.ASCII)) or other
    )
    return f"{plain}_{other}" if plain in RESERVED else plain
