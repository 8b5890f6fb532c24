"""Functions of float registers: exact ones from the shared mathematics, approximate ones of a target."""

from __future__ import annotations

import struct
from collections.abc import Callable

from gizml_tile.dtypes import BF16, F16, F32, F64, I32, I64, DType, integer_range
from gizml_tile.lowering import math
from gizml_tile.lowering.expand.arithmetic import KernelArithmetic
from gizml_tile.lowering.expand.chunks import extreme, in_chunks
from gizml_tile.lowering.kernel_ir.builder import Builder, Promise, Value
from gizml_tile.target import Target

_LOG2_E = 1.4426950216293335
_LN_2 = 0.6931471824645996
_TWO_PI, _ONE_TURN = 6.2831854820251465, 0.15915493667125702
# 2 * sqrt(2 / pi) * log2(e), and that times 0.044715.
_GELU_LINEAR = 2.302208198
_GELU_CUBIC = 0.1029432397
_Shared = Callable[[KernelArithmetic, Value], Value]
_SHARED: dict[str, _Shared] = {
    "exp": math.exp,
    "exp2": math.exp2,
    "log": math.log,
    "tanh": math.tanh,
    "sigmoid": math.sigmoid,
    "gelu": math.gelu,
    "gelu_erf": math.gelu_erf,
    "log2": math.log2,
    "log1p": math.log1p,
    "expm1": math.expm1,
    "silu": math.silu,
    "softplus": math.softplus,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
}
_SHARED_DOUBLE: dict[str, _Shared] = {op: getattr(math.doubles, op) for op in _SHARED}


_Inside = Callable[[KernelArithmetic, Value, Value], Value]
# What decides, what follows, and how many decide together: their sums stay in registers until then.
_INSIDE: dict[str, tuple[_Shared, _Inside, int]] = {
    "exp": (math.exp_exponent, math.exp_inside, 16),
    "exp2": (math.exp2_exponent, math.exp2_inside, 16),
    "sigmoid": (math.sigmoid_exponent, math.sigmoid_inside, 8),
    "silu": (math.sigmoid_exponent, math.silu_inside, 8),
    "gelu": (math.gelu_exponent, math.gelu_inside, 8),
}
_SHARED_BINARY: dict[tuple[str, DType], Callable[[KernelArithmetic, Value, Value], Value]] = {
    ("pow", F32): math.pow,
    ("rem", F32): math.remainder,
    ("floormod", F32): math.floor_modulo,
    ("pow", F64): math.doubles.pow,
    ("rem", F64): math.doubles.remainder,
    ("floormod", F64): math.doubles.floor_modulo,
}


def function(build: Builder, target: Target, op: str, x: Value, *, approx: bool = False) -> Value:
    """A function of F32 registers, any of ``nodes.UNARY_FLOAT``, or of F64 registers.

    Equal to every other device bit for bit, but for ``approx`` where the target has such functions.
    """
    dtype = x.dtype
    assert dtype is not None
    if dtype is F64 and op in _SHARED_DOUBLE:
        shared = _SHARED_DOUBLE[op]
        return in_chunks(build, lambda part: shared(KernelArithmetic(build, target, F64), part), x)
    if approx and target.can("tanh_f32" if op == "tanh" else "exp2_f32"):
        return in_chunks(build, lambda part: _APPROXIMATE[op](build, part), x)
    if dtype is F32 and op in _INSIDE:
        return _by_exponent(build, target, op, x)
    if dtype is F32 and op in _SHARED:
        return _exact(build, target, _SHARED[op], x)
    match op:
        case "sqrt":
            return build.map("sqrt", x)
        case "rsqrt":
            return build.map("div", build.constant(1.0, dtype), build.map("sqrt", x))
        case "relu":
            # A NaN loses, and -0 is below +0.
            return build.map("max", x, build.constant(0.0, dtype))
        case "reciprocal":
            return build.map("div", build.constant(1.0, dtype), x)
    return _ROUNDINGS[op](build, x)


def binary_function(
    build: Builder, target: Target, op: str, a: Value, b: Value, *, approx: bool = False
) -> Value:
    """pow, rem and floormod of F32 or F64 registers, likewise."""
    dtype = a.dtype
    assert dtype is not None
    if approx and dtype is F32 and target.can("exp2_f32"):
        return in_chunks(build, lambda x, y: _pow(build, target, x, y), a, b)
    shared = _SHARED_BINARY[op, dtype]
    return in_chunks(build, lambda x, y: shared(KernelArithmetic(build, target, dtype), x, y), a, b)


def _exact(build: Builder, target: Target, shared: _Shared, x: Value) -> Value:
    return in_chunks(build, lambda part: shared(KernelArithmetic(build, target), part), x)


