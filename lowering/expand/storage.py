"""Storage types to the types that mathematics is done in, and back, bit for bit as on every device.

The conversions that a kernel is left with are those that a target has: between F32 and F16; from BF16 to
F32, and back with ``bf16_convert``; FP8 with F32 and F16 where there is ``fp8_convert``; E5M2 to F16, whose
upper half it is; integers of 8 and 16 bits with I32; I32 with I64; U32 to I64; I32, U32, I64 and U64 with
F32, and F32 to every integer. F64 has those with F32 and integers of 32 and 64 bits.
"""

from __future__ import annotations

from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    F64,
    FP8,
    I16,
    I32,
    I64,
    MASK,
    U8,
    U32,
    U64,
    DType,
    integer_range,
    math_dtype,
)
from gizml_tile.lowering import rounding
from gizml_tile.lowering.expand.arithmetic import KernelArithmetic
from gizml_tile.lowering.expand.chunks import in_chunks
from gizml_tile.lowering.kernel_ir.builder import Builder, Value
from gizml_tile.target import Target

_WITH_SIGN = {U32: I32, U64: I64}


def storage_dtype(dtype: DType) -> DType:
    """The type that elements have in memory: a mask's are bytes of 0 and 1."""
    return U8 if dtype is MASK else dtype


def from_storage(build: Builder, value: Value, dtype: DType) -> Value:
    """What was loaded as `storage_dtype` of ``dtype``, as the tile's value: bytes become predicates."""
    if dtype is not MASK:
        assert value.dtype is dtype, (value, dtype)
        return value
    return build.map("ne", build.convert(value, I32), build.constant(0, I32))


def to_storage(build: Builder, value: Value) -> Value:
    """What is stored for a tile's value: predicates become bytes of 0 and 1."""
    if value.dtype is not MASK:
        return value
    return build.convert(_number_of(build, value, I32), U8)


def to_math(build: Builder, target: Target, value: Value) -> Value:
    """The value as mathematics takes it."""
    assert value.dtype is not None
    return convert(build, target, value, math_dtype(value.dtype))


def convert(build: Builder, target: Target, value: Value, dtype: DType) -> Value:
    """The values that storing as ``dtype`` and loading again would give; any two types.

    To a float rounds once to nearest even (FP8 saturates); a float to an integer truncates and saturates,
    NaN gives 0; an integer to a narrower one wraps; a mask gives 0 and 1.
    """
    source = value.dtype
    assert source is not None
    if source is dtype:
        return value
    if value.op == "constant" and dtype is math_dtype(source):
        return build.constant(value.attr, dtype)  # type: ignore[arg-type]
    if source is MASK:
        return convert(build, target, _number_of(build, value, math_dtype(dtype)), dtype)
    if dtype is MASK:
        wide = to_math(build, target, value)
        zero: float | int = 0.0 if source.is_float else 0
        return build.map("ne", wide, build.constant(zero, math_dtype(source)))
    if source.is_float:
        if dtype is F16 and (source is E5M2 or (source is FP8 and target.can("fp8_convert"))):
            return build.convert(value, F16)
        if source is F64:
            return _from_double(build, target, value, dtype)
        wide = _widen(build, target, value)
        return _narrow(build, target, wide, dtype) if dtype.is_float else build.convert(wide, dtype)
    if dtype.is_float:
        return _float_of(build, target, value, dtype)
    return _resize(build, value, dtype)


def _number_of(build: Builder, mask: Value, dtype: DType) -> Value:
    """1 and 0 in a type of mathematics."""
    one, zero = (1.0, 0.0) if dtype.is_float else (1, 0)
    return build.select(mask, build.constant(one, dtype), build.constant(zero, dtype))


def _widen(build: Builder, target: Target, value: Value) -> Value:
    """A float of any type as F32, which holds all their values."""
    if value.dtype is E5M2:
        value = build.convert(value, F16)
    if value.dtype is not FP8 or target.can("fp8_convert"):
        return build.convert(value, F32)

    def decode(raw: Value) -> Value:
        bits = build.convert(build.bitcast(raw, U8), I32)
        return rounding.float8_value(KernelArithmetic(build, target), bits)

    return in_chunks(build, decode, value)


