"""Functions of F32 written once from IEEE operations, for every device.

Every device implements :class:`Arithmetic` with its own instructions and runs the same functions over
it, so every device gives the same bits: nothing is reassociated, and a product and a sum are fused
where ``fma`` is written and nowhere else.

The polynomials are our own fits: Lawson-weighted least squares on Chebyshev nodes in 40-digit
arithmetic, the coefficients rounded to F32 one at a time from low order, the rest refitted after each.
The weight of a fit is the derivative of the function's relative error by the polynomial's value, or of
its error in ulp where that is said. For five steps of 2^r that is (2^r - 1) / r on [-0.5003, 0.5003] with
weight 2^24 r below 0 and 2^23 r above, 1.06 ulp off, and for six 0.04. For ``exp`` and ``exp2`` it is 2^r
by linear programs, the coefficients rounded from high order and then moved by a few of their last bits to
the least error of what F32 computes of samples.
Sums of floats that stand for one number are that number rounded, what it lacks rounded, and so on.

The errors in ulp are the largest over all 2^32 floats (``pow``: over a large sample of pairs).
"""

from gizml_tile.lowering.math import doubles
from gizml_tile.lowering.math.arithmetic import Arithmetic, V, clamp_by_select, scale_in_two_steps
from gizml_tile.lowering.math.error_functions import erf, gelu, gelu_erf
from gizml_tile.lowering.math.exponentials import exp, exp2, expm1, sigmoid, silu, tanh
from gizml_tile.lowering.math.inside import (
    INSIDE_BITS,
    INSIDE_HIGH,
    INSIDE_LOW,
    INSIDE_MASK,
    exp2_exponent,
    exp2_inside,
    exp_exponent,
    exp_inside,
    gelu_exponent,
    gelu_inside,
    sigmoid_exponent,
    sigmoid_inside,
    silu_inside,
)
from gizml_tile.lowering.math.logarithms import log, log1p, log2, softplus
from gizml_tile.lowering.math.powers import floor_modulo, pow, remainder, signed_power
from gizml_tile.lowering.math.random import philox, random_numbers
from gizml_tile.lowering.math.trigonometric import cos, sin

__all__ = [
    "INSIDE_BITS",
    "INSIDE_HIGH",
    "INSIDE_LOW",
    "INSIDE_MASK",
    "Arithmetic",
    "V",
    "clamp_by_select",
    "cos",
    "doubles",
    "erf",
    "exp",
    "exp2",
    "exp2_exponent",
    "exp2_inside",
    "exp_exponent",
    "exp_inside",
    "expm1",
    "floor_modulo",
    "gelu",
    "gelu_erf",
    "gelu_exponent",
    "gelu_inside",
    "log",
    "log1p",
    "log2",
    "philox",
    "pow",
    "random_numbers",
    "remainder",
    "scale_in_two_steps",
    "sigmoid",
    "sigmoid_exponent",
    "sigmoid_inside",
    "signed_power",
    "silu",
    "silu_inside",
    "sin",
    "softplus",
    "tanh",
]
