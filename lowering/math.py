"""exp, exp2, log, tanh, sigmoid, gelu and gelu_erf, written once from IEEE operations.

Every device implements :class:`Arithmetic` with its own instructions and runs the same functions over
it, so every device gives the same bits: nothing is reassociated, and a product and a sum are fused
where ``fma`` is written and nowhere else.

The polynomials are our own fits: Lawson-weighted least squares on Chebyshev nodes in 40-digit
arithmetic, the coefficients rounded to F32 one at a time from low order, the rest refitted after each.
The weight of a fit is the derivative of the function's relative error by the polynomial's value, or of
its error in ulp where that is said. For ``exp2`` that is (2^r - 1) / r on [-0.5003, 0.5003] with weight
2^24 r below 0 and 2^23 r above: 1.06 ulp off in five steps, 0.04 in six.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

V = TypeVar("V")


class Arithmetic(Protocol[V]):
    """IEEE operations on F32 values, their bits as 32-bit integers, and masks.

    Floats round to nearest even and keep subnormals; integers wrap; a comparison with NaN is false.
    Shift counts are constants from 0 to 31.
    """

    def constant(self, value: float) -> V: ...
    def add(self, a: V, b: V) -> V: ...
    def sub(self, a: V, b: V) -> V: ...
    def mul(self, a: V, b: V) -> V: ...
    def div(self, a: V, b: V) -> V: ...

    def reciprocal(self, a: V) -> V:
        """``1 / a``, rounded as the division, for numbers from 2^-110 to 2^110."""
        ...

    def sqrt(self, a: V) -> V: ...
    def negate(self, a: V) -> V: ...
    def absolute(self, a: V) -> V: ...

    def fma(self, a: V, b: V, c: V) -> V:
        """``a * b + c`` with one rounding."""
        ...

    def less(self, a: V, b: V) -> V: ...
    def greater(self, a: V, b: V) -> V: ...
    def equal(self, a: V, b: V) -> V: ...
    def select(self, mask: V, yes: V, no: V) -> V: ...

    def bits_constant(self, value: int) -> V: ...
    def as_bits(self, a: V) -> V: ...
    def from_bits(self, bits: V) -> V: ...
    def bits_add(self, a: V, b: V) -> V: ...
    def bits_sub(self, a: V, b: V) -> V: ...
    def bits_and(self, a: V, b: V) -> V: ...
    def bits_or(self, a: V, b: V) -> V: ...
    def shift_left(self, a: V, count: int) -> V: ...

    def shift_right(self, a: V, count: int) -> V:
        """Shifts copies of the sign in."""
        ...

    def shift_right_logical(self, a: V, count: int) -> V:
        """Shifts zeros in."""
        ...

    def bits_less(self, a: V, b: V) -> V:
        """Compares as signed integers."""
        ...

    def bits_select(self, mask: V, yes: V, no: V) -> V: ...

    def bits_to_float(self, bits: V) -> V:
        """The signed integer as a float, rounded to nearest even."""
        ...

    def float_to_bits(self, a: V) -> V:
        """The float truncated toward zero; ``a`` must be a number above -2^31 - 1 and below 2^31."""
        ...

    def at_most(self, a: V, high: float) -> V:
        """``a`` or ``high``, which is not 0, whichever is smaller; of NaN either."""
        ...

    def clamp(self, a: V, low: float, high: float) -> V:
        """``a`` within bounds that are not 0; NaN stays. The bits are those of :func:`clamp_by_select`."""
        ...

    def scale(self, a: V, exponent: V, exponent_bits: V) -> V:
        """``a * 2^exponent`` with one rounding, for -252 <= exponent <= 254.

        The exponent comes as an integral float and as an integer. The result must have the bits of
        :func:`scale_in_two_steps` where \\|a\\| is 0 or from 2^-40 to 2^40, where the exponent is 0, and
        where one of them is NaN.
        """
        ...


@dataclass(frozen=True, slots=True)
class Split(Generic[V]):
    """An exponent's integral part, as a float and as an integer, and what remains in [-0.5, 0.5]."""

    whole: V
    whole_bits: V
    rest: V


