"""Associative functions for reductions and scans in random programs: as text, and what they give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from intervals import Value, floats, integers, key, nothing, where
from programs import Type

from gizml_tile.dtypes import math_dtype

Values = list[np.ndarray]


@dataclass(frozen=True)
class Function:
    """A function of the values of two places: its text, and its meaning for arrays of them.

    ``floats`` says whether it is associative for floats too; ``alike`` that all values have one type.
    """

    arity: int
    text: str
    meaning: Callable[..., tuple[np.ndarray, ...]]
    floats: bool = False
    alike: bool = True

    def takes(self, first: Type, other: Type) -> bool:
        """Whether a tile goes along with the first."""
        assert first.dtype is not None and other.dtype is not None
        alike = math_dtype(first.dtype) is math_dtype(other.dtype)
        return alike or not (self.alike or other.dtype.is_float)


def _larger(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(_key(a) >= _key(b), a, b)


def _smaller(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    first = _key(a) <= _key(b)
    return np.where(a != a, b, np.where((b != b) | first, a, b))


def _key(x: np.ndarray) -> np.ndarray:
    """Numbers in the order of maximum, in which NaN are smallest."""
    return key(x) if x.dtype.kind == "f" else x


FUNCTIONS = {
    "linear": Function(
        2,
        "lambda a1, b1, a2, b2: (a1 * a2, b1 * a2 + b2)",
        lambda a1, b1, a2, b2: (a1 * a2, b1 * a2 + b2),
    ),
    "triangular": Function(
        3,
        "lambda a1, b1, c1, a2, b2, c2: (a1 * a2, a1 * b2 + b1 * c2, c1 * c2)",
        lambda a1, b1, c1, a2, b2, c2: (a1 * a2, a1 * b2 + b1 * c2, c1 * c2),
    ),
    "segments": Function(
        2,
        "lambda f1, v1, f2, v2: (f1 | f2, (f2 != 0).select(v2, v1 + v2))",
        lambda f1, v1, f2, v2: (f1 | f2, np.where(f2 != 0, v2, v1 + v2)),
        alike=False,
    ),
    "exclusive": Function(1, "lambda a, b: a ^ b", lambda a, b: (a ^ b,)),
    "last": Function(
        1, "lambda a, b: (b == 0).select(a, b)", lambda a, b: (np.where(b == 0, a, b),), floats=True
    ),
    "extremes": Function(
        2,
        "lambda a1, b1, a2, b2: (a1.minimum(a2), b1.maximum(b2))",
        lambda a1, b1, a2, b2: (_smaller(a1, a2), _larger(b1, b2)),
        floats=True,
    ),
    "place of the last largest": Function(
        2,
        "lambda a1, b1, a2, b2: ((a1 > a2).select(a1, a2), (a1 > a2).select(b1, b2))",
        lambda a1, b1, a2, b2: (np.where(a1 > a2, a1, a2), np.where(a1 > a2, b1, b2)),
        alike=False,
    ),
}


def evaluate(name: str, tiles: list[Value], axis: int, form: str, part: int, reverse: bool) -> Value:
    """What a function makes of the places along an axis, one after the other."""
    shape = np.broadcast_shapes(*(tile.shape for tile in tiles))
    turn = slice(None, None, -1) if reverse else slice(None)
    values = [np.moveaxis(np.broadcast_to(tile.lo, shape), axis, 0)[turn] for tile in tiles]
    known = np.all([np.broadcast_to(tile.exact, shape) for tile in tiles], 0)
    known = np.logical_and.accumulate(np.moveaxis(known, axis, 0)[turn], 0)
    now = [each[0] for each in values]
    found = [now[part]]
    with np.errstate(all="ignore"):
        for number in range(1, shape[axis]):
            now = list(FUNCTIONS[form].meaning(*now, *(each[number] for each in values)))
            # Of integers each operation wraps.
            now = [_wrapped(each, tile) for each, tile in zip(now, tiles, strict=True)]
            found.append(now[part])
    result = np.stack(found)
    if name == "reduce":
        result, known = result[-1:], known[-1:]
    result, known = (np.moveaxis(each[turn], 0, axis) for each in (result, known))
    dtype = tiles[part].dtype
    if not dtype.is_float:
        return integers(result, dtype, known)
    return where(known, floats(result, None, dtype), nothing(result.shape, dtype))


def _wrapped(array: np.ndarray, tile: Value) -> np.ndarray:
    return array if tile.dtype.is_float else integers(array, tile.dtype).lo
