"""Conversions of LANGUAGE's table in exact arithmetic, one element at a time or with NumPy's own types."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from gizml_tile.dtypes import BF16, E5M2, F16, F32, FP8, INTEGERS, MASK, DType, integer_range, to_numpy

STORAGE = [F32, F16, BF16, FP8, E5M2, *sorted(INTEGERS), MASK]
_BITS = {1: np.uint8, 2: np.uint16, 4: np.int32, 8: np.int64}


def bits_of(array: np.ndarray) -> np.ndarray:
    """Storage as the integers that the compiled loops take (floats of 32 bits stay floats)."""
    return array if array.dtype == np.float32 else array.view(_BITS[array.itemsize])


def all_patterns(dtype: DType) -> np.ndarray:
    """Every value of a type of at most 16 bits."""
    if dtype is MASK:
        return np.array([False, True])
    count = 1 << dtype.bits
    return np.arange(count).astype(_BITS[dtype.bytes]).view(to_numpy(dtype))


def convert(source: np.ndarray, target: DType) -> np.ndarray:
    """What ``to(target)`` gives for an array of any storage type."""
    kind = to_numpy(target)
    if target is MASK:
        return source.astype(np.float32 if _is_float(source) else source.dtype) != 0
    if _is_float(source):
        single = source.astype(np.float32)
        if target.is_float:
            return round_float(single, target)
        return np.array([_truncate(value, target) for value in single.tolist()], kind)
    if not target.is_float:
        with np.errstate(over="ignore"):
            return source.astype(kind)
    if target is F32:
        return source.astype(np.float32)
    # Below 2^24 F32 is exact; above, F16 is infinite and FP8 saturates anyway; BF16 must not round twice.
    if target is BF16:
        short = np.array([_keep_bits(int(value), 8) for value in source], np.float64)
        return short.astype(np.float32).astype(ml_dtypes.bfloat16)
    return round_float(source.astype(np.float32), target)


def round_float(single: np.ndarray, target: DType) -> np.ndarray:
    """float32 rounded to a storage type, as the library of that type does but for FP8's ends."""
    with np.errstate(all="ignore"):
        if target is FP8:
            single = np.where(np.isnan(single), single, np.clip(single, -448, 448))
        return single.astype(to_numpy(target))


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.kind not in "iub"


def _truncate(value: float, target: DType) -> int:
    low, high = integer_range(target)
    if math.isnan(value):
        return 0
    return max(low, min(high, math.trunc(value))) if math.isfinite(value) else (high if value > 0 else low)


def _keep_bits(value: int, bits: int) -> float:
    """An integer rounded to so many significant bits, ties to even."""
    unit = 1 << max(0, abs(value).bit_length() - bits)
    quotient, rest = divmod(value, unit)
    up = 2 * rest > unit or (2 * rest == unit and quotient % 2 == 1)
    return float((quotient + up) * unit)
