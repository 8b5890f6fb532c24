"""Fused multiply-adds of F32 and F64 on NumPy arrays, with one rounding."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_CHUNK = 1 << 15  # elements whose intermediates stay in a core's cache


def fma(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` of float32 or of float64 with one rounding."""
    shape = np.broadcast_shapes(a.shape, b.shape, c.shape)
    fused = _fma_double if a.dtype == np.float64 else _fma_single
    if len(shape) != 2 or shape[0] * shape[1] <= _CHUNK:
        return fused(a, b, c)
    result = np.empty(shape, a.dtype)
    step = max(1, _CHUNK // shape[1])
    for first in range(0, shape[0], step):
        rows = slice(first, first + step)
        result[rows] = fused(*(each if each.shape[0] == 1 else each[rows] for each in (a, b, c)))
    return result


_LOST = np.int64((1 << 29) - 1)  # the bits of a float64 that a float32 has no room for
_HALF = np.int64(1 << 28)


def _fma_single(a: Array, b: Array, c: Array) -> Array:
    # The product of two float32 is exact in float64. Their sum with c is rounded there and again to
    # float32, which differs from one rounding only where the first lands on a tie of the second:
    # half way between two floats, or anywhere among subnormals, whose ties lie elsewhere.
    product = a.astype(np.float64) * b
    total = product + c
    result: Array = total.astype(np.float32)
    doubtful = (total.view(np.int64) & _LOST) == _HALF
    small = np.abs(result) < np.float32(2.0**-125)
    if small.any():
        doubtful |= small & (total != 0)
    if doubtful.any():
        product, addend = (np.broadcast_to(each, total.shape)[doubtful] for each in (product, c))
        lost = _lost(product, addend.astype(np.float64))
        result[doubtful] = odd(total[doubtful], lost).astype(np.float32)
    return result


# Between these sizes products and what they lose are exact, and nothing overflows on the way.
_LEAST, _MOST = 2.0**-900, 2.0**990
_SPLITTER = 2.0**27 + 1


def _fma_double(a: Array, b: Array, c: Array) -> Array:
    """Sums of parts, of which the small ones are joined with rounding to odd, so that one rounding is left.

    Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to
    odd", 2008. Very large and very small numbers are added as fractions.
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        product = a * b
        small = _product_error(a, b, product)
        first, first_lost = c + small, _lost(c, small)
        total, total_lost = product + first, _lost(product, first)
        rest = odd(first_lost + total_lost, _lost(first_lost, total_lost))
        result: Array = np.asarray(total + rest)
        size = np.abs(product)
        inside = (size >= _LEAST) & (size <= _MOST)
        for each in (a, b, c):
            inside &= np.abs(each) <= _MOST
        # Of a factor 0 nothing is lost, nor the sign of a zero.
        nothing = (a == 0) | (b == 0)
        result = np.where(nothing, product + c, result)
        inside |= nothing
    for place in map(tuple, np.argwhere(~inside)):
        result[place] = _by_fractions(float(a[place]), float(b[place]), float(c[place]))
    return result


def _product_error(a: Array, b: Array, product: Array) -> Array:
    """What ``a * b`` loses to rounding: Dekker's product of halves."""
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return np.asarray(((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low)


def _halves(a: Array) -> tuple[Array, Array]:
    scaled = _SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high


def _by_fractions(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        size = float(abs(exact))
    except OverflowError:
        size = math.inf
    return -size if exact < 0 else size


def _lost(a: Array, b: Array) -> Array:
    """What ``a + b`` loses to rounding in float64: Knuth's two-sum."""
    total = a + b
    second = total - a
    return np.asarray((a - (total - second)) + (b - second))


def odd(total: Array, error: Array) -> Array:
    """``total + error`` as a float64 whose last bit is set where bits are lost (round to odd)."""
    bits = total.view(np.int64)
    away = (error > 0) == (total > 0)
    moved = bits + np.where(away, np.int64(1), np.int64(-1))
    inexact = (error > 0) | (error < 0)  # false for NaN
    return np.where(inexact & (bits & 1 == 0), moved, bits).view(np.float64)
