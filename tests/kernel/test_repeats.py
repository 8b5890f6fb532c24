"""Launches that are repeated natively do what the first did, and nothing is stale."""

import threading

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.repeat import key_of, looks_at_sizes_only

SCALE = 2.0
OFFSETS = {"one": 1.0}


def vectors(size=16, count=2):
    return [np.arange(size, dtype=np.float32) for _ in range(count)]


def scaled(x):
    return x * SCALE


@tile.kernel(grid=lambda out, BLOCK, **_: tile.cdiv(out.shape[0], BLOCK))
def scale(p, x, out, *, BLOCK=8):
    p.write(out, [BLOCK])[p.id(0)] = scaled(p.read(x, [BLOCK])[p.id(0)])


@pytest.fixture
def kernel():
    """A kernel with all its launches before it; the first three are repeated from then on."""

    @tile.kernel(grid=lambda out, BLOCK, **_: tile.cdiv(out.shape[0], BLOCK))
    def double(p, x, out, n=1, s=1.0, flag=None, *, BLOCK=8):
        value = p.read(x, [BLOCK])[p.id(0)] * 2.0 * s + n.value()
        p.write(out, [BLOCK])[p.id(0)] = value if flag is None else value * SCALE

    for _ in range(3):
        double(*vectors())
    assert double._repeats
    return double


def test_results_and_counts(kernel):
    x, out = vectors()
    assert kernel(x, out)[0] is out
    assert np.array_equal(out, x * 2 + 1)
    hits, misses, size = kernel.cache_info()
    kernel(x + 5, out)
    assert np.array_equal(out, (x + 5) * 2 + 1)
    assert kernel.cache_info() == (hits + 1, misses, size)


def test_other_sizes_strides_and_types(kernel):
    for x in (
        np.arange(40, dtype=np.float32)[::2],
        np.arange(5, dtype=np.float32),
        np.arange(24, dtype=np.float16),
    ):
        for _ in range(3):
            out = np.zeros(x.shape, np.float32)
            kernel(x, out)
            assert np.array_equal(out, x * np.float32(2) + 1)


def test_other_numbers_and_constants(kernel):
    x, out = vectors()
    for _ in range(3):
        for n, s, flag in ((1, 1.0, None), (2, 1.0, None), (2, -0.5, None), (2, -0.5, True)):
            kernel(x, out, n, s, flag)
            assert np.array_equal(out, (x * 2 * np.float32(s) + n) * (1 if flag is None else SCALE))
        kernel(x, out, BLOCK=16)
        assert np.array_equal(out, x * 2 + 1)
        kernel[1](x, out * 0)
        kernel[(1,)](x, out)
        assert np.array_equal(out[:8], x[:8] * 2 + 1)


@pytest.mark.parametrize("value", [3, 2.5, float("nan"), "text", None, True, tile.BF16])
def test_which_constants_are_repeated(value):
    @tile.kernel(grid=1)
    def fill(p, out, *, VALUE):
        p.write(out, [8])[0] = p.full([8], 1.0)

    (out,) = vectors(8, 1)
    for _ in range(3):
        fill(out, VALUE=value)
    (call,) = fill._more_repeats.of(key_of(fill.grid, {"VALUE": value}, own=True))
    assert call(out)[0] is out


def test_constants_of_other_types_are_not_mixed_up():
    seen = []

    def keep(value):
        seen.append(type(value))

    @tile.kernel(grid=1)
    def typed(p, out, *, VALUE):
        keep(VALUE)
        p.write(out, [8])[0] = p.full([8], float(VALUE))

    (out,) = vectors(8, 1)
    for _ in range(3):
        for value in (1, True, 1.0, 0.0, -0.0):
            typed(out, VALUE=value)
            assert list(out) == [float(value)] * 8
            assert np.signbit(out[0]) == np.signbit(float(value))
    assert set(seen) == {int, bool, float}


