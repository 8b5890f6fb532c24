"""Grids: what a launch takes for one."""

import functools

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.grids import as_grid, resolve


def test_cdiv_rounds_up():
    assert [tile.cdiv(a, 4) for a in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    "given, grid",
    [(3, (3,)), ((3, 2), (3, 2)), ([1, 2, 3], (1, 2, 3)), (np.int64(4), (4,)), ((0, 5), (0, 5))],
)
def test_what_is_a_grid(given, grid):
    assert as_grid(given) == grid


ARGUMENTS = {"x": 10, "n": 3, "BM": 4}


@pytest.mark.parametrize(
    "spec, grid",
    [
        (lambda x, BM, **_: (x, BM), (10, 4)),
        (lambda n: n, (3,)),
        (lambda **arguments: arguments["x"], (10,)),
        (lambda n, other=2: (n, other), (3, 2)),
        (lambda *, n: n, (3,)),
        (functools.partial(lambda x, scale: (x, scale), scale=7), (10, 7)),
        ((1, 2), (1, 2)),
    ],
)
def test_functions_are_called_with_what_they_name(spec, grid):
    assert resolve(spec, "k", ARGUMENTS) == grid


def test_a_grid_function_with_its_own_state():
    class Half:
        def __call__(self, x):
            return x // 2

    assert resolve(Half(), "k", ARGUMENTS) == (5,)


def test_errors_of_a_grid_function_pass_through():
    def grid(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        resolve(grid, "k", ARGUMENTS)


@pytest.mark.parametrize(
    "spec, message",
    [
        ((), "the grid of k has 0 sizes (); a grid has 1 to 3"),
        (
            (1, 2, 3, 4),
            "the grid of k has 4 sizes (1, 2, 3, 4); a grid has 1 to 3; count two axes by one, and divide "
            "p.id",
        ),
        ((3, -1), "the grid of k (3, -1) has a negative size; sizes count programs, from 0 up"),
        (
            2**31,
            "the grid of k (2147483648,) has a size of 2^31 programs or more; let each do more, in larger "
            "blocks",
        ),
        (
            2.5,
            "the grid of k holds 2.5 of type float; a grid is an int or 1 to 3 ints; divide with tile.cdiv "
            "or //",
        ),
        (True, "the grid of k holds True of type bool; a grid is an int or 1 to 3 ints"),
        ("3", "the grid of k holds '3' of type str; a grid is an int or 1 to 3 ints"),
        (
            lambda m: m,
            "the grid function of k asks for 'm', which the kernel does not have; it has x, n, BM",
        ),
        (
            lambda meta: (meta["BM"],),
            "the grid function of k asks for 'meta', which the kernel does not have; it has x, n, BM; a grid "
            "function asks for arguments and constants by name, as lambda x, BLOCK, **_: ... does",
        ),
        (
            lambda m, **_: m,
            "the grid function of k asks for 'm', which the kernel does not have; it has x, n, BM",
        ),
        (
            None,
            "k has no grid; write it in the decorator, @tile.kernel(grid=lambda x, **_: ...), or in the "
            "call, k[grid](...)",
        ),
    ],
)
def test_what_is_not_a_grid(spec, message):
    with pytest.raises(tile.TileError) as caught:
        resolve(spec, "k", ARGUMENTS)
    assert caught.value.message == message
    assert caught.value.filename == __file__