# 1.5 * 2^23: adding it leaves the nearest integer in the low bits of the sum.
_ROUNDING = 12582912.0
_ROUNDING_BITS = 0x4B400000
_SIGN = -0x80000000
_ABOVE_ONE = 1.0 + 2.0**-23
_LOG2_E = 1.4426950216293335
_LOG2_E_REST = 1.925963033500011e-08
_LN_2 = 0.6931471824645996
_LN_2_REST = -1.9046542121259336e-9

# (e^r - 1 - r) / r^2 on [-ln(2)/2, ln(2)/2], to a hundredth of 2^-24.
_EXP_FINE = (0.5, 0.1666666567325592, 0.041666463017463684, 0.008333571255207062,
             0.0013935096794739366, 0.00019739560957532376)  # fmt: skip
# The same function, weighted for e^r - 1.
_EXPM1 = (0.5, 0.1666666567325592, 0.04166649281978607, 0.008333543315529823,
          0.001393234240822494, 0.00019764245371334255)  # fmt: skip
# (2^r - 1) / r on [-0.5, 0.5], to 1.06 ulp and to a hundredth of 2^-24.
_EXP2 = (0.693146824836731, 0.24022236466407776, 0.05550896003842354, 0.00967180822044611,
         0.0013224695576354861)  # fmt: skip
_EXP2_FINE = (0.6931471824645996, 0.24022646248340607, 0.05550359562039375, 0.009618652984499931,
              0.0013390998356044292, 0.00015291715681087226)  # fmt: skip
# (log(1 + f) - f + f^2 / 2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1].
_LOG = (0.3333331346511841, -0.25000008940696716, 0.20002073049545288, -0.1666799634695053,
        0.14220327138900757, -0.12406031787395477, 0.1188356801867485, -0.1167144924402237,
        0.06750956177711487)  # fmt: skip
_LOG_LN_2 = 0.693145751953125  # 15 trailing zero bits, so that a product with an exponent is exact
_LOG_LN_2_REST = 1.428606765330187e-6
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
_GELU_EXP2 = (0.6931719779968262, 0.24024367332458496, 0.05550922453403473, 0.00961960107088089,
              0.0013402706244960427, 0.00015402509598061442)  # fmt: skip


def exp(e: Arithmetic[V], x: V) -> V:
    """e^x; at most 2.01 ulp from the true value."""
    x = e.clamp(x, -160.0, 89.0)  # so far below 0 that ``scale`` need not round
    whole, whole_bits = _rounded(e, e.fma(x, e.constant(_LOG2_E), e.constant(_ROUNDING)))
    return e.scale(_power(e, _exponent_rest(e, x, whole), _EXP2), whole, whole_bits)


def exp2(e: Arithmetic[V], x: V) -> V:
    """2^x; at most 1.8 ulp off, exact where x is an integer."""
    x = e.clamp(x, -200.0, 129.0)
    whole, whole_bits = _rounded(e, e.fma(x, e.constant(_ABOVE_ONE), e.constant(_ROUNDING)))
    return e.scale(_power(e, e.sub(x, whole), _EXP2), whole, whole_bits)


# Where an exponent rounds to one of 128 integers, from -96 for exp, its power of two and all that leads
# there are normal numbers. In steps of 2^-22 upon 2 + 96 * 2^-22 the rounding sum's bits are then INSIDE_BITS
# but for the last 7. What is added is never just the opposite, so of other numbers some bit is set that
# INSIDE_BITS has not: bits of many sums joined by ``or`` tell whether all are inside.
_LEAST, _SIGMOID_LEAST, _GELU_LEAST = -96, -64, -26
_GRID = 2.0**-22
INSIDE_BITS, INSIDE_MASK = 0x40000000, -128
INSIDE_LOW, INSIDE_HIGH = 2.0**-97, 2.0**32


def _inside_rounding(least: int) -> float:
    return 2.0 - least * _GRID


def exp_exponent(e: Arithmetic[V], x: V) -> V:
    """The rounding sum that ``exp_inside`` starts with."""
    return e.fma(x, e.constant(_LOG2_E * _GRID), e.constant(_inside_rounding(_LEAST)))


