"""Gathers, scatters and masks against NumPy, on every device."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from references import agree, everywhere, gathered, scattered

import gizml_tile as tile
from gizml_tile import I16, I32, I64, MASK, TileError

TYPES = [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
TYPES += [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.bool_]
RNG = np.random.default_rng(7)


def numbers(shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng([seed, *shape])
    low = 0 if np.dtype(dtype).kind == "u" else -100
    return (rng.random(shape) < 0.5 if dtype is np.bool_ else rng.integers(low, 100, shape)).astype(dtype)


def laid_out(array, order):
    """The same elements by columns, backwards, or with gaps."""
    if order == "columns":
        return np.asfortranarray(array)
    if order == "backwards":
        return np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]
    whole = np.zeros((array.shape[0], 2 * array.shape[1]), array.dtype)
    whole[:, ::2] = array
    return whole[:, ::2] if order == "gaps" else array.copy()


@pytest.mark.parametrize("dtype", TYPES, ids=lambda each: np.dtype(each).name)
def test_rows_and_elements_of_every_type(dtype):
    x, y, z = numbers((13, 21), dtype), numbers((8, 32), dtype, 1), numbers((13, 21), dtype, 2)
    ids = np.array([[3, -1, 12, 13, 0, 7, 5, 2**31 - 1]], np.int32)
    at = RNG.integers(-3, 24, (8, 32)).astype(np.int64)
    source = numbers((8, 32), dtype, 3)

    def body(p):
        rows, columns = p.read(ids, [1, 8])[0, 0].T, p.iota([1, 32], 1, I32)
        X = p.read(x, [1, 1], pad=1)
        elements = p.read(at, [8, 32])[0, 0]
        p.write(y, [8, 32])[0, 0] = X.gather([rows, elements])
        p.write(z, [1, 1]).scatter(p.read(source, [8, 32])[0, 0], [rows, columns])

    want = gathered(x, [ids.T, at], 1), scattered(z, source, [ids.T, np.arange(32)[None]])
    for device, got in everywhere([1], body, [y, z]):
        for one, other in zip(got, want, strict=True):
            agree(one, other)
        assert device


@pytest.mark.parametrize("order", ["rows", "columns", "backwards", "gaps"])
@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("first", [0, 3, -2])
def test_runs_of_neighbours_in_every_order_of_memory(order, kind, first):
    """Rows of a table from a column on, and columns of one from a row on: vectors where memory has them."""
    x, y, z = laid_out(numbers((40, 40), kind), order), numbers((16, 32), kind), numbers((32, 16), kind)
    back = laid_out(numbers((40, 40), kind, 5), order)
    ids = RNG.permutation(44)[:16].astype(np.int16)[None] - 2

    def body(p):
        chosen, along = p.read(ids, [1, 16])[0, 0], p.iota([1, 32], 1, I32) + first
        X = p.read(x, [1, 1], pad=-5)
        taken = X.gather([chosen.T, along])
        p.write(y, [16, 32])[0, 0] = taken
        p.write(z, [32, 16])[0, 0] = X.gather([along.T, chosen])
        p.write(back, [1, 1]).scatter(taken, [chosen.T, along])

    columns = np.arange(32)[None] + first
    rows = ids.T.astype(np.int64)
    want = [gathered(x, [rows, columns], -5), gathered(x, [columns.T, rows.T], -5)]
    want.append(scattered(back, want[0], [rows, columns]))
    for _, got in everywhere([1], body, [y, z, back]):
        for one, other in zip(got, want, strict=True):
            agree(one, other)


@pytest.mark.parametrize("size", [1, 2, 3, 31, 64])
def test_a_flat_tensor_by_offsets_and_masks(size):
    x, y, z = numbers((size,)), numbers((64,), seed=1), numbers((size,), seed=2)
    at, keep = RNG.permutation(80)[:64].astype(np.int64) - 8, RNG.random(64) < 0.5

    def body(p):
        A, K = p.read(at, [64])[0], p.read(keep, [64])[0]
        p.write(y, [64])[0] = p.read(x, [1], pad=3).gather([A], mask=K)
        p.write(z, [4]).scatter(A.to(tile.F32), A, mask=~K)

    want = gathered(x, [at], 3, keep), scattered(z, at.astype(np.float32), [at], ~keep)
    for _, got in everywhere([1], body, [y, z]):
        agree(got[0], want[0])
        agree(got[1], want[1])


@pytest.mark.parametrize("method", ["at", "window"])
@pytest.mark.parametrize("along", ["rows", "columns", "both", "one"])
def test_masks_of_blocks(method, along):
    x, y = numbers((19, 45)), numbers((19, 45), seed=1)
    shape = {"rows": (8, 1), "columns": (1, 16), "both": (8, 16), "one": (1, 1)}[along]
    keep = RNG.random((3, *shape)) < 0.6
    step = (8, 16) if method == "at" else (1, 1)
    corners = [(0, 0), (2, 2), (-1, 1)] if method == "at" else [(0, 3), (15, 40), (-3, -7)]

    def body(p):
        X, Y = p.read(x, [8, 16], pad=50), p.write(y, [8, 16])
        for number, corner in enumerate(corners):
            mask = p.read(keep, list(shape))[number, 0, 0]
            block = getattr(X, method)(corner, mask=mask)
            getattr(Y, "put" if method == "at" else "put_window")(block + 1, corner, mask=mask)

    want = y.copy()
    for number, corner in enumerate(corners):
        rows, columns = (np.arange(n) + at * by for n, at, by in zip((8, 16), corner, step, strict=True))
        coordinates = [rows[:, None], columns[None]]
        block = gathered(x, coordinates, 50, keep[number]) + 1
        want = scattered(want, block, coordinates, keep[number])
    for _, got in everywhere([1], body, [y]):
        agree(got[0], want)


@pytest.mark.parametrize("stored, masked", [((1, 16), (8, 1)), ((8, 1), (1, 16)), ((8, 1), (8, 16))])
def test_what_is_stored_and_its_mask_stretch_over_each_other(stored, masked):
    x, y, keep = numbers(stored), numbers((8, 16), seed=1), numbers(masked, np.bool_)

    def body(p):
        mask = p.read(keep, list(masked))[0, 0]
        p.write(y, [8, 16]).put(p.read(x, list(stored))[0, 0] + 1, [0, 0], mask=mask)

    want = np.where(keep, x + 1, y)
    for _, got in everywhere([1], body, [y]):
        agree(got[0], want)


def test_uniform_coordinates_and_numbers():
    x, y = numbers((5, 6, 7)), numbers((2, 8))

    def body(p):
        i = p.id(0)
        X = p.read(x, [1], pad=-1)
        one = X.gather([i + 1, 2, i])
        row = X.gather([4, (p.iota([1, 8], 1, I32) - 1) % 6, i * 3])
        p.write(y, [1, 8])[i, 0] = row + one + X.gather([i, 9, 0])

    rows = [x[4, (np.arange(8) - 1) % 6, i * 3] + x[i + 1, 2, i] - 1 for i in range(2)]
    for _, got in everywhere([2], body, [y]):
        agree(got[0], np.stack(rows))


def test_steps_that_are_no_neighbours_and_sums_that_wrap():
    """Every second column, columns backwards, products of counts, and I8 and I32 coordinates that wrap."""
    x, y = numbers((300,)), numbers((6, 64))

    def body(p):
        X, Y = p.read(x, [64], pad=-1), p.write(y, [1, 64])
        count = p.iota([1, 64], 1, I32)
        narrow = (p.iota([1, 64], 1, tile.I8) + 100).to(tile.I8)
        wide = count + (2**31 - 32)
        for row, at in enumerate([count * 2, 63 - count, count * count, narrow, wide, count + count]):
            Y[row, 0] = X.gather([at])

    count = np.arange(64)
    narrow = (count + 100 + 128) % 256 - 128
    places = [count * 2, 63 - count, count * count, narrow, np.full(64, -1), 2 * count]
    want = np.stack([gathered(x, [each], -1) for each in places])
    for _, got in everywhere([1], body, [y]):
        agree(got[0], want)


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8"])
def test_coordinates_without_sign(kind):
    """Those that signed numbers of as many bits would take for negative are outside, or far inside."""
    x, y = numbers((300,)), numbers((8,))
    at = np.array([0, 1, 200, 255, 2**16 - 1, 2**32 - 1, 2**64 - 1, 299], np.uint64).astype(kind)

    def body(p):
        p.write(y, [8])[0] = p.read(x, [8], pad=-1).gather([p.read(at, [8])[0]])

    want = np.array([x[int(each)] if int(each) < 300 else -1 for each in at], np.float32)
    for _, got in everywhere([1], body, [y]):
        agree(got[0], want)


def test_gathers_in_loops_and_reductions():
    x, table, y = numbers((30, 16)), RNG.integers(-1, 31, (4, 5)).astype(np.int32), numbers((4, 16))

    def body(p):
        X, T = p.read(x, [1, 16]), p.read(table, [4, 1])
        columns = p.iota([1, 16], 1, I32)

        def turn(k, carried):
            return carried + X.gather([T[0, k], columns]).maximum(p.zeros([4, 1]))

        total = p.fold(0, T.blocks(1), p.zeros([4, 16]), turn)
        p.write(y, [4, 16])[0, 0] = total - total.max(1)

    total = sum(np.maximum(gathered(x, [table[:, k : k + 1], np.arange(16)[None]]), 0) for k in range(5))
    for _, got in everywhere([1], body, [y]):
        agree(got[0], total - total.max(1, keepdims=True))


def test_products_of_gathered_rows():
    x, w, ids, y = numbers((50, 32)), numbers((32, 32), seed=1), RNG.permutation(50)[:32], numbers((32, 32))
    ids = ids.astype(np.int32)

    def body(p):
        columns = p.iota([1, 16], 1, I32)
        X, W, rows = p.read(x, [1, 16]), p.read(w, [16, 32]), p.read(ids, [32])[0].T

        def turn(k, acc):
            return acc + X.gather([rows, columns + k * 16]).dot(W[k, 0])

        p.write(y, [32, 32])[0, 0] = p.fold(0, 2, p.zeros([32, 32]), turn)

    for _, got in everywhere([1], body, [y]):
        agree(got[0], x[ids] @ w)


def test_what_is_written_is_read_in_program_order():
    """A permutation in place, twice: gathers see what scatters of other threads wrote before."""
    x, order = numbers((256,)), RNG.permutation(256).astype(np.int32)
    want = x.copy()

    def body(p):
        X, out, at = p.read(x, [256]), p.write(x, [256]), p.read(order, [256])[0]
        for _ in range(2):
            out.scatter(X[0], at)
            out[0] = X.gather([at]) + 1

    for _ in range(2):
        moved = np.empty_like(want)
        moved[order] = want
        want = moved[order] + 1
    for _, got in everywhere([1], body, [x]):
        agree(got[0], want)


def test_two_elements_at_one_place_are_a_race_where_they_differ():
    y = numbers((4,))

    def body(p):
        p.write(y, [4]).scatter(p.iota([1, 64], 1, tile.F32), [p.iota([1, 64], 1, I32) % 4])

    ran = tile.simulate([1], body, kind="cuda", arch="sm_80")
    assert "race" in {each.kind for each in ran.findings}
    assert {int(each) % 4 for each in y} == {0, 1, 2, 3}


def test_memory_that_a_mask_leaves_out_is_not_touched():
    """Every place is far outside the tensor's memory, which the CPU would not survive."""
    x, y = numbers((4, 8)), numbers((4, 8))
    whole = np.lib.stride_tricks.as_strided(x, (2**20, 8), (2**20, 4))

    def body(p):
        far, columns = p.iota([4, 1], 0, I32) * 9999 + 1000, p.iota([1, 8], 1, I32)
        none = far < 0
        X = p.read(whole, [4, 8], pad=2)
        runs = X.gather([far, columns], mask=none)
        p.write(y, [4, 8])[0, 0] = runs + X.gather([columns * 99 + far, columns], mask=none)

    tile.run([1], body)
    agree(y, np.full((4, 8), 4, np.float32))


