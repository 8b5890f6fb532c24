"""Each operation of the language on intervals: what a device may give, from NumPy in more bits."""

from __future__ import annotations

import math

import doubles
import numpy as np
from intervals import (
    HIGHEST_KEY,
    LOWEST_KEY,
    SINGLE,
    Format,
    Value,
    common,
    corners,
    count,
    floats,
    fma,
    format_of,
    hull,
    integer_sum,
    integers,
    key,
    lift,
    mask,
    nothing,
    same,
    unkey,
    where,
    zeros_apart,
)
from philox import tile_of
from stochastic import rounded

from gizml_tile.dtypes import BF16, E5M2, F32, F64, FP8, I32, MASK, U32, DType, to_numpy


def gelu(x):
    if x.dtype == np.longdouble:
        return doubles.gelu(x)
    return x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    if x.dtype == np.longdouble:
        return doubles.gelu_erf(x)
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    return 0.5 * x * erfc(-x / math.sqrt(2))


def erf(x):
    if x.dtype == np.longdouble:
        return doubles.erf(x)
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def sigmoid(x):
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x)))


# name: the function in float64 (for F64 in longdouble) and its error in ulp of F32 (of F64 at most 3)
FUNCTIONS = {
    "exp": (np.exp, 3),
    "exp2": (np.exp2, 3),
    "log": (np.log, 3),
    "tanh": (np.tanh, 3),
    "sigmoid": (sigmoid, 3),
    "gelu": (gelu, 3.5),
    "gelu_erf": (gelu_erf, 3.5),
    "silu": (lambda x: x * sigmoid(x), 3),
    "log2": (np.log2, 3),
    "log1p": (np.log1p, 3),
    "expm1": (np.expm1, 3),
    "softplus": (lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), 3),
    "erf": (erf, 3),
}
# Of functions that fall and then rise: where they are lowest, and a value below all others.
LOWEST = {"gelu": (-0.7524, -0.171), "gelu_erf": (-0.7524, -0.171), "silu": (-1.2785, -0.2785)}


def ulp(x, kind: Format = SINGLE):
    """The spacing of F32 (of F64) at values that have more bits, at least that of subnormal numbers."""
    exponent = np.frexp(np.where(np.isfinite(x), x, 1))[1]
    return np.ldexp(kind.wide(1), np.maximum(exponent - kind.digits, kind.least))


def function(name: str, a: Value) -> Value:
    a = lift(a)
    kind = format_of(a.dtype)
    true, error = FUNCTIONS[name]
    error = min(error, 3) if a.dtype is F64 else error
    with np.errstate(all="ignore"):
        ends = [np.asarray(true(end.astype(kind.wide))) for end in (a.lo, a.hi)]
        if name in LOWEST:
            # The textbook forms give NaN at infinity where the limit is meant.
            ends = [
                np.where(end == -np.inf, -0.0, np.where(end == np.inf, np.inf, value))
                for end, value in zip((a.lo, a.hi), ends, strict=True)
            ]
        missing = np.isnan(ends[0]), np.isnan(ends[1])
        low, high = np.fmin(*ends), np.fmax(*ends)
        if name in LOWEST:
            place, least = LOWEST[name]
            low = np.where((a.lo < place) & (a.hi > place), least, low)
        result = floats(low - error * ulp(low, kind), high + error * ulp(high, kind), a.dtype)
        unknown = a.unknown | (missing[0] != missing[1]) | (missing[0] & ~a.exact)
        known_nan = a.exact & missing[0]
    result = where(unknown, nothing(a.shape, a.dtype), result)
    return where(known_nan, missing_numbers(a), result)


def missing_numbers(a: Value) -> Value:
    """NaN in the shape and type of a value."""
    return floats(np.full(a.shape, np.nan), None, a.dtype)


def add(a: Value, b: Value, negate_b: bool = False) -> Value:
    """a + b or a - b; a product may be fused, and what is added to a matrix product joins its chain."""
    dtype, (a, b) = common(a, b)
    if not dtype.is_float:
        return _integer(lambda x, y: x - y if negate_b else x + y, a, b)
    plain = corners((lambda x, y: x - y) if negate_b else (lambda x, y: x + y), a, b)
    choices = [plain]
    sign_b = -1 if negate_b else 1
    for factors, other, sign, sign_other in (
        (a.factors, b, 1, sign_b),
        (b.factors, a, sign_b, 1),
    ):
        if factors:
            x, y, negated = factors
            sign = -sign if negated else sign
            choices.append(corners(lambda p, q, c, s=sign, t=sign_other: fma(s * p, q, t * c), x, y, other))
    result = hull(*(Value(v.dtype, *np.broadcast_arrays(v.lo, v.hi)) for v in choices))
    terms = max(a.terms, b.terms)
    if terms:
        kind = format_of(dtype)
        with np.errstate(all="ignore"):
            size = np.maximum(abs(a.lo), abs(a.hi)) + np.maximum(abs(b.lo), abs(b.hi))
            slack = (terms + 2) * kind.unit * size.astype(kind.wide)
            widened = floats(result.lo - slack, result.hi + slack, dtype)
        result = where(np.isfinite(slack), widened, nothing(result.shape, dtype))
    return Value(result.dtype, result.lo, result.hi, None, terms)


