"""Integer division, remainders and shifts on integers of 32 and 64 bits, defined for every operand.

Division by zero gives 0, and so does the remainder; the smallest integer divided by -1 wraps to itself.
Shift counts below zero or of all bits and more shift everything out: ``shl`` gives 0, ``shr`` copies of the
sign, or zeros of unsigned ones. ``nonnegative`` promises that neither operand is negative, which makes the
two divisions one; so it is with unsigned ones.

Divisions by constants are shifts, and of I32 products: n / d for n up to 2^31 is the upper half of n times
the rounded-up 2^(32 + k) / d, shifted down by k, with 2^k < d <= 2^(k + 1) (Granlund and Montgomery 1994,
theorem 4.2).
"""

from __future__ import annotations

from gizml_tile.dtypes import I32
from gizml_tile.lowering.kernel_ir.builder import Builder, Value


def divide(build: Builder, a: Value, b: Value, *, nonnegative: bool = False) -> Value:
    """The quotient truncated toward zero."""
    known = _known(b)
    if known is None:
        is_zero, safe = _safe(build, b)
        return build.select(is_zero, _constant(build, 0, b), build.map("div", a, safe))
    if known == 0:
        return _constant(build, 0, a)
    if known == -1:
        return build.map("neg", a)
    power = _power(known)
    if power is not None:
        if not nonnegative:
            a = build.add(a, _rounding(build, a, power))
        return _down(build, a, power)
    if not _is_product(a, known):
        return build.map("div", a, b)
    if nonnegative:
        return _product(build, a, known)
    size = _product(build, build.map("abs", a), abs(known))
    sign = _sign(build, a)
    signed = build.map("xor", size, sign)
    return build.sub(signed, sign) if known > 0 else build.sub(sign, signed)


def remainder(build: Builder, a: Value, b: Value, *, nonnegative: bool = False) -> Value:
    """The remainder with the sign of the dividend."""
    known = _known(b)
    if known is None:
        return build.map("rem", a, _safe(build, b)[1])
    if known == 0:
        return _constant(build, 0, a)
    power = _power(known)
    if power is None:
        if not _is_product(a, known):
            return build.map("rem", a, b)
        return build.sub(a, build.mul(divide(build, a, b, nonnegative=nonnegative), b))
    if nonnegative:
        return build.map("and", a, _constant(build, known - 1, a))
    below = _rounding(build, a, power)
    low = build.map("and", build.add(a, below), _constant(build, known - 1, a))
    return build.sub(low, below)


def floor_divide(build: Builder, a: Value, b: Value, *, nonnegative: bool = False) -> Value:
    """The quotient rounded down, as Python's ``//``."""
    known = _known(b)
    power = None if known is None else _power(known)
    if power is not None:
        return _down(build, a, power)
    if nonnegative or known == 0:
        return divide(build, a, b, nonnegative=nonnegative)
    if known is not None and known > 0 and _is_product(a, known):
        # The complement of a negative number is not negative, and so is that of the quotient.
        sign = _sign(build, a)
        return build.map("xor", _product(build, build.map("xor", a, sign), known), sign)
    is_zero, safe = (None, b) if known is not None else _safe(build, b)
    quotient = build.map("div", a, safe) if known is None else divide(build, a, b)
    rest = build.sub(a, build.mul(quotient, safe))
    one_less = build.sub(quotient, _constant(build, 1, a))
    quotient = build.select(_signs_differ(build, rest, b), one_less, quotient)
    return quotient if is_zero is None else build.select(is_zero, _constant(build, 0, b), quotient)


def floor_modulo(build: Builder, a: Value, b: Value, *, nonnegative: bool = False) -> Value:
    """The remainder with the sign of the divisor, as Python's ``%``."""
    known = _known(b)
    if known is not None and _power(known) is not None:
        return build.map("and", a, _constant(build, known - 1, a))
    if known is not None and known > 0 and _is_product(a, known):
        quotient = floor_divide(build, a, b, nonnegative=nonnegative)
        return build.sub(a, build.mul(quotient, b))
    rest = remainder(build, a, b, nonnegative=nonnegative)
    if nonnegative or known == 0:
        return rest
    return build.select(_signs_differ(build, rest, b), build.add(rest, b), rest)


