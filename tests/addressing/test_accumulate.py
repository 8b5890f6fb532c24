"""Scatters that add, or keep the larger or smaller: exact where sums are exact, on every device."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from references import ARCHS, agree, everywhere

import gizml_tile as tile
from gizml_tile import I32, TileError
from gizml_tile.target import target

RNG = np.random.default_rng(11)
TYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.int64]
COMBINE = {"add": lambda old, new: old + new, "max": max, "min": min}


def accumulated(how, tensor, values, coordinates, mask=True):
    """A copy of a tensor after each value came to its place, in float64."""
    *coordinates, mask, values = np.broadcast_arrays(*coordinates, mask, values)
    result = tensor.astype(np.float64)
    for place in np.ndindex(values.shape):
        at = tuple(int(each[place]) for each in coordinates)
        inside = all(0 <= each < size for each, size in zip(at, tensor.shape, strict=True))
        if inside and mask[place]:
            result[at] = COMBINE[how](result[at], np.float64(values[place]))
    return result


def apart(dtype, how):
    """The architectures that cannot combine this."""
    return {"apple9"} if dtype is np.float64 or (dtype is np.int64 and how != "add") else set()


@pytest.mark.parametrize("how", COMBINE)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda each: np.dtype(each).name)
def test_rows_and_elements_of_every_type(dtype, how, monkeypatch):
    """Runs of neighbours with edges and a mask, and elements anywhere, of which many meet."""
    monkeypatch.setattr("references.ARCHS", [each for each in ARCHS if each not in apart(dtype, how)])
    x, y = RNG.integers(-9, 9, (32, 32)).astype(dtype), RNG.integers(-5, 5, (10, 40)).astype(dtype)
    z = RNG.integers(-5, 5, (7,)).astype(dtype)
    ids, at = RNG.integers(-1, 11, 32).astype(np.int32), RNG.integers(-1, 8, (32, 32)).astype(np.int8)

    def body(p):
        i = p.id(0)
        X, rows = p.read(x, [16, 32])[i, 0], p.read(ids, [16])[i].T
        columns = p.iota([1, 32], 1, I32) + 10
        getattr(p.write(y, [1, 32]), f"scatter_{how}")(X, [rows, columns], mask=rows > 0)
        getattr(p.write(z, [1]), f"scatter_{how}")(X, [p.read(at, [16, 32])[i, 0]], mask=X > -8)

    rows = ids[:, None].astype(np.int64)
    want = accumulated(how, y, x, [rows, np.arange(32)[None] + 10], rows > 0)
    want = want, accumulated(how, z, x, [at.astype(np.int64)], x.astype(np.float64) > -8)
    for _, got in everywhere([2], body, [y, z]):
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one.astype(np.float64), other)


@pytest.mark.parametrize("how", COMBINE)
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_numbers_beyond_the_largest_signed_one(dtype, how, monkeypatch):
    wide = {"apple9"} if dtype is np.uint64 and how != "add" else set()
    monkeypatch.setattr("references.ARCHS", [each for each in ARCHS if each not in wide])
    x, y = (RNG.integers(0, np.iinfo(dtype).max, shape, dtype) for shape in [(8, 64), (4,)])
    want = y.copy()
    function = {"add": np.add, "max": np.maximum, "min": np.minimum}[how]
    function.at(want, np.broadcast_to(np.arange(64) % 4, x.shape), x)

    def body(p):
        columns = p.iota([4, 64], 1, I32) % 4
        getattr(p.write(y, [1]), f"scatter_{how}")(p.read(x, [4, 64])[p.id(0), 0], [columns])

    for _, (got,) in everywhere([2], body, [y]):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [(1, 1), (4, 1), (1, 4)])
def test_each_element_counts_once_whatever_threads_hold_it(shape):
    """Numbers, uniform tiles and tiles that stretch: copies in other threads add nothing."""
    y = np.zeros((3,), np.int32)

    def body(p):
        out = p.write(y, [1])
        out.scatter_add(1, [0])
        out.scatter_add(p.iota([4, 1], 0, I32).sum(0), [p.k(1, I32)])
        out.scatter_add(p.full(shape, 2, I32), [p.zeros([4, 4], I32) + 2], mask=p.iota([4, 1], 0, I32) > 0)

    for _, (got,) in everywhere([5], body, [y]):
        agree(got, np.array([5, 30, 5 * 12 * 2], np.int32))


def test_the_rules_of_maximum_hold_in_memory():
    """A NaN loses on either side, -0 is below +0, infinities win."""
    kinds = np.array([np.nan, -0.0, 0.0, 1.0, -np.inf, np.inf, -1e-40, 1e-40], np.float32)
    old, new = (each.reshape(-1).copy() for each in np.meshgrid(kinds, kinds))
    for how, method in (("scatter_max", "maximum"), ("scatter_min", "minimum")):
        y, want = old.copy(), np.zeros_like(old)

        def rule(p, method=method, want=want):
            a, b = p.read(old, [64])[0], p.read(new, [64])[0]
            p.write(want, [64])[0] = getattr(a, method)(b)

        def body(p, how=how, y=y):
            values, at = p.read(new, [64])[0], p.iota([1, 64], 1, I32)
            getattr(p.write(y, [64]), how)(values, [at])

        tile.run([1], rule)
        for device, (got,) in everywhere([1], body, [y]):
            agree(got, want)
            assert device


def test_sums_of_floats_are_within_their_bound():
    """About 4096 elements in each of 8 bins, in whatever order: n of them within n * 2^-24 of their size."""
    x, y = RNG.standard_normal((64, 512)).astype(np.float32), np.zeros(8, np.float32)
    bins = RNG.integers(0, 8, (64, 512)).astype(np.int32)

    def body(p):
        i = p.id(0)
        p.write(y, [1]).scatter_add(p.read(x, [8, 512])[i, 0], [p.read(bins, [8, 512])[i, 0]])

    parts = [x[bins == each].astype(np.float64) for each in range(8)]
    want = np.array([part.sum() for part in parts])
    bound = np.array([part.size * 2.0**-24 * np.abs(part).sum() for part in parts])
    for _, (got,) in everywhere([8], body, [y]):
        assert (np.abs(got - want) <= bound).all()


def test_fixed_point_is_the_same_in_any_order():
    x, y = RNG.standard_normal((16, 256)).astype(np.float32), np.zeros(4, np.int64)

    def body(p):
        X = p.read(x, [1, 256])[p.id(0), 0]
        p.write(y, [1]).scatter_add((X * 2.0**40).to(tile.I64), [p.iota([1, 256], 1, I32) % 4])

    exact = (x.astype(np.float64) * 2.0**40).astype(np.int64).reshape(16, 64, 4).sum((0, 1))
    for _, (got,) in everywhere([16], body, [y]):
        agree(got, exact)


def test_threads_of_the_computer_lose_nothing(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_THREADS", "4")
    y, z = np.zeros(64, np.float32), np.zeros(3, np.float16)

    def body(p):
        columns = p.iota([1, 64], 1, I32)
        p.write(y, [64]).scatter_add(p.full([1, 64], 1), [columns])
        p.write(z, [1]).scatter_max(p.id(0).value(), [columns % 3])

    tile.run([20000], body)
    agree(y, np.full(64, 20000, np.float32))
    agree(z, np.full(3, 20000, np.float16))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16], ids=lambda each: np.dtype(each).name)
def test_threads_lose_nothing_of_rows_that_overlap(dtype, monkeypatch):
    """Rows begin anywhere, so that vectors of one meet parts of several of another."""
    monkeypatch.setenv("GIZML_TILE_THREADS", "4")
    programs, y = 40 if dtype is np.float16 else 4000, np.zeros((5, 96), dtype)

    def body(p):
        i = p.id(0)
        rows = (p.iota([4, 1], 0, I32) + i.value(I32)) % 5
        columns = p.iota([1, 64], 1, I32) + (i % 32).value(I32)
        ones = p.full([4, 64], 1, I32 if dtype is np.int64 else tile.F32)
        p.write(y, [1, 64]).scatter_add(ones, [rows, columns], mask=columns % 7 != 3)

    tile.run([programs], body)
    want = np.zeros((5, 96))
    for i in range(programs):
        columns = np.arange(64) + i % 32
        for row in range(4):
            want[(row + i) % 5, columns[columns % 7 != 3]] += 1
    np.testing.assert_array_equal(y.astype(np.float64), want)


def test_configurations_may_add_in_other_orders(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_TUNE", "1")

    @tile.kernel(grid=lambda x, B, **_: x.shape[0] // B, configs=[{"B": 16}, {"B": 64}])
    def kernel(p, x, y, *, B):
        at = p.iota([1, B], 1, I32) * p.count(0) + p.id(0)
        p.write(y, [1]).scatter_add(p.read(x, [B]).gather([at]), [at % 3])

    x, y = RNG.standard_normal(4096).astype(np.float32), np.zeros(3, np.float32)
    kernel(x, y)
    assert abs(y.sum() - x.astype(np.float64).sum()) <= 4096 * 2.0**-24 * np.abs(x).sum()


def test_adding_beside_plain_accesses_is_a_race():
    y, z = np.zeros(4, np.float32), np.zeros((2, 4), np.float32)

    def adds_and_reads(p):
        p.write(y, [4]).scatter_add(1.0, [p.iota([1, 4], 1, I32)])
        p.write(z, [1, 4])[p.id(0), 0] = p.read(y, [4])[0]

    ran = tile.simulate([2], adds_and_reads, kind="cuda", arch="sm_80")
    assert "race" in {each.kind for each in ran.findings}

    y[...] = 0

    def in_order(p):
        p.write(y, [4]).scatter_add(1.0, [p.iota([1, 4], 1, I32)])
        p.write(z, [1, 4])[0, 0] = p.read(y, [4])[0]
        p.write(y, [4])[0] = p.full([1, 4], 7)
        p.write(y, [4]).scatter_max(9.0, [p.iota([1, 4], 1, I32) % 2])

    for _, got in everywhere([1], in_order, [y, z]):
        agree(got[0], np.array([9, 9, 7, 7], np.float32))
        agree(got[1][0], np.ones(4, np.float32))


@pytest.mark.parametrize(
    "dtype, how, arch, words",
    [
        (np.float32, "add", "sm_90a", "red.global.add.v4.f32"),
        (np.float32, "add", "sm_80", "red.global.add.f32"),
        (ml_dtypes.bfloat16, "add", "sm_90a", "red.global.add.noftz.v4.bf16x2"),
        (np.float16, "add", "sm_80", "red.global.add.noftz.f16"),
        (ml_dtypes.bfloat16, "add", "sm_80", "atom.global.cas.b16"),
        (np.float32, "max", "sm_90a", "atom.global.cas.b32"),
        (np.int64, "max", "sm_80", "red.global.max.s64"),
        (np.uint32, "min", "sm_90a", "red.global.min.u32"),
        (np.uint32, "max", "gfx942", "atomicrmw umax ptr addrspace(1)"),
        (np.uint32, "max", "apple9", "atomic_fetch_max_explicit((device atomic_uint*)"),
        (np.float32, "add", "gfx942", "atomicrmw fadd ptr addrspace(1)"),
        (np.float16, "add", "gfx1100", "cmpxchg ptr addrspace(1)"),
        (np.float32, "add", "apple9", "atomic_fetch_add_explicit((device atomic_float*)"),
        (np.int64, "add", "apple9", "add_long("),
    ],
)
def test_the_hardware_adds_where_it_can(dtype, how, arch, words):
    x, y, ids = np.ones((16, 64), dtype), np.zeros((9, 64), dtype), np.zeros(16, np.int32)

    def body(p):
        rows = p.read(ids, [16])[0].T
        out = p.write(y, [1, 64])
        getattr(out, f"scatter_{how}")(p.read(x, [16, 64])[0, 0], [rows, p.iota([1, 64], 1, I32)])

    kind = next(kind for kind in ("cuda", "hip", "metal") if arch in str(_known(kind)))
    assert words in tile.source([1], body, kind=kind, arch=arch)


def _known(kind):
    found = []
    for arch in ("sm_80", "sm_90a", "gfx942", "gfx1100", "apple9"):
        try:
            found.append(target(kind, arch).arch)
        except TileError:
            continue
    return found


def test_what_cannot_be_is_told():
    y, z = np.zeros((4,), np.int8), np.zeros((4,), np.int64)

    def of_bytes(p):
        p.write(y, [1]).scatter_add(1, [0])

    with pytest.raises(TileError, match="F64, F32, F16, BF16, I32, I64, U32 and U64, found an I8 tensor"):
        tile.run([1], of_bytes)

    def of_longs(p):
        p.write(z, [1]).scatter_max(1, [0])

    with pytest.raises(TileError, match="apple9 has no atomic operations for scatter_max to I64"):
        tile.source([1], of_longs, kind="metal", arch="apple9")
