"""The shared functions: close to the truth, and the same bits everywhere."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from floats import INFINITY, NAN, SPECIAL, TRUE, documented, same, sample, ulps
from loops import FASTEST, VARIANTS, binary, unary
from numpy_arithmetic import NumpyArithmetic, fma

from gizml_tile.dtypes import F32
from gizml_tile.lowering import math as shared

FUNCTIONS = list(TRUE)


def _dense(count: int) -> np.ndarray:
    """All bit patterns evenly, and as many between -110 and 110, where the functions bend."""
    inner = np.linspace(-110, 110, count, dtype=np.float32)
    near = np.concatenate([np.linspace(-3, 3, count // 2), np.geomspace(1e-9, 3, count // 2)])
    return np.concatenate([sample(count), inner, near.astype(np.float32), SPECIAL])


@pytest.mark.parametrize("op", FUNCTIONS)
def test_error_on_a_dense_sample(op: str) -> None:
    reference, bound = TRUE[op]
    x = _dense(1 << 21)
    with np.errstate(all="ignore"):
        error = ulps(unary(FASTEST, op, F32)(x), reference(x.astype(np.float64)))
    worst = int(np.argmax(error))
    said = documented(getattr(shared, op))
    assert error[worst] <= said <= bound, f"{op}({x[worst]!r}) is {error[worst]} ulp off"


@pytest.mark.parametrize("op", FUNCTIONS)
def test_bits_of_every_width_and_machine_equal_numpy(op: str) -> None:
    x = _dense(1 << 16)
    expected = getattr(shared, op)(NumpyArithmetic(), x)
    assert expected.dtype == np.float32
    for variant in VARIANTS:
        equal = same(unary(variant, op, F32)(x), expected)
        assert equal.all(), f"{op} of {x[~equal][:3]} on {variant.name}"


_GELU = [
    (0.0, 0.0),
    (-0.0, -0.0),
    (INFINITY, INFINITY),
    (-INFINITY, -0.0),
    (-50.0, -0.0),
    (50.0, 50.0),
]
_SIGNED_ZEROS = [(0.0, 0.0), (-0.0, -0.0)]
LIMITS = {
    "exp": [
        (0.0, 1.0),
        (-0.0, 1.0),
        (INFINITY, INFINITY),
        (-INFINITY, 0.0),
        (89.0, INFINITY),
        (-104.0, 0.0),
    ],
    "exp2": [
        (0.0, 1.0),
        (-0.0, 1.0),
        (INFINITY, INFINITY),
        (-INFINITY, 0.0),
        (128.0, INFINITY),
        (-150.0, 0.0),
    ],
    "log": [
        (0.0, -INFINITY),
        (-0.0, -INFINITY),
        (INFINITY, INFINITY),
        (-INFINITY, NAN),
        (-1e-45, NAN),
        (1.0, 0.0),
    ],
    "tanh": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (INFINITY, 1.0),
        (-INFINITY, -1.0),
        (-1e-40, -1e-40),
        (-20.0, -1.0),
    ],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INFINITY, 1.0), (-INFINITY, 0.0), (30.0, 1.0)],
    "gelu": _GELU,
    "gelu_erf": _GELU,
    "silu": [*_GELU[:4], (-200.0, -0.0), (50.0, 50.0)],
    "softplus": [(INFINITY, INFINITY), (-INFINITY, 0.0), (-200.0, 0.0), (50.0, 50.0)],
    "erf": [*_SIGNED_ZEROS, (INFINITY, 1.0), (-INFINITY, -1.0), (-4.5, -1.0), (4.0, 1.0)],
    "log2": [
        (0.0, -INFINITY),
        (-0.0, -INFINITY),
        (INFINITY, INFINITY),
        (-1e-45, NAN),
        (1.0, 0.0),
        (2.0**-149, -149.0),
        (2.0**127, 127.0),
    ],
    "log1p": [*_SIGNED_ZEROS, (-1.0, -INFINITY), (-1.0000001, NAN), (INFINITY, INFINITY), (-INFINITY, NAN)],
    "expm1": [*_SIGNED_ZEROS, (INFINITY, INFINITY), (-INFINITY, -1.0), (89.0, INFINITY), (-50.0, -1.0)],
    "sin": [*_SIGNED_ZEROS, (INFINITY, NAN), (-INFINITY, NAN), (-1e-40, -1e-40)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INFINITY, NAN), (-INFINITY, NAN), (1e-40, 1.0)],
}


@pytest.mark.parametrize("op", FUNCTIONS)
def test_limits_zeros_and_nan(op: str) -> None:
    x, expected = np.array([*LIMITS[op], (NAN, NAN)], np.float32).T.copy()
    for variant in VARIANTS:
        result = unary(variant, op, F32)(x)
        assert same(result, expected).all(), (variant.name, x, result, expected)


@pytest.mark.parametrize("op", ["exp", "exp2", "sigmoid", "silu", "gelu"])
def test_bits_of_a_rounding_sum_tell_what_is_inside(op: str) -> None:
    """Numbers whose sums set no bit outside ``INSIDE_BITS`` go the short way; those near 0 are such."""
    ends = [
        center + np.arange(-300, 300) for center in (-(2**22), -5814608, -(2**23), 2**23, -(2**24), 2**24)
    ]
    # Here gelu's exponent is about 2^23.
    bend = np.arange(0x43D80000, 0x43DA0000, dtype=np.int32).view(np.float32)
    sums = np.concatenate([_dense(1 << 20), np.concatenate(ends).astype(np.float32), bend, -bend])
    numpy = NumpyArithmetic()
    exponent = getattr(shared, f"{'sigmoid' if op == 'silu' else op}_exponent")(numpy, sums)
    bits = numpy.as_bits(exponent)
    inside = bits & shared.INSIDE_MASK & ~shared.INSIDE_BITS == 0
    short = getattr(shared, f"{op}_inside")(numpy, sums, exponent)[inside]
    assert same(short, getattr(shared, op)(numpy, sums)[inside]).all()
    if op in ("exp", "exp2"):
        assert (short >= shared.INSIDE_LOW).all() and (short <= shared.INSIDE_HIGH).all()
    assert inside[np.abs(sums) < {"exp": 20, "exp2": 30, "sigmoid": 43, "silu": 43, "gelu": 9}[op]].all()
    assert (bits[inside] & shared.INSIDE_BITS != 0).all()


def test_exp2_of_integers_is_exact() -> None:
    x = np.arange(-149, 128, dtype=np.float32)
    assert (unary(FASTEST, "exp2", F32)(x) == np.ldexp(np.float32(1), x.astype(np.int32))).all()


def test_sine_and_cosine_of_the_floats_nearest_to_multiples_of_half_pi() -> None:
    """Where next to nothing is left of the argument; these are found with continued fractions of pi/2."""
    numbers = []
    with mpmath.workprec(400):
        for power in range(-23, 105):
            # m * 2^power next to an odd or even multiple of pi/2: convergents of their ratio.
            ratio, terms = mpmath.pi / 2 / mpmath.mpf(2) ** power, []
            for _ in range(40):
                terms.append(int(mpmath.floor(ratio)))
                ratio = 1 / (ratio - terms[-1])
            above, below = (1, 0), (terms[0], 1)
            for term in terms[1:]:
                above, below = below, (term * below[0] + above[0], term * below[1] + above[1])
                if 2**23 <= below[0] < 2**24:
                    numbers.append(float(below[0]) * 2.0**power)
        x = np.array(numbers, np.float32)
        assert len(x) > 60
        for op in ("sin", "cos"):
            true = np.array([float(getattr(mpmath, op)(mpmath.mpf(float(each)))) for each in x])
            assert ulps(unary(FASTEST, op, F32)(x), true).max() < 2


def _pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Special pairs, any bits, and pairs whose powers are numbers: also of bases near 1."""
    random = np.random.default_rng(8)
    a, b = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    bases = [np.exp2(random.uniform(-149, 128, count)), 1 + np.exp2(random.uniform(-23, 0, count)) / 2]
    bases += [random.uniform(0.3, 3, count), -random.uniform(0.3, 30, count)]
    some = random.integers(0, 1 << 32, (2, count), dtype=np.uint32).view(np.float32)
    x = np.concatenate(bases).astype(np.float32)
    with np.errstate(all="ignore"):
        y = random.uniform(-150, 128, x.size) / np.log2(np.abs(x.astype(np.float64)))
        y = np.where((x < 0) | (random.random(x.size) < 0.2), np.rint(y), y).astype(np.float32)
    return np.concatenate([a, some[0], x]), np.concatenate([b, some[1], y])


