"""What is in memory and what is in registers: floats and integers of 32 or 64 bits, i1 for masks.

A narrow integer stands in 32 bits with its own value: I8 and I16 with copies of the sign, U8 and U16 with
zeros.
"""

from __future__ import annotations

import struct

from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    F64,
    FP8,
    I64,
    MASK,
    MATHEMATICAL,
    U64,
    DType,
    integer_range,
)
from gizml_tile.lowering import rounding
from gizml_tile.lowering.emit.cpu.vectors import Vectors


def register_kind(dtype: DType) -> str:
    """The LLVM type that one element has in a register."""
    if dtype.is_float:
        return "double" if dtype is F64 else "float"
    return "i1" if dtype is MASK else "i64" if dtype in (I64, U64) else "i32"


def storage_kind(dtype: DType) -> str:
    """The LLVM type that one element is loaded and stored as."""
    return register_kind(dtype) if dtype in (F32, F64) else f"i{dtype.bits}"


def decode(vectors: Vectors, dtype: DType, raw: str) -> str:
    """What stands in registers for loaded elements."""
    if dtype in MATHEMATICAL:
        return raw
    if dtype is F16 and vectors.half:
        return vectors.cast("fpext", "half", "float", vectors.cast("bitcast", "i16", "half", raw))
    if dtype is FP8 and vectors.half:
        return _float8_through_half(vectors, raw)
    if dtype is E5M2 and vectors.half:
        wide = vectors.cast("zext", "i8", "i16", raw)
        bits = vectors.operation("shl", "i16", wide, vectors.integer("i16", 8))
        return vectors.cast("fpext", "half", "float", vectors.cast("bitcast", "i16", "half", bits))
    kind = storage_kind(dtype)
    if dtype is MASK:
        return vectors.operation("icmp ne", kind, raw, vectors.integer(kind, 0))
    wide = vectors.cast("sext" if dtype.is_integer and not dtype.is_unsigned else "zext", kind, "i32", raw)
    if dtype is BF16:
        return rounding.bfloat16_value(vectors, wide)
    if dtype is F16:
        return rounding.half_value(vectors, wide)
    if dtype is E5M2:
        return rounding.e5m2_value(vectors, wide)
    return rounding.float8_value(vectors, wide) if dtype is FP8 else wide


def encode(vectors: Vectors, dtype: DType, value: str) -> str:
    """What is stored for elements in registers: floats rounded, integers cut."""
    if dtype in MATHEMATICAL:
        return value
    kind = storage_kind(dtype)
    if dtype is MASK:
        return vectors.cast("zext", "i1", kind, value)
    if dtype is F16 and vectors.half:
        return vectors.cast("bitcast", "half", "i16", vectors.cast("fptrunc", "float", "half", value))
    if dtype is BF16:
        value = rounding.bfloat16_bits(vectors, value)
    elif dtype is F16:
        value = rounding.half_bits(vectors, value)
    elif dtype is FP8:
        value = rounding.float8_bits(vectors, value)
    elif dtype is E5M2:
        value = rounding.e5m2_bits(vectors, value)
    return vectors.cast("trunc", "i32", kind, value)


def bitcast(vectors: Vectors, source: DType, target: DType, value: str) -> str:
    """What stands in registers for elements whose bits in memory are those of another type's elements."""
    raw = encode(vectors, source, value)
    kinds = storage_kind(source), storage_kind(target)
    return decode(vectors, target, raw if kinds[0] == kinds[1] else vectors.cast("bitcast", *kinds, raw))


def convert(vectors: Vectors, source: DType, target: DType, value: str) -> str:
    """The values that storing as ``target`` and loading again would give, in registers."""
    if source is target:
        return value
    if source is MASK:
        return _from_mask(vectors, target, value)
    if target is MASK:
        compare = "fcmp une" if source.is_float else "icmp ne"
        kind = register_kind(source)
        zero = vectors.of(kind).constant(0.0) if source.is_float else vectors.integer(kind, 0)
        return vectors.operation(compare, kind, value, zero)
    if source.is_float and target.is_float:
        return _round(vectors, source, target, value)
    if source.is_float:
        return _truncate(vectors, source, target, value)
    if target.is_float:
        return _float_of(vectors, source, target, value)
    return _resize(vectors, source, target, value)


