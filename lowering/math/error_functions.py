"""The error function and what rises like it: erf, gelu, gelu_erf."""

from __future__ import annotations

from gizml_tile.lowering.math.arithmetic import (
    ROUNDING,
    Arithmetic,
    V,
    polynomial,
    rounded,
    split_exponent,
    with_sign,
)
from gizml_tile.lowering.math.exponentials import EXP2, EXP_FINE, over_one_and_power, power_of_two

# Phi(-t) * e^(t^2 / 2) * t in w = 1 / (t + 2), for t from 1 to 15; and (Phi(x) - 1/2) / x in x^2.
_TAIL = (0.3989538252353668, -0.000799202942289412, -0.37531667947769165, -1.9867054224014282,
         0.3840138912200928, -28.62851905822754, 108.8058853149414, -153.9853057861328,
         81.37008666992188)  # fmt: skip
_CENTRE = (0.3989422917366028, -0.066490538418293, 0.009974162094295025, -0.0011880149831995368,
           0.00011501074914122, -8.16549527371535e-06)  # fmt: skip
# gelu's exponent is -(1 + rho) * (linear * x + cubic * x^3): (1 + rho) * linear is 2 * sqrt(2 / pi) * log2(e)
# and (1 + rho) * cubic that times 0.044715, to 2^-32; linear has 22 bits; the rest is rho / (1 + rho).
_GELU_LINEAR = 2.302125930786133
_GELU_CUBIC = 0.10293956100940704
_GELU_REST = 3.573410867829807e-05
# (2^((1 + rho) r) - 1) / r on [-0.506, 0.506], to a hundredth of 2^-24.
GELU_EXP2 = (0.6931719779968262, 0.24024367332458496, 0.05550922453403473, 0.00961960107088089,
              0.0013402706244960427, 0.00015402509598061442)  # fmt: skip
# (erf(x) - x) / x in x^2, for x from 0 to 1; log2(1 - erf(x)) in x, for x from 1 to 3.95, weighted for erf.
_ERF_CENTRE = (0.12837916612625122, -0.3761262595653534, 0.11283580958843231, -0.026853546500205994,
               0.005187740549445152, -0.0008004633709788322, 7.834705320419744e-05)  # fmt: skip
_ERF_TAIL = (-0.0005013213376514614, -1.6260099411010742, -0.9207102656364441, -0.1486959010362625,
             0.03147796541452408, -0.004245366435497999, 0.0002681238984223455)  # fmt: skip


def erf(e: Arithmetic[V], x: V) -> V:
    """The error function; at most 1.35 ulp off, signed zeros kept.

    Near zero x + x * P(x^2), elsewhere 1 - 2^Q(|x|), which is 1 from 3.95 on.
    """
    size = e.absolute(x)
    centre = e.fma(x, polynomial(e, e.mul(x, x), _ERF_CENTRE), x)
    exponent = polynomial(e, e.at_most(size, 3.95), _ERF_TAIL)
    whole, bits = rounded(e, e.add(exponent, e.constant(ROUNDING)))
    power = power_of_two(e, e.sub(exponent, whole), EXP2)
    tail = e.from_bits(e.bits_add(e.as_bits(power), e.shift_left(bits, 23)))
    outer = with_sign(e, e.sub(e.constant(1.0), tail), x)
    return e.select(e.greater(size, e.constant(1.0)), outer, centre)


def gelu(e: Arithmetic[V], x: V) -> V:
    """x / (1 + e^-2u), u = sqrt(2/pi) * (x + 0.044715 x^3); at most 2.8 ulp off, -0 for -infinity.

    The exponent is x times the sum of two floats, because an error of it is an error of the exponential
    that the result of a negative x follows; the power of two is applied last, so that it rounds once.
    """
    bounded = e.clamp(x, -11.0, 11.0)  # beyond, it is x or 0
    factor = gelu_factor(e, bounded, 1.0)
    shifted = e.fma(bounded, factor[0], e.constant(ROUNDING))
    whole, bits = rounded(e, shifted)
    power = power_of_two(e, gelu_rest(e, bounded, factor, whole), GELU_EXP2)
    kept = e.select(e.less(x, e.constant(-11.0)), e.constant(-11.0), x)
    return over_one_and_power(e, kept, power, whole, bits)


def gelu_factor(e: Arithmetic[V], x: V, unit: float) -> tuple[V, V]:
    """-(linear + cubic x^2) * unit, as a float and what it lacks."""
    square = e.mul(x, x)
    square_rest = e.fma(x, x, e.negate(square))
    linear, cubic = e.constant(-_GELU_LINEAR * unit), e.constant(-_GELU_CUBIC * unit)
    factor = e.fma(cubic, square, linear)
    # The difference is exact: linear has two bits to spare, which is enough up to 4 * linear.
    lacking = e.fma(cubic, square, e.sub(linear, factor))
    return factor, e.fma(cubic, square_rest, lacking)


def gelu_rest(e: Arithmetic[V], x: V, factor: tuple[V, V], whole: V) -> V:
    """x * factor - whole, and what the powers of rho take more than that."""
    rest = e.fma(x, factor[0], e.negate(whole))
    rest = e.fma(x, factor[1], rest)
    return e.fma(whole, e.constant(_GELU_REST), rest)


def gelu_erf(e: Arithmetic[V], x: V) -> V:
    """x * Phi(x) with the normal distribution function Phi; at most 3.3 ulp off, -0 for -infinity.

    Near zero x/2 + x^2 * R(x^2); elsewhere max(x, 0) minus the tail |x| * Phi(-|x|), a polynomial in
    1 / (|x| + 2) times e^(-x^2 / 2) with x^2 carried as a sum of two floats.
    """
    size = e.absolute(x)
    square = e.mul(size, size)
    square_rest = e.fma(size, size, e.negate(square))
    centre = e.fma(square, polynomial(e, square, _CENTRE), e.mul(x, e.constant(0.5)))
    inverse = e.div(e.constant(1.0), e.add(size, e.constant(2.0)))
    tail = polynomial(e, inverse, _TAIL)
    split = split_exponent(e, e.mul(square, e.constant(-0.5)))
    rest = e.fma(square_rest, e.constant(-0.5), split.rest)
    grown = e.fma(e.mul(rest, rest), polynomial(e, rest, EXP_FINE), rest)
    tail = e.scale(e.fma(tail, grown, tail), split.whole, split.whole_bits)
    below = e.less(x, e.constant(0.0))
    outer = e.sub(e.select(below, e.constant(0.0), x), tail)
    result = e.select(e.less(size, e.constant(1.0)), centre, outer)
    return _gated(e, x, e.less(size, e.constant(15.0)), below, e.absolute(result))


def _gated(e: Arithmetic[V], x: V, inside: V, below: V, size: V) -> V:
    """What a gelu is: ``size`` with the sign of x inside, else x itself or a zero of its sign."""
    outside = e.select(below, e.constant(0.0), x)
    return with_sign(e, e.select(inside, size, outside), x)
