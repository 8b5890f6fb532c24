"""Operations along an axis in random programs: what they are called with, how written, what they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import combining
import numpy as np
from intervals import (
    HIGHEST_KEY,
    LOWEST_KEY,
    Value,
    floats,
    format_of,
    integers,
    key,
    lift,
    nothing,
    to,
    unkey,
    where,
    zeros_apart,
)
from programs import Type

from gizml_tile.dtypes import I32, MASK, DType, math_dtype
from gizml_tile.nodes import broadcast

if TYPE_CHECKING:
    from writer import Writer

RUNNING = ("cumsum", "cumprod", "cummax", "cummin")
PLACES = ("argmax", "argmin")
NAMES = frozenset((*RUNNING, *PLACES, "prod", "reduce", "scan", "sort", "topk", "histogram"))
_STEPS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}


def draw(writer: Writer) -> str:
    """An operation on a tile that there is."""
    return drawn(writer, writer.pick(lambda t: t.dtype is not None and t.shape != (1, 1)) or writer.floats())


def drawn(writer: Writer, a: str, asked: str = "") -> str:
    """An operation on a tile; the one that is asked for if it has that."""
    random = writer.random
    kind = writer.names[a]
    is_float, axis = kind.dtype.is_float, random.randrange(2)
    dtype, size = math_dtype(kind.dtype), kind.shape[axis]
    names = [*PLACES, "cummax", "cummin", "sort", "topk", "reduce", "scan"]
    names += ["cumsum"] if not (is_float and writer.owner.ieee) else []
    names += ["cumprod", "prod"] if is_float and not writer.owner.ieee else []
    names += ["cumprod", "prod", "reduce", "scan", "histogram", "histogram"] if not is_float else []
    name = asked if asked in names else random.choice(names) if kind.dtype is not MASK else "cumsum"
    left = (1, kind.shape[1]) if axis == 0 else (kind.shape[0], 1)
    turned = random.random() < 0.3
    if name in ("reduce", "scan"):
        return _combined(writer, name, a, axis, turned)
    if name in RUNNING:
        result: tuple[Type, object] = Type(I32 if kind.dtype is MASK else dtype, kind.shape), (axis, turned)
    elif name == "histogram":
        bins = random.choice([1, 4, 32, 256])
        result = Type(I32, (1, bins)), bins
    elif name in PLACES or name == "prod":
        result = Type(dtype if name == "prod" else I32, left), axis
    else:
        keep = size if name == "sort" else random.choice([n for n in (1, 2, 4, 8, size) if n <= size])
        part = random.randrange(2)
        shape = (keep, kind.shape[1]) if axis == 0 else (kind.shape[0], keep)
        result = Type(I32 if part else dtype, shape), (axis, turned, keep, part)
    return writer.emit(name, result[0], a, attr=result[1])


def _combined(writer: Writer, name: str, a: str, axis: int, turned: bool) -> str:
    """A reduction or a scan by one of the functions that are associative."""
    random, first = writer.random, writer.names[a]
    known = [each for each, how in combining.FUNCTIONS.items() if how.floats or not first.dtype.is_float]
    form = random.choice(known)
    tiles, how = [a], combining.FUNCTIONS[form]
    for _ in range(how.arity - 1):
        shape = writer.joint(*tiles)

        def fits(t: Type, shape: tuple[int, int] = shape) -> bool:
            both = broadcast(shape, t.shape) if t.dtype not in (None, MASK) else None
            small = both is not None and both[0] * both[1] <= writer.owner.limit
            return small and t.batch <= first.batch and how.takes(first, t)

        tiles.append(writer.pick(fits) or a)
    part = random.randrange(how.arity)
    shape = writer.joint(*tiles)
    if name == "reduce":
        shape = (1, shape[1]) if axis == 0 else (shape[0], 1)
    dtype = math_dtype(writer.names[tiles[part]].dtype)
    return writer.emit(name, Type(dtype, shape), *tiles, attr=(axis, form, part, turned and name == "scan"))


def written(name: str, args: list[str], attr: object) -> str:
    """The call in a program's text."""
    operand = args[0]
    match name, attr:
        case "reduce" | "scan", (axis, form, part, reverse):
            method = "reduce" if name == "reduce" else "associative_scan"
            given = [combining.FUNCTIONS[form].text, str(axis), *args[1:], *["reverse=True"] * reverse]
            return f"{operand}.{method}({', '.join(given)})" + (f"[{part}]" if len(args) > 1 else "")
        case "sort", (axis, descending, _, part):
            return f"{operand}.sort({axis}, descending={descending})[{part}]"
        case "topk", (axis, largest, keep, part):
            return f"{operand}.topk({keep}, {axis}, largest={largest})[{part}]"
        case _, (axis, reverse):
            return f"{operand}.{name}({axis}, reverse={reverse})"
    return f"{operand}.{name}({attr})"