def _integer(operation, a: Value, b: Value) -> Value:
    with np.errstate(all="ignore"):
        return integers(operation(a.lo, b.lo), a.dtype, a.exact & b.exact)


def multiply(a: Value, b: Value) -> Value:
    dtype, (a, b) = common(a, b)
    if not dtype.is_float:
        return _integer(lambda x, y: x * y, a, b)
    result = corners(lambda x, y: x * y, a, b)
    return Value(result.dtype, result.lo, result.hi, (a.bare(), b.bare(), False))


def divide(a: Value, b: Value) -> Value:
    _, (a, b) = common(a, b)
    crosses = (b.lo <= 0) & (b.hi >= 0) & ~b.exact
    result = corners(lambda x, y: x / y, a, b)
    return where(np.broadcast_to(crosses, result.shape), nothing(result.shape, result.dtype), result)


def negate(a: Value) -> Value:
    a = lift(a)
    if not a.dtype.is_float:
        return integers(-a.lo, a.dtype, a.exact)
    factors = a.factors and (a.factors[0], a.factors[1], not a.factors[2])
    result = floats(-a.hi, -a.lo, a.dtype)
    return Value(result.dtype, result.lo, result.hi, factors, a.terms)


def absolute(a: Value) -> Value:
    a = lift(a)
    if not a.dtype.is_float:
        return integers(np.abs(a.lo), a.dtype, a.exact)
    result = corners(np.abs, a)
    inside = (a.lo <= 0) & (a.hi >= 0) & ~a.exact & ~a.unknown
    return where(inside, floats(np.zeros(a.shape), result.hi, a.dtype), result)


def extreme(name: str, a: Value, b: Value) -> Value:
    """maximum and minimum: a NaN loses, -0 is below +0."""
    dtype, (a, b) = common(a, b)
    choose = np.maximum if name == "maximum" else np.minimum
    if not dtype.is_float:
        return _integer(choose, a, b)

    def pick(x, y):
        kx, ky = key(x), key(y)
        if name == "minimum":
            kx, ky = (np.where(k == LOWEST_KEY, HIGHEST_KEY, k) for k in (kx, ky))
        return unkey(choose(kx, ky), x.dtype.type)

    return floats(pick(a.lo, b.lo), pick(a.hi, b.hi), dtype)


def compare(name: str, a: Value, b: Value) -> Value:
    _, (a, b) = common(a, b)
    if name in ("gt", "ge"):
        return compare("lt" if name == "gt" else "le", b, a)
    if name == "ne":
        equal = compare("eq", a, b)
        return mask(~equal.hi, ~equal.lo)
    if name == "lt":
        sure, possible = a.hi < b.lo, a.lo < b.hi
    elif name == "le":
        sure, possible = a.hi <= b.lo, a.lo <= b.hi
    else:
        sure = a.exact & b.exact & (a.lo == b.lo)
        possible = (a.lo <= b.hi) & (b.lo <= a.hi)
    if a.dtype.is_float:
        lost = a.unknown | b.unknown
        sure, possible = sure & ~lost, possible | lost
    return mask(sure, possible)


def select(condition: Value, yes: Value, no: Value) -> Value:
    if yes.dtype is not no.dtype:
        _, (yes, no) = common(yes, no)
    shape = np.broadcast_shapes(condition.shape, yes.shape, no.shape)
    condition, yes, no = (
        Value(v.dtype, np.broadcast_to(v.lo, shape), np.broadcast_to(v.hi, shape))
        for v in (condition, yes, no)
    )
    return where(condition.exact, where(condition.lo, yes, no), hull(yes, no))


def bitwise(name: str, a: Value, b: Value) -> Value:
    operations = {"and_": np.bitwise_and, "or_": np.bitwise_or, "xor": np.bitwise_xor}
    if a.dtype is MASK:
        if name == "xor":
            exact = a.exact & b.exact
            return mask((a.lo ^ b.lo) & exact, (a.lo ^ b.lo) | ~exact)
        return mask(operations[name](a.lo, b.lo), operations[name](a.hi, b.hi))
    _, (a, b) = common(a, b)
    return _integer(operations[name], a, b)