def _by_exponent(build: Builder, target: Target, op: str, x: Value) -> Value:
    """Exponentials, and what is made of them, by fewer steps in threads all of whose exponents are small.

    The exponents' bits tell, joined by ``or``: some are clear and some set in all that are inside. Those of
    the ends do for all, where they are found in fewer steps.
    """
    exponent_of, inside, size = _INSIDE[op]
    arithmetic = KernelArithmetic(build, target)
    ends = _ends(build, target, x) if op in ("exp", "exp2") else None
    if ends is not None:
        size = x.count

    def made(first: int) -> tuple[Value, Value]:
        part = build.pick(x, range(first, min(first + size, x.count)))
        exponent = exponent_of(arithmetic, part if ends is None else ends)
        bits = extreme(build, "or", build.bitcast(exponent, I32))
        high = build.map("and", bits, build.constant(math.INSIDE_MASK, I32))
        within = build.map("eq", high, build.constant(math.INSIDE_BITS, I32))

        def short() -> list[Value]:
            if ends is None:
                return [inside(arithmetic, part, exponent)]
            return [in_chunks(build, lambda few: inside(arithmetic, few, exponent_of(arithmetic, few)), part)]

        (result,) = build.branch(
            within, short, lambda: [_exact(build, target, _SHARED[op], part)], apart=True
        )
        return result, within

    parts, masks = zip(*(made(first) for first in range(0, x.count, size)), strict=True)
    whole = build.join(parts)
    if op in ("exp", "exp2"):
        build.promises[whole] = Promise(build.both(*masks), math.INSIDE_LOW, math.INSIDE_HIGH)
    return whole


# So many registers of differences have their ends looked for.
_MANY = 16


def _ends(build: Builder, target: Target, x: Value) -> Value | None:
    """The least, NaN if one is, and the largest of differences of 16-bit floats and one number.

    Both come of pairs at once, and the largest was often asked for anyway. Their exponents are the ends of
    the others', because differences and exponents, rounded, keep the order of what they are made of.
    """
    if x.op != "sub" or x.count < _MANY or not target.can("extremes_16"):
        return None
    wide, less = x.args
    if wide.op != "convert" or wide.count < x.count or wide.args[0].dtype not in (F16, BF16):
        return None
    if less.op == "pick" and len(set(less.attr)) == 1:  # type: ignore[arg-type]
        less = build.pick(less, [0])
    if less.count > 1:
        return None
    pairs = [(op, build.convert(extreme(build, op, wide.args[0], 2), F32)) for op in ("minimum", "max")]
    return build.sub(build.join([extreme(build, op, pair) for op, pair in pairs]), less)


# From here on all floats are integers.
_WHOLE = {F32: 2.0**23, F64: 2.0**52}


def _constant(build: Builder, value: float, beside: Value) -> Value:
    """A number of the type of another value."""
    assert beside.dtype is not None
    return build.constant(value, beside.dtype)


def _nearest(build: Builder, size: Value) -> Value:
    """The integer nearest to a number from 0 to 2^23 (2^52): beside that a float's last bit is 1."""
    assert size.dtype is not None
    limit = build.constant(_WHOLE[size.dtype], size.dtype)
    return build.sub(build.add(size, limit), limit)


def _rounded(build: Builder, x: Value, size: Value, rounded: Value) -> Value:
    """``rounded`` with the sign of x; x itself where it is an integer anyway, infinite or NaN."""
    assert x.dtype is not None
    whole = I64 if x.dtype is F64 else I32
    sign = build.map("and", build.bitcast(x, whole), build.constant(integer_range(whole)[0], whole))
    signed = build.bitcast(build.map("or", build.bitcast(rounded, whole), sign), x.dtype)
    return build.select(build.map("lt", size, build.constant(_WHOLE[x.dtype], x.dtype)), signed, x)


def _round(build: Builder, x: Value) -> Value:
    """The nearest integer, of two the even one."""
    size = build.map("abs", x)
    return _rounded(build, x, size, _nearest(build, size))


def _trunc(build: Builder, x: Value) -> Value:
    """The integer toward zero."""
    size = build.map("abs", x)
    nearest = _nearest(build, size)
    one_less = build.sub(nearest, _constant(build, 1.0, x))
    return _rounded(build, x, size, build.select(build.map("gt", nearest, size), one_less, nearest))


def _floor(build: Builder, x: Value) -> Value:
    """The integer below; infinities, NaN and -0 stay."""
    nearest = _round(build, x)
    one_less = build.sub(nearest, _constant(build, 1.0, x))
    return build.select(build.map("gt", nearest, x), one_less, nearest)


def _ceil(build: Builder, x: Value) -> Value:
    """The integer above, the opposite of that below the opposite."""
    return build.map("neg", _floor(build, build.map("neg", x)))


_ROUNDINGS: dict[str, Callable[[Builder, Value], Value]] = {
    "floor": _floor,
    "ceil": _ceil,
    "trunc": _trunc,
    "round": _round,
}


