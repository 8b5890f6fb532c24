"""The kernel IR's arithmetic on NumPy arrays, bit by bit as a device does it.

Registers of F64, F32, F16, integers and masks are arrays of NumPy's own types; BF16, FP8 and E5M2 are their
bits as unsigned integers, since NumPy moves those much faster than the types of ml_dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    F64,
    FP8,
    I8,
    I16,
    I32,
    I64,
    MASK,
    U8,
    U16,
    U32,
    U64,
    DType,
    integer_range,
)
from gizml_tile.dtypes import to_numpy as storage
from gizml_tile.lowering.simulate.fused import fma, odd

Array = NDArray[Any]

HELD: dict[DType, np.dtype[Any]] = {
    F32: np.dtype(np.float32),
    F64: np.dtype(np.float64),
    F16: np.dtype(np.float16),
    BF16: np.dtype(np.uint16),
    FP8: np.dtype(np.uint8),
    E5M2: np.dtype(np.uint8),
    I8: np.dtype(np.int8),
    U8: np.dtype(np.uint8),
    I16: np.dtype(np.int16),
    I32: np.dtype(np.int32),
    I64: np.dtype(np.int64),
    U16: np.dtype(np.uint16),
    U32: np.dtype(np.uint32),
    U64: np.dtype(np.uint64),
    MASK: np.dtype(np.bool_),
}


def constant(value: Any, dtype: DType) -> Array:
    """A number, or some, as registers: [count, 1]."""
    numbers = list(value) if isinstance(value, tuple) else [value]
    if dtype is F64:
        return np.array(numbers, np.float64).reshape(-1, 1)
    if dtype.is_float:
        return convert(np.array(numbers, np.float32), F32, dtype).reshape(-1, 1)
    if dtype is MASK:
        return np.array(numbers, np.bool_).reshape(-1, 1)
    wide = np.array([int(number) & (1 << 64) - 1 for number in numbers], np.uint64)
    return wide.astype(HELD[dtype]).reshape(-1, 1)


# Conversions


def to_float32(value: Array, dtype: DType) -> Array:
    """The values of float registers, exactly."""
    if dtype is F32:
        return value
    if dtype is BF16:
        return (value.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype in (FP8, E5M2):
        return _float8_values(dtype)[value]
    return value.astype(np.float32)


@cache
def _float8_values(dtype: DType) -> Array:
    return np.arange(256, dtype=np.uint8).view(storage(dtype)).astype(np.float32)


def from_float32(value: Array, dtype: DType) -> Array:
    """Rounds to nearest even; FP8 saturates, others overflow to infinity."""
    if dtype is F32:
        return value
    if dtype is F16:
        return value.astype(np.float16)
    if dtype is FP8:
        return np.clip(value, np.float32(-448), np.float32(448)).astype(storage(FP8)).view(np.uint8)
    if dtype is E5M2:
        return value.astype(storage(E5M2)).view(np.uint8)
    bits = np.ascontiguousarray(value).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    nan = np.isnan(value)
    if nan.any():
        rounded = np.where(nan, (bits >> np.uint32(16)) | np.uint32(0x40), rounded)
    return rounded.astype(np.uint16)


def convert(value: Array, source: DType, to: DType) -> Array:
    """The IR's ``convert``: float to integer truncates and saturates, NaN gives 0, integers wrap."""
    if source is to:
        return value
    if to is MASK:
        return np.asarray(value != 0) if source not in (BF16, FP8, E5M2) else to_float32(value, source) != 0
    if to is F64:
        return (to_float32(value, source) if source.is_float else value).astype(np.float64)
    if source is F64:
        return value.astype(np.float32) if to is F32 else _to_integer(value, to)
    if source.is_float and to.is_float:
        return from_float32(to_float32(value, source), to)
    if to.is_float:
        if to is F32:
            return value.astype(np.float32)
        return from_float32(_odd_float32(_odd_float64(value)), to)
    if source.is_float:
        return _to_integer(to_float32(value, source), to)
    return value.astype(HELD[to])


def _to_integer(value: Array, to: DType) -> Array:
    wide = np.trunc(value.astype(np.float64))
    low, high = integer_range(to)
    if to.bits < 64:
        return np.asarray(np.clip(np.nan_to_num(wide, nan=0.0), low, high).astype(HELD[to]))
    # The largest of 64 bits is no float64, so the ends are told apart before the conversion.
    above, below = wide >= float(high), wide < float(low)
    whole = np.where(above | below | np.isnan(wide), 0.0, wide).astype(HELD[to])
    return np.where(above, HELD[to].type(high), np.where(below, HELD[to].type(low), whole))


