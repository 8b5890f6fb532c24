"""What gathers and scatters mean, by NumPy, and how the devices are asked for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tile_ir_interpreter import interpret

import gizml_tile as tile
from gizml_tile.lowering.simulate.findings import COSTS
from gizml_tile.lowering.tile_passes.pipeline import simplify
from gizml_tile.program import trace
from gizml_tile.target import gpus

ARCHS = ("sm_80", "sm_90a", "gfx942", "gfx1100", "apple9")
KINDS = {target.arch: target.kind for target in gpus()}


def gathered(tensor, coordinates, pad=0, mask=True):
    """``tensor[coordinates]`` with the pad outside and where the mask is false."""
    *coordinates, mask = np.broadcast_arrays(*coordinates, mask)
    inside = _inside(tensor, coordinates) & mask
    result = np.full(inside.shape, pad, tensor.dtype)
    result[inside] = tensor[tuple(each[inside] for each in coordinates)]
    return result


def scattered(tensor, values, coordinates, mask=True):
    """A copy of a tensor after ``tensor[coordinates] = values``."""
    *coordinates, mask, values = np.broadcast_arrays(*coordinates, mask, values)
    inside = _inside(tensor, coordinates) & mask
    result = tensor.copy()
    result[tuple(each[inside] for each in coordinates)] = values[inside]
    return result


def _inside(tensor, coordinates):
    checks = [(each >= 0) & (each < size) for each, size in zip(coordinates, tensor.shape, strict=True)]
    return np.logical_and.reduce(checks)


def everywhere(grid, body: Callable[[tile.Program], object], outputs, *, races: bool = False):
    """The outputs of a body on the CPU, by the tile IR's interpreter and on simulated GPUs, device by device.

    Nothing but ``races``, if they are meant, may be found wrong.
    """
    before = [each.copy() for each in outputs]

    def results():
        found = [each.copy() for each in outputs]
        for each, old in zip(outputs, before, strict=True):
            each[...] = old
        return found

    tile.run(grid, body)
    yield "cpu", results()
    traced = trace("body", body, grid_rank=len(grid))
    for program in (traced.program, simplify(traced.program)):
        interpret(program, traced.tensors, grid, traced.scalars)
        yield "the tile IR", results()
    for arch in ARCHS:
        ran = tile.simulate(grid, body, kind=KINDS[arch], arch=arch)
        allowed = {*COSTS, "race"} if races else COSTS
        wrong = [str(each) for each in ran.findings if each.kind not in allowed]
        assert not wrong, wrong
        yield arch, results()


def agree(got, want) -> None:
    """Equal bits, or both NaN."""
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    if got.dtype.kind in "fV":
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
