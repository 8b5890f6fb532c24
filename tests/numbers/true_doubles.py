"""Functions of F64 in as many digits as are asked for, arguments where they bend, and their limits."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
from floats import documented

from gizml_tile.lowering.math import doubles

NAN, INFINITY = float("nan"), float("inf")


def _gelu(x: mpmath.mpf) -> mpmath.mpf:
    u = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
    return x / (1 + mpmath.exp(-2 * u))


TRUE: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.power(2, x),
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "log2": lambda x: mpmath.log(x, 2),
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "erf": mpmath.erf,
    "gelu": _gelu,
    "gelu_erf": lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
}
_GELU = [(-0.0, -0.0), (INFINITY, INFINITY), (-INFINITY, -0.0), (-1e308, -0.0), (50.0, 50.0)]
_WAVE = [(INFINITY, NAN), (-INFINITY, NAN)]
# What is exact, infinite or NaN: arguments and results.
LIMITS = {
    "exp": [(0.0, 1), (-INFINITY, 0), (INFINITY, INFINITY), (709.79, INFINITY), (-745.2, 0)],
    "exp2": [(0.0, 1), (10.0, 1024), (-1074.0, 5e-324), (-1076.0, 0), (1024.0, INFINITY), (-INFINITY, 0)],
    "expm1": [(-0.0, -0.0), (5e-324, 5e-324), (-60.0, -1), (-INFINITY, -1), (710.0, INFINITY)],
    "log": [
        (1.0, 0),
        (0.0, -INFINITY),
        (-0.0, -INFINITY),
        (-1.0, NAN),
        (-INFINITY, NAN),
        (INFINITY, INFINITY),
    ],
    "log1p": [(-0.0, -0.0), (5e-324, 5e-324), (-1.0, -INFINITY), (-1.5, NAN), (INFINITY, INFINITY)],
    "log2": [(1.0, 0), (5e-324, -1074), (0.125, -3), (2.0**1000, 1000), (0.0, -INFINITY), (-5e-324, NAN)],
    "tanh": [(0.0, 0), (-0.0, -0.0), (5e-324, 5e-324), (-1e308, -1), (30.0, 1), (INFINITY, 1)],
    "sigmoid": [(0.0, 0.5), (-INFINITY, 0), (INFINITY, 1), (40.0, 1), (-746.0, 0), (-1e308, 0)],
    "silu": [*_GELU, (5e-324, 0.0), (-1e-323, -5e-324)],
    "softplus": [(-INFINITY, 0), (INFINITY, INFINITY), (-746.0, 0), (1e308, 1e308), (50.0, 50.0)],
    "erf": [(0.0, 0), (-0.0, -0.0), (5e-324, 5e-324), (6.0, 1), (-1e308, -1), (INFINITY, 1), (-INFINITY, -1)],
    "gelu": [*_GELU, (1e-323, 5e-324)],
    "gelu_erf": [*_GELU, (1e-323, 5e-324), (-40.0, -0.0)],
    "sin": [*_WAVE, (0.0, 0), (-0.0, -0.0), (5e-324, 5e-324), (-1e-310, -1e-310)],
    "cos": [*_WAVE, (0.0, 1), (-0.0, 1), (5e-324, 1)],
}


def bound(name: str) -> float:
    """How many ulp a function's docstring allows."""
    return documented(getattr(doubles, name))


def arguments(name: str, count: int) -> np.ndarray:
    """So many numbers: of many sizes, near 1 and 0, those whose exponentials are numbers, subnormal ones."""
    random = np.random.default_rng([11, count])
    x = random.standard_normal(count) * np.exp2(random.integers(-40, 10, count))
    fifth = count // 5
    x[:fifth] = 1 + random.standard_normal(fifth) * np.exp2(random.integers(-50, 0, fifth))
    x[fifth : 2 * fifth] = random.uniform(-8, 8, fifth)
    x[2 * fifth : 2 * fifth + fifth // 2] = random.uniform(-745, 709, fifth // 2)
    x[-fifth // 4 :] = np.ldexp(random.random(x[-fifth // 4 :].size), -1030)
    if name in ("sin", "cos"):
        x[: fifth // 2] *= np.exp2(random.integers(0, 1010, fifth // 2))
    if name == "log1p":
        return np.maximum(x, 2.0**-53 - 1)
    return abs(x) if name.startswith("log") else x


def near_multiples_of_half_pi() -> np.ndarray:
    """The numbers of each exponent that are nearest to one: m * 2^n of convergents k / m of 2^n * 2/pi.

    None is nearer than 2^-62 of it: that is what the reduction of large arguments takes for granted.
    """
    numbers = []
    with mpmath.workprec(1300):
        for power in range(-52, 972):
            ratio = mpmath.mpf(2) ** (power + 1) / mpmath.pi
            whole = int(mpmath.floor(ratio))
            before, here, rest = (1, 0), (whole, 1), ratio - whole
            while here[1] < 2**53:
                if here[0]:
                    assert abs(here[1] * ratio - here[0]) > 2.0**-62
                if here[1] >= 2**40:
                    numbers.append(float(here[1]) * 2.0**power)
                rest = 1 / rest
                term = int(mpmath.floor(rest))
                rest -= term
                before, here = here, (term * here[0] + before[0], term * here[1] + before[1])
    return np.array(numbers)


def ulps(found: float, true: mpmath.mpf) -> float:
    """How many units of F64's spacing at the true value a result is off; next to overflow it may be inf."""
    unit = mpmath.ldexp(1, max(mpmath.frexp(true)[1] - 53, -1074))
    if np.isinf(found) and abs(true) > 2.0**1023:
        return float(max(0, (mpmath.mpf(2) ** 1024 - abs(true)) / unit))
    return float(abs(mpmath.mpf(found) - true) / unit)