def exp_inside(e: Arithmetic[V], x: V, exponent: V) -> V:
    """:func:`exp` of x bit for bit, from INSIDE_LOW to INSIDE_HIGH: its exponent is a sum of two."""
    whole = e.sub(exponent, e.constant(_inside_rounding(_LEAST)))
    return _with_exponent(e, _exponent_rest(e, x, whole, _GRID), exponent, _EXP2, _LEAST)


def exp2_exponent(e: Arithmetic[V], x: V) -> V:
    """The rounding sum that ``exp2_inside`` starts with."""
    return e.fma(x, e.constant(_ABOVE_ONE * _GRID), e.constant(_inside_rounding(_LEAST)))


def exp2_inside(e: Arithmetic[V], x: V, exponent: V) -> V:
    """:func:`exp2` of x, bit for bit, likewise."""
    whole = e.sub(exponent, e.constant(_inside_rounding(_LEAST)))
    return _with_exponent(e, e.fma(x, e.constant(_GRID), e.negate(whole)), exponent, _EXP2, _LEAST)


def _with_exponent(e: Arithmetic[V], rest: V, exponent: V, coefficients: Sequence[float], least: int) -> V:
    """2^(rest / _GRID) times the power of two whose exponent, less ``least``, is in the sum's last 9 bits."""
    scaled = [
        coefficient * 2.0**least / _GRID**number for number, coefficient in enumerate([1.0, *coefficients])
    ]
    power = _polynomial(e, rest, scaled)
    return e.from_bits(e.bits_add(e.as_bits(power), e.shift_left(e.as_bits(exponent), 23)))


def _rounded(e: Arithmetic[V], shifted: V) -> tuple[V, V]:
    """The integer in the last bits of a rounding sum, as a float and as an integer."""
    whole = e.sub(shifted, e.constant(_ROUNDING))
    return whole, e.bits_sub(e.as_bits(shifted), e.bits_constant(_ROUNDING_BITS))


def _exponent_rest(e: Arithmetic[V], x: V, whole: V, unit: float = 1.0) -> V:
    """x * log2(e) * unit - whole, where that is small; unit is a power of two."""
    rest = e.fma(x, e.constant(_LOG2_E * unit), e.negate(whole))
    return e.fma(x, e.constant(_LOG2_E_REST * unit), rest)


def _power(e: Arithmetic[V], rest: V, coefficients: Sequence[float]) -> V:
    """2^rest, from -0.5 to 0.5."""
    return _polynomial(e, rest, [1.0, *coefficients])


def log(e: Arithmetic[V], x: V) -> V:
    """The natural logarithm: -inf of zeros, NaN of negative numbers; at most 0.8 ulp off."""
    subnormal = e.less(x, e.constant(2.0**-126))
    scaled = e.select(subnormal, e.mul(x, e.constant(2.0**23)), x)
    bias = e.select(subnormal, e.constant(-23.0), e.constant(0.0))
    # x = m * 2^n with m from sqrt(1/2) to sqrt(2), whose bits begin at 0x3f3504f3.
    first = e.bits_constant(0x3F3504F3)
    distance = e.bits_sub(e.as_bits(scaled), first)
    n = e.add(e.bits_to_float(e.shift_right(distance, 23)), bias)
    mantissa = e.bits_add(e.bits_and(distance, e.bits_constant(0x7FFFFF)), first)
    f = e.sub(e.from_bits(mantissa), e.constant(1.0))
    square = e.mul(f, f)
    tail = e.mul(e.mul(_polynomial(e, f, _LOG), f), square)
    tail = e.fma(n, e.constant(_LOG_LN_2_REST), tail)
    tail = e.fma(square, e.constant(-0.5), tail)
    result = e.fma(n, e.constant(_LOG_LN_2), e.add(f, tail))
    # Infinity and NaN are their own logarithms.
    result = e.select(e.less(x, e.constant(float("inf"))), result, x)
    result = e.select(e.less(x, e.constant(0.0)), e.constant(float("nan")), result)
    return e.select(e.equal(x, e.constant(0.0)), e.constant(float("-inf")), result)


