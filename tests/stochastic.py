"""Rounding by chance as the language defines it, in integers and float64."""

from __future__ import annotations

import numpy as np

from gizml_tile.dtypes import BF16, E5M2, F16, F32, FP8, to_numpy

# Of the types: bits of the significand, the exponent of the least normal number.
FORMATS = {BF16: (8, -126), F16: (11, -14), FP8: (4, -6), E5M2: (3, -14)}
DOUBLE_FORMATS = FORMATS | {F32: (24, -126)}


def rounded(x, bits, dtype):
    """Numbers in units of the type's spacing, k bits after the point; random ones are added and cut.

    Of float64 k are more than there are random bits: these are the upper ones.
    """
    digits, least = DOUBLE_FORMATS[dtype]
    k = (53 if x.dtype == np.float64 else 24) - digits
    drawn = min(k, 32)
    noise = (bits.astype(np.int64) & (1 << drawn) - 1) << k - drawn
    size = np.abs(x.astype(np.float64))
    finite = np.where(np.isfinite(size), size, 1)
    exponent = np.maximum(np.frexp(finite)[1] - 1, least)
    whole = np.floor(np.ldexp(finite, k - exponent + digits - 1)).astype(np.int64)
    result = np.ldexp((whole + noise >> k).astype(np.float64), exponent - digits + 1)
    result = np.copysign(np.where(np.isfinite(size), result, size), x)
    # What lies between F32's largest number and 2^128 is infinite in both.
    result = np.where(np.abs(result) > 3.4028235e38, np.copysign(np.inf, x), result).astype(np.float32)
    if dtype is FP8:
        result = np.clip(result, -448, 448)
    return result.astype(to_numpy(dtype))
