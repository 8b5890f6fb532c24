"""Arithmetic on what is known about 64-bit integers: between which numbers they lie, what divides them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


class Range(NamedTuple):
    """Integers from ``low`` to ``high``, both included, that ``divisor`` divides (0: the number 0 alone)."""

    low: int
    high: int
    divisor: int


FULL = Range(_LOWEST, _HIGHEST, 1)
ZERO = Range(0, 0, 0)


def constant(number: int) -> Range:
    """One number."""
    return Range(number, number, abs(number))


def joined(*ranges: Range) -> Range:
    """What is in any of some ranges."""
    return Range(
        min(each.low for each in ranges),
        max(each.high for each in ranges),
        math.gcd(*(each.divisor for each in ranges)),
    )


def combined(op: str, ranges: list[Range]) -> Range:
    """The range of an operation's results, which wrap to 64 bits."""
    result = _OPERATIONS[op](*ranges) if op in _OPERATIONS else FULL
    if result.low >= _LOWEST and result.high <= _HIGHEST:
        return result
    # Wrapping keeps the powers of two that divide.
    return Range(_LOWEST, _HIGHEST, result.divisor & -result.divisor or 1)


def _add(a: Range, b: Range) -> Range:
    return Range(a.low + b.low, a.high + b.high, math.gcd(a.divisor, b.divisor))


def _neg(a: Range) -> Range:
    return Range(-a.high, -a.low, a.divisor)


def _sub(a: Range, b: Range) -> Range:
    return _add(a, _neg(b))


def _mul(a: Range, b: Range) -> Range:
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Range(min(ends), max(ends), a.divisor * b.divisor)


def _abs(a: Range) -> Range:
    low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Range(low, max(abs(a.low), abs(a.high)), a.divisor)


def _maximum(a: Range, b: Range) -> Range:
    return Range(max(a.low, b.low), max(a.high, b.high), math.gcd(a.divisor, b.divisor))


def _minimum(a: Range, b: Range) -> Range:
    return Range(min(a.low, b.low), min(a.high, b.high), math.gcd(a.divisor, b.divisor))


def _quotient(divide: Callable[[int, int], int], a: Range, b: Range) -> Range:
    """A rounded quotient, which is 0 where the divisor is 0."""
    pieces = [piece for piece in ((b.low, min(b.high, -1)), (max(b.low, 1), b.high)) if piece[0] <= piece[1]]
    ends = [divide(x, y) for x in (a.low, a.high) for piece in pieces for y in piece]
    if b.low <= 0 <= b.high:
        ends.append(0)
    exact = b.low == b.high != 0 and a.divisor % b.low == 0
    return Range(min(ends), max(ends), a.divisor // abs(b.low) if exact else 1)


def _truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _div(a: Range, b: Range) -> Range:
    return _quotient(_truncated, a, b)


def _floordiv(a: Range, b: Range) -> Range:
    return _quotient(lambda x, y: x // y, a, b)


def _rem(a: Range, b: Range) -> Range:
    """The remainder has the sign of a, and is 0 where b is 0."""
    most = max(abs(b.low), abs(b.high)) - 1
    if (b.low == b.high != 0 and a.divisor % b.low == 0) or most < 0:
        return ZERO
    low = 0 if a.low >= 0 else max(a.low, -most)
    high = 0 if a.high <= 0 else min(a.high, most)
    if b.low == b.high and a.low >= 0 and a.high <= most:
        return a
    return Range(low, high, math.gcd(a.divisor, b.divisor))


def _floormod(a: Range, b: Range) -> Range:
    """The remainder has the sign of b, and is 0 where b is 0."""
    if b.low == b.high and (b.low == 0 or a.divisor % b.low == 0):
        return ZERO
    if b.low == b.high and b.low > 0 and a.low >= 0 and a.high < b.low:
        return a
    low, high = min(b.low + 1, 0), max(b.high - 1, 0)
    if a.low >= 0 and b.low >= 0:
        high = min(a.high, high)
    return Range(low, high, math.gcd(a.divisor, b.divisor))


_OPERATIONS: dict[str, Callable[..., Range]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "neg": _neg,
    "abs": _abs,
    "maximum": _maximum,
    "minimum": _minimum,
    "div": _div,
    "floordiv": _floordiv,
    "rem": _rem,
    "floormod": _floormod,
}