def tanh(e: Arithmetic[V], x: V) -> V:
    """The hyperbolic tangent, from (e^2x - 1) / (e^2x + 1); at most 2.5 ulp off, signed zeros kept."""
    size = e.absolute(x)
    size = e.select(e.greater(size, e.constant(9.5)), e.constant(9.5), size)
    split = _split(e, e.add(size, size))
    square = e.mul(split.rest, split.rest)
    rest = e.fma(square, _polynomial(e, split.rest, _EXPM1), split.rest)
    power = e.from_bits(e.shift_left(e.bits_add(split.whole_bits, e.bits_constant(127)), 23))
    grown = e.fma(rest, power, e.sub(power, e.constant(1.0)))
    return _with_sign(e, e.div(grown, e.add(grown, e.constant(2.0))), x)


def sigmoid(e: Arithmetic[V], x: V) -> V:
    """1 / (1 + e^-x); at most 2.5 ulp off."""
    bounded = e.negate(e.clamp(x, -120.0, 120.0))  # beyond, it is 0 or 1
    whole, bits = _rounded(e, e.fma(bounded, e.constant(_LOG2_E), e.constant(_ROUNDING)))
    power = _power(e, _exponent_rest(e, bounded, whole), _EXP2_FINE)
    return _over_one_and_power(e, e.constant(1.0), power, whole, bits)


def sigmoid_exponent(e: Arithmetic[V], x: V) -> V:
    """The rounding sum that ``sigmoid_inside`` starts with."""
    return e.fma(x, e.constant(-_LOG2_E * _GRID), e.constant(_inside_rounding(_SIGMOID_LEAST)))


def sigmoid_inside(e: Arithmetic[V], x: V, exponent: V) -> V:
    """:func:`sigmoid` of x bit for bit, where the exponent is inside."""
    whole = e.sub(exponent, e.constant(_inside_rounding(_SIGMOID_LEAST)))
    rest = _exponent_rest(e, e.negate(x), whole, _GRID)
    power = _with_exponent(e, rest, exponent, _EXP2_FINE, _SIGMOID_LEAST)
    return e.reciprocal(e.add(power, e.constant(1.0)))


def _over_one_and_power(e: Arithmetic[V], a: V, power: V, whole: V, bits: V) -> V:
    """a / (1 + 2^whole * power), where the powers of two keep all near 1 until the last of them rounds."""
    above, zero, none = e.greater(whole, e.constant(0.0)), e.constant(0.0), e.bits_constant(0)
    down = e.select(above, e.negate(whole), zero), e.bits_select(above, e.bits_sub(none, bits), none)
    up = e.select(above, zero, whole), e.bits_select(above, none, bits)
    sum = e.add(e.scale(e.constant(1.0), *down), e.scale(power, *up))
    return e.scale(e.mul(a, e.reciprocal(sum)), *down)


def gelu(e: Arithmetic[V], x: V) -> V:
    """x / (1 + e^-2u), u = sqrt(2/pi) * (x + 0.044715 x^3); at most 2.8 ulp off, -0 for -infinity.

    The exponent is x times the sum of two floats, because an error of it is an error of the exponential
    that the result of a negative x follows; the power of two is applied last, so that it rounds once.
    """
    bounded = e.clamp(x, -11.0, 11.0)  # beyond, it is x or 0
    factor = _gelu_factor(e, bounded, 1.0)
    shifted = e.fma(bounded, factor[0], e.constant(_ROUNDING))
    whole, bits = _rounded(e, shifted)
    power = _power(e, _gelu_rest(e, bounded, factor, whole), _GELU_EXP2)
    kept = e.select(e.less(x, e.constant(-11.0)), e.constant(-11.0), x)
    return _over_one_and_power(e, kept, power, whole, bits)


# From here on gelu is x: 1 + e^-2u is rounded to 1.
_GELU_SAME = 5.0


def gelu_exponent(e: Arithmetic[V], x: V) -> V:
    """The rounding sum that ``gelu_inside`` starts with."""
    x = e.at_most(x, _GELU_SAME)
    return e.fma(x, _gelu_factor(e, x, _GRID)[0], e.constant(_inside_rounding(_GELU_LEAST)))


def gelu_inside(e: Arithmetic[V], x: V, exponent: V) -> V:
    """:func:`gelu` of x bit for bit, where the exponent is inside."""
    whole, near = e.sub(exponent, e.constant(_inside_rounding(_GELU_LEAST))), e.at_most(x, _GELU_SAME)
    rest = _gelu_rest(e, near, _gelu_factor(e, near, _GRID), whole)
    power = _with_exponent(e, rest, exponent, _GELU_EXP2, _GELU_LEAST)
    return e.mul(x, e.reciprocal(e.add(power, e.constant(1.0))))


