"""Small programs for the passes, and how two programs are compared."""

from __future__ import annotations

import numpy as np
from tile_ir_interpreter import interpret

from gizml_tile.check import check
from gizml_tile.program import trace


def tensors(seed=0):
    """Two inputs of 20 x 12 (one with special values), an I32 one, and outputs of F32 and I32."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((20, 12)).astype(np.float32)
    y = rng.standard_normal((20, 12)).astype(np.float32)
    special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 3e38])
    y.ravel()[::7] = np.resize(special, y.ravel()[::7].shape)
    n = rng.integers(-(2**31), 2**31, (20, 12)).astype(np.int32)
    n.ravel()[::5] = np.resize(np.int32([0, 1, -1, 2**31 - 1, -(2**31)]), n.ravel()[::5].shape)
    return {
        "x": x,
        "y": y,
        "n": n,
        "out": np.full((20, 12), 7, np.float32),
        "ints": np.full((20, 12), 7, np.int32),
    }


def record(body, data=None, **names):
    """The traced program of ``body(p, x, y, n, out, ints)`` over these tensors."""
    data = data or tensors()
    traced = trace("test", lambda p: body(p, *data.values()), **names)
    check(traced.program)
    return traced


def outputs(program, traced, grid=(3, 2), scalars=()):
    """What the written tensors hold after a run on copies of the tensors."""
    copies = [np.array(each) for each in traced.tensors]
    interpret(program, copies, grid, scalars or traced.scalars)
    return [copies[number] for number in sorted({*program.writes})]


def assert_same_bits(found, wanted):
    """Equal arrays, bit for bit, any NaN equal to any NaN."""
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        if one.dtype.kind == "f":
            nan = np.isnan(one) & np.isnan(other)
            one, other = (np.where(nan, 0, each).astype(each.dtype).view(np.int32) for each in (one, other))
        np.testing.assert_array_equal(one, other)


def operations(program):
    """The names of a program's nodes in order, regions included."""
    return [node.op for node in program.body.walk()]
