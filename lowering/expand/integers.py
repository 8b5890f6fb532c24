"""Integer division, remainders and shifts on I32 and I64, defined for every operand.

Division by zero gives 0, and so does the remainder; the smallest integer divided by -1 wraps to itself.
Shift counts below zero or of all bits and more shift everything out: ``shl`` gives 0, ``shr`` copies of the
sign. ``nonnegative`` promises that neither operand is negative, which makes the two divisions one.
"""

from __future__ import annotations

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
    if power is None:
        return build.map("div", a, b)
    if not nonnegative:
        a = build.add(a, _rounding(build, a, power))
    return build.map("shr", a, _constant(build, power, a))


def remainder(build: Builder, a: Value, b: Value, *, nonnegative: bool = False) -> Value:
    """The remainder with the sign of the dividend."""
    known = _known(b)
    if known is None:
        return build.map("rem", a, _safe(build, b)[1])
    if known == 0:
        return _constant(build, 0, a)
    power = _power(known)
    if power is None:
        return build.map("rem", a, b)
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
        return build.map("shr", a, _constant(build, power, a))
    if nonnegative or known == 0:
        return divide(build, a, b, nonnegative=nonnegative)
    is_zero, safe = (None, b) if known is not None else _safe(build, b)
    quotient = build.map("div", a, safe)
    rest = build.sub(a, build.mul(quotient, safe))
    one_less = build.sub(quotient, _constant(build, 1, a))
    quotient = build.select(_signs_differ(build, rest, b), one_less, quotient)
    return quotient if is_zero is None else build.select(is_zero, _constant(build, 0, b), quotient)


def floor_modulo(build: Builder, a: Value, b: Value, *, nonnegative: bool = False) -> Value:
    """The remainder with the sign of the divisor, as Python's ``%``."""
    known = _known(b)
    if known is not None and _power(known) is not None:
        return build.map("and", a, _constant(build, known - 1, a))
    rest = remainder(build, a, b, nonnegative=nonnegative)
    if nonnegative or known == 0:
        return rest
    return build.select(_signs_differ(build, rest, b), build.add(rest, b), rest)


def shift_left(build: Builder, a: Value, count: Value) -> Value:
    """The bits moved up by any count."""
    bits = _bits(a)
    known = _known(count)
    if known is not None:
        inside = 0 <= known < bits
        return build.map("shl", a, count) if inside else _constant(build, 0, a)
    masked = build.map("and", count, _constant(build, bits - 1, a))
    shifted = build.map("shl", a, masked)
    return build.select(build.map("eq", masked, count), shifted, _constant(build, 0, a))


def shift_right(build: Builder, a: Value, count: Value) -> Value:
    """The bits moved down by any count, copies of the sign moved in."""
    last = _constant(build, _bits(a) - 1, a)
    known = _known(count)
    if known is not None:
        return build.map("shr", a, count if 0 <= known < _bits(a) else last)
    masked = build.map("and", count, last)
    inside = build.map("eq", masked, count)
    return build.map("shr", a, build.select(inside, masked, last))


def _safe(build: Builder, divisor: Value) -> tuple[Value, Value]:
    """Where the divisor is 0, and the divisor with ones there."""
    is_zero = build.map("eq", divisor, _constant(build, 0, divisor))
    return is_zero, build.select(is_zero, _constant(build, 1, divisor), divisor)


def _rounding(build: Builder, a: Value, power: int) -> Value:
    """2^power - 1 where ``a`` is negative, else 0: what makes a shift down round toward zero."""
    bits = _bits(a)
    sign = build.map("shr", a, _constant(build, bits - 1, a))
    return build.map("ushr", sign, _constant(build, bits - power, a)) if power else _constant(build, 0, a)


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
