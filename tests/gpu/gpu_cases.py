"""Kernels with tensors to run them on, and how far two devices' results may be apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ml_dtypes import bfloat16, float8_e4m3fn, float8_e5m2

import gizml_tile as tile

HALF_ULP = 2.0**-24
TYPES: dict[str, Any] = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": bfloat16}
TYPES |= {"fp8": float8_e4m3fn, "e5m2": float8_e5m2}
TYPES |= {name: np.dtype(name) for name in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")}
# Relative: what rounding to a type may move a value by, and the next value may be away.
ROUNDINGS = {np.dtype(bfloat16): 2.0**-7, np.dtype(np.float16): 2.0**-10, np.dtype(float8_e4m3fn): 2.0**-3}
ROUNDINGS |= {np.dtype(float8_e5m2): 2.0**-2, np.dtype(np.float64): 2.0**-52}

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel, its tensors made anew at each call, and its constants.

    ``bound`` tells from the tensors and a result how far another device's may be away, before both are
    rounded to the storage type; without it results have equal bits.
    """

    name: str
    kernel: Any
    tensors: Callable[[], list[Any]]
    constants: Mapping[str, object] = field(default_factory=dict)
    bound: Callable[[Arrays, np.ndarray], Any] | None = None
    grid: Any = None

    @property
    def launch(self) -> Any:
        return self.kernel if self.grid is None else self.kernel[self.grid]

    def __str__(self) -> str:
        return self.name


def numbers(*shape: int, kind: str = "f32", seed: int = 0, order: str = "C") -> np.ndarray:
    """Random elements: floats around 1, bytes and unsigned integers of any value, others below 1000."""
    rng = np.random.default_rng([seed, *shape])
    dtype = np.dtype(TYPES[kind])
    if dtype.kind in "iu":
        whole = dtype.itemsize == 1 or dtype.kind == "u"
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if whole else (-1000, 1000)
        values = rng.integers(low, high, shape, dtype, endpoint=True)
    else:
        values = rng.standard_normal(shape)
        values = values if kind == "f64" else values.astype(np.float32).astype(dtype)
    return laid_out(values, order)


def laid_out(values: np.ndarray, order: str) -> np.ndarray:
    """The same elements in memory by rows ``C``, by columns ``F``, as a window ``inside`` a larger array,
    at every second place of it (``steps``), or backwards (``back``)."""
    if order == "C":
        return np.ascontiguousarray(values)
    if order == "F":
        return np.ascontiguousarray(values.swapaxes(-1, -2)).swapaxes(-1, -2)
    step = {"inside": slice(1, -2), "steps": slice(1, None, 2), "back": slice(None, None, -1)}[order]
    grown = {"inside": 3, "steps": 0, "back": 0}[order]
    times = 2 if order == "steps" else 1
    whole = np.zeros([size * times + grown for size in values.shape], values.dtype)
    view = whole[(step,) * values.ndim]
    view[...] = values
    return view


def room(*shape: int, kind: str = "f32", order: str = "C") -> np.ndarray:
    """A tensor to write to."""
    return laid_out(np.zeros(shape, TYPES[kind]), order)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def of_product(arrays: Arrays, result: np.ndarray) -> np.ndarray:
    """Two products of the first two tensors, each within the language's bound."""
    a, b = (np.abs(wide(each)) for each in arrays[:2])
    return 2 * a.shape[-1] * HALF_ULP * (a @ b)


def of_sum(count: int, times: float = 1) -> Callable[[Arrays, np.ndarray], np.ndarray]:
    """What a positive sum of ``count`` divides may be apart, relative to itself."""
    return lambda arrays, result: times * 2 * (count / 64 + 8) * HALF_ULP * np.abs(wide(result))


def within(amount: float) -> Callable[[Arrays, np.ndarray], float]:
    """Everything within one amount."""
    return lambda arrays, result: amount


def hard(*shape: int) -> np.ndarray:
    """Random elements, of which the first are ends of ranges, zeros, infinities and NaN."""
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -3e-45, 3e38, 65504.0, 448.0, -0.5, 87.4, 17.0]
    values = numbers(*shape) * 20
    values.ravel()[: len(special)] = special
    return values


def by_blocks(y, BM, BN, **_):
    """A grid with a program for each block of the last two dimensions."""
    return tile.cdiv(y.shape[-1], BN), tile.cdiv(y.shape[-2], BM)