def invert(a: Value) -> Value:
    if a.dtype is MASK:
        return mask(~a.hi, ~a.lo)
    a = lift(a)
    return integers(~a.lo, a.dtype, a.exact)


def reduce(name: str, a: Value, axis: int) -> Value:
    if a.dtype is MASK:
        if name == "sum":
            return count(a, axis)
        take = np.any if name == "max" else np.all
        return mask(take(a.lo, axis, keepdims=True), take(a.hi, axis, keepdims=True))
    a = lift(a)
    if a.dtype.is_float:
        return _float_sum(a, axis) if name == "sum" else _float_extreme(name, a, axis)
    if name == "sum":
        return integer_sum(a, axis)
    known = a.exact.all(axis, keepdims=True)
    return integers(getattr(a.lo, name)(axis, keepdims=True), a.dtype, known)


def propagating(name: str, a: Value, axis: int) -> Value:
    """The largest or smallest along an axis, of which one NaN makes a NaN."""
    result = reduce(name, a, axis)
    if not a.dtype.is_float:
        return result
    missing = np.isnan(a.lo).any(axis, keepdims=True)
    maybe = a.unknown.any(axis, keepdims=True)
    return where(missing, missing_numbers(result), where(maybe, nothing(result.shape, result.dtype), result))


def _float_extreme(name: str, a: Value, axis: int) -> Value:
    parts = [
        Value(a.dtype, lo, hi)
        for lo, hi in zip(np.moveaxis(a.lo, axis, 0), np.moveaxis(a.hi, axis, 0), strict=True)
    ]
    result = parts[0]
    for part in parts[1:]:
        result = extreme("maximum" if name == "max" else "minimum", result, part)
    return floats(np.expand_dims(result.lo, axis), np.expand_dims(result.hi, axis), a.dtype)


def _float_sum(a: Value, axis: int) -> Value:
    kind = format_of(a.dtype)
    wide = a.lo.astype(kind.wide), a.hi.astype(kind.wide)
    with np.errstate(all="ignore"):
        size = np.maximum(abs(wide[0]), abs(wide[1])).sum(axis, keepdims=True)
        slack = (a.shape[axis] / 64 + 8) * kind.unit * size
        ends = wide[0].sum(axis, keepdims=True) - slack, wide[1].sum(axis, keepdims=True) + slack
        result = _ordered(*ends, a.dtype)
        exact = a.exact.all(axis, keepdims=True)
        special = wide[0].sum(axis, keepdims=True)  # infinities and NaN as IEEE addition in any order,
        # unless finite elements alone make another infinity, or may.
        finite = np.where(np.isfinite(wide[0]), abs(wide[0]), 0).sum(axis, keepdims=True)
    result = where(size < kind.largest, result, nothing(size.shape, a.dtype))
    known = exact & ~np.isfinite(size) & (finite < kind.largest)
    return where(known, floats(special, None, a.dtype), result)


def _ordered(lo, hi, dtype: DType) -> Value:
    """Floats whose sign of zero does not matter."""
    value = floats(lo, hi, dtype)
    return Value(value.dtype, *zeros_apart(value.lo, value.hi))


def dot(a: Value, b: Value, *, tf32: bool = False) -> Value:
    """A product of matrices; with ``tf32`` each F32 operand may be rounded to 10 bits after the point."""
    if not a.dtype.is_float:
        known = a.exact.all(1, keepdims=True) & b.exact.all(0, keepdims=True)
        return integers(a.lo @ b.lo, I32, known)
    depth, dtype = a.shape[1], F64 if F64 in (a.dtype, b.dtype) else F32
    kind = format_of(dtype)
    wide = [x.astype(kind.wide) for x in (a.lo, a.hi, b.lo, b.hi)]
    finite = [np.isfinite(x) for x in wide]
    bad = (~(finite[0] & finite[1])).any(1, keepdims=True) | (~(finite[2] & finite[3])).any(0, keepdims=True)
    wide = [np.where(good, x, 0) for x, good in zip(wide, finite, strict=True)]
    centre = (wide[0] + wide[1]) / 2, (wide[2] + wide[3]) / 2
    radius = (wide[1] - wide[0]) / 2, (wide[3] - wide[2]) / 2
    with np.errstate(all="ignore"):
        size = (abs(centre[0]) + radius[0]) @ (abs(centre[1]) + radius[1])
        cut = (2.0**-11 * [a.dtype, b.dtype].count(F32) + 2.0**-22) if tf32 else 0
        slack = size - abs(centre[0]) @ abs(centre[1])
        slack = slack + (depth * kind.unit * 1.001 + (2 * depth + 8) * kind.rest + cut) * size
        if tf32:
            # The spacing of TF32's subnormal numbers does not shrink with them.
            slack = slack + 2.0**-137 * (abs(wide[0]).sum(1, keepdims=True) + abs(wide[2]).sum(0))
        if {a.dtype, b.dtype} <= {BF16, FP8, E5M2}:
            # The hardware's pair instruction may take and give subnormals as zeros.
            slack = slack + 2.0**-126 * (depth + abs(wide[0]).sum(1, keepdims=True) + abs(wide[2]).sum(0))
        slack = slack + depth * 2.0**kind.least * (size > 0)
        total = centre[0] @ centre[1]
        result = _ordered(total - slack, total + slack, dtype)
    result = where(bad | ~(size < kind.largest), nothing(size.shape, dtype), result)
    return Value(result.dtype, result.lo, result.hi, None, depth)