def _from_mask(vectors: Vectors, target: DType, mask: str) -> str:
    if target.is_float:
        floats = vectors.of(register_kind(target))
        return floats.select(mask, floats.constant(1.0), floats.constant(0.0))
    return vectors.cast("zext", "i1", register_kind(target), mask)


def _round(vectors: Vectors, source: DType, target: DType, value: str) -> str:
    if target is F64:
        return vectors.cast("fpext", "float", "double", value)
    if source is F64:
        single = vectors.cast("fptrunc", "double", "float", value)
        if target is F32:
            return single
        return _round(vectors, F32, target, _odd_single(vectors, value, single))
    # F32 holds the values of every narrower float type, and BF16 and F16 hold those of 8 bits.
    if target is F32 or (source in (FP8, E5M2) and target.bits == 16):
        return value
    return decode(vectors, target, encode(vectors, target, value))


def _odd_single(vectors: Vectors, value: str, single: str) -> str:
    """The float next to a double whose last bit tells that it was not exact, from the nearest one.

    Rounding that to fewer bits gives what rounding the double itself would. Where the nearest float has the
    larger size (also where it is infinite) its bits less one are those of the float below.
    """
    doubles = vectors.of("double")
    back = vectors.cast("fpext", "float", "double", single)
    away = doubles.operation("fcmp ogt", "double", doubles.absolute(back), doubles.absolute(value))
    inexact = doubles.operation("fcmp une", "double", back, value)
    return _with_odd_bit(vectors, single, away, inexact)


def _with_odd_bit(vectors: Vectors, single: str, away: str, inexact: str) -> str:
    """A float, or where ``away`` the next smaller one, of which the last bit is set where ``inexact``."""
    bits = vectors.bits_sub(vectors.as_bits(single), vectors.cast("zext", "i1", "i32", away))
    return vectors.from_bits(vectors.bits_or(bits, vectors.cast("zext", "i1", "i32", inexact)))


def _truncate(vectors: Vectors, source: DType, target: DType, value: str) -> str:
    if target.is_unsigned and target in MATHEMATICAL:
        return _truncate_unsigned(vectors, source, target, value)
    low, high = integer_range(target)
    if source is not F64 and target is not I64:
        return rounding.integer_bits(vectors, value, low, high)
    of, kind = register_kind(source), register_kind(target)
    floats = vectors.of(of)
    # Of 64 bits the largest is no float: the first above it is.
    limit, bottom = floats.constant(float(high + 1)), floats.constant(float(low))
    inside = floats.select(floats.less(value, limit), value, floats.constant(0.0))
    inside = floats.select(floats.greater(inside, bottom), inside, bottom)
    above = floats.operation("fcmp oge", of, value, limit)
    whole = floats.cast("fptosi", of, kind, inside)
    return floats.choose(kind, above, floats.integer(kind, high), whole)


def _truncate_unsigned(vectors: Vectors, source: DType, target: DType, value: str) -> str:
    of, kind = register_kind(source), register_kind(target)
    floats = vectors.of(of)
    zero, limit = floats.constant(0.0), floats.constant(2.0**target.bits)
    above = floats.operation("fcmp oge", of, value, limit)
    inside = floats.select(floats.greater(value, zero), value, zero)
    whole = floats.cast("fptoui", of, kind, floats.select(above, zero, inside))
    return floats.choose(kind, above, floats.integer(kind, -1), whole)


def _float_of(vectors: Vectors, source: DType, target: DType, value: str) -> str:
    kind, wanted = register_kind(source), register_kind(target)
    single = vectors.cast("uitofp" if source.is_unsigned else "sitofp", kind, wanted, value)
    if target in (F32, F64):
        return single
    if target is BF16 and source in MATHEMATICAL:
        single = _rounded_to_odd(vectors, source, value, single)
    # Integers that F32 rounds lie beyond the largest numbers of F16 and FP8, so those round once too.
    return _round(vectors, F32, target, single)


