"""Corners of the language on simulated GPUs: odd views of memory, and blocks far outside tensors."""

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.lowering.simulate.findings import COSTS


@tile.kernel(grid=1)
def copied(p, x, y, *, ROWS=8, COLUMNS=16):
    p.write(y, [ROWS, COLUMNS])[0, 0] = p.read(x, [ROWS, COLUMNS])[0, 0]


@tile.kernel(grid=1)
def multiplied(p, x, w, y, *, ROWS=64, DEPTH=64, COLUMNS=64):
    X, W = p.read(x, [ROWS, DEPTH]), p.read(w, [DEPTH, COLUMNS])
    acc = p.zeros([ROWS, COLUMNS])
    for k in range(X.blocks(1)):
        acc += X[0, k] @ W[k, 0]
    p.write(y, [ROWS, COLUMNS])[0, 0] = acc


def sliding(count, size, dtype):
    """Windows that start one element apart: both axes have a step of 1."""
    row = np.arange(count + size - 1, dtype=np.float32).astype(dtype)
    return np.lib.stride_tricks.sliding_window_view(row, size)


def simulated(kernel, *tensors, arch):
    ran = kernel.simulate(*tensors, kind="cuda", arch=arch)
    assert not [str(each) for each in ran.findings if each.kind not in COSTS]


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
def test_windows_that_slide_by_one_element(arch, turned):
    x = sliding(16, 8, np.float32).T if turned else sliding(8, 16, np.float32)
    y = np.zeros((8, 16), np.float32)
    simulated(copied, x, y, arch=arch)
    assert (y == x).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_products_of_windows_that_slide_by_one_element(arch):
    x, w = sliding(64, 64, np.float16), np.eye(64, dtype=np.float16)
    y = np.zeros((64, 64), np.float32)
    simulated(multiplied, x, w, y, arch=arch)
    assert (y == x).all()
