"""Functions of F64, over the same operations on F64 values and their bits as integers of 64 bits.

Shift counts are from 0 to 63, and of `Arithmetic` only what is exact in F64 as well is used: no ``scale`` or
conversions. Coefficients are fits as those of F32 are (see `gizml_tile.lowering.math`), in 50-digit
arithmetic or more and rounded to F64: each to a thirtieth of 2^-53 or better, that of ``erf`` near 0 to a
tenth (tests/numbers/fits.py finds some of them again).

The errors in ulp are the largest over ten million random arguments of all sizes, and as many where they are
largest, held against x87's 64-bit significands. If all roundings were at their worst at once, they would be
about 2 for ``sin``, ``cos`` and ``erf``, 3 for ``pow``, 5 for ``silu`` and ``gelu``, 6 for ``gelu_erf``.
"""

from gizml_tile.lowering.math.doubles.error_functions import erf, gelu, gelu_erf
from gizml_tile.lowering.math.doubles.exponentials import exp, exp2, expm1, sigmoid, silu, tanh
from gizml_tile.lowering.math.doubles.logarithms import log, log1p, log2, softplus
from gizml_tile.lowering.math.doubles.powers import floor_modulo, pow, remainder
from gizml_tile.lowering.math.doubles.trigonometric import cos, sin

__all__ = [
    "cos",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor_modulo",
    "gelu",
    "gelu_erf",
    "log",
    "log1p",
    "log2",
    "pow",
    "remainder",
    "sigmoid",
    "silu",
    "sin",
    "softplus",
    "tanh",
]
