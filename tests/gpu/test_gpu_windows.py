"""Reads of places a few elements apart are made together: what is loaded, told, and left apart."""

import numpy as np
import pytest
import window_cases

import gizml_tile as tile
from gizml_tile.layout import blocked
from gizml_tile.lowering.planning.overlaps import loads_of
from gizml_tile.lowering.planning.plan import Overlap

LAYOUT = blocked((4, 128), (1, 0), 4, warps=1, across=2)


def together(shifts, vector=4, axis=1):
    return Overlap((), shifts, None, axis, vector)


def test_three_neighbours_are_a_vector_and_two_elements_of_each_row():
    found = loads_of(together(((0, -1), (0, 0), (0, 1))), LAYOUT)
    assert [load for load in found if load[0] == 0] == [(0, -1, 1), (0, 0, 4), (0, 4, 1)]
    assert sorted({row for row, *_ in found}) == sorted({row for row, _ in LAYOUT.table("register")})


def test_rows_that_windows_share_are_loaded_once():
    rows = [
        row
        for row, *_ in loads_of(together(((-1, 0), (0, 0), (1, 0))), blocked((4, 128), (1, 0), 4, 32, 1, 4))
    ]
    assert rows == [-1, 0, 1, 2, 3, 4]


def test_vectors_begin_where_those_of_the_base_do():
    found = loads_of(together(((0, 0), (0, -3))), blocked((1, 128), (1, 0), 4, warps=1))
    assert found == [(0, -3, 1), (0, -2, 2), (0, 0, 4)]


def test_along_the_rows_of_tensors_that_are_contiguous_there():
    found = loads_of(together(((0, 0), (1, 0)), axis=0), blocked((128, 1), (0, 1), 4, warps=1))
    assert found == [(0, 0, 4), (4, 0, 1)]


@pytest.mark.parametrize("kind, arch", [("cuda", "sm_90a"), ("hip", "gfx942"), ("metal", "apple9")])
def test_explain_says_so_and_nothing_is_slow(kind, arch):
    x = np.zeros((2048, 2048), np.float16)
    text = str(window_cases.nine_points.explain(x, np.zeros_like(x), kind=kind, arch=arch))
    assert text.count("together  chosen    9 reads of neighbouring places load what they share once") == 9
    assert "single elements" not in text


def test_a_stencil_loads_a_fraction_of_what_its_windows_hold():
    x = np.zeros((64, 256), np.float32)
    ptx = window_cases.nine_points.source(x, np.zeros_like(x), kind="cuda", arch="sm_90a", BM=16, BN=64)
    wide = [line for line in ptx.splitlines() if "ld.global.v4" in line]
    single = [line for line in ptx.splitlines() if "ld.global.b32" in line and not line.startswith("@")]
    # A thread has four rows of four elements: six rows of a vector and an element on each side.
    assert (len(wide), len(single)) == (6, 12)


def test_threads_have_lines_that_share_what_they_load():
    x = np.zeros((8192, 8192), np.float16)
    for sizes, warps in (((16, 256), 4), ((32, 128), 4), ((64, 128), 8), ((8, 128), 1)):
        constants = dict(zip(("BM", "BN"), sizes, strict=True))
        text = str(window_cases.nine_points.explain(x, x.copy(), kind="cuda", arch="sm_90a", **constants))
        line = text.splitlines()[3]
        assert (
            f"{warps} warp" in line
            and "(chosen by the largest tile and what neighbouring reads share)" in line
        )


def test_blocks_that_may_begin_too_far_away_for_64_bits_stay_apart():
    @tile.kernel(grid=1)
    def told(p, x, places, y):
        X = p.read(x, [128])
        i = p.read(places, [1]).index([0])
        p.write(y, [128])[0] = X[i] + X.window([i * 128 + 1])

    x, y = np.arange(512, dtype=np.float32), np.zeros(128, np.float32)
    for place, wanted in ((1, x[128:256] + x[129:257]), (1 << 57, x[1:129])):
        places = np.array([place], np.int64)
        assert "together" not in str(told.explain(x, places, y, kind="cuda", arch="sm_80"))
        told.simulate(x, places, y, kind="cuda", arch="sm_80")
        assert np.array_equal(y, wanted)