def _gelu_factor(e: Arithmetic[V], x: V, unit: float) -> tuple[V, V]:
    """-(linear + cubic x^2) * unit, as a float and what it lacks."""
    square = e.mul(x, x)
    square_rest = e.fma(x, x, e.negate(square))
    linear, cubic = e.constant(-_GELU_LINEAR * unit), e.constant(-_GELU_CUBIC * unit)
    factor = e.fma(cubic, square, linear)
    # The difference is exact: linear has two bits to spare, which is enough up to 4 * linear.
    lacking = e.fma(cubic, square, e.sub(linear, factor))
    return factor, e.fma(cubic, square_rest, lacking)


def _gelu_rest(e: Arithmetic[V], x: V, factor: tuple[V, V], whole: V) -> V:
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
    centre = e.fma(square, _polynomial(e, square, _CENTRE), e.mul(x, e.constant(0.5)))
    inverse = e.div(e.constant(1.0), e.add(size, e.constant(2.0)))
    tail = _polynomial(e, inverse, _TAIL)
    split = _split(e, e.mul(square, e.constant(-0.5)))
    rest = e.fma(square_rest, e.constant(-0.5), split.rest)
    grown = e.fma(e.mul(rest, rest), _polynomial(e, rest, _EXP_FINE), rest)
    tail = e.scale(e.fma(tail, grown, tail), split.whole, split.whole_bits)
    below = e.less(x, e.constant(0.0))
    outer = e.sub(e.select(below, e.constant(0.0), x), tail)
    result = e.select(e.less(size, e.constant(1.0)), centre, outer)
    return _gated(e, x, e.less(size, e.constant(15.0)), below, e.absolute(result))


def scale_in_two_steps(e: Arithmetic[V], a: V, exponent_bits: V) -> V:
    """``a * 2^exponent`` as two products, of which only the second can round."""
    half = e.shift_right(exponent_bits, 1)
    rest = e.bits_sub(exponent_bits, half)
    bias = e.bits_constant(127)
    first = e.from_bits(e.shift_left(e.bits_add(half, bias), 23))
    second = e.from_bits(e.shift_left(e.bits_add(rest, bias), 23))
    return e.mul(e.mul(a, first), second)


def _gated(e: Arithmetic[V], x: V, inside: V, below: V, size: V) -> V:
    """What a gelu is: ``size`` with the sign of x inside, else x itself or a zero of its sign."""
    outside = e.select(below, e.constant(0.0), x)
    return _with_sign(e, e.select(inside, size, outside), x)


def _split(e: Arithmetic[V], x: V) -> Split[V]:
    """x = whole * ln(2) + rest, for \\|x\\| below 2^20."""
    shifted = e.fma(x, e.constant(_LOG2_E), e.constant(_ROUNDING))
    whole = e.sub(shifted, e.constant(_ROUNDING))
    whole_bits = e.bits_sub(e.as_bits(shifted), e.bits_constant(_ROUNDING_BITS))
    rest = e.fma(whole, e.constant(-_LN_2), x)
    return Split(whole, whole_bits, e.fma(whole, e.constant(-_LN_2_REST), rest))


def _polynomial(e: Arithmetic[V], x: V, coefficients: Sequence[float]) -> V:
    """Horner's rule in fused steps; coefficients low order first."""
    result = e.constant(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = e.fma(result, x, e.constant(coefficient))
    return result


def clamp_by_select(e: Arithmetic[V], x: V, low: float, high: float) -> V:
    """x within bounds; NaN stays."""
    x = e.select(e.greater(x, e.constant(high)), e.constant(high), x)
    return e.select(e.less(x, e.constant(low)), e.constant(low), x)


def _with_sign(e: Arithmetic[V], size: V, signed: V) -> V:
    """``size``, whose sign is clear, with the sign of ``signed``."""
    sign = e.bits_and(e.as_bits(signed), e.bits_constant(_SIGN))
    return e.from_bits(e.bits_or(e.as_bits(size), sign))
