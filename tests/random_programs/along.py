"""Operations along an axis in random programs: what they are called with, how written, what they give."""

from __future__ import annotations

from random import Random

import numpy as np
from intervals import UNIT, Value, floats, integers, key, lift, to, where, zeros_apart
from programs import Type

from gizml_tile.dtypes import F32, I32, MASK, math_dtype

RUNNING = ("cumsum", "cumprod", "cummax", "cummin")
PLACES = ("argmax", "argmin")
NAMES = frozenset((*RUNNING, *PLACES, "prod", "linear", "sort", "topk", "histogram"))
_STEPS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}


def choose(random: Random, kind: Type, *, ieee: bool) -> tuple[str, Type, object]:
    """An operation that takes a tile of a type: its name, what it gives, its attribute."""
    is_float, axis = kind.dtype.is_float, random.randrange(2)
    dtype, size = math_dtype(kind.dtype), kind.shape[axis]
    names = [*PLACES, "cummax", "cummin", "sort", "topk"]
    names += ["cumsum"] if not (is_float and ieee) else []
    names += 2 * ["cumprod", "prod", "linear", "histogram"] if not is_float else []
    name = random.choice(names) if kind.dtype is not MASK else "cumsum"
    left = (1, kind.shape[1]) if axis == 0 else (kind.shape[0], 1)
    turned = random.random() < 0.3
    if name in RUNNING:
        return name, Type(I32 if kind.dtype is MASK else dtype, kind.shape), (axis, turned)
    if name == "linear":
        return name, Type(dtype, kind.shape), (axis, turned)
    if name == "histogram":
        bins = random.choice([1, 4, 32, 256])
        return name, Type(I32, (1, bins)), bins
    if name in PLACES or name == "prod":
        return name, Type(dtype if name == "prod" else I32, left), axis
    keep = size if name == "sort" else random.choice([n for n in (1, 2, 4, 8, size) if n <= size])
    part = random.randrange(2)
    shape = (keep, kind.shape[1]) if axis == 0 else (kind.shape[0], keep)
    return name, Type(I32 if part else dtype, shape), (axis, turned, keep, part)


def written(name: str, operand: str, attr: object) -> str:
    """The call in a program's text."""
    match name, attr:
        case "linear", (axis, reverse):
            function = "lambda a1, b1, a2, b2: (a1 * a2, b1 * a2 + b2)"
            return f"{operand}.associative_scan({function}, {axis}, {operand}, reverse={reverse})[1]"
        case "sort", (axis, descending, _, part):
            return f"{operand}.sort({axis}, descending={descending})[{part}]"
        case "topk", (axis, largest, keep, part):
            return f"{operand}.topk({keep}, {axis}, largest={largest})[{part}]"
        case _, (axis, reverse):
            return f"{operand}.{name}({axis}, reverse={reverse})"
    return f"{operand}.{name}({attr})"


def evaluate(name: str, a: Value, attr: object) -> Value:
    """What the operation may give, element by element."""
    a = to(a, I32) if a.dtype is MASK else lift(a)
    if name in PLACES:
        return _place(a, attr, name)
    if name == "prod":
        whole = _running(a, "cumprod", attr, False)
        last = (Ellipsis, slice(-1, None)) if attr == 1 else (slice(-1, None),)
        return integers(whole.lo[last], a.dtype, whole.exact[last])
    if name == "histogram":
        inside = a.lo[(a.lo >= 0) & (a.lo < attr)]
        return integers(np.bincount(inside, minlength=attr)[None], I32, bool(a.exact.all()))
    if name in ("sort", "topk"):
        return _sorted(a, *attr)
    return _running(a, name, *attr)


def _running(a: Value, name: str, axis: int, reverse: bool) -> Value:
    lo, hi = (np.flip(end, axis) if reverse else end for end in (a.lo, a.hi))
    if not a.dtype.is_float:
        with np.errstate(all="ignore"):
            found = _linear(lo, axis) if name == "linear" else _STEPS[name].accumulate(lo, axis)
        value = integers(found, a.dtype, np.logical_and.accumulate(lo == hi, axis))
    elif name == "cumsum":
        value = _sums(lo, hi, axis)
    else:
        value = _extremes(lo, hi, name, axis)
    return Value(value.dtype, *(np.flip(end, axis) if reverse else end for end in (value.lo, value.hi)))


def _linear(x: np.ndarray, axis: int) -> np.ndarray:
    """h = x h + x, a place after the other."""
    found = np.moveaxis(x.copy(), axis, 0)
    for number in range(1, len(found)):
        found[number] = found[number] * found[number - 1] + found[number]
    return np.moveaxis(found, 0, axis)


def _sums(lo: np.ndarray, hi: np.ndarray, axis: int) -> Value:
    with np.errstate(all="ignore"):
        wide = [end.astype(np.float64) for end in (lo, hi)]
        size = np.cumsum(np.maximum(abs(wide[0]), abs(wide[1])), axis)
        slack = np.cumsum(np.ones(lo.shape), axis) * UNIT * size
        ends = np.cumsum(wide[0], axis) - slack, np.cumsum(wide[1], axis) + slack
    known = size < 3e38
    found = floats(*(np.where(known, end, limit) for end, limit in zip(ends, (-np.inf, np.inf), strict=True)))
    return Value(F32, *zeros_apart(found.lo, found.hi))


def _extremes(lo: np.ndarray, hi: np.ndarray, name: str, axis: int) -> Value:
    def ends(x: np.ndarray) -> np.ndarray:
        worst = -(2**40) if name == "cummax" else 2**40
        keys = np.where(np.isnan(x), worst, key(x))
        best = _STEPS[name].accumulate(keys, axis)
        # The first element with the best key so far: its own bits.
        bits = np.where(best < 0, (-best - 1) | 0x80000000, best) & 0xFFFFFFFF
        return np.where(best == worst, np.float32(np.nan), bits.astype(np.uint32).view(np.float32))

    return floats(ends(lo), ends(hi))


def _place(a: Value, axis: int, name: str) -> Value:
    x = a.lo
    if a.dtype.is_float:
        x = np.where(np.isnan(x), np.float32(-np.inf if name == "argmax" else np.inf), x)
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
        keys = np.where(np.isnan(a.lo), 2**60, keys)
    order = np.take(np.argsort(keys, axis, kind="stable"), range(keep), axis)
    known = np.broadcast_to(a.exact.all(axis, keepdims=True), order.shape)
    if part:
        return integers(order, I32, known)
    values = np.take_along_axis(a.lo, order, axis)
    if not a.dtype.is_float:
        return integers(values, a.dtype, known)
    return where(known, floats(values), floats(np.full(values.shape, -np.inf), np.full(values.shape, np.inf)))
