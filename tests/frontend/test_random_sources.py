"""Random kernels mean what Python makes of them on numbers, and their previews trace to the same tile IR."""

import numpy as np
import pytest
from explicit import same_ir, scalar, tensor, written
from random_sources import Numbers, Writer

import gizml_tile as tile

DATA = [3.0, -1.0, 2.0, 5.0, 0.0, 1.0, -4.0, 2.0]


@pytest.mark.parametrize("seed", range(60))
def test_random_source(seed):
    function = written(Writer(seed, loose=seed % 2 == 1, unknown=seed % 3 == 0).source(), "kernel")
    numbers = Numbers(DATA)
    function(numbers, None, None, 2)
    stored = np.full(8, np.nan, np.float32)
    try:
        tile.kernel(grid=1)(function)(np.array(DATA, np.float32), stored, 2)
    except tile.TileError as error:
        assert error.message.startswith(("the carried value `", "`", "add of an index"))
        assert seed in REFUSED
        return
    assert {n: x for n, x in enumerate(stored.tolist()) if x == x} == numbers.stored
    same_ir(function, tensor("x", 1), tensor("y", 1), scalar("n"))


# Kernels that change a carried value's type, or call a function that reads what a loop assigns.
REFUSED = frozenset({12, 21, 32, 41})


@pytest.mark.parametrize("seed", range(40))
def test_names_that_may_have_no_value(seed):
    """Where a name may be read without a value the kernel is right or refused, never silently wrong."""
    function = written(Writer(seed, wild=True, unknown=seed % 2 == 0).source(), "kernel")
    numbers = Numbers(DATA)
    try:
        function(numbers, None, None, 2)
        expected = numbers.stored
    except UnboundLocalError:
        expected = None
    stored = np.full(8, np.nan, np.float32)
    try:
        tile.kernel(grid=1)(function)(np.array(DATA, np.float32), stored, 2)
    except (tile.TileError, NameError):
        return
    assert {n: x for n, x in enumerate(stored.tolist()) if x == x} == expected
