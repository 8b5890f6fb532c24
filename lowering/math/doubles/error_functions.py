"""The error function of F64 and what rises like it: erf, gelu, gelu_erf."""

from __future__ import annotations

from gizml_tile.lowering.math.arithmetic import DOUBLE, Arithmetic, V, polynomial, with_sign
from gizml_tile.lowering.math.doubles.common import (
    ROUNDING,
    scaled,
    split_exponent,
    whole_bits_of,
)
from gizml_tile.lowering.math.doubles.exponentials import EXP, EXP2, over_one_and_power, sizes

# (erf(x) - x) / x in x^2, for x from 0 to 1; log2(1 - erf(x)) in x, for x from 1 to 5.93, weighted for erf.
_ERF_CENTRE = (0.1283791670955126, -0.3761263890318396, 0.11283791670962692, -0.026866170646304473,
               0.005223977635200491, -0.0008548327512493539, 0.00012055348687225471, -1.4925982952034643e-05,
               1.6466765251890261e-06, -1.6407403952310936e-07, 1.5020754562388627e-08,
               -1.2691295119425047e-09, 8.073735362704154e-11)  # fmt: skip
_ERF_TAIL = (-2.6088104974254046e-07, -1.6279043596761618, -0.9184608457848092, -0.1482327135302675,
             0.02752348143493833, 0.00040537032946532536, -0.0025529333201797385, 0.0009257279270694118,
             -6.516241407324527e-05, -0.00010124048650598959, 6.485183453304275e-05, -2.378081877536592e-05,
             6.230329817740859e-06, -1.2244352493777078e-06, 1.8090619630235242e-07, -1.9604204070814717e-08,
             1.475093745872445e-09, -6.894569578908058e-11, 1.5082364225532313e-12)  # fmt: skip
# 2 * sqrt(2 / pi) * log2(e), and that times 0.044715, each as a sum of two floats.
_GELU_LINEAR = (2.3022081981443248, 1.3132826040769712e-16)
_GELU_CUBIC = (0.1029432395800235, -5.978177400718744e-18)
# 1 / sqrt(2 pi); ((Phi(x) - 1/2) / x less that) / x^2 in x^2, for x from 0 to 1.
_DENSITY = 0.3989422804014327
_PHI_CENTRE = (-0.0664903800669074, 0.009973557010082366, -0.0011873282160020325, 0.00011543469090205995,
               -9.444669016718436e-06, 6.660013691507362e-07, -4.1279617145545556e-08, 2.330835133004714e-09,
               -1.520725074182994e-10, 2.0309889280022463e-11, -2.772552193284132e-12)  # fmt: skip
# _NEAR less Phi(-t) * e^(t^2 / 2) * t is the quotient of these in t, for t from 1 to 39: the product is
# between 0.26 and 0.4, so that less than a third of the quotient's error is left. The quotient is a fit of
# both, the lower one rounded before the upper one was fitted again.
_NEAR = 0.34375
_PHI_ABOVE = (0.34374999973030235, 0.339746978517646, 0.13402480237133957, 0.004400443184770658,
              -0.021380701134125348, -0.012047996228099198, -0.0037476086897540333,
              -0.0007684922607461683, -0.00010588673883560054, -9.192701719057076e-06,
              -3.9777201938881895e-07)  # fmt: skip
_PHI_BELOW = (1.0, 2.4429002933838153, 2.7826405272799355, 1.9524202329372893, 0.9380679366107998,
              0.3240269059197598, 0.08198862060181701, 0.015127825492912935, 0.0019706003110571487,
              0.00016655774416487356, 7.207022730280796e-06)  # fmt: skip


def erf(e: Arithmetic[V], x: V) -> V:
    """The error function; at most 1.2 ulp off, signed zeros kept.

    Near zero x + x * P(x^2), elsewhere 1 - 2^Q(|x|), which is 1 from 5.93 on.
    """
    size = e.absolute(x)
    centre = e.fma(x, polynomial(e, e.mul(x, x), _ERF_CENTRE), x)
    exponent = polynomial(e, e.at_most(size, 5.93), _ERF_TAIL)
    shifted = e.add(exponent, e.constant(ROUNDING))
    rest = e.sub(exponent, e.sub(shifted, e.constant(ROUNDING)))
    power = e.as_bits(polynomial(e, rest, (1.0, *EXP2)))
    whole = e.shift_left(whole_bits_of(e, shifted), DOUBLE.fraction)
    outer = e.sub(e.constant(1.0), e.from_bits(e.bits_add(power, whole)))
    return e.select(e.greater(size, e.constant(1.0)), with_sign(e, outer, x, DOUBLE), centre)


