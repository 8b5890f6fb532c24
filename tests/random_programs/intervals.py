"""What a tile operation may give: for each element the smallest and the largest right value.

Rounding to nearest is monotone, so an operation of IEEE arithmetic on values between ends of its own type,
float32 or float64, gives a value between the rounded results of the ends. An element whose two ends hold the
same bits is *exact*: the device must give these bits. The ends drift apart only where the language leaves
room: sums, products of matrices, functions with an error of some ulp, and products that may or may not be
fused with an addition.

An element about which nothing is known (it may even be NaN) has the ends -inf and +inf; a mask that is not
known has the ends False and True, an integer the ends of its type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import doubles
import numpy as np
from ml_dtypes import bfloat16, float8_e4m3fn, float8_e5m2

from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    F64,
    FP8,
    I32,
    I64,
    MASK,
    U64,
    DType,
    integer_range,
    math_dtype,
    to_numpy,
)


@dataclass(frozen=True)
class Format:
    """The floats that ends are held in: ``digits`` bits, from 2^least on; sums below ``largest`` are finite.

    ``wide`` has enough more bits for what bounds are derived from.
    """

    held: type[np.floating]
    wide: type[np.floating]
    digits: int
    least: int
    largest: float

    @property
    def unit(self) -> float:
        """Half an ulp, relative."""
        return 2.0**-self.digits

    @property
    def rest(self) -> float:
        """An ulp of what bounds are derived in."""
        return float(np.finfo(self.wide).eps)


SINGLE = Format(np.float32, np.float64, 24, -149, 3e38)
DOUBLE = Format(np.float64, np.longdouble, 53, -1074, 1.7e308)


def format_of(dtype: DType) -> Format:
    """What the ends of a float type are held in: those of narrower ones as F32."""
    return DOUBLE if dtype is F64 else SINGLE


@dataclass(frozen=True)
class Value:
    """The ends of a tile's elements: float32 for floats and float64 for F64, int64 (of U64 uint64) for
    integers, bool for masks.

    ``factors`` are the operands of a product, which an addition may fuse; ``terms`` is the depth of a matrix
    product, whose roundings also touch what is added to it. ``narrow`` is the F32 that an F64 was made of,
    which a conversion back is again.
    """

    dtype: DType
    lo: np.ndarray
    hi: np.ndarray
    factors: tuple[Value, Value, bool] | None = None
    terms: int = 0
    narrow: Value | None = None

    def __post_init__(self) -> None:
        assert not self.dtype.is_float or self.lo.dtype == self.hi.dtype == format_of(self.dtype).held

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lo.shape

    @property
    def exact(self) -> np.ndarray:
        return same(self.lo, self.hi)

    @property
    def unknown(self) -> np.ndarray:
        return (self.lo == -np.inf) & (self.hi == np.inf)

    def bare(self) -> Value:
        return Value(self.dtype, self.lo, self.hi)


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays hold the same bits, or both a NaN."""
    if a.dtype.kind != "f":
        return a == b
    bits = f"i{a.dtype.itemsize}"
    return (a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))


def floats(lo, hi=None, dtype: DType = F32) -> Value:
    """A float value with its ends in order; where one end alone is NaN, nothing is known."""
    held = format_of(dtype).held
    with np.errstate(all="ignore"):
        lo = np.asarray(lo).astype(held)
        hi = lo if hi is None else np.asarray(hi).astype(held)
    lost = (np.isnan(lo) != np.isnan(hi)) | (lo > hi)
    return Value(dtype, np.where(lost, held(-np.inf), lo), np.where(lost, held(np.inf), hi))


def nothing(shape: tuple[int, ...], dtype: DType = F32) -> Value:
    """Floats of which nothing is known."""
    held = format_of(dtype).held
    return Value(dtype, np.full(shape, -np.inf, held), np.full(shape, np.inf, held))


def integers(value, dtype: DType, known=True) -> Value:
    """An integer value, wrapped to its type where ``known``."""
    value, known = np.broadcast_arrays(np.asarray(value), known)
    low, high = (np.array(end, held(dtype)) for end in integer_range(dtype))
    value = wrap(value, dtype)
    return Value(dtype, np.where(known, value, low), np.where(known, value, high))


def held(dtype: DType) -> type[np.integer]:
    """What the values of an integer type are held in."""
    return np.uint64 if dtype is U64 else np.int64


def wrap(value: np.ndarray, dtype: DType) -> np.ndarray:
    return value.astype(to_numpy(dtype)).astype(held(dtype))


