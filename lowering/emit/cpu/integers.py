"""Integer division, remainders, shifts and counts of bits on vectors, defined for every operand.

Division by zero gives 0, and so does the remainder; the smallest integer divided by -1 wraps to
itself. Shift counts below zero or of all bits and more shift everything out: ``shl`` gives 0, ``shr``
copies of the sign, or zeros of unsigned integers.
"""

from __future__ import annotations

from gizml_tile.lowering.emit.cpu.builder import suffix
from gizml_tile.lowering.emit.cpu.vectors import Vectors


def divide(vectors: Vectors, kind: str, a: str, b: str) -> str:
    """The quotient truncated toward zero."""
    known = _known(b)
    if known is not None:
        return _divide_by(vectors, kind, a, b, known)
    zero, minus = vectors.integer(kind, 0), vectors.integer(kind, -1)
    is_zero = vectors.operation("icmp eq", kind, b, zero)
    is_minus = vectors.operation("icmp eq", kind, b, minus)
    special = vectors.operation("or", "i1", is_zero, is_minus)
    safe = vectors.choose(kind, special, vectors.integer(kind, 1), b)
    quotient = _quotient(vectors, kind, a, safe, "s")
    negated = vectors.operation("sub", kind, zero, a)
    quotient = vectors.choose(kind, is_minus, negated, quotient)
    return vectors.choose(kind, is_zero, zero, quotient)


def divide_unsigned(vectors: Vectors, kind: str, a: str, b: str) -> str:
    """The quotient of integers without sign."""
    known, zero = _known(b), vectors.integer(kind, 0)
    if known is not None:
        return vectors.operation("udiv", kind, a, b) if known else zero
    is_zero = vectors.operation("icmp eq", kind, b, zero)
    safe = vectors.choose(kind, is_zero, vectors.integer(kind, 1), b)
    return vectors.choose(kind, is_zero, zero, _quotient(vectors, kind, a, safe, "u"))


def remainder_unsigned(vectors: Vectors, kind: str, a: str, b: str) -> str:
    """The remainder of integers without sign."""
    product = vectors.operation("mul", kind, divide_unsigned(vectors, kind, a, b), b)
    return _unless_zero(vectors, kind, b, vectors.operation("sub", kind, a, product))


def _quotient(vectors: Vectors, kind: str, a: str, b: str, sign: str) -> str:
    """The quotient by what is not 0; ``sign`` is s or u, as LLVM names instructions."""
    if vectors.width == 1:
        return vectors.operation(f"{sign}div", kind, a, b)
    if kind != "i32":
        return _divide_lanes(vectors, kind, a, b, sign)
    # Exact: unequal quotients of 32-bit integers differ by more than a double's rounding.
    dividend, divisor = (vectors.cast(f"{sign}itofp", kind, "double", each) for each in (a, b))
    ratio = vectors.operation("fdiv", "double", dividend, divisor)
    return vectors.cast(f"fpto{sign}i", "double", kind, ratio)


def remainder(vectors: Vectors, kind: str, a: str, b: str) -> str:
    """The remainder with the sign of the dividend."""
    product = vectors.operation("mul", kind, divide(vectors, kind, a, b), b)
    rest = vectors.operation("sub", kind, a, product)
    return _unless_zero(vectors, kind, b, rest)


def floor_divide(vectors: Vectors, kind: str, a: str, b: str) -> str:
    """The quotient rounded down, as Python's ``//``."""
    quotient = divide(vectors, kind, a, b)
    product = vectors.operation("mul", kind, quotient, b)
    rest = _unless_zero(vectors, kind, b, vectors.operation("sub", kind, a, product))
    one_less = vectors.operation("sub", kind, quotient, vectors.integer(kind, 1))
    return vectors.choose(kind, _signs_differ(vectors, kind, rest, b), one_less, quotient)


def floor_modulo(vectors: Vectors, kind: str, a: str, b: str) -> str:
    """The remainder with the sign of the divisor, as Python's ``%``."""
    rest = remainder(vectors, kind, a, b)
    moved = vectors.operation("add", kind, rest, b)
    return vectors.choose(kind, _signs_differ(vectors, kind, rest, b), moved, rest)


