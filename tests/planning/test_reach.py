"""What of tensors a launch surely leaves out is told where it is looked at."""

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.lowering.planning.reach import unreached
from gizml_tile.program import trace


@tile.kernel(grid=lambda x, **_: tile.cdiv(x.shape[0], 4))
def softmax(p, x, out, *, COLUMNS=128):
    row = p.read(x, [4, COLUMNS], pad=float("-inf"))[p.id(0), 0]
    e = (row - row.max(1)).exp()
    p.write(out, [4, COLUMNS])[p.id(0), 0] = e / e.sum(1)


def told(body, *tensors, grid=(1,)):
    """The sentences about a body's launch, without their lines."""
    traced = trace("program", body, grid_rank=len(grid))
    shapes = [tensor.shape for tensor in traced.tensors]
    return [line.rpartition(" (test_reach.py:")[0] for line in unreached(traced.program, shapes, grid, ())]


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize(("rows", "columns"), [(32, 100), (30, 128), (32, 200), (2, 1000)])
def test_a_block_that_is_no_whole_row(rows, columns, kind):
    x = np.ones((rows, columns), np.float32)
    text = str(softmax.explain(x, np.zeros_like(x), kind=kind))
    left = f"columns 128 to {columns - 1}"
    assert (f"{left} of x, which has {columns}, are not read (test_reach.py:13)" in text) == (columns > 128)
    assert (f"{left} of out, which has {columns}, are not written" in text) == (columns > 128)
    assert "are not" not in str(softmax.explain(x, np.zeros_like(x), kind=kind, COLUMNS=1024))


def test_a_grid_that_is_too_small():
    x = np.ones((30, 100), np.float32)
    text = str(softmax[7].explain(x, np.zeros_like(x)))
    assert "rows 28 to 29 of x, which has 30, are not read" in text
    assert "rows 28 to 29 of out, which has 30, are not written" in text


def test_every_access_and_loop_counts():
    x, y = np.ones((3, 64, 70), np.float32), np.zeros(40, np.float32)

    def body(p):
        X, Y = p.read(x, [16, 16]), p.write(y, [8])
        total = p.fold(0, 3, p.zeros([1, 16]), lambda k, total: total + X.at([1, k, 1]).sum(0))
        total = total + X.at([2, 0, 3])[:1]
        Y.put(total[:, :8], [1])
        Y.put(total[:, 8:], [p.id(0) + 2])

    assert told(body, grid=(2,)) == [
        "places of axis 0: 0 of t0, which has 3, are not read",
        "rows 48 to 63 of t0, which has 64, are not read",
        "columns 0 to 15 and 64 to 69 of t0, which has 70, are not read",
        "elements 0 to 7 and 32 to 39 of t1, which has 40, are not written",
    ]
    assert told(body, grid=(0,)) == []


def test_windows_and_what_data_choose():
    x, y, ids = np.ones((64, 64), np.float32), np.zeros((64, 64), np.float32), np.zeros(16, np.int32)

    def window(p):
        X, Y = p.read(x, [4, 16]), p.write(y, [4, 16])
        Y.put_window(X.window([-2, 3]), [60, 48])

    assert told(window) == [
        "rows 2 to 63 of t0, which has 64, are not read",
        "columns 0 to 2 and 19 to 63 of t0, which has 64, are not read",
        "rows 0 to 59 of t1, which has 64, are not written",
        "columns 0 to 47 of t1, which has 64, are not written",
    ]

    def gathered(p):
        rows, X = p.read(ids, [16])[0].T, p.read(x, [1, 16])
        block = p.read(ids, [16]).index([0])
        p.write(y, [16, 16])[block, 0] = X.gather([rows, p.iota([1, 16], 1, tile.I32)]) + X.at([0, 0])

    assert told(gathered) == ["columns 16 to 63 of t2, which has 64, are not written"]
