"""What kernels of the corpus give on the CPU, and how results on other devices compare with that."""

from __future__ import annotations

from functools import cache

import numpy as np
from gpu_cases import ROUNDINGS, Case, wide


@cache
def on_the_cpu(case: Case) -> list[np.ndarray]:
    """The tensors after a launch on the CPU."""
    tensors = case.tensors()
    case.launch(*tensors, **case.constants)
    return arrays(tensors)


def arrays(tensors):
    return [each for each in tensors if isinstance(each, np.ndarray)]


def assert_agree(case: Case, got: np.ndarray, want: np.ndarray, before: np.ndarray) -> None:
    """Equal bits, or within the case's bound and what the storage type's rounding makes of it."""
    if case.bound is None or got.dtype.kind in "iub" or same(want, before).all():
        wrong = ~same(got, want)
    else:
        bound = case.bound(arrays(case.tensors()), want)
        slack = ROUNDINGS.get(want.dtype, 2.0**-23) * np.abs(wide(want))
        wrong = ~(np.abs(wide(got) - wide(want)) <= bound + slack)
    if wrong.any():
        place = tuple(map(int, np.argwhere(wrong)[0]))
        raise AssertionError(
            f"{wrong.sum()} of {wrong.size} differ; at {place} {got[place]!r} instead of {want[place]!r}"
        )


def same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Where two arrays have the same bits, or both a NaN."""
    a, b = (np.ascontiguousarray(each).view(f"u{each.itemsize}") for each in (one, other))
    return (a == b) | (np.isnan(wide(one)) & np.isnan(wide(other)))
