"""Logarithms of F64, and what is made of one: log, log2, log1p, softplus."""

from __future__ import annotations

from gizml_tile.lowering.math.arithmetic import DOUBLE, INFINITY, NAN, Arithmetic, V, polynomial
from gizml_tile.lowering.math.doubles.common import LOG2_E, LOG2_E_REST, float_of
from gizml_tile.lowering.math.doubles.exponentials import exp

# ln(2) in 40 bits, of which multiples by exponents are exact, and the rest.
_LN_2_SHORT, _LN_2_SHORT_REST = 0.6931471805592082, 7.371002565167799e-13
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD

# (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, for s up to (sqrt(2) - 1) / (sqrt(2) + 1).
_LOG = (0.6666666666666735, 0.39999999999408803, 0.2857142874389357, 0.22222198400896684,
        0.18183574112432327, 0.15313780525695883, 0.14798835515493203)  # fmt: skip


def log(e: Arithmetic[V], x: V) -> V:
    """The natural logarithm; at most 0.79 ulp off."""
    whole, f = parts_of_number(e, x)
    half, series = _series(e, f)
    low = e.fma(whole, e.constant(_LN_2_SHORT_REST), series)
    near = e.sub(f, e.sub(half, low))
    return _of_positive(e, x, e.fma(whole, e.constant(_LN_2_SHORT), near))


def log1p(e: Arithmetic[V], x: V) -> V:
    """The natural logarithm of 1 + x; at most 0.8 ulp off, signed zeros kept."""
    sum = e.add(x, e.constant(1.0))
    whole, above = parts_of_number(e, sum)
    # What the sum lost, of the smaller one of its terms; where it has no exponent f is x itself.
    lost = e.select(
        e.greater(x, e.constant(1.0)),
        e.sub(e.constant(1.0), e.sub(sum, x)),
        e.sub(x, e.sub(sum, e.constant(1.0))),
    )
    alone = e.equal(whole, e.constant(0.0))
    f = e.select(alone, x, above)
    half, series = _series(e, f)
    rest = e.select(alone, e.constant(0.0), e.div(lost, sum))
    low = e.add(e.fma(whole, e.constant(_LN_2_SHORT_REST), rest), series)
    near = e.sub(f, e.sub(half, low))
    result = _of_positive(e, sum, e.fma(whole, e.constant(_LN_2_SHORT), near))
    return e.select(e.less(e.absolute(x), e.constant(2.0**-54)), x, result)


def log2(e: Arithmetic[V], x: V) -> V:
    """The logarithm to base 2; at most 1.56 ulp off, exact where it is an integer."""
    whole, f = parts_of_number(e, x)
    half, series = _series(e, f)
    near = e.sub(f, e.sub(half, series))
    sum = e.fma(near, e.constant(LOG2_E), e.fma(near, e.constant(LOG2_E_REST), whole))
    return _of_positive(e, x, sum)


def softplus(e: Arithmetic[V], x: V) -> V:
    """log(1 + e^x), the larger of x and 0 with log(1 + e^-abs(x)) added; at most 1.7 ulp off."""
    power = exp(e, e.negate(e.absolute(x)))
    positive = e.select(e.less(x, e.constant(0.0)), e.constant(0.0), x)
    return e.add(positive, log1p(e, power))


def parts_of_number(e: Arithmetic[V], x: V) -> tuple[V, V]:
    """k and f of x = 2^k (1 + f) with 1 + f from sqrt(1/2) to sqrt(2), for positive numbers."""
    small = e.less(x, e.constant(DOUBLE.least_normal))
    bits = e.as_bits(e.select(small, e.mul(x, e.constant(2.0**54)), x))
    # The bits of 1 + f are those of x less k in the place of the exponent.
    above = e.bits_sub(bits, e.bits_constant(_SQRT_HALF_BITS))
    exponent = e.shift_right(above, DOUBLE.fraction)
    mantissa = e.from_bits(e.bits_sub(bits, e.shift_left(exponent, DOUBLE.fraction)))
    moved = e.bits_select(small, e.bits_sub(exponent, e.bits_constant(54)), exponent)
    return float_of(e, moved), e.sub(mantissa, e.constant(1.0))


def _series(e: Arithmetic[V], f: V) -> tuple[V, V]:
    """f^2 / 2 and s * (f^2 / 2 + r), of which log(1 + f) is f - (f^2 / 2 - the last).

    With s = f / (2 + f) and r the series of log((1 + s) / (1 - s)) = 2 s + s r, in which
    f - f^2 / 2 + s f^2 / 2 = 2 s (fdlibm, "e_log.c").
    """
    s = e.div(f, e.add(f, e.constant(2.0)))
    square = e.mul(s, s)
    r = e.mul(square, polynomial(e, square, _LOG))
    half = e.mul(e.mul(f, e.constant(0.5)), f)
    return half, e.mul(s, e.add(half, r))


def _of_positive(e: Arithmetic[V], x: V, result: V) -> V:
    """A logarithm, or what it is of zeros, negative numbers, infinity and NaN."""
    result = e.select(e.less(x, e.constant(INFINITY)), result, e.add(x, x))
    result = e.select(e.less(x, e.constant(0.0)), e.constant(NAN), result)
    return e.select(e.equal(x, e.constant(0.0)), e.constant(-INFINITY), result)