# The special-function unit's exp2 is within 2 ulp (2^-22), its log2 within 2^-22 of results near 0 and
# within 1 ulp elsewhere, its reciprocal within 1 ulp, its tanh within 2^-11, its sine and cosine of up to pi
# within 2^-20.5 (PTX ISA, "ex2.approx", "lg2.approx", "rcp.approx", "tanh.approx", "sin.approx").


def _exp(build: Builder, x: Value) -> Value:
    """Within about 2 + |x| ulp: the product's rounding is an error of the exponent."""
    return build.map("exp2", build.mul(x, build.constant(_LOG2_E, F32)))


def power(build: Builder, x: Value, factor: float, y: Value) -> Value:
    """exp(factor x - y) where y has few registers, which stretch: each is scaled once."""
    scale = build.constant(_LOG2_E, F32)
    whole = build.constant(struct.unpack("f", struct.pack("f", factor * _LOG2_E))[0], F32)
    few, which = y, (0,) * x.count
    if y.op == "pick":
        assert isinstance(y.attr, tuple)
        few, which = y.args[0], y.attr  # type: ignore[assignment]
    elif y.count > 1:
        which = tuple(range(y.count))
    less = build.map("neg", build.mul(few, scale))
    return build.map("exp2", build.fma(x, whole, build.pick(less, which)))


def _exp2(build: Builder, x: Value) -> Value:
    """Within 2 ulp."""
    return build.map("exp2", x)


def _log(build: Builder, x: Value) -> Value:
    """Within 3 ulp, for x from 1/2 to 2 within 2^-22."""
    return build.mul(build.map("log2", x), build.constant(_LN_2, F32))


def _log2(build: Builder, x: Value) -> Value:
    """Within 1 ulp, for x from 1/2 to 2 within 2^-22."""
    return build.map("log2", x)


def _pow(build: Builder, target: Target, x: Value, y: Value) -> Value:
    """Within about 2 + 2 |y log2(x)| ulp: the product's and the logarithm's error are the exponent's.

    With x from 1/2 to 2 the logarithm's is 2^-22, and 2^-22 |y| of the exponent are 2^-22 |y| ln(2) of the
    result, up to 2.8 |y| ulp more.
    """
    power = build.map("exp2", build.mul(y, build.map("log2", build.map("abs", x))))
    return math.signed_power(KernelArithmetic(build, target), x, y, power)


def _turned(op: str) -> Callable[[Builder, Value], Value]:
    """The unit's sine or cosine after whole turns are taken off: within 2^-20 + 2^-22 |x|."""

    def function(build: Builder, x: Value) -> Value:
        turns = build.mul(x, build.constant(_ONE_TURN, F32))
        # NaN and infinities have no nearest integer: their differences are NaN.
        rest = build.sub(turns, _round(build, turns))
        return build.map(op, build.mul(rest, build.constant(_TWO_PI, F32)))

    return function


def _reciprocal(build: Builder, x: Value) -> Value:
    """Within 1 ulp."""
    return build.map("reciprocal", x)


def _sigmoid(build: Builder, x: Value) -> Value:
    """Within about 4 + |x| ulp."""
    power = build.map("exp2", build.mul(x, build.constant(-_LOG2_E, F32)))
    return build.map("reciprocal", build.add(power, build.constant(1.0, F32)))


def _silu(build: Builder, x: Value) -> Value:
    """Within about 5 + |x| ulp."""
    # Below, the result is less than 2^-120, and the sigmoid of -infinity would make NaN of it.
    bounded = build.select(build.map("lt", x, build.constant(-90.0, F32)), build.constant(-90.0, F32), x)
    return build.mul(bounded, _sigmoid(build, bounded))


def _gelu(build: Builder, x: Value) -> Value:
    """Within about 5 + 4 x^2 ulp: x / (1 + 2^-t), t a polynomial whose rounding is the power's error."""
    square = build.mul(x, x)
    factor = build.fma(square, build.constant(-_GELU_CUBIC, F32), build.constant(-_GELU_LINEAR, F32))
    power = build.map("exp2", build.mul(x, factor))
    # Far below, the power is infinite and the result -0; of -infinity itself it would be NaN.
    finite = build.map("max", x, build.constant(-1e6, F32))
    return build.mul(finite, build.map("reciprocal", build.add(power, build.constant(1.0, F32))))


def _tanh(build: Builder, x: Value) -> Value:
    """Within 2^-11 of the result."""
    return build.map("tanh", x)


_APPROXIMATE: dict[str, Callable[[Builder, Value], Value]] = {
    "exp": _exp,
    "exp2": _exp2,
    "log": _log,
    "log2": _log2,
    "sin": _turned("sin"),
    "cos": _turned("cos"),
    "reciprocal": _reciprocal,
    "silu": _silu,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "gelu": _gelu,
}
