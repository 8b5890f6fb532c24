"""Stores past the caches: the same bits as others, and nothing outside, wherever rows start and end."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import TYPES, laid_out, numbers

import gizml_tile as tile
from gizml_tile.runtime import host

SIZES = [(1, 1), (5, 64), (33, 129), (48, 256), (7, 500)]


@pytest.fixture(autouse=True)
def small_caches(monkeypatch):
    """A third cache of 16 bytes, which all but the smallest tensors exceed."""
    monkeypatch.setattr(host, "_cache_sizes", lambda: (32 << 10, 1 << 20, 16))
    host._host.cache_clear()
    yield
    host._host.cache_clear()


def at(values: np.ndarray, bytes_behind: int) -> np.ndarray:
    """The same elements that many bytes behind the start of a cache line, with 7 around them."""
    room = np.full(values.nbytes + 256, 7, np.uint8)
    start = -room.ctypes.data % 64 + bytes_behind
    place = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    place[...] = values
    return place


def around(values: np.ndarray) -> np.ndarray:
    """The memory before and behind what ``at`` made."""
    room = values.base
    while room.base is not None:
        room = room.base
    start = values.ctypes.data - room.ctypes.data
    return np.concatenate([room[:start], room[start + values.nbytes :]])


@pytest.mark.parametrize("behind", [0, 8, 32])
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "fp8", "f8", "i1", "i4"])
def test_copies(kind, behind):
    """Rows of whole lines go past the caches, others do not; blocks are cut at the edges."""
    rng, dtype = np.random.default_rng(behind), TYPES.get(kind) or np.dtype(kind)
    for size in SIZES:
        for block in ([16, 256], [4, 64], [1, 512], [8, 16]):
            x = numbers(rng, size, dtype)
            y = at(np.zeros(size, dtype), behind)

            def body(p, x=x, y=y, block=block):
                i, j = p.id(0), p.id(1)
                p.write(y, block).put(p.read(x, block).at([i, j]), [i, j])

            tile.run([tile.cdiv(size[0], block[0]), tile.cdiv(size[1], block[1])], body)
            np.testing.assert_array_equal(y.view(np.uint8), x.view(np.uint8))
            assert (around(y) == 7).all()


@pytest.mark.parametrize("order", ["C", "F", "inside", "back"])
def test_layouts_of_what_is_stored(order):
    rng = np.random.default_rng(3)
    x, y = numbers(rng, (40, 192), TYPES["f32"]), laid_out(np.zeros((40, 192), np.float32), order)

    def body(p):
        i = p.id(0)
        block = p.read(x, [16, 256]).at([i, 0])
        p.write(y, [16, 256]).put(block * 2 + 1, [i, 0])

    tile.run([3], body)
    np.testing.assert_array_equal(y, x * 2 + 1)


def test_rows_to_places_that_data_tell():
    rng = np.random.default_rng(4)
    x, y = numbers(rng, (50, 256), TYPES["f32"]), at(np.zeros((64, 256), np.float32), 0)
    places = rng.permutation(64)[:50]
    places[7] = 99  # outside

    def body(p):
        i = p.id(0)
        rows = p.read(places, [8], pad=-1).at([i]).transpose()
        columns = p.iota([1, 256], 1, tile.I32)
        p.write(y, [1, 256]).scatter(p.read(x, [8, 256]).at([i, 0]), [rows, columns])

    tile.run([7], body)
    right = np.zeros_like(y)
    inside = places < 64
    right[places[inside]] = x[inside]
    np.testing.assert_array_equal(y, right)


def test_several_tensors_in_one_pass_and_later_stores_win():
    x = np.arange(20 * 128, dtype=np.float32).reshape(20, 128)
    y, z = at(np.zeros((20, 128), np.float32), 0), at(np.zeros((20, 128), np.float16), 0)

    def body(p):
        i = p.id(0)
        block = p.read(x, [8, 128]).at([i, 0])
        Y = p.write(y, [8, 128])
        Y.put(block, [i, 0])
        p.write(z, [8, 128]).put(block * 0.25, [i, 0])
        Y.put(block + 1, [i, 0])

    tile.run([3], body)
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(z, (x * np.float32(0.25)).astype(np.float16))


def plan(body) -> str:
    return tile.explain([2], body, kind="cpu")


def test_which_stores_go_past_the_caches():
    """Only of light passes of whole lines, into what the program neither reads nor adds to."""
    x, y, few = (
        np.zeros((64, 256), np.float32),
        np.zeros((64, 256), np.float32),
        np.zeros((64, 8), np.float32),
    )
    past = "past the caches"

    def copied(p, make, out=y, columns=256):
        block = p.read(x, [16, columns]).at([p.id(0), 0])
        p.write(out, [16, columns]).put(make(block), [p.id(0), 0])

    assert past in plan(lambda p: copied(p, lambda t: t * 2))
    assert past in plan(lambda p: copied(p, lambda t: (t - t.sum(1)) * 0.5))
    assert past not in plan(lambda p: copied(p, lambda t: t.exp()))
    assert past not in plan(lambda p: copied(p, lambda t: (t - t.max(1)).exp() / 3))
    assert past not in plan(lambda p: copied(p, lambda t: t * 2, x))
    assert past not in plan(lambda p: copied(p, lambda t: t * 2, few, 8))

    def added(p):
        columns = p.iota([1, 256], 1, tile.I32)
        rows = p.iota([16, 1], 0, tile.I32)
        p.write(y, [1, 256]).scatter_add(p.read(x, [16, 256]).at([p.id(0), 0]), [rows, columns])

    assert past not in plan(added)


def test_nothing_is_fenced_where_nothing_goes_past_the_caches():
    x, y = np.zeros((64, 256), np.float32), np.zeros((64, 256), np.float32)

    def source(make):
        def body(p):
            p.write(y, [16, 256]).put(make(p.read(x, [16, 256]).at([p.id(0), 0])), [p.id(0), 0])

        return tile.source([4], body, kind="cpu")

    if host.host().cpu_base == "x86-64":
        assert "call void @llvm.x86.sse.sfence" in source(lambda t: t * 2)
    assert "sfence" not in source(lambda t: t.exp())
