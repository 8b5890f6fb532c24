"""Counts of values, exactly as many as there are."""

import numpy as np
import pytest
from along_programs import DEVICES, outputs

import gizml_tile as tile

SHAPES = [(1, 1), (8, 16), (1, 256), (64, 4), (16, 1)]


def counted(x, bins):
    inside = x[(x >= 0) & (x < bins)]
    return np.bincount(inside.astype(np.int64), minlength=bins)[None]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bins", [1, 2, 16, 512])
def test_counts(device, bins):
    rng = np.random.default_rng(bins)
    for shape in SHAPES:
        x = rng.integers(-bins // 4 - 1, bins + bins // 4 + 1, shape).astype(np.int32)
        (found,) = outputs(device, [x], lambda p, a: a.histogram(bins), ((1, bins), np.int32))
        np.testing.assert_array_equal(found, counted(x, bins))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("device", [None, ("cuda", "sm_90a"), ("hip", "gfx942"), ("metal", "apple9")])
def test_types(device, dtype):
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(0, 70, (4, 64)).astype(dtype)
    x[0, :4] = info.min, info.max, 63, 64
    (found,) = outputs(device, [x], lambda p, a: a.histogram(64), ((1, 64), np.int32))
    np.testing.assert_array_equal(found, counted(x, 64))


@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
@pytest.mark.parametrize("device", [("cuda", "sm_90a"), ("hip", "gfx942"), ("metal", "apple9")])
def test_texts_of_unsigned_numbers(device, kind):
    """No emitter has a conversion between types that differ in the sign alone."""
    x, y = np.zeros((4, 64), kind), np.zeros((1, 16), np.int32)

    def body(p):
        p.write(y, [1, 16]).put(p.read(x, [4, 64]).at([0, 0]).histogram(16), [0, 0])

    assert tile.source(1, body, kind=device[0], arch=device[1])


@pytest.mark.parametrize("device", DEVICES)
def test_equal_elements_all_count(device):
    """All in one bin, copies in threads that share an element, and counts that are used at once."""
    x = np.full((4, 64), 5, np.int32)

    def function(p, a):
        p.warps(4)
        counts = a.histogram(8)
        few = (a.max(1) - 2).histogram(8)
        return counts.cumsum(1), few, p.iota([1, 32], 1, tile.I32).histogram(16)

    running, few, places = outputs(device, [x], function, *[((1, 8), np.int32)] * 2, ((1, 16), np.int32))
    np.testing.assert_array_equal(running[0], [0] * 5 + [256] * 3)
    np.testing.assert_array_equal(few[0], [0, 0, 0, 4, 0, 0, 0, 0])
    np.testing.assert_array_equal(places, 1)


def test_counts_of_a_loop_of_blocks():
    """Counts carried over blocks, whose memory is used again in every turn."""
    x = np.random.default_rng(1).integers(0, 100, (64, 32)).astype(np.int32)
    y = np.zeros((1, 64), np.int32)

    def body(p):
        blocks = p.read(x, [16, 32], pad=-1)
        add = lambda k, total: total + blocks.at([k, 0]).histogram(64)
        p.write(y, [1, 64]).put(p.fold(0, blocks.blocks(0), p.zeros([1, 64], tile.I32), add), [0, 0])

    for arch in ("sm_80", "gfx1100", "apple9", None):
        y[:] = 0
        if arch is None:
            tile.run((1,), body)
        else:
            kind = {"s": "cuda", "g": "hip", "a": "metal"}[arch[0]]
            findings = tile.simulate((1,), body, kind=kind, arch=arch).findings
            assert all(each.is_cost for each in findings), findings
        np.testing.assert_array_equal(y, counted(x, 64))
