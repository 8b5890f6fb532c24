"""Sums of floats by place in random programs: additions in any order, and those that leave no trace of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from intervals import (
    DOUBLE,
    SINGLE,
    Value,
    corners,
    floats,
    format_of,
    hull,
    nothing,
    round_integers,
    round_to,
    to,
    where,
)

from gizml_tile.dtypes import BF16, F16, F32, F64

# Half the spacing of a type, relative; what a number near 0 may be off; the largest that surely is finite.
_PRECISION = {
    F64: (DOUBLE.unit, 2.0**-1022, DOUBLE.largest),
    F32: (SINGLE.unit, 2.0**-126, SINGLE.largest),
    F16: (2.0**-11, 2.0**-25, 65e3),
    BF16: (2.0**-8, 2.0**-126, SINGLE.largest),
}
# An exact sum counts in units of 2 to the power of this, times the power of two in its largest addend.
_CUT = 33
_LEAST_EXPONENT = -126


@dataclass(frozen=True)
class Addends:
    """What is added to elements of a tensor, by their numbers row by row; ``sure`` ones certainly are."""

    places: np.ndarray
    value: Value
    sure: np.ndarray

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """What each adds at least and at most."""
        wide = format_of(self.value.dtype).wide
        lo, hi = self.value.lo.astype(wide), self.value.hi.astype(wide)
        return np.where(self.sure, lo, np.minimum(lo, 0)), np.where(self.sure, hi, np.maximum(hi, 0))

    @property
    def known(self) -> np.ndarray:
        return self.sure & self.value.exact


def _by_place(places: np.ndarray, addends: np.ndarray, count: int) -> np.ndarray:
    # -0 is what changes nothing, also not -0.
    found = np.full(count, -0.0, addends.dtype)
    np.add.at(found, places, addends)
    return found


class AnyOrder:
    """Additions to a tensor, each rounded, in an order that nobody knows.

    With n of them to a place, and what was there, of the sizes s in all, it is off by at most n half spacings
    of s; one alone is rounded once. Atomic units of GPUs may take subnormal F32 for 0.
    """

    def __init__(self, count: int) -> None:
        self.times, self.sizes = np.zeros(count), np.zeros(count)

    def add(self, memory: Value, found: Addends) -> None:
        """Change a memory by some more additions."""
        count, kind = memory.lo.size, format_of(memory.dtype)
        unit, small, most = _PRECISION[memory.dtype]
        found = Addends(found.places, to(found.value, memory.dtype), found.sure)
        with np.errstate(all="ignore"):
            ends = found.ends
            before = [end.ravel().astype(kind.wide) for end in (memory.lo, memory.hi)]
            here = np.maximum(*map(abs, before))
            times = self.times + np.bincount(found.places, minlength=count)
            sizes = np.maximum(self.sizes, here) + _by_place(found.places, np.maximum(*map(abs, ends)), count)

            def off(times: np.ndarray, sizes: np.ndarray) -> np.ndarray:
                return np.where(times > 1, times * (1.01 * unit * sizes + small), 0)

            added = [_by_place(found.places, end, count) for end in ends]
            lo, hi = (
                # One alone is rounded once, and that is the sum in the type in which ends are held.
                np.where(times > 1, old + new, old.astype(kind.held) + new.astype(kind.held))
                for old, new in zip(before, added, strict=True)
            )
            tiny = np.bincount(found.places[_is_tiny(small, *ends)], minlength=count) > 0
            tiny |= _is_tiny(small, *before, lo, hi)
            slack = off(times, sizes) - off(self.times, self.sizes)
            slack += np.where(times > 1, 4 * kind.unit * sizes, np.where(tiny, small, 0))
            lo, hi = lo - slack, hi + slack
        new = floats(round_to(lo, memory.dtype), round_to(hi, memory.dtype), memory.dtype)
        known = np.bincount(found.places[found.known], minlength=count) == 1
        single = (times == 1) & known & memory.exact.ravel()
        _change(memory, found, where(single | (sizes < most), new, nothing((count,), memory.dtype)))
        self.times, self.sizes = times, sizes


def _is_tiny(small: float, *values: np.ndarray) -> np.ndarray:
    return np.any([(abs(each) < small) & (each != 0) for each in values], 0)


def _change(memory: Value, found: Addends, new: Value) -> None:
    """Let a memory have new values where something is added."""
    touched = np.zeros(memory.lo.size, bool)
    touched[found.places] = True
    for old, end in ((memory.lo, new.lo), (memory.hi, new.hi)):
        old[...] = np.where(touched, end, old.ravel()).reshape(old.shape)


def add_exactly(memory: Value, parts: list[Addends]) -> None:
    """Change a memory by a launch's exact sums: each is cut to units, added, rounded and added once."""
    places, sure = (np.concatenate([getattr(part, name) for part in parts]) for name in ("places", "sure"))
    lo, hi = (np.concatenate([getattr(part.value, end) for part in parts]) for end in ("lo", "hi"))
    found, count = Addends(places, Value(F32, lo, hi), sure), memory.lo.size
    with np.errstate(all="ignore"):
        before = to(Value(memory.dtype, memory.lo.ravel(), memory.hi.ravel()), F32)
        open_ = np.bincount(places[~found.known], minlength=count) > 0
        total = where(open_, _between(found, count), floats(_exact(places, lo, count)))
        after = to(corners(np.add, before, total), memory.dtype)
        # To some places perhaps nothing is added.
        maybe = np.bincount(places[sure], minlength=count) == 0
    old = Value(memory.dtype, memory.lo.ravel(), memory.hi.ravel())
    _change(memory, found, where(maybe, hull(old, after), after))


def _exponents(sizes: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    """The power of two in the largest of each place's numbers."""
    finite = np.where(np.isfinite(sizes), sizes, 0)
    found = np.full(count, _LEAST_EXPONENT)
    np.maximum.at(found, places, np.where(finite == 0, _LEAST_EXPONENT, np.frexp(finite)[1] - 1))
    return found


def _exact(places: np.ndarray, addends: np.ndarray, count: int) -> np.ndarray:
    addends = addends.astype(np.float64)
    finite = np.isfinite(addends)
    units = _exponents(addends, places, count) - _CUT
    whole = np.zeros(count, np.int64)
    counted = np.ldexp(np.where(finite, addends, 0), -units[places])
    np.add.at(whole, places, np.trunc(counted).astype(np.int64))
    total = np.ldexp(round_integers(whole, F32).astype(np.float64), units).astype(np.float32)
    odd = _by_place(places, np.where(finite, 0, addends), count)
    return np.where(odd == 0, total, odd.astype(np.float32))


def _between(found: Addends, count: int) -> Value:
    """Ends of sums of which not all addends are known."""
    lo, hi = found.ends
    sizes = np.maximum(abs(lo), abs(hi))
    times = np.bincount(found.places, minlength=count)
    whole = _by_place(found.places, sizes, count)
    cut = times * np.ldexp(1.0, _exponents(sizes, found.places, count) - _CUT) + times * 2.0**-52 * whole
    least, most = (_by_place(found.places, end, count) for end in (lo, hi))
    known = whole < 3e38
    return floats(np.where(known, least - cut, -np.inf), np.where(known, most + cut, np.inf))
