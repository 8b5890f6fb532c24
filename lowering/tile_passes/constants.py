"""What operations on constants give, bit for bit as every device computes them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gizml_tile.dtypes import F64, MASK, DType, integer_range
from gizml_tile.rounding import Number, round_to

_COMPARE: dict[str, Callable[[Number, Number], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
_FLOAT: dict[str, Callable[[np.floating, np.floating], np.floating]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}
_FLOAT_UNARY: dict[str, Callable[[np.floating], np.floating]] = {
    "neg": lambda a: -a,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: type(a)(1) / np.sqrt(a),
    "reciprocal": lambda a: type(a)(1) / a,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
}


def wrap(value: int, dtype: DType) -> int:
    """An integer wrapped into an integer type."""
    low, high = integer_range(dtype)
    return (value - low) % (high - low + 1) + low


def compare(op: str, a: Number, b: Number) -> bool:
    """A comparison of two numbers; with a NaN only ``ne`` is true."""
    return _COMPARE[op](a, b)


def evaluate(op: str, values: tuple[Number, ...], dtype: DType) -> Number | None:
    """``op`` on elements, computed in ``dtype``; None for operations that are not folded."""
    if op == "bitcast":
        return None
    if dtype.is_integer:
        found = _integer(op, tuple(map(int, values)), dtype)
        return None if found is None else wrap(found, dtype)
    if dtype is MASK:
        return _mask(op, values)
    return _float(op, tuple(map(float, values)), np.float64 if dtype is F64 else np.float32)


def convert(value: Number, source: DType, dtype: DType) -> Number:
    """An element of ``source`` as an element of ``dtype``, by the rules of ``Tile.to``."""
    if dtype.is_float:
        return round_to(int(value) if source is MASK else value, dtype)
    if dtype is MASK:
        return value
    if not source.is_float:
        return wrap(int(value), dtype)
    low, high = integer_range(dtype)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return low if value < 0 else high
    return min(max(int(value), low), high)


def _float(op: str, values: tuple[float, ...], kind: type[np.floating]) -> float | None:
    if op in ("maximum", "minimum"):
        return _extreme(op, *values)
    if op == "relu":
        return _extreme("maximum", values[0], 0.0)
    with np.errstate(all="ignore"):
        if op in _FLOAT:
            return float(_FLOAT[op](kind(values[0]), kind(values[1])))
        if op in _FLOAT_UNARY:
            return float(_FLOAT_UNARY[op](kind(values[0])))
    return None


def _extreme(op: str, a: float, b: float) -> float:
    """The larger or smaller number: a NaN loses, -0 is smaller than +0."""
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    lower, higher = sorted((a, b), key=lambda each: (each, math.copysign(1, each)))
    return higher if op == "maximum" else lower


def _integer(op: str, values: tuple[int, ...], dtype: DType) -> int | None:
    a, b = values[0], values[-1]
    match op:
        case "neg":
            return -a
        case "abs":
            return abs(a)
        case "not_":
            return ~a
        case "popcount":
            return (a % (1 << dtype.bits)).bit_count()
        case "clz":
            return dtype.bits - (a % (1 << dtype.bits)).bit_length()
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "maximum":
            return max(a, b)
        case "minimum":
            return min(a, b)
        case "and_":
            return a & b
        case "or_":
            return a | b
        case "xor":
            return a ^ b
        case "div" | "rem" | "floordiv" | "floormod" if b == 0:
            return 0
        case "floordiv":
            return a // b
        case "floormod":
            return a % b
        case "div" | "rem":
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return quotient if op == "div" else a - quotient * b
        case "shl":
            return a << b if 0 <= b < dtype.bits else 0
        case "shr":
            return a >> (b if 0 <= b < dtype.bits else dtype.bits)
        case _:
            return None


def _mask(op: str, values: tuple[Number, ...]) -> bool | None:
    match op:
        case "not_":
            return not values[0]
        case "and_":
            return bool(values[0] and values[1])
        case "or_":
            return bool(values[0] or values[1])
        case "xor":
            return values[0] != values[1]
        case _:
            return None