def _rounded_to_odd(vectors: Vectors, source: DType, value: str, single: str) -> str:
    """The float next to an integer whose last bit tells that it was not exact.

    Rounding that to fewer bits gives what rounding the integer itself would.
    """
    kind = register_kind(source)
    back = _truncate(vectors, F32, source, single)
    larger = vectors.operation("icmp ugt" if source.is_unsigned else "icmp sgt", kind, back, value)
    if not source.is_unsigned:
        below = vectors.operation("icmp slt", kind, value, vectors.integer(kind, 0))
        larger = vectors.operation("xor", "i1", below, larger)
    inexact = vectors.operation("icmp ne", kind, back, value)
    away = vectors.operation("and", "i1", inexact, larger)
    return _with_odd_bit(vectors, single, away, inexact)


def _resize(vectors: Vectors, source: DType, target: DType, value: str) -> str:
    kind, wanted = register_kind(source), register_kind(target)
    if kind == "i32" and wanted == "i64":
        return vectors.cast("zext" if source.is_unsigned else "sext", "i32", "i64", value)
    if kind == "i64" and wanted == "i32":
        value = vectors.cast("trunc", "i64", "i32", value)
    low, high = integer_range(target)
    inner_low, inner_high = integer_range(source)
    if target in MATHEMATICAL or (low <= inner_low and inner_high <= high):
        return value
    if target.is_unsigned:
        return vectors.bits_and(value, vectors.bits_constant(high))
    unused = 32 - target.bits
    return vectors.shift_right(vectors.shift_left(value, unused), unused)


def _float8_through_half(vectors: Vectors, raw: str) -> str:
    """FP8 as F16 of exponents smaller by 8, because F16's conversion takes subnormals at full speed."""
    wide = vectors.cast("sext", "i8", "i16", raw)
    moved = vectors.operation("shl", "i16", wide, vectors.integer("i16", 7))
    bits = vectors.operation("and", "i16", moved, vectors.integer("i16", -0x4001))
    small = vectors.cast("fpext", "half", "float", vectors.cast("bitcast", "i16", "half", bits))
    value = vectors.mul(small, vectors.constant(256.0))
    size = vectors.operation("and", "i8", raw, vectors.integer("i8", 0x7F))
    is_nan = vectors.operation("icmp eq", "i8", size, vectors.integer("i8", 0x7F))
    return vectors.select(is_nan, vectors.constant(float("nan")), value)


def float8_as_bfloat16(vectors: Vectors, codes: str) -> str:
    """The BF16 bits of FP8 codes, both in 32 lanes of i16, by AVX-512's look-up in tables of 64 entries."""
    function, of = vectors.function, vectors.type("i16")
    name = "llvm.x86.avx512.vpermi2var.hi.512"
    function.module.declare(name, f"{of} @{name}({of}, {of}, {of})")
    quarters = []
    for first in range(0, 128, 32):
        bits = ", ".join(f"i16 {_bfloat16_of(code)}" for code in range(first, first + 32))
        quarters.append(f"{of} <{bits}>")
    index = f"{of} {codes}"
    low, high = (function.call(of, name, quarters[half], index, quarters[half + 1]) for half in (0, 2))
    is_high = vectors.operation("and", "i16", codes, vectors.integer("i16", 64))
    is_high = vectors.operation("icmp ne", "i16", is_high, vectors.integer("i16", 0))
    size = vectors.choose("i16", is_high, high, low)
    sign = vectors.operation("shl", "i16", codes, vectors.integer("i16", 8))
    sign = vectors.operation("and", "i16", sign, vectors.integer("i16", -0x8000))
    return vectors.operation("or", "i16", size, sign)


def _bfloat16_of(code: int) -> int:
    """The BF16 bits of a positive FP8 code: 4 bits of exponent, 3 of mantissa; the last one is NaN."""
    exponent, mantissa = code >> 3, code & 7
    if code == 0x7F:
        return 0x7FC0
    value = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return int.from_bytes(struct.pack(">f", value)[:2], "big")