def gelu(e: Arithmetic[V], x: V) -> V:
    """x / (1 + e^-2u), u = sqrt(2/pi) * (x + 0.044715 x^3); at most 2.8 ulp off, -0 for -infinity.

    The exponent is -|x| times a sum of two floats: an error of it, of up to 1,075, is one of the exponential,
    which the result of a negative x follows.
    """
    size, kept = sizes(e, x, 23.0)  # beyond, it is x or 0
    factor, lacking = _gelu_factor(e, size)
    opposite = e.negate(size)
    shifted = e.fma(opposite, factor, e.constant(ROUNDING))
    rest = e.fma(opposite, factor, e.negate(e.sub(shifted, e.constant(ROUNDING))))
    rest = e.fma(opposite, lacking, rest)
    grown = e.mul(rest, polynomial(e, rest, EXP2))
    return over_one_and_power(e, kept, grown, whole_bits_of(e, shifted))


def _gelu_factor(e: Arithmetic[V], x: V) -> tuple[V, V]:
    """linear + cubic x^2, as a float and what it lacks."""
    square = e.mul(x, x)
    square_rest = e.fma(x, x, e.negate(square))
    linear, cubic = e.constant(_GELU_LINEAR[0]), e.constant(_GELU_CUBIC[0])
    term = e.mul(cubic, square)
    lacking = e.fma(e.constant(_GELU_CUBIC[1]), square, e.fma(cubic, square, e.negate(term)))
    lacking = e.add(e.fma(cubic, square_rest, lacking), e.constant(_GELU_LINEAR[1]))
    factor = e.add(term, linear)
    # What a sum of two lacks, whichever is larger (Knuth, "The Art of Computer Programming" 2, 4.2.2).
    added = e.sub(factor, term)
    lost = e.add(e.sub(term, e.sub(factor, added)), e.sub(linear, added))
    return factor, e.add(lost, lacking)


def gelu_erf(e: Arithmetic[V], x: V) -> V:
    """x * Phi(x) with the normal distribution function Phi; at most 2.3 ulp off, -0 for -infinity.

    Near zero x/2 + x^2 * R(x^2); elsewhere max(x, 0) minus the tail |x| * Phi(-|x|), a number less a
    quotient, times e^(-x^2 / 2) with x^2 carried as a sum of two floats.
    """
    size = e.absolute(x)
    bounded = e.at_most(size, 39.0)
    square = e.mul(bounded, bounded)
    square_rest = e.fma(bounded, bounded, e.negate(square))
    density = e.constant(_DENSITY)
    inner = e.mul(e.mul(square, square), polynomial(e, square, _PHI_CENTRE))
    inner = e.fma(square_rest, density, inner)
    centre = e.add(e.fma(square, density, e.mul(x, e.constant(0.5))), inner)
    quotient = e.div(polynomial(e, bounded, _PHI_ABOVE), polynomial(e, bounded, _PHI_BELOW))
    tail = e.sub(e.constant(_NEAR), quotient)
    split = split_exponent(e, e.mul(square, e.constant(-0.5)))
    rest = e.fma(square_rest, e.constant(-0.5), split.rest)
    grown = e.fma(e.mul(rest, rest), polynomial(e, rest, EXP), rest)
    tail = scaled(e, e.fma(tail, grown, tail), split.whole_bits)
    larger = e.select(e.less(x, e.constant(0.0)), e.constant(0.0), x)  # NaN stays
    outer = e.select(e.less(size, e.constant(39.0)), e.sub(larger, tail), larger)
    result = e.select(e.less(size, e.constant(1.0)), centre, outer)
    return with_sign(e, e.absolute(result), x, DOUBLE)
