"""Samples of floats, true values, and how far a result is from one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

NAN, INFINITY = float("nan"), float("inf")

_ERF, _ERFC = (np.frompyfunc(each, 1, 1) for each in (math.erf, math.erfc))


def _gelu_erf(x: np.ndarray) -> np.ndarray:
    x = np.maximum(x, -1e30)  # the limit at -infinity is a negative zero, where the product is NaN
    return 0.5 * x * _ERFC(-x * math.sqrt(0.5)).astype(np.float64)


def _gelu(x: np.ndarray) -> np.ndarray:
    x = np.maximum(x, -1e30)
    return x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _silu(x: np.ndarray) -> np.ndarray:
    x = np.maximum(x, -1e30)
    return x / (1 + np.exp(-x))


# float64 functions of far smaller error than an F32 ulp, and the ulp that ours may be off.
TRUE: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    "exp": (np.exp, 3),
    "exp2": (np.exp2, 3),
    "log": (np.log, 3),
    "tanh": (np.tanh, 3),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 3),
    "gelu": (_gelu, 3.5),
    "gelu_erf": (_gelu_erf, 3.5),
    "log2": (np.log2, 3),
    "log1p": (np.log1p, 3),
    "expm1": (np.expm1, 3),
    "silu": (_silu, 3),
    "softplus": (lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), 3),
    "erf": (lambda x: _ERF(x).astype(np.float64), 3),
    "sin": (np.sin, 3),
    "cos": (np.cos, 3),
}

# Zeros, subnormals, the ends of the ranges, infinities, NaN quiet and signaling, halves.
_POSITIVE = [0.0, 1.0, 0.5, 1.5, 2.5, 2.0, 3.0, 1e-40, 2.0**-149, 2.0**-126, 2.0**-127, 127.5]
_POSITIVE += [128.0, 255.0, 256.0, 32767.5, 32768.0, 65504.0, 65519.0, 65520.0, 448.0, 464.0, 480.0]
_POSITIVE += [2.0**23, 2.0**24, 2.0**31, 2.0**31 - 128, 2.0**32, 2.0**63, 2.0**64, 3.4e38, INFINITY, NAN]
_PATTERNS = np.array([0x7F800001, 0x7FFFFFFF, 0x7F7FFFFF, 0x007FFFFF], np.uint32).view(np.float32)
SPECIAL = np.concatenate([np.array(_POSITIVE, np.float32), _PATTERNS])
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])


def sample(count: int) -> np.ndarray:
    """``count`` floats spread over all bit patterns, NaN and infinities among them."""
    step = 2**32 // count | 1
    bits = np.arange(count, dtype=np.uint64) * np.uint64(step)
    return bits.astype(np.uint32).view(np.float32)


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays of one type have equal bits; any NaN equals any NaN."""
    assert a.dtype == b.dtype
    equal = a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")
    if a.dtype.kind in "iub":
        return equal
    with np.errstate(invalid="ignore"):
        return equal | (np.isnan(a) & np.isnan(b))


def documented(function: Callable[..., object]) -> float:
    """How many ulp a function's docstring allows."""
    found = re.search(r"at most ([\d.]+) ulp", function.__doc__ or "")
    assert found, f"the docstring of {function} tells no bound"
    return float(found[1])


def ulps(result: np.ndarray, true: np.ndarray) -> np.ndarray:
    """How many units of F32's spacing at the true value each result is off.

    A result that is infinite or NaN where F32's nearest to the true value is not, or the other way round,
    is infinitely far off; next to overflow both may be.
    """
    with np.errstate(all="ignore"):
        power = (np.abs(true).view(np.int64) & (0x7FF << 52)).view(np.float64)
        distance = np.abs(result - true) / np.maximum(power * 2.0**-23, 2.0**-149)
        rare = np.flatnonzero(~np.isfinite(distance))
        y, exact = result[rare], true[rare]
        # As if F32's exponents went on, the successor of the largest number is 2^128.
        beyond = np.isinf(y) & np.isfinite(exact) & (np.abs(exact) > 2.0**127)
        over = np.where(beyond, np.maximum(0, 2.0**128 - np.abs(exact)) / 2.0**104, INFINITY)
        distance[rare] = np.where(same(y, exact.astype(np.float32)), 0, over)
    return distance
