"""The elementwise operations of the tile IR on one thread's registers of tiles.

Operands are in one layout already: each has the result's registers, or one that is the same for all
(a constant may always come as one). They have their tiles' storage types, and so has the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from gizml_tile.dtypes import F32, MASK, DType
from gizml_tile.lowering.expand import integers
from gizml_tile.lowering.expand.chunks import extreme, in_chunks
from gizml_tile.lowering.expand.functions import binary_function, function
from gizml_tile.lowering.expand.storage import convert, to_math
from gizml_tile.lowering.kernel_ir.builder import Builder, Promise, Value
from gizml_tile.nodes import COMPARISONS, UNARY_FLOAT, Node, promote
from gizml_tile.target import Target

_SAME = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "maximum": "max",
    "minimum": "min",
    "and_": "and",
    "or_": "or",
    "xor": "xor",
}
_DIVISIONS: dict[str, Callable[..., Value]] = {
    "div": integers.divide,
    "rem": integers.remainder,
    "floordiv": integers.floor_divide,
    "floormod": integers.floor_modulo,
}
_SHIFTS = {"shl": integers.shift_left, "shr": integers.shift_right}


def expand_elementwise(build: Builder, target: Target, node: Node, args: Sequence[Value]) -> Value:
    """The value of an elementwise node from its operands' registers.

    Takes all of `nodes.UNARY`, ELEMENTWISE_BINARY and COMPARISONS, select, fma and value; ``transpose``
    only names the registers anew, for the planner to lay out.
    """
    match node.op:
        case "transpose":
            return args[0]
        case "to" | "value":
            assert isinstance(node.attr, DType)
            return convert(build, target, args[0], node.attr)
        case "bitcast":
            assert isinstance(node.attr, DType)
            return build.bitcast(args[0], node.attr)
        case "select":
            return _select(build, target, node, args)
        case "fma":
            return _fma(build, target, node, args)
    if node.op in UNARY_FLOAT:
        return _function(build, target, node, args[0])
    numbers = [to_math(build, target, arg) for arg in args]
    if len(numbers) == 1:
        return build.map(node.op.rstrip("_"), numbers[0])
    common = _common(numbers)
    a, b = (convert(build, target, number, common) for number in numbers)
    if common.is_float and node.op in ("pow", "rem", "floormod"):
        return binary_function(build, target, node.op, a, b, approx=node.attr is True)
    if node.op == "mulhi":
        unsigned = node.attr or common.is_unsigned
        return build.map("high", a, b) if unsigned else integers.signed_high(build, a, b)
    return _binary(build, node.op, common, a, b)


def expand_index(build: Builder, node: Node, args: Sequence[Value], *, nonnegative: bool = False) -> Value:
    """The value of index arithmetic (or a comparison of indices) on scalars of I64, or all of I32.

    ``nonnegative`` promises that no operand is negative. Division by 0 gives 0.
    """
    if node.op == "select":
        return build.select(*args)
    if len(args) == 1:
        return build.map(node.op, args[0])
    a, b = args
    assert a.dtype is b.dtype and a.dtype is not None, f"{node.op} of {a} and {b}"
    if node.op in _DIVISIONS:
        return _DIVISIONS[node.op](build, a, b, nonnegative=nonnegative)
    return _binary(build, node.op, a.dtype, a, b)


def _common(numbers: Sequence[Value]) -> DType:
    a, b = (number.dtype for number in numbers)
    assert a is not None and b is not None
    common = promote(a, b)
    assert common is not None, f"{a} and {b} do not mix"
    return common


def _function(build: Builder, target: Target, node: Node, x: Value) -> Value:
    wide = to_math(build, target, x)
    return function(build, target, node.op, wide, approx=node.attr is True)


def _binary(build: Builder, op: str, dtype: DType, a: Value, b: Value) -> Value:
    """An operation on two operands of one type of mathematics."""
    if dtype is MASK and op in ("eq", "ne"):
        apart = build.map("xor", a, b)
        return apart if op == "ne" else build.map("not", apart)
    if op in COMPARISONS:
        return build.map(op, a, b)
    if op in _SAME:
        return build.map(_SAME[op], a, b)
    if dtype.is_float:
        assert op == "div", f"no {op} of floats"
        return _quotient(build, a, b) if dtype is F32 else build.map("div", a, b)
    if op in _SHIFTS:
        return _SHIFTS[op](build, a, b)
    division = partial(_DIVISIONS[op], build, nonnegative=dtype.is_unsigned)
    return division(a, b) if b.op == "constant" else in_chunks(build, division, a, b)


def _quotient(build: Builder, a: Value, b: Value) -> Value:
    """A division of floats; by a power of two it is the product with the exact reciprocal."""
    if b.op == "constant" and isinstance(b.attr, float) and b.attr != 0:
        mantissa, exponent = math.frexp(b.attr)
        if abs(mantissa) == 0.5 and -125 <= exponent <= 126:
            return build.mul(a, build.constant(1 / b.attr, F32))
    divisors, which = _divisors(b, a.count)
    if divisors.count * _SHARING > a.count:
        return build.map("div", a, b)
    return _shared_quotient(build, a, divisors, which)


# So many quotients by one divisor pay for its reciprocal.
_SHARING = 4
# Numerators between these limits, and quotients between these, leave exact remainders in normal floats.
_SMALL, _LARGE = 2.0**-60, 2.0**60
_LEAST, _MOST = 2.0**-120, 2.0**120
# Up to so many quotients decide together; more of them in slices, for which fewer registers are in use.
_TOGETHER, _SLICE = 32, 8


def _divisors(b: Value, count: int) -> tuple[Value, tuple[int, ...]]:
    """The registers that are divided by, each once, and which of them each quotient wants."""
    if b.op == "pick":
        assert isinstance(b.attr, tuple)
        return b.args[0], tuple(int(register) for register in b.attr)  # type: ignore[arg-type]
    return b, tuple(range(b.count)) if b.count == count else (0,) * count


def _shared_quotient(build: Builder, a: Value, divisors: Value, which: tuple[int, ...]) -> Value:
    """Many quotients by few divisors b: with y the rounded 1 / b and z what it lacks, q = a y + a z and one
    step q + (a - b q) y.

    The sum is within one unit of a / b (Brisebarre, Muller and Raina, "Accelerating correctly rounded
    floating-point division when the divisor is known in advance", 2004); so the remainder is exact and the
    step rounds as a division does (Markstein, "Computation of elementary functions on the IBM RISC
    System/6000", 1990, theorem 8). That holds away from overflow and underflow; a thread with such numbers
    divides. Each slice decides by itself, so that not all of a tile has to be there at once.
    """
    one = build.constant(1.0, F32)
    reciprocals = build.map("div", one, divisors)
    negative = build.map("neg", divisors)
    lacking = build.mul(build.fma(negative, reciprocals, one), reciprocals)
    promise = build.promises.get(a, Promise(None, _SMALL, _LARGE))
    limits = promise.high / _MOST, promise.low / _LEAST
    fine_divisors = build.both(promise.mask, _between(build, divisors, *limits))
    step = a.count if a.count <= _TOGETHER else _SLICE

    def quotient(first: int) -> Value:
        registers = range(first, min(first + step, a.count))
        which_here = [which[register] for register in registers]
        part = build.pick(a, registers)
        fine = fine_divisors
        if promise.mask is None:
            fine = build.both(fine, _between(build, part, _SMALL, _LARGE))
        assert fine is not None

        def steps() -> list[Value]:
            y, z, minus = (build.pick(each, which_here) for each in (reciprocals, lacking, negative))
            q = build.fma(part, y, build.mul(part, z))
            return [build.fma(build.fma(minus, q, part), y, q)]

        def division() -> list[Value]:
            return [build.map("div", part, build.pick(divisors, which_here))]

        (result,) = build.branch(fine, steps, division, apart=True)
        return result

    return build.join([quotient(first) for first in range(0, a.count, step)])


def _between(build: Builder, value: Value, low: float, high: float) -> Value:
    """Whether the sizes of all registers are between limits."""
    size = build.map("abs", value)
    above = build.map("ge", extreme(build, "min", size), build.constant(low, F32))
    return build.map("and", above, build.map("le", extreme(build, "max", size), build.constant(high, F32)))


def _select(build: Builder, target: Target, node: Node, args: Sequence[Value]) -> Value:
    assert node.dtype is not None
    mask, *sides = args
    # Equal storage types stay as they are.
    yes, no = (convert(build, target, side, node.dtype) for side in sides)
    if node.dtype is not MASK:
        return build.select(mask, yes, no)
    otherwise = build.map("and", build.map("not", mask), no)
    return build.map("or", build.map("and", mask, yes), otherwise)


def _fma(build: Builder, target: Target, node: Node, args: Sequence[Value]) -> Value:
    assert isinstance(node.attr, tuple) and node.dtype is not None
    negate_product, negate_c = node.attr
    a, b, c = (convert(build, target, arg, node.dtype) for arg in args)
    if negate_product:
        a = build.map("neg", a)
    return build.fma(a, b, build.map("neg", c) if negate_c else c)