def mask(lo, hi=None) -> Value:
    lo = np.asarray(lo, bool)
    return Value(MASK, lo, lo if hi is None else np.asarray(hi, bool))


def hull(*values: Value) -> Value:
    """Between the smallest and the largest of several values of one type."""
    first = values[0]
    lo, hi = first.lo, first.hi
    if first.dtype is MASK:
        return mask(np.all([v.lo for v in values], 0), np.any([v.hi for v in values], 0))
    if not first.dtype.is_float:
        exact = np.all([v.exact & (v.lo == lo) for v in values], 0)
        return integers(lo, first.dtype, exact)
    agreed = np.all([v.exact & same(v.lo, lo) for v in values], 0)
    lo = np.min([v.lo for v in values], 0)  # NaN wins here, and floats() makes it unknown
    hi = np.max([v.hi for v in values], 0)
    lost = np.isnan(lo) | np.isnan(hi)
    lo, hi = zeros_apart(lo, hi)
    merged = floats(np.where(lost, -np.inf, lo), np.where(lost, np.inf, hi), first.dtype)
    return where(agreed, first, merged)


def zeros_apart(lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of which a zero may have either sign: the smaller end -0, the larger +0."""
    return np.where(lo == 0, np.float32(-0.0), lo), np.where(hi == 0, np.float32(0.0), hi)


def where(condition: np.ndarray, yes: Value, no: Value) -> Value:
    return Value(yes.dtype, np.where(condition, yes.lo, no.lo), np.where(condition, yes.hi, no.hi))


def corners(function, *operands: Value) -> Value:
    """A function that is monotone in each operand, evaluated in their type at all ends."""
    dtype, operands = common(*operands)
    held = format_of(dtype).held
    shape = np.broadcast_shapes(*(v.shape for v in operands))
    with np.errstate(all="ignore"):
        results = [
            np.broadcast_to(function(*choice), shape) for choice in product(*((v.lo, v.hi) for v in operands))
        ]
    exact = np.broadcast_to(np.all(np.broadcast_arrays(*(v.exact for v in operands)), 0), shape)
    lost = np.any(np.broadcast_arrays(*(v.unknown for v in operands)), 0)
    lost = np.broadcast_to(lost, shape) | np.any(np.isnan(results), 0)
    lo = np.where(lost, held(-np.inf), np.min(results, 0))
    hi = np.where(lost, held(np.inf), np.max(results, 0))
    lo, hi = zeros_apart(lo, hi)
    first = results[0].astype(held)
    return floats(np.where(exact, first, lo), np.where(exact, first, hi), dtype)


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c with one rounding: of float64, or of float32 by rounding to odd in float64."""
    if np.result_type(a, b, c) == np.float64:
        return doubles.fused(a, b, c)
    a, b, c = (np.asarray(x, np.float64) for x in (a, b, c))
    exact_product = a * b
    total = exact_product + c
    shifted = total - exact_product
    rest = (exact_product - (total - shifted)) + (c - shifted)
    return odd(total, rest).astype(np.float32)


def odd(total: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """``total + rest`` rounded to float64 with the last bit set where it is not exact."""
    even = (np.ascontiguousarray(total).view(np.int64) & 1) == 0
    move = even & (rest != 0) & np.isfinite(total) & np.isfinite(rest)
    return np.where(move, np.nextafter(total, np.copysign(np.inf, rest)), total)


# Keys below and above those of all numbers.
LOWEST_KEY, HIGHEST_KEY = np.int64(-(2**63)), np.int64(2**63 - 1)


def key(x: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats, -0 below +0, NaN below everything."""
    x = np.ascontiguousarray(x)
    bits = x.view(f"i{x.dtype.itemsize}")
    ordered = np.where(bits < 0, ~(bits & np.iinfo(bits.dtype).max), bits)
    return np.where(np.isnan(x), LOWEST_KEY, ordered.astype(np.int64))


def unkey(k: np.ndarray, held: type[np.floating]) -> np.ndarray:
    """The floats of keys; both keys that no number has are NaN."""
    whole = np.dtype(f"i{np.dtype(held).itemsize}")
    bits = np.where(k < 0, ~k | np.iinfo(whole).min, k).astype(whole)
    return np.where((k == LOWEST_KEY) | (k == HIGHEST_KEY), held(np.nan), bits.view(held))


def round_to(x: np.ndarray, dtype: DType) -> np.ndarray:
    """float32 or float64 values rounded once to a float storage type, in what its ends are held in."""
    with np.errstate(all="ignore"):
        if dtype is F64:
            return x.astype(np.float64)
        if dtype is F16:
            return x.astype(np.float16).astype(np.float32)
        narrow = x.astype(np.float32)
        x = odd_float32(x, narrow) if x.dtype == np.float64 and dtype is not F32 else narrow
        if dtype is BF16:
            return x.astype(bfloat16).astype(np.float32)
        if dtype is FP8:
            return np.clip(x, -448, 448).astype(float8_e4m3fn).astype(np.float32)
        if dtype is E5M2:
            return x.astype(float8_e5m2).astype(np.float32)
        return x


def to(value: Value, dtype: DType) -> Value:
    """Conversion as ``Tile.to`` does it."""
    source = value.dtype
    if dtype is source:
        return value
    if source is MASK:
        lo, hi = value.lo.astype(np.int64), value.hi.astype(np.int64)
        if dtype.is_float:
            return floats(lo, hi, dtype)
        return integers(lo, dtype, value.exact)
    if source.is_float and dtype.is_float:
        if dtype is F32 and value.narrow is not None:
            return value.narrow
        rounded = floats(round_to(value.lo, dtype), round_to(value.hi, dtype), dtype)
        rounded = where(value.unknown, nothing(value.shape, dtype), rounded)
        return replace(rounded, narrow=value) if dtype is F64 and source is F32 else rounded
    if source.is_float:
        lo, hi = truncate(value.lo, dtype), truncate(value.hi, dtype)
        return integers(lo, dtype, (lo == hi) & ~value.unknown)
    if dtype.is_float:
        return floats(round_integers(value.lo, dtype), round_integers(value.hi, dtype), dtype)
    return integers(value.lo, dtype, value.exact)


def truncate(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Toward zero, saturating, NaN to 0."""
    low, high = integer_range(dtype)
    whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=2.0**70, neginf=-(2.0**70)))
    inside = (whole >= float(low)) & (whole < float(high) + (0 if dtype in (I64, U64) else 1))
    with np.errstate(all="ignore"):
        result = np.where(inside, whole, 0).astype(held(dtype))
    low, high = (np.array(end, held(dtype)) for end in (low, high))
    return np.where(inside, result, np.where(whole < 0, low, high))


def round_integers(x: np.ndarray, dtype: DType) -> np.ndarray:
    """int64 or uint64 to a float type with one rounding, in what its ends are held in."""
    wide = x.astype(np.float64)
    if dtype is F64:
        return wide
    # What float64 dropped: the sign of the rest suffices for rounding to odd.
    limit = 2.0**64 if x.dtype == np.uint64 else 2.0**63
    near = np.where(np.abs(wide) < limit, wide, 0).astype(x.dtype)
    with np.errstate(all="ignore"):
        dropped = (x - near).view(np.int64)
    rest = np.where(np.abs(wide) < limit, dropped, np.where(wide > 0, -1, 0)).astype(np.float64)
    return round_to(odd(wide, rest), dtype)


def odd_float32(wide: np.ndarray, narrow: np.ndarray) -> np.ndarray:
    """The float32 beside float64 values whose last bit is set where it is not exact."""
    even = (narrow.view(np.int32) & 1) == 0
    up = wide > narrow
    move = even & (wide != narrow)
    return np.where(move, np.nextafter(narrow, np.where(up, np.float32(np.inf), np.float32(-np.inf))), narrow)


def lift(value: Value) -> Value:
    """A stored value as mathematics sees it."""
    return replace(value, dtype=math_dtype(value.dtype))


def common(*values: Value) -> tuple[DType, list[Value]]:
    lifted = [lift(v) for v in values]
    dtype = lifted[0].dtype
    for wide in (I64, U64, F64):
        if any(v.dtype is wide for v in lifted):
            dtype = wide
    return dtype, [v if v.dtype is MASK else to(v, dtype) for v in lifted]


def integer_sum(values: Value, axis: int) -> Value:
    known = values.exact.all(axis, keepdims=True)
    dtype = math_dtype(values.dtype)
    with np.errstate(all="ignore"):
        return integers(values.lo.sum(axis, keepdims=True), dtype, known)


def count(values: Value, axis: int) -> Value:
    """How many elements of a mask are true: I32."""
    return Value(I32, values.lo.sum(axis, keepdims=True), values.hi.sum(axis, keepdims=True))