def shift_left(vectors: Vectors, kind: str, a: str, count: str) -> str:
    last = vectors.integer(kind, _bits(kind) - 1)
    outside = vectors.operation("icmp ugt", kind, count, last)
    masked = vectors.operation("and", kind, count, last)
    shifted = vectors.operation("shl", kind, a, masked)
    return vectors.choose(kind, outside, vectors.integer(kind, 0), shifted)


def shift_right(vectors: Vectors, kind: str, a: str, count: str) -> str:
    last = vectors.integer(kind, _bits(kind) - 1)
    return vectors.operation("ashr", kind, a, vectors.intrinsic("umin", kind, count, last))


def shift_right_zeros(vectors: Vectors, kind: str, a: str, count: str) -> str:
    last = vectors.integer(kind, _bits(kind) - 1)
    outside = vectors.operation("icmp ugt", kind, count, last)
    shifted = vectors.operation("lshr", kind, a, vectors.operation("and", kind, count, last))
    return vectors.choose(kind, outside, vectors.integer(kind, 0), shifted)


def count(vectors: Vectors, kind: str, op: str, a: str) -> str:
    """popcount, or clz, which is all bits of 0."""
    if op == "popcount":
        return vectors.intrinsic("ctpop", kind, a)
    of, name = vectors.type(kind), f"llvm.ctlz.{suffix(kind, vectors.width)}"
    vectors.function.module.declare(name, f"{of} @{name}({of}, i1)")
    return vectors.function.call(of, name, f"{of} {a}", "i1 false")


def upper_product(vectors: Vectors, a: str, b: str, *, unsigned: bool) -> str:
    """The upper half of the product of 32-bit integers."""
    if unsigned:
        return vectors.bits_product(a, b)[0]
    wide = [vectors.cast("sext", "i32", "i64", each) for each in (a, b)]
    product = vectors.operation("mul", "i64", *wide)
    upper = vectors.operation("lshr", "i64", product, vectors.integer("i64", 32))
    return vectors.cast("trunc", "i64", "i32", upper)


def _divide_by(vectors: Vectors, kind: str, a: str, b: str, divisor: int) -> str:
    """Division by a constant, which LLVM turns into products and shifts."""
    zero = vectors.integer(kind, 0)
    if divisor == 0:
        return zero
    if divisor == -1:
        return vectors.operation("sub", kind, zero, a)
    return vectors.operation("sdiv", kind, a, b)


def _divide_lanes(vectors: Vectors, kind: str, a: str, b: str, sign: str) -> str:
    function, of = vectors.function, vectors.type(kind)
    result = "poison"
    for lane in range(vectors.width):
        x = function.emit(f"extractelement {of} {a}, i64 {lane}")
        y = function.emit(f"extractelement {of} {b}, i64 {lane}")
        quotient = function.emit(f"{sign}div {kind} {x}, {y}")
        result = function.emit(f"insertelement {of} {result}, {kind} {quotient}, i64 {lane}")
    return result


def _unless_zero(vectors: Vectors, kind: str, divisor: str, rest: str) -> str:
    known = _known(divisor)
    zero = vectors.integer(kind, 0)
    if known is not None:
        return zero if known == 0 else rest
    is_zero = vectors.operation("icmp eq", kind, divisor, zero)
    return vectors.choose(kind, is_zero, zero, rest)


def _signs_differ(vectors: Vectors, kind: str, rest: str, divisor: str) -> str:
    """Where the remainder is not 0 and its sign is not the divisor's."""
    zero = vectors.integer(kind, 0)
    apart = vectors.operation("icmp slt", kind, vectors.operation("xor", kind, rest, divisor), zero)
    return vectors.operation("and", "i1", apart, vectors.operation("icmp ne", kind, rest, zero))


def _bits(kind: str) -> int:
    return int(kind[1:])


def _known(value: str) -> int | None:
    """The number that a constant's text says."""
    text = value.rstrip(")").split()[-1]
    return int(text) if text.lstrip("-").isdigit() else None