def evaluate(name: str, args: list[Value], attr: object) -> Value:
    """What the operation may give, element by element."""
    if name in ("reduce", "scan"):
        return combining.evaluate(name, [lift(each) for each in args], *attr)
    (a,) = args
    a = to(a, I32) if a.dtype is MASK else lift(a)
    if name in PLACES:
        return _place(a, attr, name)
    if name == "prod":
        whole = _running(a, "cumprod", attr, False)
        last = (Ellipsis, slice(-1, None)) if attr == 1 else (slice(-1, None),)
        return Value(a.dtype, whole.lo[last], whole.hi[last])
    if name == "histogram":
        inside = a.lo[(a.lo >= 0) & (a.lo < attr)]
        counts = np.bincount(inside.astype(np.int64), minlength=attr)
        return integers(counts[None], I32, bool(a.exact.all()))
    if name in ("sort", "topk"):
        return _sorted(a, *attr)
    return _running(a, name, *attr)


def _running(a: Value, name: str, axis: int, reverse: bool) -> Value:
    lo, hi = (np.flip(end, axis) if reverse else end for end in (a.lo, a.hi))
    if not a.dtype.is_float:
        with np.errstate(all="ignore"):
            found = _STEPS[name].accumulate(lo, axis)
        value = integers(found, a.dtype, np.logical_and.accumulate(lo == hi, axis))
    elif name == "cumsum":
        value = _sums(lo, hi, axis, a.dtype)
    elif name == "cumprod":
        value = _products(Value(a.dtype, lo, hi), axis)
    else:
        value = _extremes(lo, hi, name, axis, a.dtype)
    return Value(value.dtype, *(np.flip(end, axis) if reverse else end for end in (value.lo, value.hi)))


def _sums(lo: np.ndarray, hi: np.ndarray, axis: int, dtype: DType) -> Value:
    kind = format_of(dtype)
    with np.errstate(all="ignore"):
        wide = [end.astype(kind.wide) for end in (lo, hi)]
        size = np.cumsum(np.maximum(abs(wide[0]), abs(wide[1])), axis)
        slack = np.cumsum(np.ones(lo.shape), axis) * kind.unit * size
        ends = np.cumsum(wide[0], axis) - slack, np.cumsum(wide[1], axis) + slack
    found = where(size < kind.largest, floats(*ends, dtype), nothing(lo.shape, dtype))
    return Value(dtype, *zeros_apart(found.lo, found.hi))


def _products(a: Value, axis: int) -> Value:
    """Running products of known numbers of which no part can leave the normal numbers, in any order."""
    kind, x = format_of(a.dtype), a.lo.astype(format_of(a.dtype).wide)
    smallest = kind.least + kind.digits - 1
    with np.errstate(all="ignore"):
        powers = np.where(np.isfinite(x) & (x != 0), np.log2(abs(x)), 0)
        most, least = (np.cumsum(limit(powers, 0), axis) for limit in (np.maximum, np.minimum))
        true = np.multiply.accumulate(x, axis)
        size = np.where(np.isfinite(true), abs(true), 0)
        slack = (np.cumsum(np.ones(x.shape), axis) - 1) * kind.unit * 1.01 * size
        ends = [np.where(slack > 0, true + sign * slack, true) for sign in (-1, 1)]
    known = np.logical_and.accumulate(a.exact, axis) & (most < 1 - smallest) & (least > smallest)
    return where(known, floats(*ends, a.dtype), nothing(x.shape, a.dtype))


def _extremes(lo: np.ndarray, hi: np.ndarray, name: str, axis: int, dtype: DType) -> Value:
    def ends(x: np.ndarray) -> np.ndarray:
        # The first element with the best key so far, which no NaN has where there is a number.
        worst = LOWEST_KEY if name == "cummax" else HIGHEST_KEY
        keys = np.where(np.isnan(x), worst, key(x))
        return unkey(_STEPS[name].accumulate(keys, axis), x.dtype.type)

    return floats(ends(lo), ends(hi), dtype)


def _place(a: Value, axis: int, name: str) -> Value:
    x = a.lo
    if a.dtype.is_float:
        x = np.where(np.isnan(x), x.dtype.type(-np.inf if name == "argmax" else np.inf), x)
    best = (np.max if name == "argmax" else np.min)(x, axis, keepdims=True)
    fits = (x == best) & ~np.isnan(a.lo)
    first = np.argmax(fits, axis)
    where_ = np.where(fits.any(axis), first, 0)
    return integers(np.expand_dims(where_, axis), I32, a.exact.all(axis, keepdims=True))


def _sorted(a: Value, axis: int, descending: bool, keep: int, part: int) -> Value:
    keys = key(a.lo) if a.dtype.is_float else a.lo
    # All bits turned: the same order backwards, without overflow.
    keys = ~keys if descending else keys
    if a.dtype.is_float:
        keys = np.where(np.isnan(a.lo), HIGHEST_KEY, keys)
    order = np.take(np.argsort(keys, axis, kind="stable"), range(keep), axis)
    known = np.broadcast_to(a.exact.all(axis, keepdims=True), order.shape)
    if part:
        return integers(order, I32, known)
    values = np.take_along_axis(a.lo, order, axis)
    if not a.dtype.is_float:
        return integers(values, a.dtype, known)
    return where(known, floats(values, None, a.dtype), nothing(values.shape, a.dtype))