def _narrow(build: Builder, target: Target, value: Value, dtype: DType) -> Value:
    """An F32 rounded once to another float type, or as an F64."""
    if dtype in (F32, F16, F64):
        return build.convert(value, dtype)
    if dtype is not E5M2 and target.can("bf16_convert" if dtype is BF16 else "fp8_convert"):
        return build.convert(value, dtype)

    def encode(single: Value) -> Value:
        arithmetic = KernelArithmetic(build, target)
        if dtype is BF16:
            return build.bitcast(build.convert(rounding.bfloat16_bits(arithmetic, single), I16), BF16)
        bits = rounding.e5m2_bits if dtype is E5M2 else rounding.float8_bits
        return build.bitcast(build.convert(bits(arithmetic, single), U8), dtype)

    return in_chunks(build, encode, value)


def _float_of(build: Builder, target: Target, value: Value, dtype: DType) -> Value:
    """An integer rounded once to a float type."""
    wide = to_math(build, target, value)
    if dtype is F64:
        return build.convert(wide, F64)
    single = build.convert(wide, F32)
    if dtype is BF16 and wide is value:
        single = in_chunks(build, lambda *args: _rounded_to_odd(build, *args), wide, single)
    # Integers that F32 rounds lie beyond the largest numbers of F16 and FP8, so those round once too.
    return _narrow(build, target, single, dtype)


def _rounded_to_odd(build: Builder, value: Value, single: Value) -> Value:
    """The float next to an integer whose last bit tells that it was not exact.

    Rounding that to fewer bits gives what rounding the integer itself would.
    """
    assert value.dtype is not None
    back = build.convert(single, value.dtype)
    below = build.map("lt", value, build.constant(0, value.dtype))
    larger = build.map("gt", back, value)
    inexact = build.map("ne", back, value)
    return _with_odd_bit(build, single, build.map("and", inexact, build.map("xor", below, larger)), inexact)


def _with_odd_bit(build: Builder, single: Value, away: Value, inexact: Value) -> Value:
    """A float, or where ``away`` the next smaller one, of which the last bit is set where ``inexact``."""
    bits = build.sub(build.bitcast(single, I32), _number_of(build, away, I32))
    return build.bitcast(build.map("or", bits, _number_of(build, inexact, I32)), F32)


def _from_double(build: Builder, target: Target, value: Value, dtype: DType) -> Value:
    """An F64 rounded once to another float type, or as an integer."""
    if dtype is F32:
        return build.convert(value, F32)
    if dtype.is_float:
        odd = in_chunks(build, lambda part: _odd_single(build, part), value)
        return _narrow(build, target, odd, dtype)
    if dtype.bits >= 32:
        return build.convert(value, dtype)
    low, high = (build.constant(limit, I32) for limit in integer_range(dtype))
    bounded = build.map("min", build.map("max", build.convert(value, I32), low), high)
    return build.convert(bounded, dtype)


def _odd_single(build: Builder, value: Value) -> Value:
    """The F32 next to an F64 whose last bit tells that it was not exact.

    Rounding that to fewer bits gives what rounding the F64 itself would. Where the nearest float has the
    larger size (also where it is infinite) its bits less one are those of the float below.
    """
    single = build.convert(value, F32)
    back = build.convert(single, F64)
    away = build.map("gt", build.map("abs", back), build.map("abs", value))
    return _with_odd_bit(build, single, away, build.map("ne", back, value))


def _resize(build: Builder, value: Value, dtype: DType) -> Value:
    """An integer as another integer type, by way of I32; U32 and U64 are the bits of I32 and I64."""
    if value.dtype is U32 and dtype.bits == 64:
        value = build.convert(value, I64)
    elif value.dtype in _WITH_SIGN:
        value = build.bitcast(value, _WITH_SIGN[value.dtype])
    signed = _WITH_SIGN.get(dtype, dtype)
    if value.dtype is not signed and I32 not in (value.dtype, signed):
        value = build.convert(value, I32)
    return build.bitcast(build.convert(value, signed), dtype)