def test_vectors_where_neighbours_are_known():
    x, ids, y = numbers((40, 64)), np.arange(16, dtype=np.int32), numbers((16, 64))

    def text(columns, arch="sm_80", kind="cuda", mask=None):
        def body(p):
            rows = p.read(ids, [16])[0].T
            keep = None if mask is None else mask(p)
            p.write(y, [16, 64])[0, 0] = p.read(x, [1, 1]).gather([rows, columns(p)], mask=keep)

        return tile.source([1], body, kind=kind, arch=arch), tile.explain([1], body, kind=kind, arch=arch)

    count = lambda p: p.iota([1, 64], 1, I32)
    assert "ld.global.v4.b32" in text(count)[0]
    assert "ld.global.v2.b32" in text(lambda p: count(p) + 2)[0]
    assert "ld.global.v4.b32" in text(count, mask=lambda p: p.iota([16, 1], 0, I32) > 3)[0]
    assert "ld.global.v4.b32" in text(count, mask=lambda p: count(p) > 3)[0]
    scalar, told = text(lambda p: count(p) * 2)
    assert "ld.global.v" not in scalar and "not known to be neighbours in memory" in told


def test_vectors_of_which_a_mask_has_some():
    """Read whole where the mask has any element; stored whole where it has all, else one by one."""
    x, y = numbers((16, 64)), numbers((16, 64), seed=1)

    def body(p, add=False, out=y):
        mask = p.read(x, [16, 64])[0, 0] > 0
        a = p.read(x, [16, 64], pad=3).at([0, 0], mask=mask)
        Y = p.write(out, [16, 64])
        places = [p.iota([16, 1], 0, I32), p.iota([1, 64], 1, I32)]
        Y.scatter_add(a, places, mask=mask) if add else Y.put(a, [0, 0], mask=mask)

    plain = tile.source([1], body, kind="cuda", arch="sm_90a")
    assert all(words in plain for words in ("ld.global.v4.b32", "st.global.v4.b32", "st.global.b32"))
    adding = tile.source([1], lambda p: body(p, add=True), kind="cuda", arch="sm_90a")
    assert "red.global.add.v4.f32" in adding and "red.global.add.f32" in adding
    told = tile.explain([1], lambda p: body(p, out=x), kind="cuda", arch="sm_90a")
    assert "the mask may differ between neighbouring columns, of which others may be written" in told
    for add, want in ((False, np.where(x > 0, x, y)), (True, np.where(x > 0, x + y, y))):
        for _, (got,) in everywhere([1], lambda p, add=add: body(p, add), [y]):
            agree(got, want)


