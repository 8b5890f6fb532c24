"""Kernels run on the CPU and in the simulator of a GPU of each family."""

from __future__ import annotations

import numpy as np

from gizml_tile.lowering.simulate.findings import COSTS

PLACES = [("cpu", ""), ("cuda", "sm_80"), ("cuda", "sm_90a"), ("hip", "gfx942"), ("metal", "apple9")]
# Where there is F64.
DOUBLE_PLACES = [*PLACES[:-1], ("hip", "gfx1100")]


def everywhere(kernel, *arrays, bound=None, places=PLACES, **constants):
    """What a kernel makes of copies of arrays on the CPU; other devices give the same, or within a bound."""
    results = []
    for kind, arch in places:
        copies = [array.copy() for array in arrays]
        if kind == "cpu":
            kernel(*copies, **constants)
        else:
            simulated = kernel.simulate(*copies, kind=kind, arch=arch, **constants)
            wrong = [each for each in simulated.findings if each.kind not in COSTS]
            assert not wrong, wrong
        results.append(copies)
    for other in results[1:]:
        for one, another in zip(results[0][:-1], other[:-1], strict=True):
            _assert_equal(one, another)
        if bound is None:
            _assert_equal(results[0][-1], other[-1])
        else:
            assert (abs(results[0][-1].astype(float) - other[-1]) <= bound).all()
    return results[0]


def _assert_equal(one, another):
    equal = one.view(f"u{one.itemsize}") == another.view(f"u{one.itemsize}")
    if one.dtype.kind not in "iub":
        equal |= np.isnan(one.astype(float)) & np.isnan(another.astype(float))
    assert equal.all(), (one[~equal][:4], another[~equal][:4])
