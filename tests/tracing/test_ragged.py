"""The warning at a launch whose tensors end inside a block that a product or sum counts."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.errors import TileWarning

PROGRAM = """
import numpy as np

import gizml_tile as tile

@tile.kernel(grid=1)
def sums(p, x, out):
    X, C = p.read(x, [8, 16]), p.write(out, [8, 1])
    C[0, 0] = X[0, 0].exp().sum(1)

x, out = np.zeros((8, 12), np.float32), np.zeros((8, 1), np.float32)
sums(x, out)
print(out[0, 0])
"""


def sums(columns, pad=0.0):
    x, out = np.zeros((8, columns), np.float32), np.zeros((8, 1), np.float32)

    def body(p):
        X, C = p.read(x, [8, 8], pad=pad), p.write(out, [8, 1])
        C[0, 0] = p.fold(0, X.blocks(1), p.zeros([8, 1]), lambda k, acc: acc + X[0, k].exp().sum(1))

    tile.run((1,), body)
    return out[0, 0]


def test_a_ragged_end_that_counts_warns_at_its_line():
    with pytest.warns(
        TileWarning, match="the sum adds 1 for each element past the end of t0 axis 1"
    ) as found:
        assert sums(12) == 16
    (warning,) = found
    assert warning.filename == __file__
    assert warning.lineno == sums.__code__.co_firstlineno + 5


def test_whole_blocks_and_right_pads_are_quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sums(16) == 16
        assert sums(12, pad=-np.inf) == 12


def test_a_trace_from_the_disk_warns_too(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = os.environ | {"GIZML_TILE_CACHE": str(tmp_path / "cache")}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.stdout == "16.0\n"
        assert "program.py:9: TileWarning: the sum adds 1 for each element" in done.stderr


def extremes(make, pad=0.0, columns=12):
    x, out = np.zeros((8, columns), np.float32), np.zeros((8, 1), np.float32)

    def body(p):
        p.write(out, [8, 1]).put(make(p.read(x, [8, 16], pad=pad).at([0, 0])), [0, 0])

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        tile.run((1,), body)
    return [str(each.message) for each in found]


@pytest.mark.parametrize("make", [lambda t: t.max(1), lambda t: (t * 2).max(1), lambda t: t.min(1)])
def test_extremes_that_the_pad_may_be(make):
    (message,) = extremes(make)
    assert "also takes 0 for each element past the end of" in message and "axis 1 (blocks of 16)" in message
    assert "read with pad=inf" in message or "read with pad=-inf" in message
    assert not extremes(make, columns=16)


@pytest.mark.parametrize(
    "make, pad",
    [
        (lambda t: t.max(1), -np.inf),
        (lambda t: t.min(1), np.inf),
        (lambda t: t.abs().max(1), 0.0),  # no distance is below 0
        (lambda t: (t * t).max(1), 0.0),
        (lambda t: (t < 1).max(1).to(tile.F32), 0.0),
    ],
)
def test_extremes_that_the_pad_never_is(make, pad):
    assert not extremes(make, pad)