def test_changed_globals_and_helpers_are_seen(monkeypatch):
    x, out = vectors()
    for _ in range(3):
        scale(x, out)
    assert np.array_equal(out, x * 2)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    scale(x, out)
    assert np.array_equal(out, x * 3)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    scale(x, out)
    assert np.array_equal(out, x * 2)
    monkeypatch.setattr(scaled, "__code__", (lambda x: x + SCALE).__code__)
    scale(x, out)
    assert np.array_equal(out, x + 2)


def test_changed_cells_and_items_are_seen():
    factor = 1.0

    @tile.kernel(grid=2)
    def body(p, x, out):
        p.write(out, [8])[p.id(0)] = p.read(x, [8])[p.id(0)] * factor + OFFSETS["one"]

    x, out = vectors()
    for factor in (1.0, 4.0, 1.0):
        for _ in range(3):
            body(x, out)
            assert np.array_equal(out, x * factor + 1)
    OFFSETS["one"] = 2.0
    try:
        body(x, out)
        assert np.array_equal(out, x + 2)
    finally:
        OFFSETS["one"] = 1.0


def test_builtins_that_are_shadowed_are_seen(monkeypatch):
    @tile.kernel(grid=1)
    def body(p, out):
        p.write(out, [8])[0] = p.full([8], float(len("ab")))

    (out,) = vectors(8, 1)
    for _ in range(3):
        body(out)
    assert out[0] == 2
    monkeypatch.setitem(globals(), "len", lambda value: 7)
    body(out)
    assert out[0] == 7


def test_overlapping_arrays_and_read_only_outputs(kernel):
    base = np.arange(17, dtype=np.float32)
    expected = base[:16] * 2 + 1
    out = base[1:]
    with np.errstate(all="ignore"):
        kernel(base[:16].copy(), out)
    assert np.array_equal(out, expected)
    locked = vectors()[0]
    locked.flags.writeable = False
    with pytest.raises(tile.TileError, match="the array is read-only"):
        kernel(vectors()[0], locked)


def test_in_place(kernel):
    (x,) = vectors(count=1)
    for turn in range(4):
        before = x.copy()
        kernel(x, x)
        assert np.array_equal(x, before * 2 + 1), turn


def test_grids_that_are_closures():
    def make(block):
        @tile.kernel(grid=lambda out: tile.cdiv(out.shape[0], block))
        def fill(p, out):
            p.write(out, [1])[p.id(0)] = p.full([1], 1.0)

        return fill

    fill = make(4)
    for _ in range(4):
        out = np.zeros(16, np.float32)
        fill(out)
        assert out.sum() == 4
    assert fill._repeats
    for block in (8, 2, 8, 8):
        out = np.zeros(16, np.float32)
        fill[lambda out, block=block: tile.cdiv(out.shape[0], block)](out)
        assert out.sum() == 16 // block


def test_other_grids_of_equal_value_are_still_checked(kernel):
    x, out = vectors()
    for _ in range(4):
        kernel[(2,)](x, out)
    with pytest.raises(tile.TileError, match="holds True of type bool"):
        kernel[(True,)](x, out)
    kernel[2](x, out)


def test_the_grid_may_depend_on_numbers():
    @tile.kernel(grid=lambda n, **_: n)
    def fill(p, out, n):
        p.write(out, [1])[p.id(0)] = p.full([1], 1.0)

    for n in (3, 3, 3, 5, 3, 7):
        out = np.zeros(16, np.float32)
        fill(out, n)
        assert out.sum() == n


def test_the_grid_may_depend_on_contents():
    @tile.kernel(grid=lambda counts, **_: int(counts[0]))
    def fill(p, counts, out):
        p.write(out, [1])[p.id(0)] = p.read(counts, [1])[0].to(tile.F32)

    for n in (3, 3, 3, 5, 3, 7):
        out = np.zeros(16, np.float32)
        fill(np.array([n], np.int32), out)
        assert list(out) == [n] * n + [0] * (16 - n)


def test_a_launch_in_a_trace_is_refused_although_it_could_be_repeated(kernel):
    x, out = vectors()

    def body(p):
        kernel(x, out)

    with pytest.raises(tile.TileError, match="kernel double is called inside of body"):
        tile.run(1, body)
    kernel(x, out)