def shift_left(build: Builder, a: Value, count: Value) -> Value:
    """The bits moved up by any count."""
    return _shift_zeros(build, "shl", a, count)


def _shift_zeros(build: Builder, op: str, a: Value, count: Value) -> Value:
    """The bits moved by any count, zeros moved in."""
    bits = _bits(a)
    known = _known(count)
    if known is not None:
        inside = 0 <= known < bits
        return build.map(op, a, count) if inside else _constant(build, 0, a)
    masked = build.map("and", count, _constant(build, bits - 1, a))
    shifted = build.map(op, a, masked)
    return build.select(build.map("eq", masked, count), shifted, _constant(build, 0, a))


def shift_right(build: Builder, a: Value, count: Value) -> Value:
    """The bits moved down by any count, copies of the sign moved in; zeros for unsigned ones."""
    if _is_unsigned(a):
        return _shift_zeros(build, "ushr", a, count)
    last = _constant(build, _bits(a) - 1, a)
    known = _known(count)
    if known is not None:
        return build.map("shr", a, count if 0 <= known < _bits(a) else last)
    masked = build.map("and", count, last)
    inside = build.map("eq", masked, count)
    return build.map("shr", a, build.select(inside, masked, last))


def signed_high(build: Builder, a: Value, b: Value) -> Value:
    """The upper 32 bits of the product of I32: of the unsigned one, less what the signs are worth."""
    upper = build.map("high", a, b)
    upper = build.sub(upper, build.map("and", _sign(build, a), b))
    return build.sub(upper, build.map("and", _sign(build, b), a))


def _down(build: Builder, a: Value, power: int) -> Value:
    """The quotient by a power of two, rounded down."""
    return build.map("ushr" if _is_unsigned(a) else "shr", a, _constant(build, power, a))


def _is_unsigned(a: Value) -> bool:
    return a.dtype is not None and a.dtype.is_unsigned


def _safe(build: Builder, divisor: Value) -> tuple[Value, Value]:
    """Where the divisor is 0, and the divisor with ones there."""
    is_zero = build.map("eq", divisor, _constant(build, 0, divisor))
    return is_zero, build.select(is_zero, _constant(build, 1, divisor), divisor)


def _sign(build: Builder, a: Value) -> Value:
    """-1 where ``a`` is negative, else 0."""
    return build.map("shr", a, _constant(build, _bits(a) - 1, a))


def _rounding(build: Builder, a: Value, power: int) -> Value:
    """2^power - 1 where ``a`` is negative, else 0: what makes a shift down round toward zero."""
    if power == 0:
        return _constant(build, 0, a)
    return build.map("ushr", _sign(build, a), _constant(build, _bits(a) - power, a))


def _is_product(a: Value, divisor: int) -> bool:
    """Whether a division by a constant, no power of two, is done as a product."""
    return a.dtype is I32 and 2 < abs(divisor) < 2**31


def _product(build: Builder, size: Value, divisor: int) -> Value:
    """The quotient of a number from 0 to 2^31 (without a sign) by a constant from 3 on."""
    shift = (divisor - 1).bit_length() - 1
    factor = -(-(1 << (32 + shift)) // divisor)
    # The constant is the factor's bits, as a signed number.
    signed = factor - (1 << 32) if factor >= 1 << 31 else factor
    upper = build.map("high", size, _constant(build, signed, size))
    return build.map("shr", upper, _constant(build, shift, size))


def _signs_differ(build: Builder, rest: Value, divisor: Value) -> Value:
    """Where the remainder is not 0 and its sign is not the divisor's."""
    zero = _constant(build, 0, rest)
    apart = build.map("lt", build.map("xor", rest, divisor), zero)
    return build.map("and", apart, build.map("ne", rest, zero))


def _constant(build: Builder, number: int, like: Value) -> Value:
    assert like.dtype is not None
    return build.constant(number, like.dtype)


def _bits(value: Value) -> int:
    assert value.dtype is not None
    return value.dtype.bits


def _known(value: Value) -> int | None:
    """The number that all registers hold, if it is constant."""
    if value.op == "constant" and not isinstance(value.attr, tuple):
        assert isinstance(value.attr, int)
        return value.attr
    return None


def _power(number: int) -> int | None:
    """The exponent of a positive power of two."""
    return number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else None
