"""Corners of the language on simulated GPUs: odd views, blocks far outside, reads before overwriting."""

import numpy as np
import pytest
from gpu_cases import numbers, room

import gizml_tile as tile
from gizml_tile.lowering.simulate.findings import COSTS


@tile.kernel(grid=1)
def copied(p, x, y, *, ROWS=8, COLUMNS=16):
    p.write(y, [ROWS, COLUMNS])[0, 0] = p.read(x, [ROWS, COLUMNS])[0, 0]


@tile.kernel(grid=1)
def multiplied(p, x, w, y, *, ROWS=64, DEPTH=64, COLUMNS=64, TENSORS=""):
    if TENSORS:
        p.variant("tensors", TENSORS)
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


@tile.kernel(grid=1)
def shifted(p, x, w, y, *, ROWS=64, SIDE=64, READ=0, WRITE=0):
    """A product whose left blocks or whose result lie so many blocks away."""
    X, W = p.read(x, [ROWS, SIDE]), p.read(w, [SIDE, SIDE])
    acc = p.zeros([ROWS, SIDE])
    for k in range(X.blocks(1)):
        acc += X[p.id(0) + READ, k] @ W[k, 0]
    p.write(y, [ROWS, SIDE])[p.id(0) + WRITE, 0] = acc


# The last two come back to 0 in 32 bits.
@pytest.mark.parametrize("far", [1, 1 << 25, 1 << 26, 1 << 40])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_blocks_far_outside(arch, far):
    x, w = np.ones((64, 64), np.float16), np.ones((64, 64), np.float16)
    for constants, result in (({"READ": far}, 0), ({"READ": -far}, 0), ({"WRITE": far}, 7)):
        y = np.full((64, 64), 7, np.float32)
        ran = shifted.simulate(x, w, y, kind="cuda", arch=arch, **constants)
        assert not [str(each) for each in ran.findings if each.kind not in COSTS]
        assert (y == result).all()


@tile.kernel(grid=1)
def exchanged(p, x, w, state, y, *, ROWS=64, SIDE=64):
    """The state before goes to the result, and the product becomes the state."""
    X, W = p.read(x, [ROWS, SIDE]), p.read(w, [SIDE, SIDE])
    acc = p.zeros([ROWS, SIDE])
    for k in range(X.blocks(1)):
        acc += X[0, k] @ W[k, 0]
    before = p.read(state, [ROWS, SIDE])[0, 0]
    p.write(state, [ROWS, SIDE])[0, 0] = acc
    p.write(y, [ROWS, SIDE])[0, 0] = acc + before


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_what_is_read_before_it_is_overwritten(arch):
    x, w = np.ones((64, 64), np.float16), np.eye(64, dtype=np.float16)
    state, y = np.full((64, 64), 5, np.float32), np.zeros((64, 64), np.float32)
    simulated(exchanged, x, w, state, y, arch=arch)
    assert (state == 1).all() and (y == 6).all()


def test_a_column_of_a_matrix_that_is_contiguous_along_it():
    """Its only column counts as contiguous, and its rows are nearer than the copy engine steps."""
    x = np.arange(64 * 128, dtype=np.float16).reshape(64, 128).T[:, :1]
    w, y = np.ones((64, 64), np.float16)[:1], np.zeros((64, 64), np.float32)
    told = multiplied.explain(x, w, y, kind="cuda", arch="sm_90a", TENSORS="as they lie")
    assert "the copy engine cannot move boxes of x: an address or step is no multiple of 16 bytes" in told
    simulated(multiplied, x, w, y, arch="sm_90a")
    assert (y == x[:64]).all()


@tile.kernel(grid=2)
def either(p, x, y, z, *, SIDE=16):
    """One arm waits for its own stores before it reads them; so the other has not."""
    p.warps(8)
    Y = p.write(y, [SIDE, SIDE])
    t = p.read(x, [SIDE, SIDE])[0, 0]
    column = t[:4, 0::-1]
    if p.id(0) == 0:
        Y[0, 0] = t
        result = p.read(y, [SIDE, SIDE]).window([0, 1])
    else:
        result = t.cummin(0)
    Y[p.id(0), 0] = result
    p.write(z, [4, 1])[p.id(0), 0] = column


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_what_one_arm_of_a_branch_waits_for_the_other_has_not(arch):
    x = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    y, z = np.zeros((32, 16), np.float32), np.zeros((8, 1), np.float32)
    simulated(either, x, y, z, arch=arch)
    moved = np.pad(x[:, 1:], ((0, 0), (0, 1)))
    assert (y == np.concatenate([moved, np.minimum.accumulate(x)])).all()
    assert (z == np.tile(x[:4, :1], (2, 1))).all()


@tile.kernel(grid=lambda x, **_: (x.shape[0],))
def decreased(p, x, less, y, *, COLUMNS=1024):
    """Exponentials of differences of a row and a number: of 32 elements a thread, which decide together."""
    i = p.id(0)
    block = p.read(x, [1, COLUMNS])[i, 0]
    p.write(y, [1, COLUMNS])[i, 0] = (block - p.read(less, [1, 1])[i, 0]).exp()


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("kind", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("less", [0, 3.3, -30, 40, np.inf, -np.inf, np.nan])
def test_exponentials_of_rows_with_all_kinds_of_numbers(arch, kind, less):
    """Where all are small, one is not, one is not a number, some are infinite, all are large."""
    x = numbers(9, 1024, kind=kind)
    for row, number in enumerate([-50, 60, -1e4, np.nan, np.inf, -np.inf], 1):
        x[row, 77 * row] = number
    x[7:] *= np.array([[30], [-1000]], x.dtype)
    given, y, same = np.full((9, 1), less, np.float32), np.zeros((9, 1024), np.float32), room(9, 1024)
    decreased(x, given, same)
    ran = decreased.simulate(x, given, y, kind="cuda", arch=arch, warps=1)
    assert not [str(each) for each in ran.findings if each.kind not in COSTS]
    equal = y.view(np.uint32) == same.view(np.uint32)
    assert (equal | (np.isnan(y) & np.isnan(same))).all()
