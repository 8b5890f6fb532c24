"""The arrays of a random program: strange strides over a larger memory, filled from a seed."""

from __future__ import annotations

import numpy as np
from intervals import Value, format_of, held, round_to
from programs import TensorSpec

from gizml_tile.dtypes import F64, MASK, integer_range, to_numpy

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -3e-45, 3e38, -1e30, 65504.0, 448.0, 1e-7]
# Beyond F32 on either side, subnormal, beside where narrower floats and integers round to another.
DOUBLES = [1e300, -1.7e308, 5e-324, -2.5e-310, 1 + 2**-24 + 2**-52, 65520 - 2**-37, 2.0**53 - 1, -(2.0**63)]


def build_all(specs: tuple[TensorSpec, ...]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The memory and the view of each tensor; one that is an alias is another array of the same memory."""
    made = {spec.name: build(spec) for spec in specs if not spec.alias}
    return made | {
        spec.name: (made[spec.alias][0], view_of(made[spec.alias][0], spec)) for spec in specs if spec.alias
    }


def build(spec: TensorSpec) -> tuple[np.ndarray, np.ndarray]:
    """The whole memory and the tensor as a view of it."""
    sizes = [axis.before + axis.after + _extent(axis.size, axis.step) for axis in spec.axes]
    inner = [sizes[axis] for axis in spec.order]
    memory = data(spec, tuple(inner))
    return memory, view_of(memory, spec)


def view_of(memory: np.ndarray, spec: TensorSpec) -> np.ndarray:
    """The tensor in its memory."""
    view = memory.transpose(np.argsort(spec.order))
    for number, axis in enumerate(spec.axes):
        window = view[
            (slice(None),) * number + (slice(axis.before, axis.before + _extent(axis.size, axis.step)),)
        ]
        if axis.step == 0:
            window = np.broadcast_to(window, (*view.shape[:number], axis.size, *view.shape[number + 1 :]))
        else:
            window = window[(slice(None),) * number + (slice(None, None, axis.step),)]
        view = window
    return view


def _extent(size: int, step: int) -> int:
    """Elements of memory under an axis."""
    if step == 0:
        return 1
    return 0 if size == 0 else (size - 1) * abs(step) + 1


def data(spec: TensorSpec, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of the tensor's type; ``wild`` ones have every special value among them."""
    rng = np.random.default_rng(spec.seed)
    dtype = to_numpy(spec.dtype)
    if spec.dtype is MASK:
        return rng.random(shape) < 0.5
    if spec.dtype.is_integer:
        low, high = integer_range(spec.dtype)
        small = rng.integers(max(low, -20), 20, shape)
        full = rng.integers(low, high, shape, held(spec.dtype), endpoint=True)
        return np.where(rng.random(shape) < 0.7, small.astype(dtype), full.astype(dtype))
    values = rng.standard_normal(shape)
    if spec.wild:
        special = np.array(SPECIAL + DOUBLES * (spec.dtype is F64))
        wild = rng.choice(special, shape)
        values = np.where(rng.random(shape) < 0.2, wild, values)
    with np.errstate(all="ignore"):
        return round_to(values.astype(format_of(spec.dtype).held), spec.dtype).astype(dtype)


def stored(array: np.ndarray, spec: TensorSpec) -> Value:
    """An array's elements as exact values."""
    if spec.dtype is MASK:
        wide = array.copy()
    elif spec.dtype.is_integer:
        wide = array.astype(held(spec.dtype))
    else:
        wide = array.astype(format_of(spec.dtype).held)
    return Value(spec.dtype, wide, wide.copy())