def test_threads(kernel):
    errors = []

    def work(number):
        x, out = vectors()
        for turn in range(200):
            kernel(x + number, out)
            if not np.array_equal(out, (x + number) * 2 + 1):
                errors.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@tile.kernel(grid=2)
def unused_first(p, w, x, out):
    p.write(out, [8])[p.id(0)] = p.read(x, [8])[p.id(0)]


@tile.kernel(grid=2)
def unused_middle(p, x, w, out):
    p.write(out, [8])[p.id(0)] = p.read(x, [8])[p.id(0)]


@tile.kernel(grid=2)
def unused_last(p, x, out, w):
    p.write(out, [8])[p.id(0)] = p.read(x, [8])[p.id(0)]


@pytest.mark.parametrize("kernel, at", [(unused_first, 0), (unused_middle, 1), (unused_last, 2)])
def test_an_array_without_use(kernel, at):
    def arguments(w):
        x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
        given = [x, out]
        given.insert(at, w)
        return given, out

    unaligned = np.zeros(41, np.uint8)[1:].view(np.float32)
    for w in (np.zeros(5, np.complex128), np.zeros(5, np.complex64), unaligned):
        with pytest.raises(tile.TileError, match="'w' of unused_"):
            kernel(*arguments(w)[0])
    for w in (np.zeros((2, 5), np.int16), np.zeros(7, np.float32), np.zeros((2, 10), np.int16)[:, ::2]):
        for _ in range(3):
            given, out = arguments(w)
            assert kernel(*given)[0] is out
            assert np.array_equal(out, np.arange(16))
        given, out = arguments(w)
        assert kernel._repeats[0](*given) == (out,)
        with pytest.raises(tile.TileError, match="holds complex128, which is not supported"):
            kernel(*arguments(w.astype(np.complex128))[0])
    # It may be the array that is written, and a number where it was an array.
    given, out = arguments(np.zeros(16, np.float32))
    for _ in range(3):
        given[at] = out
        kernel(*given)
        assert np.array_equal(out, np.arange(16))
        kernel(*arguments(3)[0])


def test_the_grid_may_look_at_an_array_without_use():
    @tile.kernel(grid=lambda like, **_: like.shape[0])
    def fill(p, like, out):
        p.write(out, [1])[p.id(0)] = p.full([1], 1.0)

    for n in (3, 3, 3, 5, 5, 5, 3, 7):
        out = np.zeros(16, np.float32)
        fill(np.zeros((n, 2), np.int8), out)
        assert out.sum() == n
    for n in (3, 5):
        out = np.zeros(16, np.float32)
        assert any(repeat(np.zeros((n, 2), np.int8), out) for repeat in fill._repeats)
        assert out.sum() == n


def test_arrays_of_no_dimensions_are_numbers():
    @tile.kernel(grid=1)
    def fill(p, out, n, unused):
        p.write(out, [8])[0] = p.full([8], 1.0) * n.value()

    for n in (3, 3, 3, 5, 3, 7):
        (out,) = vectors(8, 1)
        fill(out, np.array(n), np.array(n))
        assert list(out) == [n] * 8


TABLE = np.zeros(3)
GRIDS = [
    (lambda x, **_: x.shape[0], True),
    (lambda x, BLOCK: (tile.cdiv(x.shape[0], BLOCK), x.ndim, x.size), True),
    (lambda x, n: tile.cdiv(n, x.shape[1]), True),
    (lambda n, **_: n, True),
    (lambda x, **_: int(x[0]), False),
    (lambda x, **_: len(x), False),
    (lambda x, **_: x.sum(), False),
    (lambda **everything: everything["x"].shape[0], False),
    (lambda x, **rest: rest["x"], False),
    (lambda x, **_: (lambda: x)().shape[0], False),
    (max, False),
]


@pytest.mark.parametrize("grid, expected", GRIDS)
def test_which_grid_functions_look_at_sizes_only(grid, expected):
    assert looks_at_sizes_only(grid, frozenset({"x"})) == expected
