"""Logarithms, and what is made of one: log, log2, log1p, softplus."""

from __future__ import annotations

from gizml_tile.lowering.math.arithmetic import (
    INFINITY,
    LOG2_E,
    LOG2_E_REST,
    NAN,
    Arithmetic,
    V,
    polynomial,
)
from gizml_tile.lowering.math.exponentials import EXP2_FINE, exp_by

# (log(1 + f) - f + f^2 / 2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1].
_LOG = (0.3333331346511841, -0.25000008940696716, 0.20002073049545288, -0.1666799634695053,
        0.14220327138900757, -0.12406031787395477, 0.1188356801867485, -0.1167144924402237,
        0.06750956177711487)  # fmt: skip
_LOG_LN_2 = 0.693145751953125  # 15 trailing zero bits, so that a product with an exponent is exact
_LOG_LN_2_REST = 1.428606765330187e-6
_ROOT_BITS = 0x3F3504F3  # of sqrt(1/2)


def log(e: Arithmetic[V], x: V) -> V:
    """The natural logarithm: -inf of zeros, NaN of negative numbers; at most 0.8 ulp off."""
    return _limits(e, x, log_of_positive(e, x))


def log_of_positive(e: Arithmetic[V], x: V) -> V:
    """The natural logarithm of a positive number."""
    return _log_of_parts(e, *parts_of_number(e, x))


def log2(e: Arithmetic[V], x: V) -> V:
    """The logarithm to base 2, likewise; at most 1.03 ulp off, exact for powers of two."""
    n, f = parts_of_number(e, x)
    tail = e.fma(e.mul(f, f), e.constant(-0.5), _cubic_tail(e, f))
    rest = e.fma(tail, e.constant(LOG2_E), e.mul(f, e.constant(LOG2_E_REST)))
    return _limits(e, x, e.add(n, e.fma(f, e.constant(LOG2_E), rest)))


def log1p(e: Arithmetic[V], x: V) -> V:
    """The natural logarithm of 1 + x: -inf of -1, NaN below; at most 1.4 ulp off, signed zeros kept."""
    result = _log_of_one_and(e, x)
    result = e.select(e.less(x, e.constant(INFINITY)), result, x)
    result = e.select(e.less(x, e.constant(-1.0)), e.constant(NAN), result)
    result = e.select(e.equal(x, e.constant(-1.0)), e.constant(-INFINITY), result)
    return e.select(e.equal(x, e.constant(0.0)), x, result)


def softplus(e: Arithmetic[V], x: V) -> V:
    """log(1 + e^x), as max(x, 0) + log1p(e^-|x|); at most 1.86 ulp off."""
    power = exp_by(e, e.negate(e.absolute(x)), EXP2_FINE)
    larger = e.select(e.less(x, e.constant(0.0)), e.constant(0.0), x)  # NaN stays
    return e.add(larger, _log_of_one_and(e, power))


def parts_of_number(e: Arithmetic[V], x: V) -> tuple[V, V]:
    """n and f of x = (1 + f) * 2^n with 1 + f from sqrt(1/2) to sqrt(2), for positive numbers."""
    subnormal = e.less(x, e.constant(2.0**-126))
    scaled = e.select(subnormal, e.mul(x, e.constant(2.0**23)), x)
    bias = e.select(subnormal, e.constant(-23.0), e.constant(0.0))
    distance = e.bits_sub(e.as_bits(scaled), e.bits_constant(_ROOT_BITS))
    n = e.add(e.bits_to_float(e.shift_right(distance, 23)), bias)
    mantissa = e.bits_add(e.bits_and(distance, e.bits_constant(0x7FFFFF)), e.bits_constant(_ROOT_BITS))
    return n, e.sub(e.from_bits(mantissa), e.constant(1.0))


def _log_of_one_and(e: Arithmetic[V], x: V) -> V:
    """log(1 + x) for numbers above -1."""
    distance = e.bits_sub(e.as_bits(e.add(x, e.constant(1.0))), e.bits_constant(_ROOT_BITS))
    whole = e.shift_right(distance, 23)
    # f = x * 2^-n + (2^-n - 1): of the two, the first is exact, and the second where it is not nearly -1.
    scaled = e.from_bits(e.bits_sub(e.as_bits(x), e.shift_left(whole, 23)))
    four = e.from_bits(e.shift_left(e.bits_sub(e.bits_constant(129), whole), 23))
    f = e.add(e.fma(four, e.constant(0.25), e.constant(-1.0)), scaled)
    return _log_of_parts(e, e.bits_to_float(whole), f)


def _log_of_parts(e: Arithmetic[V], n: V, f: V) -> V:
    """n * log(2) + log(1 + f)."""
    tail = e.fma(n, e.constant(_LOG_LN_2_REST), _cubic_tail(e, f))
    tail = e.fma(e.mul(f, f), e.constant(-0.5), tail)
    return e.fma(n, e.constant(_LOG_LN_2), e.add(f, tail))


def _cubic_tail(e: Arithmetic[V], f: V) -> V:
    """log(1 + f) - f + f^2 / 2."""
    return e.mul(e.mul(polynomial(e, f, _LOG), f), e.mul(f, f))


def _limits(e: Arithmetic[V], x: V, result: V) -> V:
    """A logarithm of x where ``result`` holds for positive numbers."""
    # Infinity and NaN are their own logarithms.
    result = e.select(e.less(x, e.constant(INFINITY)), result, x)
    result = e.select(e.less(x, e.constant(0.0)), e.constant(NAN), result)
    return e.select(e.equal(x, e.constant(0.0)), e.constant(-INFINITY), result)
