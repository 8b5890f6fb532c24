"""The warning at a launch whose tensors end inside a block that a product or sum counts."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.errors import TileWarning


def sums(columns, name, pad=0.0):
    """A sum of exponentials; another name is another trace, for which the warning is due again."""
    x, out = np.zeros((8, columns), np.float32), np.zeros((8, 1), np.float32)

    def body(p):
        assert name
        X, C = p.read(x, [8, 8], pad=pad), p.write(out, [8, 1])
        C[0, 0] = p.fold(0, X.blocks(1), p.zeros([8, 1]), lambda k, acc: acc + X[0, k].exp().sum(1))

    tile.run((1,), body)
    return out[0, 0]


def test_a_ragged_end_that_counts_warns_at_its_line():
    with pytest.warns(
        TileWarning, match="the sum adds 1 for each element past the end of t0 axis 1"
    ) as found:
        assert sums(12, "ragged") == 16
    (warning,) = found
    assert warning.filename == __file__
    assert warning.lineno == sums.__code__.co_firstlineno + 7


def test_whole_blocks_and_right_pads_are_quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sums(16, "whole") == 16
        assert sums(12, "padded", pad=-np.inf) == 12