def test_powers() -> None:
    x, y = _pairs(1 << 17)
    with np.errstate(all="ignore"):
        true = np.power(x.astype(np.float64), y.astype(np.float64))
    error = ulps(binary(FASTEST, "pow", F32)(x, y), true)
    worst = int(np.argmax(error))
    said = documented(shared.pow)
    assert error[worst] <= said <= 3, f"{x[worst]!r} ** {y[worst]!r} is {error[worst]} ulp off"


@pytest.mark.parametrize("op", ["pow", "rem", "floormod"])
def test_bits_of_powers_and_remainders(op: str) -> None:
    x, y = _pairs(1 << 11)
    with np.errstate(all="ignore"):
        wanted = {
            "pow": lambda: shared.pow(NumpyArithmetic(), x, y),
            "rem": lambda: np.fmod(x, y),
            "floormod": lambda: np.mod(x, y),
        }[op]()
    for variant in VARIANTS:
        equal = same(binary(variant, op, F32)(x, y), wanted)
        assert equal.all(), f"{op} of {x[~equal][:3]}, {y[~equal][:3]} on {variant.name}"


def test_fma_rounds_once() -> None:
    """The NumPy reference's fma equals the rounding of exact rational arithmetic."""
    random = np.random.default_rng(1)
    a, b = (random.integers(0x3F000000, 0x40000000, 3000).astype(np.uint32).view(np.float32) for _ in "ab")
    near = -(a * b) * (1 + random.integers(-3, 4, 3000) * np.float32(2.0**-23))
    far = a * b * np.exp2(random.integers(-60, 60, 3000)).astype(np.float32)
    for scale in (1.0, 2.0**-64, 2.0**-72):
        for addend in (near, far, -far):
            c = (addend * np.float32(scale) * np.float32(scale)).astype(np.float32)
            x, y = a * np.float32(scale), b * np.float32(scale)
            exact = [
                Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r))
                for p, q, r in zip(x, y, c, strict=True)
            ]
            expected = np.array([_nearest(value) for value in exact], np.float32)
            assert (fma(x, y, c) == expected).all()


def _nearest(value: Fraction) -> float:
    """The float32 nearest to an exact value, ties to even."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - 23, -149)
    return float(round(value / unit) * unit)
