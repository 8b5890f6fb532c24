"""Compares a launch with what the tile IR means, element for element and in the memory around."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import guarded
import numpy as np
import pytest
from tile_ir_interpreter import interpret

import gizml_tile as tile
from gizml_tile.dtypes import to_numpy
from gizml_tile.lowering.tile_passes.pipeline import simplify
from gizml_tile.program import trace
from gizml_tile.runtime import pool

HALF_ULP = 2.0**-24
FLOATS = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16)}
FLOATS |= {"bf16": to_numpy(tile.BF16), "fp8": to_numpy(tile.FP8)}
TYPES = FLOATS | {name: np.dtype(name) for name in ("i1", "u1", "i2", "i4", "i8")}


def agree(grid: Sequence[int], body: Callable[..., None], bound: float = 0.0) -> list[np.ndarray]:
    """Launches ``body`` and compares all it writes with NumPy's run of its tile IR; gives the results.

    Without a ``bound`` floats must be equal (zeros of both signs and all NaN are); with one they may differ
    by that much. Memory that is no element of what is written must keep its bytes.
    """
    traced = trace("body", body, grid_rank=len(grid))
    written = [traced.tensors[number] for number in dict.fromkeys(traced.writes)]
    memories = list({id(memory): memory for memory in map(memory_of, written)}.values())
    before = [memory.copy() for memory in memories]
    shared = any(
        np.may_share_memory(traced.tensors[number], other)
        for number in set(traced.writes)
        for place, other in enumerate(traced.tensors)
        if place != number
    )
    program = simplify(traced.program, may_alias=shared)
    interpret(program, traced.tensors, grid, traced.scalars)
    wanted = [memory.copy() for memory in memories]
    for memory, old in zip(memories, before, strict=True):
        memory[...] = old
    launch(grid, body)
    for memory, want in zip(memories, wanted, strict=True):
        assert_close(memory, want, bound)
    return written


def launch(grid: Sequence[int], body: Callable[..., None]) -> None:
    """Launches a body that was not launched before, on two threads with watched arenas."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "launch", guarded.launch)
        tile.run(list(grid), body)


def memory_of(array: np.ndarray) -> np.ndarray:
    """The whole array that a view looks into."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def assert_close(result: np.ndarray, want: np.ndarray, bound: float | np.ndarray = 0.0) -> None:
    """Equal to within ``bound``; shows the worst element otherwise."""
    assert result.shape == want.shape
    assert result.dtype == want.dtype or bound is not None
    if result.dtype.kind in "iub":
        assert np.array_equal(result, want)
        return
    x, y = result.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        right = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= bound)
        if not right.all():
            off = np.where(right, 0, np.nan_to_num(np.abs(x - y), nan=np.inf, posinf=np.inf))
            place = np.unravel_index(np.argmax(off), off.shape)
            raise AssertionError(
                f"{int((~right).sum())} of {right.size} are wrong; at {[int(i) for i in place]} "
                f"{x[place]!r} instead of {y[place]!r}"
            )


def numbers(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Random elements of a type: floats around 1, integers over their range (large ones small)."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.itemsize == 1 else (-1000, 1000)
        return rng.integers(low, high, shape, endpoint=True).astype(dtype)
    return rng.standard_normal(shape).astype(np.float32).astype(dtype)


def laid_out(values: np.ndarray, order: str) -> np.ndarray:
    """The same elements in memory as ``order`` says; the memory around them is filled with 7.

    ``C`` and ``F`` are contiguous, ``inside`` a window of a larger matrix, ``turned`` the same of a
    column-major one, ``steps`` every third column of every second row, ``back`` runs backwards both ways.
    """
    rows, columns = values.shape[-2:]
    lead = values.shape[:-2]
    last = (..., slice(None), slice(None))
    if order == "C":
        return np.ascontiguousarray(values)
    if order == "F":
        return np.swapaxes(np.ascontiguousarray(np.swapaxes(values, -1, -2)), -1, -2)
    match order:
        case "inside":
            whole = np.full((*lead, rows + 3, columns + 5), 7).astype(values.dtype)
            view = whole[..., 1 : rows + 1, 3 : columns + 3]
        case "turned":
            whole = np.full((*lead, columns + 5, rows + 3), 7).astype(values.dtype)
            view = np.swapaxes(whole[..., 3 : columns + 3, 1 : rows + 1], -1, -2)
        case "steps":
            whole = np.full((*lead, 2 * rows + 1, 3 * columns + 1), 7).astype(values.dtype)
            view = whole[..., 1::2, 1::3]
        case "back":
            whole = np.full((*lead, rows + 2, columns + 2), 7).astype(values.dtype)
            view = whole[..., rows:0:-1, columns:0:-1]
        case _:
            raise ValueError(order)
    view[last] = values
    return view