def _odd_float64(value: Array) -> Array:
    """Integers as float64; where bits are lost the last one is set, so that rounding again is exact."""
    if value.dtype != np.int64:
        return value.astype(np.float64)
    nearest = value.astype(np.float64)
    fits = np.abs(nearest) < 2.0**63
    error = np.where(fits, value - np.where(fits, nearest, 0.0).astype(np.int64), 0).astype(np.float64)
    return odd(nearest, error)


def _odd_float32(value: Array) -> Array:
    nearest = value.astype(np.float32)
    error = value - nearest
    bits = nearest.view(np.int32)
    away = (error > 0) == (nearest > 0)
    moved = bits + np.where(away, 1, -1).astype(np.int32)
    return np.where((error != 0) & (bits & 1 == 0), moved, bits).view(np.float32)


# Operations, register by register


def _minimum(a: Array, b: Array) -> Array:
    return _extreme(np.fmin, np.bitwise_or, np.minimum, a, b)


def _maximum(a: Array, b: Array) -> Array:
    return _extreme(np.fmax, np.bitwise_and, np.maximum, a, b)


def _extreme(of_floats: Any, of_equal: Any, of_integers: Any, a: Array, b: Array) -> Array:
    if a.dtype.kind != "f":
        return np.asarray(of_integers(a, b))
    result: Array = of_floats(a, b)
    zero = (a == b) & (a == 0)
    if zero.any():  # -0 lies below +0, so a minimum of zeros has any sign, a maximum the common one
        bits = np.dtype(f"u{a.dtype.itemsize}")
        result = np.where(zero, of_equal(a.view(bits), b.view(bits)).view(a.dtype), result)
    return result


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    return np.asarray((a - np.fmod(a, b)) // b)


def _shift_right_zeros(a: Array, count: Array) -> Array:
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    shifted: Array = np.right_shift(a.view(unsigned), count.astype(unsigned))
    return shifted.view(a.dtype)


def _unsigned(a: Array) -> Array:
    return a.view(np.dtype(f"u{a.dtype.itemsize}"))


def _leading_zeros(a: Array) -> Array:
    """All bits less those that are set once every bit below a set one is."""
    bits = 8 * a.dtype.itemsize
    for shift in (1, 2, 4, 8, 16, 32)[: bits.bit_length() - 1]:
        a = a | (a >> a.dtype.type(shift))
    return np.asarray(bits - np.bitwise_count(a).astype(np.int64))


def _high(a: Array, b: Array) -> Array:
    product = a.view(np.uint32).astype(np.uint64) * b.view(np.uint32)
    return (product >> np.uint64(32)).astype(np.uint32).view(a.dtype)


def _rounded(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function evaluated in float64 and rounded once."""

    def evaluate(a: Array) -> Array:
        return np.asarray(function(a.astype(np.float64))).astype(np.float32)

    return evaluate


OPERATIONS: dict[str, Callable[..., Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fma": fma,
    "div": _divide,
    "sqrt": np.sqrt,
    "min": _minimum,
    "max": _maximum,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "rem": np.fmod,
    "high": _high,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shl": lambda a, count: np.left_shift(a, count.astype(a.dtype)),
    "shr": lambda a, count: np.right_shift(a, count.astype(a.dtype)),
    "ushr": _shift_right_zeros,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "exp2": _rounded(np.exp2),
    "log2": _rounded(np.log2),
    "reciprocal": _rounded(np.reciprocal),
    "rsqrt": _rounded(lambda a: 1.0 / np.sqrt(a)),
    "tanh": _rounded(np.tanh),
    "sin": _rounded(np.sin),
    "cos": _rounded(np.cos),
    "popcount": lambda a: np.bitwise_count(_unsigned(a)).astype(a.dtype),
    "clz": lambda a: _leading_zeros(_unsigned(a)).astype(a.dtype),
}


def evaluate(op: str, args: list[Array], dtypes: list[DType], result: DType) -> Array:
    """An elementwise operation; float types narrower than F32 go through F32 and are rounded once."""
    if op == "select":
        return np.where(*args)
    narrow = any(dtype.is_float and dtype not in (F32, F64) for dtype in dtypes)
    if narrow:
        if op == "fma":
            raise NotImplementedError(f"fma of {dtypes[0]}: the kernel IR has it for F32, F64 and integers")
        args = [to_float32(arg, dtype) for arg, dtype in zip(args, dtypes, strict=True)]
    if op == "fma" and not dtypes[0].is_float:
        return np.asarray(args[0] * args[1] + args[2])
    value = OPERATIONS[op](*args)
    return from_float32(value, result) if narrow and result is not MASK else value


def bitcast(value: Array, to: DType) -> Array:
    """The same bits as registers of another type of the same size."""
    return np.ascontiguousarray(value).view(HELD[to])