def floor_divide(a: Value, b: Value) -> Value:
    _, (a, b) = common(a, b)
    return _divided(np.floor_divide, a, b)


def _where_exact(result: Value, *operands: Value) -> Value:
    """The result where all operands are known; elsewhere nothing."""
    exact = np.all(np.broadcast_arrays(*(each.exact for each in operands)), 0)
    return where(np.broadcast_to(exact, result.shape), result, nothing(result.shape, result.dtype))


def remainder(a: Value, b: Value) -> Value:
    """With the sign of a; of integers 0 where b is 0."""
    dtype, (a, b) = common(a, b)
    if not dtype.is_float:
        return _divided(np.fmod, a, b)
    with np.errstate(all="ignore"):
        return _where_exact(floats(np.fmod(a.lo, b.lo), None, dtype), a, b)


def wave(true, a: Value) -> Value:
    """A sine or cosine: of what is not known from -1 to 1."""
    a = lift(a)
    kind = format_of(a.dtype)
    with np.errstate(all="ignore"):
        value = true(a.lo.astype(kind.wide))
        known = floats(value - 3 * ulp(value, kind), value + 3 * ulp(value, kind), a.dtype)
    anywhere = floats(np.full(a.shape, -1.0), np.full(a.shape, 1.0), a.dtype)
    may_be_infinite = ~(np.isfinite(a.lo) & np.isfinite(a.hi))
    unknown = where(may_be_infinite, nothing(a.shape, a.dtype), anywhere)
    return where(a.exact, where(np.isfinite(a.lo), known, missing_numbers(a)), unknown)


def power(a: Value, b: Value) -> Value:
    dtype, (a, b) = common(a, b)
    kind = format_of(dtype)
    with np.errstate(all="ignore"):
        value = np.power(a.lo.astype(kind.wide), b.lo)
        near = floats(value - 3 * ulp(value, kind), value + 3 * ulp(value, kind), dtype)
        # Zeros have their sign, and what is no number or infinite is so.
        sharp = (value == 0) | ~np.isfinite(value)
        return _where_exact(where(sharp, floats(value, None, dtype), near), a, b)


def fused(a: Value, b: Value, c: Value) -> Value:
    return corners(fma, a, b, c)


def copysign(a: Value, b: Value) -> Value:
    dtype, (a, b) = common(a, b)
    size = absolute(a)
    known = corners(np.copysign, size, where(b.exact, b, floats(np.ones(b.shape), None, dtype)))
    either = hull(Value(dtype, *np.broadcast_arrays(size.lo, size.hi)), floats(-size.hi, -size.lo, dtype))
    shape = known.shape
    either = Value(dtype, np.broadcast_to(either.lo, shape), np.broadcast_to(either.hi, shape))
    nan = np.broadcast_to(np.isnan(b.lo) | b.unknown | a.unknown, shape)
    result = where(np.broadcast_to(b.exact, shape), known, either)
    return where(nan, nothing(shape, dtype), result)


def bitcast(a: Value, dtype: DType) -> Value:
    """The bits of known elements; of a NaN they are left open."""
    source, target = (np.dtype(to_numpy(each)) for each in (a.dtype, dtype))
    with np.errstate(all="ignore"):
        raw = a.lo.astype(source).view(target)
    known = a.exact & ~(np.isnan(a.lo) if a.dtype.is_float else False)
    if not dtype.is_float:
        return integers(raw.astype(np.int64), dtype, known)
    result = floats(raw.astype(format_of(dtype).held), None, dtype)
    return where(known, result, nothing(a.shape, dtype))