def test_neighbouring_blocks_and_numbers_have_nothing_in_common():
    @tile.kernel(grid=lambda y, **_: (y.shape[1] // 256, y.shape[0] // 16))
    def weighted(p, x, w, bias, y):
        j, i = p.id(0), p.id(1)
        X, W, B = p.read(x, [16, 256]), p.read(w, [1, 1]), p.read(bias, [1, 256])
        first, second = X.window([i * 16, j * 256]) * W[0, 0], X.window([i * 16 + 1, j * 256]) * W[0, 1]
        p.write(y, [16, 256])[i, j] = first + second + B[0, j] * B[1, j]

    x = np.zeros((4096, 4096), np.float16)
    w, bias = np.zeros((1, 2), np.float32), np.zeros((2, 4096), np.float32)
    text = str(weighted.explain(x, w, bias, x.copy(), kind="cuda", arch="sm_90a"))
    assert text.count("2 reads of neighbouring places") == 2
    assert "8 warps" in text.splitlines()[3], text.splitlines()[3]


def test_a_variant_that_is_asked_for_keeps_reads_apart():
    @tile.kernel(grid=1)
    def shifted(p, x, y):
        p.variant("read", "element")
        X = p.read(x, [128])
        p.write(y, [128])[0] = X.window([0]) + X.window([1])

    x = np.zeros(128, np.float32)
    text = str(shifted.explain(x, np.zeros_like(x), kind="cuda", arch="sm_80"))
    assert "together" not in text


def test_stores_in_between_keep_reads_apart():
    @tile.kernel(grid=1)
    def twice(p, x):
        X, Y = p.read(x, [128]), p.write(x, [128])
        Y[0] = X.window([0]) + X.window([1])
        Y[0] = X.window([0]) + X.window([1])

    x = np.arange(129, dtype=np.float32)
    text = str(twice.explain(x, kind="cuda", arch="sm_80"))
    assert text.count("2 reads of neighbouring places") == 4 and "4 reads" not in text
    expected = x.copy()
    for _ in range(2):
        expected[:128] = expected[:128] + expected[1:]
    twice.simulate(x, kind="cuda", arch="sm_80")
    assert np.array_equal(x, expected)


def test_what_may_share_memory_with_something_stored_keeps_reads_apart():
    @tile.kernel(grid=1)
    def between(p, x, y, z):
        X = p.read(x, [128])
        one = X.window([0])
        p.write(y, [128])[0] = one * 2
        p.write(z, [128])[0] = X.window([1]) + one

    memory = np.arange(200, dtype=np.float32)
    apart = [memory[:136].copy(), np.zeros(128, np.float32), np.zeros(128, np.float32)]
    assert "together" in str(between.explain(*apart, kind="cuda", arch="sm_80"))
    shared = [memory[:136], memory[8:136], np.zeros(128, np.float32)]
    assert "together" not in str(between.explain(*shared, kind="cuda", arch="sm_80"))
    one, after = memory[:128].copy(), memory[:136].copy()
    after[8:] = one * 2
    between.simulate(*shared, kind="cuda", arch="sm_80")
    assert np.array_equal(shared[2], after[1:129] + one)


def test_distant_windows_stay_apart():
    @tile.kernel(grid=1)
    def far(p, x, y):
        X = p.read(x, [128])
        p.write(y, [128])[0] = X.window([0]) + X.window([200])

    text = str(far.explain(np.zeros(400, np.float32), np.zeros(128, np.float32), kind="cuda", arch="sm_80"))
    assert "together" not in text
