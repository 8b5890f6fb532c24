"""Wavefronts and sectors against counts by brute force, and what findings say of them."""

import math

import numpy as np
import pytest
from small_writers import buffer, kernel_of, run

import gizml_tile as tile
from gizml_tile.dtypes import F32, I32
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, WORKGROUP, Access
from gizml_tile.lowering.simulate import Memory, simulate

# Lanes of a warp, and banks.
WARPS = {"sm_90a": (32, 32), "gfx942": (64, 32), "gfx950": (64, 64), "apple9": (32, 32)}


def wavefronts(byte_of_lane, bytes, active, lanes, banks_there):
    """Lanes take turns, as many as all banks serve; words of a bank that differ follow one another."""
    together = min(4 * banks_there // max(bytes, 4), lanes)
    total = ideal = 0
    for start in range(0, lanes, together):
        banks = {}
        for lane in range(start, start + together):
            if active[lane]:
                for word in range(byte_of_lane[lane] // 4, (byte_of_lane[lane] + bytes + 3) // 4):
                    banks.setdefault(word % banks_there, set()).add(word)
        if banks:
            total += max(map(len, banks.values()))
            ideal += 1
    return total, ideal


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("arch", WARPS)
def test_bank_conflicts(width, seed, masked, arch):
    lanes, banks = WARPS[arch]
    rng = np.random.default_rng(seed)
    stride = int(rng.integers(0, 40)) if seed % 2 else None
    if stride is None:
        table = rng.integers(0, 512 // width, 64) * width
    else:
        table = np.arange(64) * stride % (512 // width) * width
    table = table.astype(np.int32)
    active = rng.random(64) < 0.5 if masked else np.ones(64, bool)
    mask = active.astype(np.int32)

    def write(k):
        place = k.at(1).get(0, k.thread(), I32)
        chosen = k.map("ne", k.get(1, k.thread(), I32), k.number(0))
        k.at(2).load(Access(WORKGROUP, 0, width, ((0, 0),)), place, F32, chosen if masked else None)

    found = run(write, [table, mask], [buffer("s", 512)], grid=(3,), arch=arch)
    total = ideal = 0
    for warp in (slice(first, first + lanes) for first in range(0, 64, lanes)):
        some = wavefronts(table[warp] * 4, 4 * width, active[warp], lanes, banks)
        total, ideal = total + 3 * some[0], ideal + 3 * some[1]
    told = [each.text.partition("in all ")[2] for each in found.of("bank conflict")]
    assert told == ([f"{total} turns of the banks where {ideal} would do"] if total > ideal else [])


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("arch", ["sm_90a", "gfx942"])
def test_sectors(width, seed, masked, arch):
    lanes, _ = WARPS[arch]
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 64, 64) if seed % 2 else np.arange(64) * int(rng.integers(1, 9))
    table = (table * width).astype(np.int32)
    active = rng.random(64) < 0.5 if masked else np.ones(64, bool)
    data = np.zeros(4096, np.float32)

    def write(k):
        place = k.at(1).get(0, k.thread(), I32)
        chosen = k.map("ne", k.get(1, k.thread(), I32), k.number(0))
        access = Access(GLOBAL, 2, width, ((0, 0),))
        k.at(2).load(access, place, F32, chosen if masked else None)

    found = run(write, [table, active.astype(np.int32), data], arch=arch)
    total = ideal = 0
    for warp in (slice(first, first + lanes) for first in range(0, 64, lanes)):
        places = table[warp][active[warp]]
        touched = {int(place) * 4 // 32 for place in places}
        total += len(touched)
        least = min(len(touched), math.ceil(len(places) * 4 * width / 32))
        # A stretch of neighbours that begins amid a piece touches one more, which is nobody's mistake.
        stretches = len(touched - {piece + 1 for piece in touched})
        long = stretches == 1 or len(touched) >= 3 * stretches
        ideal += len(touched) if long and len(touched) <= least + stretches else least
    told = [each.text.partition("in all ")[2] for each in found.of("uncoalesced")]
    assert told == ([f"{total} pieces of 32 bytes where {ideal} would do"] if total > 1.25 * ideal else [])


@pytest.mark.parametrize("kind, arch", [("cuda", "sm_90a"), ("hip", "gfx942"), ("metal", "apple9")])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_neighbours_may_begin_anywhere(kind, arch, dtype):
    """A stencil, and rows of an odd length, are not the person's to mend."""

    @tile.kernel(grid=lambda y: y.shape[0])
    def sums(p, x, y):
        X, i = p.read(x, [1, 512]), p.id(0)
        p.write(y, [1, 512])[i, 0] = X.window([i, -1]) + X[i, 0] + X.window([i, 3])

    x = np.ones((5, 501), dtype)
    run = sums.simulate(x, np.empty_like(x), kind=kind, arch=arch)
    assert not [each for each in run.findings if each.kind == "uncoalesced"]
    assert run.results[0][0, 0] == 2


@pytest.mark.parametrize("kind, arch", [("cuda", "sm_90a"), ("hip", "gfx942"), ("metal", "apple9")])
def test_single_elements_beside_vectors(kind, arch):
    """What windows share is loaded by vectors and a few elements, which the cache has; ends go so."""

    @tile.kernel(grid=lambda y: y.shape[0] // 1024)
    def neighbours(p, x, y):
        X, i = p.read(x, [1024]), p.id(0) * 1024
        p.write(y, [1024])[p.id(0)] = X.window([i]) + X.window([i + 1]) + X.window([i + 2])

    x = np.ones(4100, np.float16)
    assert not neighbours.simulate(x, np.zeros(4096, np.float16), kind=kind, arch=arch).findings

    @tile.kernel(grid=lambda y: (y.shape[1] // 64, y.shape[0] // 8))
    def sums(p, x, y):
        X, j, i = p.read(x, [8, 64]), p.id(0), p.id(1)
        total = X[i, j] + X.window([i * 8, j * 64 - 1]) + X.window([i * 8 + 1, j * 64 + 1])
        p.write(y, [8, 64])[i, j] = total

    x = np.ones((32, 256), np.float16)
    (cost,) = sums.simulate(x, np.empty_like(x), kind=kind, arch=arch).findings
    assert cost.kind == "uncoalesced" and cost.told.endswith(
        "; only blocks that reach past an end of the tensor go so, and larger tensors have fewer of them; "
        "where blocks do not divide its size, choose some that do"
    )


@pytest.mark.parametrize("kind, arch", [("cuda", "sm_80"), ("hip", "gfx942"), ("metal", "apple9")])
def test_what_to_do_about_additions(kind, arch):
    """Their blocks lie along the row already, and data say where they go."""

    @tile.kernel(grid=4)
    def totals(p, ids, x, y):
        i = p.id(0)
        p.write(y, [1]).scatter_add(p.read(x, [256])[i], [p.read(ids, [256])[i]])

    x, ids = np.ones(1024, np.float32), np.arange(1024, dtype=np.int32) * 9 % 1024
    run = totals.simulate(ids, x, np.zeros(1024, np.float32), kind=kind, arch=arch)
    (cost,) = run.findings
    assert cost.kind == "uncoalesced" and cost.text.endswith(
        "in all 1024 pieces of 32 bytes where 128 would do"
    )
    assert cost.told.endswith(
        "; add up more in each program first, in a tile, so that fewer programs add to the tensor"
    )


def test_costs_are_no_mistakes_and_can_be_left_out():
    def write(k):
        k.at(1).keep(0, k.number(1.0, F32), k.mul(k.thread(), k.number(32)))

    kernel = kernel_of(write, [], [buffer("s", 2048)])
    found = simulate(kernel, [])
    assert [(each.kind, each.count) for each in found] == [("bank conflict", 62)] and not found.wrong
    assert str(found) == (
        "kernel.py:1:1: bank conflict: 32 lanes of a warp want different words of one bank, in s in "
        "workgroup memory: in all 64 turns of the banks where 2 would do; give tensors that meet the same "
        "order of axes in memory, or use smaller blocks, which registers hold"
    )
    assert not simulate(kernel, [], counts=False).found
    assert Memory.of(np.zeros((2, 3))).strides == (3, 1)