def high(a: Value, b: Value, *, unsigned: bool) -> Value:
    """The upper half of the product of 32-bit integers."""
    _, (a, b) = common(a, b)
    if not unsigned:
        return _integer(lambda x, y: x * y >> 32, a, b)

    def upper(x, y):
        product = (x & 0xFFFFFFFF).astype(np.uint64) * (y & 0xFFFFFFFF).astype(np.uint64)
        return (product >> np.uint64(32)).astype(np.int64)

    return _integer(upper, a, b)


def by_chance(a: Value, bits: Value, dtype: DType) -> Value:
    """Rounded by known bits; of what is not known nothing is known after it."""
    a = lift(a)
    with np.errstate(all="ignore"):
        found = floats(rounded(a.lo, bits.lo, dtype).astype(np.float32), None, dtype)
    exact = np.broadcast_to(a.exact & bits.exact, found.shape)
    return where(exact, found, nothing(found.shape, dtype))


def draw(attr, offset: int) -> Value:
    """Random numbers of a seed, from a counter on; normal ones within 8 ulp."""
    seed, (rows, columns), kind = attr
    groups = -(-columns // 4)
    counters = [[_wrapped(offset + row * groups + group) for group in range(groups)] for row in range(rows)]
    found = tile_of(kind, (rows, columns), np.array(counters, np.int64), seed)
    if kind == "bits":
        return integers(found, U32)
    return floats(found) if kind == "uniform" else floats(found - 8 * ulp(found), found + 8 * ulp(found))


def _wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def _patterns(a: Value) -> list[int]:
    return [int(each) % (1 << a.dtype.bits) for each in a.lo.ravel()]


def count_bits(a: Value) -> Value:
    a = lift(a)
    return integers(np.reshape([each.bit_count() for each in _patterns(a)], a.shape), a.dtype, a.exact)


def leading_zeros(a: Value) -> Value:
    a = lift(a)
    counts = [a.dtype.bits - each.bit_length() for each in _patterns(a)]
    return integers(np.reshape(counts, a.shape), a.dtype, a.exact)


def floor_modulo(a: Value, b: Value) -> Value:
    dtype, (a, b) = common(a, b)
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return _where_exact(floats(np.mod(a.lo, b.lo), None, dtype), a, b)
    return _divided(np.mod, a, b)


def _divided(operation, a: Value, b: Value) -> Value:
    """A division of integers, or its remainder: 0 where b is 0."""
    nothing, one = np.zeros(1, b.lo.dtype), np.ones(1, b.lo.dtype)
    return _integer(lambda x, y: np.where(y == 0, nothing, operation(x, np.where(y == 0, one, y))), a, b)


def shift(name: str, a: Value, amount: Value) -> Value:
    """All bits moved out, or moved by less than 0, leave 0; to the right of negative numbers -1."""
    dtype, (a, amount) = common(a, amount)

    def moved(x: int, by: int) -> int:
        if not 0 <= by < dtype.bits:
            return -1 if x < 0 and name == "shr" else 0
        return (x << by) % 2**64 if name == "shl" else x >> by

    # Patterns of 64 bits, of which the type takes its own.
    found = np.vectorize(lambda x, by: moved(int(x), int(by)) % 2**64, otypes=[np.uint64])(a.lo, amount.lo)
    return integers(found, dtype, a.exact & amount.exact)


def monotone(name: str, a: Value) -> Value:
    a = lift(a)
    if name == "relu":
        zero = floats(np.zeros((1, 1)))
        return extreme("maximum", a, zero)
    if name in ("floor", "ceil", "trunc"):
        return corners(getattr(np, name), a)
    if name == "round":
        return corners(np.rint, a)
    if name == "sign":
        return corners(lambda x: np.where((x == 0) | np.isnan(x), x, np.sign(x)), a)
    if name == "sqrt":
        return corners(np.sqrt, a)
    result = corners(lambda x: x.dtype.type(1) / np.sqrt(x), a)
    crosses = (a.lo <= 0) & (a.hi >= 0) & ~a.exact
    return where(crosses, nothing(a.shape, a.dtype), result)


def accepts(value: Value, result: np.ndarray) -> np.ndarray:
    """Where a device's result (float32, float64, int64 or bool) is right."""
    if value.dtype is MASK or not value.dtype.is_float:
        return (value.lo <= result) & (result <= value.hi)
    with np.errstate(all="ignore"):
        inside = (value.lo <= result) & (result <= value.hi)
    inside = np.where(value.exact, same(value.lo, result.astype(value.lo.dtype)), inside)
    return inside | value.unknown
