"""Approximate functions in random programs: of a GPU's own units, within the errors that are promised."""

from __future__ import annotations

import numpy as np
from intervals import Value, common, floats, nothing, where
from programs import Op, Program
from reference import ulp

from gizml_tile.dtypes import F64
from gizml_tile.nodes import APPROXIMABLE

NAMES = APPROXIMABLE | {"pow"}
# The least number that is not subnormal, of which a unit may make 0.
_LEAST = 2.0**-126
# Errors in ulp by the size of the argument. A relative one of 2^-11 is up to 2^13 of them.
_ULPS = {
    "exp": lambda x: 2 + x,
    "exp2": lambda x: 2,
    "sigmoid": lambda x: 4 + x,
    "silu": lambda x: 5 + x,
    "gelu": lambda x: 5 + 4 * x * x,
    "tanh": lambda x: 2.0**13,
    "reciprocal": lambda x: 1,
}


def is_approximate(op: Op, program: Program) -> bool:
    """Whether an operation may be computed by the unit for it, which none has for F64."""
    asked = op.name in NAMES and (op.attr is True or program.approx)
    return asked and op.types[0].dtype is not F64


def loosened(name: str, args: list[Value], found: Value) -> Value:
    """What a GPU may give where ``found`` is what all that do not approximate may give."""
    _, (a, *rest) = common(*args)
    with np.errstate(all="ignore"):
        x = np.maximum(abs(a.lo), abs(a.hi)).astype(np.float64)
        ends = [end.astype(np.float64) for end in (found.lo, found.hi)]
        sizes = [_error(name, x, a, rest, end) for end in ends]
        # Infinities have no error.
        sharp = np.broadcast_to(found.exact & ~np.isfinite(found.lo), found.shape)
        wide = floats(ends[0] - sizes[0], ends[1] + sizes[1])
        open_ = found.unknown | np.isnan(wide.lo)
        if name == "reciprocal":
            open_ |= (abs(a.lo) < _LEAST) & (a.lo != 0) | (a.lo < 0) & (a.hi > 0)
    return where(sharp, found, where(open_, nothing(found.shape), wide))


def _error(name: str, x: np.ndarray, a: Value, rest: list[Value], end: np.ndarray) -> np.ndarray:
    """How much further off a result near an end may be."""
    near_one = (a.hi >= 0.5) & (a.lo <= 2)
    match name:
        case "log" | "log2":
            return np.where(near_one, 2.0**-22, 0)
        case "sin" | "cos":
            return 2.0**-20 + 2.0**-22 * x
        case "pow":
            y = np.maximum(abs(rest[0].lo), abs(rest[0].hi)).astype(np.float64)
            return (2 + 2 * y * abs(np.log2(x)) + np.where(near_one, 4 * y, 0)) * ulp(end) + _LEAST
    return _ULPS[name](x) * ulp(end) + (_LEAST if name != "tanh" else 0)
