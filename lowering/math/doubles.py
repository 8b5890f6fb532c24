"""Functions of F64, over the same operations on F64 values and their bits as integers of 64 bits.

Shift counts are from 0 to 63, and of `Arithmetic` only what is exact in F64 as well is used: no ``scale``,
``reciprocal`` or conversions. Coefficients are fits as those of F32 are (see `gizml_tile.lowering.math`), in
50-digit arithmetic and rounded to F64: each to a thirtieth of 2^-53 or better. The errors in ulp are the
largest over some ten million random arguments of all sizes, held against x87's 64-bit significands.
"""

from __future__ import annotations

from gizml_tile.lowering.math.arithmetic import Arithmetic, Split, V, polynomial

# 1.5 * 2^52: adding it leaves the nearest integer in the low bits of the sum.
_ROUNDING = 6755399441055744.0
_ROUNDING_BITS = 0x4338000000000000
_BIAS, _FRACTION = 1023, 52
_SIGN = -(1 << 63)
_LN_2, _LN_2_REST = 0.6931471805599453, 2.3190468138462996e-17
# ln(2) in 40 bits, of which multiples by exponents are exact, and the rest.
_LN_2_SHORT, _LN_2_SHORT_REST = 0.6931471805592082, 7.371002565167799e-13
_LOG2_E, _LOG2_E_REST = 1.4426950408889634, 2.0355273740931033e-17
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_LEAST_NORMAL = 2.0**-1022
_NAN, _INFINITY = float("nan"), float("inf")

# (e^r - 1 - r) / r^2 on [-ln(2)/2, ln(2)/2], weighted for e^r and for e^r - 1.
_EXP = (0.5000000000000011, 0.16666666666666424, 0.04166666666652663, 0.008333333333486799,
        0.0013888888944493132, 0.00019841269523598786, 2.4801492243184014e-05, 2.7557570727195008e-06,
        2.763054529643586e-07, 2.5005167387847666e-08)  # fmt: skip
_EXPM1 = (0.5, 0.16666666666666677, 0.04166666666666664, 0.008333333333321506, 0.0013888888888910268,
          0.00019841269886356925, 2.4801587261421565e-05, 2.7557244011416494e-06, 2.7557334705755794e-07,
          2.5109102067897317e-08, 2.089456186063454e-09)  # fmt: skip
# (2^r - 1) / r on [-1/2, 1/2].
_EXP2 = (0.6931471805599453, 0.2402265069591011, 0.05550410866482173, 0.009618129107600626,
         0.001333355814654261, 0.00015403530450164903, 1.5252733639125172e-05, 1.3215438309253925e-06,
         1.0178157380935794e-07, 7.073319059281363e-09, 4.439326790042169e-10)  # fmt: skip
# (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, for s up to (sqrt(2) - 1) / (sqrt(2) + 1).
_LOG = (0.6666666666666735, 0.39999999999408803, 0.2857142874389357, 0.22222198400896684,
        0.18183574112432327, 0.15313780525695883, 0.14798835515493203)  # fmt: skip


def exp(e: Arithmetic[V], x: V) -> V:
    """e^x; at most 0.99 ulp from the true value."""
    split = _split(e, _within(e, x, -760.0, 710.0))
    square = e.mul(split.rest, split.rest)
    power = e.add(e.constant(1.0), e.fma(square, polynomial(e, split.rest, _EXP), split.rest))
    return _scaled(e, power, split.whole_bits)


def exp2(e: Arithmetic[V], x: V) -> V:
    """2^x; at most 0.81 ulp off, exact where x is an integer."""
    x = _within(e, x, -1080.0, 1025.0)
    shifted = e.add(x, e.constant(_ROUNDING))
    rest = e.sub(x, e.sub(shifted, e.constant(_ROUNDING)))
    return _scaled(e, polynomial(e, rest, (1.0, *_EXP2)), _whole_bits(e, shifted))


def expm1(e: Arithmetic[V], x: V) -> V:
    """e^x - 1; at most 1.9 ulp off, signed zeros kept."""
    split = _split(e, _within(e, x, -50.0, 710.0))  # beyond, it is -1 or infinite
    square = e.mul(split.rest, split.rest)
    rest = e.fma(square, polynomial(e, split.rest, _EXPM1), split.rest)
    # Half of the power of two, which may be 2^1024.
    half = _power_of_two(e, e.bits_sub(split.whole_bits, e.bits_constant(1)))
    result = e.fma(rest, half, e.sub(half, e.constant(0.5)))
    small = e.less(e.absolute(x), e.constant(2.0**-54))
    return e.select(small, x, e.add(result, result))


def softplus(e: Arithmetic[V], x: V) -> V:
    """log(1 + e^x), the larger of x and 0 with log(1 + e^-abs(x)) added; at most 1.7 ulp off."""
    power = exp(e, e.negate(e.absolute(x)))
    positive = e.select(e.less(x, e.constant(0.0)), e.constant(0.0), x)
    return e.add(positive, log1p(e, power))


def sigmoid(e: Arithmetic[V], x: V) -> V:
    """1 / (1 + e^-x), which for a negative x is e^x / (1 + e^x); at most 2.35 ulp off."""
    power = exp(e, e.negate(e.absolute(x)))
    above = e.select(e.less(x, e.constant(0.0)), power, e.constant(1.0))
    return e.div(above, e.add(e.constant(1.0), power))


