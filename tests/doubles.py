"""Functions of float64 for tests: with one rounding, or in the more bits that a longdouble has."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable

import mpmath
import numpy as np

_DIGITS = 30
_FAR = 20_000  # beyond the exponents of a longdouble
_fma = ctypes.CDLL(ctypes.util.find_library("m")).fma
_fma.restype, _fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3
_fused = np.frompyfunc(_fma, 3, 1)


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c in float64 with one rounding, by the C library."""
    return np.asarray(_fused(a, b, c)).astype(np.float64)


def _precisely(function: Callable[[mpmath.mpf], mpmath.mpf]) -> np.vectorize:
    """A function of mpmath's numbers for arrays of longdouble."""

    def element(x: np.longdouble) -> np.longdouble:
        high = float(x)
        if not np.isfinite(x):
            return np.longdouble(float(function(mpmath.mpf(high))))
        with mpmath.workdps(_DIGITS):
            found = function(mpmath.mpf(high) + mpmath.mpf(float(x - np.longdouble(high))))
            # In two parts, of which float64 has room for both, and the power of two apart.
            fraction, exponent = mpmath.frexp(found)
            first = float(fraction)
            whole = np.longdouble(first) + np.longdouble(float(fraction - first))
        return np.ldexp(whole, min(max(int(exponent), -_FAR), _FAR))

    return np.vectorize(element, otypes=[np.longdouble])


@_precisely
def gelu(x: mpmath.mpf) -> mpmath.mpf:
    """GELU in its tanh form; at -infinity, where a limit is meant, NaN."""
    inner = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
    return x / (1 + mpmath.exp(-2 * inner))


@_precisely
def gelu_erf(x: mpmath.mpf) -> mpmath.mpf:
    """GELU in its erf form; at -infinity, where a limit is meant, NaN."""
    # So far out mpmath gives up, and erfc is 2 or less than any number.
    return x * mpmath.erfc(-mpmath.sign(x) * min(abs(x), _FAR) / mpmath.sqrt(2)) / 2


@_precisely
def erf(x: mpmath.mpf) -> mpmath.mpf:
    """The error function."""
    return mpmath.erf(mpmath.sign(x) * min(abs(x), _FAR))
