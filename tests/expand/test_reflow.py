"""Rows that are read on in rows of another length, of any sizes: by way of workgroup memory."""

import ml_dtypes
import numpy as np
import pytest

import gizml_tile as tile

ARCHS = {"sm_80": "cuda", "gfx942": "hip", "gfx1100": "hip", "apple9": "metal"}
RNG = np.random.default_rng(8)
SHAPES = [
    ((4, 48), (48, 4)),
    ((4, 48), (8, 24)),
    ((6, 10), (1, 60)),
    ((1, 60), (4, 15)),
    ((12, 16), (64, 3)),
    ((3, 5), (15, 1)),
    ((15, 1), (5, 3)),
]


def simulated(x, shape, arch):
    y = np.zeros(shape, x.dtype)

    def body(p):
        p.write(y, list(shape)).put(p.read(x, list(x.shape)).at([0, 0]).reshape(shape), [0, 0])

    found = tile.simulate(1, body, kind=ARCHS[arch], arch=arch)
    assert all(each.is_cost for each in found.findings), found.findings
    return y


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.bool_, np.int64, np.int8], ids=str)
@pytest.mark.parametrize(("before", "after"), SHAPES, ids=str)
def test_every_type(before, after, dtype, arch):
    x = RNG.integers(0, 2 if dtype is np.bool_ else 100, before).astype(dtype)
    np.testing.assert_array_equal(simulated(x, after, arch), x.reshape(after))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("before", "after"), [((96, 80), (60, 128)), ((40, 200), (100, 80))], ids=str)
def test_tiles_larger_than_workgroup_memory_go_in_pieces(before, after, arch):
    x = RNG.integers(0, 10**6, before).astype(np.int64)
    np.testing.assert_array_equal(simulated(x, after, arch), x.reshape(after))


@pytest.mark.parametrize("arch", ARCHS)
def test_what_is_never_seen_stays_unseen(arch):
    """Products and sums in rows of 24, of tiles whose further columns hold something."""
    a, b = (RNG.integers(-3, 4, shape).astype(np.float16) for shape in ((12, 16), (16, 20)))
    total, row = np.zeros((10, 1), np.float32), np.zeros((1, 24), np.float32)

    def body(p):
        product = p.read(a, [12, 16], pad=1).at([0, 0]) @ p.read(b, [16, 20], pad=1).at([0, 0])
        t = (product + 1).reshape([10, 24])
        p.write(total, [10, 1]).put(t.sum(1), [0, 0])
        p.write(row, [1, 24]).put(t.max(0), [0, 0])

    found = tile.simulate(1, body, kind=ARCHS[arch], arch=arch)
    assert all(each.is_cost for each in found.findings), found.findings
    t = (a.astype(np.float32) @ b.astype(np.float32) + 1).reshape(10, 24)
    np.testing.assert_array_equal(total[:, 0], t.sum(1))
    np.testing.assert_array_equal(row[0], t.max(0))


def test_neighbours_in_both_are_loaded_together():
    x = np.zeros((16, 48), np.float32)

    def body(p):
        p.write(x, [32, 24]).put(p.read(x, [16, 48]).at([0, 0]).reshape([32, 24]) + 1, [0, 0])

    text = tile.explain(1, body, kind="cuda", arch="sm_80")
    assert "to other rows in " in text and "loads of 16 bytes" in text, text
    assert "rows of 48 as rows of 24" in tile.ir(1, body)
