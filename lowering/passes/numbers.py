"""What integer and mask operations on constants give, and identities of one known operand."""

from __future__ import annotations

from collections.abc import Callable

from gizml_tile.dtypes import I32, I64, MASK, DType, integer_range

Number = int | bool

_TWO: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
_ONE: dict[str, Callable[[int], int]] = {"neg": lambda a: -a, "abs": abs, "not": lambda a: ~a}
# Of the bits as an unsigned number, and how many there are.
_OF_BITS: dict[str, Callable[[int, int], int]] = {
    "popcount": lambda a, bits: a.bit_count(),
    "clz": lambda a, bits: bits - a.bit_length(),
}


def wrap(number: int, dtype: DType) -> Number:
    """An integer wrapped into an integer type; a mask's lowest bit."""
    if dtype is MASK:
        return bool(number & 1)
    low, high = integer_range(dtype)
    return (number - low) % (high - low + 1) + low


def evaluate(op: str, values: tuple[Number, ...], dtype: DType) -> Number | None:
    """An operation on operands of ``dtype`` (I32, I64 or MASK); None where it is not known or undefined."""
    if dtype not in (I32, I64, MASK):
        return None
    if op in _OF_BITS:
        return _OF_BITS[op](int(values[0]) % (1 << dtype.bits), dtype.bits)
    if len(values) == 1:
        return wrap(_ONE[op](int(values[0])), dtype) if op in _ONE else None
    if len(values) != 2:
        return None
    a, b = map(int, values)
    if op in ("div", "rem"):
        if b == 0:
            return None
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return wrap(quotient if op == "div" else a - quotient * b, dtype)
    if op in ("shl", "shr", "ushr") and not 0 <= b < dtype.bits:
        return None
    if op == "ushr":
        return wrap((a % (1 << dtype.bits)) >> b, dtype)
    if op == "high":
        return wrap((a % 2**32 * (b % 2**32)) >> 32, dtype)
    if op not in _TWO:
        return None
    found = _TWO[op](a, b)
    return found if isinstance(found, bool) else wrap(found, dtype)


# What an operation with a known second operand is: its first operand, or that number.
_KEPT_BY: dict[str, int] = {"add": 0, "sub": 0, "or": 0, "xor": 0, "shl": 0, "shr": 0, "ushr": 0}
_KEPT_BY |= {"mul": 1, "div": 1, "and": -1}
_TAKEN_BY: dict[str, int] = {"mul": 0, "and": 0, "or": -1}
_COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor"})


def keeps(op: str, known: tuple[Number | None, ...], dtype: DType) -> int | None:
    """Which of two operands is the result, the other being known."""
    if dtype not in (I32, I64, MASK) or len(known) != 2:
        return None
    for number, operand in ((known[1], 0), (known[0], 1)):
        if number is None or (operand == 1 and op not in _COMMUTATIVE):
            continue
        # A mask that is set has all bits set.
        value = -int(number) if dtype is MASK else int(number)
        if _KEPT_BY.get(op) == value:
            return operand
        if _TAKEN_BY.get(op) == value:
            return 1 - operand
    return None
