"""The shared functions of F64 as CPU code: within their docstrings' bounds, the same bits on every machine.

That the simulators of GPUs have the same bits is tested in tests/types.
"""

from __future__ import annotations

import fits
import mpmath
import numpy as np
import pytest
from floats import same
from loops import FASTEST, VARIANTS, binary, unary
from true_doubles import INFINITY, LIMITS, NAN, TRUE, arguments, bound, near_multiples_of_half_pi, ulps

from gizml_tile.dtypes import F64
from gizml_tile.lowering.math.doubles import trigonometric

FUNCTIONS = list(TRUE)
SPECIAL = [0.0, 1.0, 2.0, 0.5, 3.0, 2.5, INFINITY, NAN, 5e-324, 1e-310, 2.0**52 + 1, 2.0**52 - 0.5, 2.0**53]
SPECIAL += [2.0**53 + 2, 2.0**60, 1.7e308, 1 + 2.0**-52, 1 - 2.0**-53, 2.0**-1022, 1024.0, 709.0]
SPECIAL = np.array([*SPECIAL, *(-each for each in SPECIAL)])


@pytest.mark.parametrize("op", FUNCTIONS)
def test_error_is_within_the_docstrings_bound(op: str) -> None:
    x = arguments(op, 4000)
    y = unary(FASTEST, op, F64)(x)
    with mpmath.workprec(200):
        error = [ulps(found, TRUE[op](mpmath.mpf(each))) for each, found in zip(x, y, strict=True)]
    worst = int(np.argmax(error))
    assert error[worst] <= bound(op) <= 3, f"{op}({x[worst]!r}) is {error[worst]} ulp off"


@pytest.mark.parametrize("op", FUNCTIONS)
def test_bits_of_every_width_and_machine_and_limits(op: str) -> None:
    given, exact = np.array([*LIMITS[op], (NAN, NAN)]).T.copy()
    x = np.concatenate([arguments(op, 1 << 13), SPECIAL, given])
    expected = unary(FASTEST, op, F64)(x)
    assert same(expected[-len(given) :], exact).all(), (given, expected[-len(given) :])
    for variant in VARIANTS[1:]:
        equal = same(unary(variant, op, F64)(x), expected)
        assert equal.all(), f"{op} of {x[~equal][:3]} on {variant.name}"


@pytest.mark.parametrize("name", ["sin", "cos", "log2"])
def test_coefficients_are_found_again(name: str) -> None:
    """The other fits, which take longer, are looked at by hand: ``python tests/numbers/fits.py``."""
    with mpmath.workdps(120):
        fit = fits.fits()[name]
        assert fit.fitted() == list(fit.found)
        assert fit.error() < -57


def test_two_over_pi_has_the_bits_of_mpmath() -> None:
    with mpmath.workprec(1300):
        assert int(mpmath.floor(mpmath.mpf(2) ** 1193 / mpmath.pi)) == trigonometric._TWO_OVER_PI_BITS


@pytest.mark.parametrize("op", ["sin", "cos"])
def test_sine_and_cosine_next_to_multiples_of_half_pi(op: str) -> None:
    """Where next to nothing is left of the argument, from 2^-12 to the largest numbers."""
    x = near_multiples_of_half_pi()
    x = np.concatenate([x, -x])
    assert len(x) > 10_000
    y = unary(FASTEST, op, F64)(x)
    with mpmath.workprec(1300):
        true = [getattr(mpmath, op)(mpmath.mpf(each)) for each in x]
    assert max(map(ulps, y, true)) <= bound(op)


def _pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Special pairs, any bits, and pairs whose powers are numbers: also of bases near 1."""
    random = np.random.default_rng(8)
    a, b = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    bases = [np.exp2(random.uniform(-1074, 1024, count)), 1 + np.exp2(random.uniform(-52, 0, count)) / 2]
    bases += [random.uniform(0.3, 3, count), -random.uniform(0.3, 30, count)]
    some = random.integers(0, 1 << 64, (2, count), dtype=np.uint64).view(np.float64)
    x = np.concatenate(bases)
    with np.errstate(all="ignore"):
        y = random.uniform(-1075, 1024, x.size) / np.log2(np.abs(x))
        y = np.where((x < 0) | (random.random(x.size) < 0.2), np.rint(y), y)
    return np.concatenate([a, some[0], x]), np.concatenate([b, some[1], y])


def test_powers() -> None:
    x, y = _pairs(1000)
    result = binary(FASTEST, "pow", F64)(x, y)
    with np.errstate(all="ignore"):
        near = np.power(x, y)
    # What is 0, infinite or NaN is so in the C library, and signs are its.
    assert (np.isnan(result) == np.isnan(near)).all()
    numbers = ~np.isnan(near)
    assert (np.signbit(result) == np.signbit(near))[numbers].all()
    # Powers of 0 and of infinities, and with infinite exponents.
    exact = numbers & ~(np.isfinite(x) & np.isfinite(y) & (x != 0))
    assert same(result[exact], near[exact]).all()
    worst = 0.0
    with mpmath.workprec(200):
        for base, exponent, found in zip(x, y, result, strict=True):
            if np.isfinite(base) and np.isfinite(exponent) and base and not np.isnan(found):
                size = exponent * mpmath.log(abs(mpmath.mpf(base)), 2)
                if size > 1025 or size < -1080:
                    assert abs(found) == (INFINITY if size > 0 else 0)
                else:
                    worst = max(worst, ulps(abs(found), mpmath.power(2, size)))
    assert worst <= bound("pow") <= 3, worst


@pytest.mark.parametrize("op", ["pow", "rem", "floormod"])
def test_bits_of_powers_and_remainders(op: str) -> None:
    x, y = _pairs(1 << 10)
    random = np.random.default_rng(9)
    large, small = (
        np.ldexp(random.standard_normal(500), random.integers(*ends, 500))
        for ends in ((900, 1020), (-1074, -900))
    )
    x, y = np.concatenate([x, large, large, small]), np.concatenate([y, small, small[::-1], large])
    with np.errstate(all="ignore"):
        wanted = {
            "pow": lambda: binary(FASTEST, "pow", F64)(x, y),
            "rem": lambda: np.fmod(x, y),
            "floormod": lambda: np.mod(x, y),
        }[op]()
    for variant in VARIANTS:
        equal = same(binary(variant, op, F64)(x, y), wanted)
        assert equal.all(), f"{op} of {x[~equal][:3]}, {y[~equal][:3]} on {variant.name}"