ERRORS = [
    (lambda p, x, y: x.gather([0]), "gather takes 2 coordinates, one for each dimension"),
    (
        lambda p, x, y: x.gather([p.iota([4, 1], 0), 0]),
        r"a coordinate of gather is an index or an integer tile, found an F32 tile \[4, 1\]; convert it with "
        r".to\(I32\)",
    ),
    (lambda p, x, y: x.gather([p.zeros([4, 1], MASK), 0]), "found a mask .* pass it as mask="),
    (lambda p, x, y: x.gather([1.5, 0]), "a coordinate of gather takes an index or an integer, found 1.5"),
    (
        lambda p, x, y: x.gather([p.iota([4, 1], 0, I32), p.iota([1, 8], 1, I32) + p.zeros([2, 1], I32)]),
        r"the coordinates of gather need shapes whose sizes are equal or 1, found \[4, 1\], \[2, 8\]",
    ),
    (
        lambda p, x, y: x.gather([p.iota([4, 1], 0, I16), 0], mask=p.zeros([1, 8], MASK)),
        r"mask of gather has the shape \[4, 1\] \(or 1 along an axis\), found \[1, 8\]",
    ),
    (lambda p, x, y: x.at([0, 0], mask=1), "mask of at is a mask, found 1; make one by comparing"),
    (lambda p, x, y: x.at([0, 0], mask=p.zeros([2, 1], MASK)), r"mask of at has the shape \[4, 8\]"),
    (lambda p, x, y: x[p.iota([4, 1], 0, I32), 0], "the coordinates of at are indices, .*; gather"),
    (lambda p, x, y: y.put(1.0, [p.iota([4, 1], 0, I32), 0]), "coordinates of put are indices, .*; scatter"),
    (
        lambda p, x, y: y.scatter(p.zeros([4, 8]), [p.iota([4, 1], 0, I32), 0]),
        r"scatter needs a tile of the coordinates' shape \[4, 1\] \(or 1 along an axis\), found \[4, 8\]",
    ),
    (lambda p, x, y: y.scatter(p.zeros([1, 1], I64), [0, 0]), "scatter to an F32 tensor: found an I64 tile"),
    (lambda p, x, y: y.put_window(0.0, [0, 0], mask=2.0), "mask of put_window is a mask, found 2.0"),
]