def tanh(e: Arithmetic[V], x: V) -> V:
    """The hyperbolic tangent, from (e^2x - 1) / (e^2x + 1); at most 2.6 ulp off, signed zeros kept."""
    size = e.absolute(x)
    size = e.select(e.greater(size, e.constant(20.0)), e.constant(20.0), size)
    split = _split(e, e.add(size, size))
    square = e.mul(split.rest, split.rest)
    rest = e.fma(square, polynomial(e, split.rest, _EXPM1), split.rest)
    power = _power_of_two(e, split.whole_bits)
    grown = e.fma(rest, power, e.sub(power, e.constant(1.0)))
    sign = e.bits_and(e.as_bits(x), e.bits_constant(_SIGN))
    result = e.div(grown, e.add(grown, e.constant(2.0)))
    return e.from_bits(e.bits_or(e.as_bits(result), sign))


def log(e: Arithmetic[V], x: V) -> V:
    """The natural logarithm; at most 0.79 ulp off."""
    whole, f, half, series = _logarithm(e, x)
    low = e.fma(whole, e.constant(_LN_2_SHORT_REST), series)
    near = e.sub(f, e.sub(half, low))
    return _of_positive(e, x, e.fma(whole, e.constant(_LN_2_SHORT), near))


def log1p(e: Arithmetic[V], x: V) -> V:
    """The natural logarithm of 1 + x; at most 0.8 ulp off, signed zeros kept."""
    sum = e.add(x, e.constant(1.0))
    whole, above, _, _ = _logarithm(e, sum)
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
    whole, f, half, series = _logarithm(e, x)
    near = e.sub(f, e.sub(half, series))
    sum = e.fma(near, e.constant(_LOG2_E), e.fma(near, e.constant(_LOG2_E_REST), whole))
    return _of_positive(e, x, sum)


def _within(e: Arithmetic[V], x: V, low: float, high: float) -> V:
    """x within bounds; NaN stays."""
    x = e.select(e.greater(x, e.constant(high)), e.constant(high), x)
    return e.select(e.less(x, e.constant(low)), e.constant(low), x)


def _whole_bits(e: Arithmetic[V], shifted: V) -> V:
    """The integer in the last bits of a rounding sum."""
    return e.bits_sub(e.as_bits(shifted), e.bits_constant(_ROUNDING_BITS))


def _split(e: Arithmetic[V], x: V) -> Split[V]:
    """x = whole * ln(2) + rest, for \\|x\\| below 2^11."""
    shifted = e.fma(x, e.constant(_LOG2_E), e.constant(_ROUNDING))
    whole = e.sub(shifted, e.constant(_ROUNDING))
    rest = e.fma(whole, e.constant(-_LN_2), x)
    rest = e.fma(whole, e.constant(-_LN_2_REST), rest)
    return Split(whole, _whole_bits(e, shifted), rest)


def _power_of_two(e: Arithmetic[V], exponent_bits: V) -> V:
    """2^exponent, a normal number."""
    return e.from_bits(e.shift_left(e.bits_add(exponent_bits, e.bits_constant(_BIAS)), _FRACTION))


def _scaled(e: Arithmetic[V], a: V, exponent_bits: V) -> V:
    """``a * 2^exponent`` as two products, of which only the second can round."""
    half = e.shift_right(exponent_bits, 1)
    rest = e.bits_sub(exponent_bits, half)
    return e.mul(e.mul(a, _power_of_two(e, half)), _power_of_two(e, rest))


def _logarithm(e: Arithmetic[V], x: V) -> tuple[V, V, V, V]:
    """An exponent k, f, f^2 / 2 and s * (f^2 / 2 + r), of which log(x) = k ln(2) + f - (f^2 / 2 - the last).

    With x = 2^k (1 + f), 1 + f from sqrt(1/2) to sqrt(2), s = f / (2 + f) and r the series of
    log((1 + s) / (1 - s)) = 2 s + s r, in which f - f^2 / 2 + s f^2 / 2 = 2 s (fdlibm, "e_log.c").
    """
    small = e.less(x, e.constant(_LEAST_NORMAL))
    bits = e.as_bits(e.select(small, e.mul(x, e.constant(2.0**54)), x))
    # The bits of 1 + f are those of x less k in the place of the exponent.
    above = e.bits_sub(bits, e.bits_constant(_SQRT_HALF_BITS))
    exponent = e.shift_right(above, _FRACTION)
    f = e.sub(e.from_bits(e.bits_sub(bits, e.shift_left(exponent, _FRACTION))), e.constant(1.0))
    moved = e.bits_select(small, e.bits_sub(exponent, e.bits_constant(54)), exponent)
    # A small integer as a float: the last bits of a rounding sum.
    whole = e.sub(e.from_bits(e.bits_add(moved, e.bits_constant(_ROUNDING_BITS))), e.constant(_ROUNDING))
    return whole, f, *_series(e, f)


def _series(e: Arithmetic[V], f: V) -> tuple[V, V]:
    """f^2 / 2 and s * (f^2 / 2 + r)."""
    s = e.div(f, e.add(f, e.constant(2.0)))
    square = e.mul(s, s)
    r = e.mul(square, polynomial(e, square, _LOG))
    half = e.mul(e.mul(f, e.constant(0.5)), f)
    return half, e.mul(s, e.add(half, r))


def _of_positive(e: Arithmetic[V], x: V, result: V) -> V:
    """A logarithm, or what it is of zeros, negative numbers, infinity and NaN."""
    result = e.select(e.less(x, e.constant(_INFINITY)), result, e.add(x, x))
    result = e.select(e.less(x, e.constant(0.0)), e.constant(_NAN), result)
    return e.select(e.equal(x, e.constant(0.0)), e.constant(-_INFINITY), result)
