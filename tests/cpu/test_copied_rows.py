"""Rows that are stored as they are read: by the C library where they are long, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import TYPES, numbers
from test_streams import around, at

import gizml_tile as tile
from gizml_tile import I32
from gizml_tile.runtime import host


@tile.kernel(grid=lambda y, BR, BC, **_: (tile.cdiv(y.shape[0], BR), tile.cdiv(y.shape[1], BC)))
def copied(p, x, y, *, BR=4, BC=1024):
    i, j = p.id(0), p.id(1)
    p.write(y, [BR, BC])[i, j] = p.read(x, [BR, BC])[i, j]


@tile.kernel(grid=lambda y, BR, BC, **_: (tile.cdiv(y.shape[0], BR), tile.cdiv(y.shape[1], BC)))
def doubled(p, x, y, *, BR=4, BC=1024):
    i, j = p.id(0), p.id(1)
    p.write(y, [BR, BC])[i, j] = p.read(x, [BR, BC])[i, j] * 2


@tile.kernel(grid=lambda y, BR, BC, **_: (tile.cdiv(y.shape[0], BR), tile.cdiv(y.shape[1], BC)))
def looked_up(p, x, rows, y, *, BR=4, BC=1024):
    i, j = p.id(0), p.id(1)
    columns = p.iota([1, BC], 1, I32) + j * BC
    p.write(y, [BR, BC])[i, j] = p.read(x, [1, BC]).gather([p.read(rows, [BR])[i].T, columns])


@tile.kernel(grid=lambda x, BR, BC, **_: (tile.cdiv(x.shape[0], BR), tile.cdiv(x.shape[1], BC)))
def placed(p, x, rows, y, *, BR=4, BC=1024):
    i, j = p.id(0), p.id(1)
    columns = p.iota([1, BC], 1, I32) + j * BC
    p.write(y, [1, BC]).scatter(p.read(x, [BR, BC])[i, j], [p.read(rows, [BR], pad=-1)[i].T, columns])


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "fp8", "f8", "i1", "i4"])
@pytest.mark.parametrize("size", [(1, 1024), (9, 1025), (6, 3000), (5, 1023), (3, 4096)])
@pytest.mark.parametrize("behind", [0, 8, 24])
def test_whole_rows_and_their_ends(kind, size, behind):
    rng, dtype = np.random.default_rng(behind), TYPES.get(kind) or np.dtype(kind)
    x = numbers(rng, size, dtype)
    order = rng.permutation(size[0]).astype(np.int32)
    for kernel, given, wanted in (
        (copied, (x,), x),
        (looked_up, (x, order), x[order]),
        (placed, (x, order), x[np.argsort(order)]),
    ):
        y = at(np.zeros(size, dtype), behind)
        kernel(*given, y)
        np.testing.assert_array_equal(y.view(np.uint8), np.ascontiguousarray(wanted).view(np.uint8))
        assert (around(y) == 7).all()


def test_rows_outside_are_the_pad():
    x = np.arange(5 * 1024, dtype=np.float32).reshape(5, 1024)
    rows, y = np.array([4, 5, -1, 0], np.int32), np.full((4, 1024), 9, np.float32)
    looked_up(x, rows, y)
    np.testing.assert_array_equal(y, np.stack([x[4], 0 * x[0], 0 * x[0], x[0]]))
    z = np.full((5, 1024), 9, np.float32)
    placed(x[:4], rows, z)
    np.testing.assert_array_equal(z, np.stack([x[3], *[np.full(1024, 9, np.float32)] * 3, x[0]]))


def test_masks_are_bytes_of_0_and_1_again():
    x = (np.arange(4 * 1024) % 5).astype(np.uint8).reshape(4, 1024).view(np.bool_)
    y = np.zeros((4, 1024), np.bool_)
    copied(x, y)
    np.testing.assert_array_equal(y.view(np.uint8), (x.view(np.uint8) != 0).astype(np.uint8))


def test_elements_that_a_mask_chooses_are_not_copied_as_a_row():
    @tile.kernel(grid=1)
    def some(p, x, y):
        columns = p.iota([1, 1024], 1, I32)
        p.write(y, [4, 1024])[0, 0] = p.read(x, [1, 1024], pad=3).gather(
            [p.iota([4, 1], 0, I32), columns], mask=(columns & 1) == 0
        )

    x, y = np.random.default_rng(0).random((4, 1024), np.float32), np.zeros((4, 1024), np.float32)
    some(x, y)
    np.testing.assert_array_equal(y, np.where(np.arange(1024) % 2 == 0, x, np.float32(3)))


def test_rows_in_the_same_memory_are_copied_in_the_order_of_the_program():
    memory = np.arange(5 * 1024, dtype=np.float32)
    whole = memory.copy()
    x, y = memory[: 4 * 1024].reshape(4, 1024), memory[512 : 512 + 4 * 1024].reshape(4, 1024)
    copied(x, y, BR=4)
    np.testing.assert_array_equal(y.ravel(), whole[: 4 * 1024])


def test_long_rows_that_are_only_moved_are_a_call():
    def source(columns, kernel=copied):
        x, y = np.zeros((8, columns), np.float32), np.zeros((8, columns), np.float32)
        return kernel.source(x, y, kind="cpu", BC=columns)

    if host.host().cpu_base == "x86-64":
        assert "call ptr @memcpy" in source(1024)
    assert "call ptr @memcpy" not in source(128)
    assert "call ptr @memcpy" not in source(1024, doubled)