@pytest.mark.parametrize("wrong, message", ERRORS, ids=[message[:40] for _, message in ERRORS])
def test_mistakes_are_told_at_their_line(wrong, message):
    x, y = numbers((4, 8)), numbers((4, 8))

    def body(p):
        wrong(p, p.read(x, [4, 8]), p.write(y, [4, 8]))

    with pytest.raises(TileError, match=message) as caught:
        tile.run([1], body)
    assert caught.value.filename == __file__


def test_decorated_kernels_say_the_same():
    @tile.kernel(grid=lambda y: 1)
    def kernel(p, x, ids, y):
        rows = p.read(ids, [4])[0].T
        found = p.read(x, [1, 8]).gather([rows, p.iota([1, 8], 1, I32) + 1], mask=rows > 0)
        places = [p.iota([4, 1], 0, I32), p.iota([1, 8], 1, I32)]
        p.write(y, [4, 8]).scatter(found + 1, places, mask=found > -50)

    x, ids, y = numbers((9, 12)), np.array([3, 0, 8, 1], np.int32), np.zeros((4, 8), np.float32)
    kernel(x, ids, y)
    found = np.where(ids[:, None] > 0, x[ids, 1:9], 0)
    agree(y, np.where(found > -50, found + 1, 0).astype(np.float32))
