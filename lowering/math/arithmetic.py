"""The operations that the shared mathematics is made of, and what its functions have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

V = TypeVar("V")


class Arithmetic(Protocol[V]):
    """IEEE operations on F32 values, their bits as 32-bit integers, and masks.

    Floats round to nearest even and keep subnormals; integers wrap; a comparison with NaN is false.
    Shift counts are from 0 to 31, constants but where the name says ``by``.
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
    def bits_xor(self, a: V, b: V) -> V: ...

    def bits_mul(self, a: V, b: V) -> V:
        """The lower bits of the product."""
        ...

    def bits_product(self, a: V, b: V) -> tuple[V, V]:
        """The upper and the lower 32 bits of the product of two unsigned integers."""
        ...

    def shift_left(self, a: V, count: int) -> V: ...
    def shift_left_by(self, a: V, count: V) -> V: ...

    def shift_right(self, a: V, count: int) -> V:
        """Shifts copies of the sign in."""
        ...

    def shift_right_logical(self, a: V, count: int) -> V:
        """Shifts zeros in."""
        ...

    def shift_right_logical_by(self, a: V, count: V) -> V: ...

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

    def seldom(self, mask: V, usual: V, rare: Callable[[], V]) -> V:
        """``select(mask, rare(), usual)`` of floats, where the first is computed only if a mask is set."""
        ...


@dataclass(frozen=True, slots=True)
class Split(Generic[V]):
    """An exponent's integral part, as a float and as an integer, and what remains in [-0.5, 0.5]."""

    whole: V
    whole_bits: V
    rest: V


@dataclass(frozen=True, slots=True)
class Format:
    """A type of floats: the bits that the fraction has, and all of them."""

    fraction: int
    bits: int

    @property
    def bias(self) -> int:
        """The bits of the exponent of 1."""
        return (1 << self.bits - self.fraction - 2) - 1

    @property
    def least_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def sign(self) -> int:
        """The bits of -0, as a signed integer."""
        return -(1 << self.bits - 1)

    @property
    def rounding(self) -> float:
        """A number beside which the last bit is 1: adding it leaves the nearest integer in the low bits."""
        return 1.5 * 2.0**self.fraction


SINGLE, DOUBLE = Format(23, 32), Format(52, 64)
# 1.5 * 2^23: adding it leaves the nearest integer in the low bits of the sum.
ROUNDING = SINGLE.rounding
ROUNDING_BITS = 0x4B400000
SIGN = SINGLE.sign
INFINITY, NAN = float("inf"), float("nan")
ABOVE_ONE = 1.0 + 2.0**-23
LOG2_E = 1.4426950216293335
LOG2_E_REST = 1.925963033500011e-08
LN_2 = 0.6931471824645996
LN_2_REST = -1.9046542121259336e-9


def rounded(e: Arithmetic[V], shifted: V) -> tuple[V, V]:
    """The integer in the last bits of a rounding sum, as a float and as an integer."""
    whole = e.sub(shifted, e.constant(ROUNDING))
    return whole, e.bits_sub(e.as_bits(shifted), e.bits_constant(ROUNDING_BITS))


def polynomial(e: Arithmetic[V], x: V, coefficients: Sequence[float]) -> V:
    """Horner's rule in fused steps; coefficients low order first."""
    result = e.constant(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = e.fma(result, x, e.constant(coefficient))
    return result


def split_exponent(e: Arithmetic[V], x: V) -> Split[V]:
    """x = whole * ln(2) + rest, for \\|x\\| below 2^20."""
    shifted = e.fma(x, e.constant(LOG2_E), e.constant(ROUNDING))
    whole = e.sub(shifted, e.constant(ROUNDING))
    whole_bits = e.bits_sub(e.as_bits(shifted), e.bits_constant(ROUNDING_BITS))
    rest = e.fma(whole, e.constant(-LN_2), x)
    return Split(whole, whole_bits, e.fma(whole, e.constant(-LN_2_REST), rest))


def clamp_by_select(e: Arithmetic[V], x: V, low: float, high: float) -> V:
    """x within bounds; NaN stays."""
    x = e.select(e.greater(x, e.constant(high)), e.constant(high), x)
    return e.select(e.less(x, e.constant(low)), e.constant(low), x)


def with_sign(e: Arithmetic[V], size: V, signed: V, form: Format = SINGLE) -> V:
    """``size``, whose sign is clear, with the sign of ``signed``."""
    sign = e.bits_and(e.as_bits(signed), e.bits_constant(form.sign))
    return e.from_bits(e.bits_or(e.as_bits(size), sign))


def normal_power(e: Arithmetic[V], exponent_bits: V, form: Format = SINGLE) -> V:
    """2^exponent, a normal number."""
    return e.from_bits(e.shift_left(e.bits_add(exponent_bits, e.bits_constant(form.bias)), form.fraction))


def scale_in_two_steps(e: Arithmetic[V], a: V, exponent_bits: V, form: Format = SINGLE) -> V:
    """``a * 2^exponent`` as two products, of which only the second can round."""
    half = e.shift_right(exponent_bits, 1)
    rest = e.bits_sub(exponent_bits, half)
    return e.mul(e.mul(a, normal_power(e, half, form)), normal_power(e, rest, form))
