"""Powers of F64, and remainders of division."""

from __future__ import annotations

from gizml_tile.lowering.math import powers
from gizml_tile.lowering.math.arithmetic import DOUBLE, Arithmetic, V, polynomial
from gizml_tile.lowering.math.doubles.common import ROUNDING, scaled, whole_bits_of, within
from gizml_tile.lowering.math.doubles.exponentials import EXP2
from gizml_tile.lowering.math.doubles.logarithms import parts_of_number

# For s up to that of sqrt(2), to 2^-73 of the whole.
_LOG2 = powers.Log2(
    (2.8853900817779268, 4.0710547481862066e-17),
    (0.9617966939259756, 5.0577616648125907e-17),
    (0.5770780163555851, 0.41219858311134383, 0.32059889791348356, 0.26230819855636756, 0.22195227783007507,
     0.19240102590646652, 0.16845756361490224, 0.1727673807923236),
)  # fmt: skip


def pow(e: Arithmetic[V], x: V, y: V) -> V:
    """x^y as C's ``pow`` defines it; at most 1.2 ulp off.

    2^(y * log2|x|), where the logarithm and the product are sums of two floats: of an exponent as large as
    1,024 the 64th bit still matters.
    """
    magnitude = e.absolute(x)
    high, low = powers.log2_of(e, magnitude, *parts_of_number(e, magnitude), _LOG2)
    product = e.mul(y, high)
    lacking = e.fma(y, low, e.fma(y, high, e.negate(product)))
    # Beyond, the power is 0 or infinite, and what the product lacks may be no number.
    inside = e.less(e.absolute(product), e.constant(1200.0))
    lacking = e.select(inside, lacking, e.constant(0.0))
    exponent = within(e, product, -1200.0, 1200.0)
    shifted = e.add(exponent, e.constant(ROUNDING))
    rest = e.add(e.sub(exponent, e.sub(shifted, e.constant(ROUNDING))), lacking)
    size = scaled(e, polynomial(e, rest, (1.0, *EXP2)), whole_bits_of(e, shifted))
    return powers.signed_power(e, x, y, size, DOUBLE)


def remainder(e: Arithmetic[V], a: V, b: V) -> V:
    """a - b * trunc(a / b), exactly; with the sign of a, NaN where a is infinite or b is 0."""
    return powers.remainder(e, a, b, DOUBLE)


def floor_modulo(e: Arithmetic[V], a: V, b: V) -> V:
    """The remainder with the sign of b, as Python's ``%``: where signs differ the rounded sum with b."""
    return powers.floor_modulo(e, a, b, DOUBLE)

