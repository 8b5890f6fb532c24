"""Slices that lanes or warps have to move: backwards, past what is visible, larger than workgroup memory."""

import ml_dtypes
import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.layout import blocked
from gizml_tile.layout.parts import around, part
from gizml_tile.lowering.planning.wrapped import wrap_slices
from gizml_tile.lowering.tile_passes.pipeline import simplify
from gizml_tile.program import trace

ARCHS = {"sm_80": "cuda", "gfx942": "hip", "gfx1100": "hip", "apple9": "metal"}
RNG = np.random.default_rng(3)
TAKEN = {
    "columns backwards": lambda t: t.flip(1),
    "rows backwards": lambda t: t.flip(0),
    "both backwards": lambda t: t[::-1, ::-1],
    "backwards in steps": lambda t: t[::-3, 1:],
    "some backwards": lambda t: t[:, -2:3:-1],
    "from the middle": lambda t: t[3:, 5:],
    "beside itself": lambda t: t.concat(t, 1),
    "above parts": lambda t: t.concat(t[1:], 0),
    "a column": lambda t: t[:, 5:6],
    "the last column": lambda t: t[:, -1:] + t[:, :1] if t.dtype is not tile.MASK else t[:, -1:],
    "a row": lambda t: t[3:4],
    "some of a row": lambda t: t[6:7, 3:10:2],
    "an element": lambda t: t[2:3, 7:8],
    "the same element of all": lambda t: t.concat(t[5:6, 9:10].broadcast_to([t.shape[0], 1]), 1),
}
OF_ARRAYS = {
    "columns backwards": lambda t: t[:, ::-1],
    "rows backwards": lambda t: t[::-1],
    "beside itself": lambda t: np.concatenate([t, t], 1),
    "the last column": lambda t: t[:, -1:] if t.dtype == bool else t[:, -1:] + t[:, :1],
    "the same element of all": lambda t: np.concatenate([t, np.full((len(t), 1), t[5, 9])], 1),
    "above parts": lambda t: np.concatenate([t, t[1:]], 0),
}


def simulated(take, x, arch):
    """What a kernel takes of a whole tensor as one tile; nothing may be wrong but bank conflicts."""
    outs = []

    def body(p):
        part = take(p.read(x, list(x.shape)).at([0, 0]))
        if not outs:
            outs.append(np.zeros(part.shape, x.dtype))
        p.write(outs[0], list(part.shape)).put(part, [0, 0])

    found = tile.simulate(1, body, kind=ARCHS[arch], arch=arch)
    assert all(each.is_cost for each in found.findings), found.findings
    return outs[0]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [(np.float32, (12, 48)), (ml_dtypes.bfloat16, (48, 12)), (np.bool_, (7, 96)), (np.int64, (16, 24))],
    ids=str,
)
def test_elements_that_move(dtype, shape, name, arch):
    x = RNG.integers(0, 2 if dtype is np.bool_ else 200, shape).astype(dtype)
    want = OF_ARRAYS.get(name, TAKEN[name])(x)
    np.testing.assert_array_equal(simulated(TAKEN[name], x, arch), want)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ["columns backwards", "rows backwards"])
@pytest.mark.parametrize("shape", [(128, 48), (96, 96), (128, 192)], ids=str)
def test_tiles_larger_than_workgroup_memory_move_in_pieces(shape, name, arch):
    x = RNG.integers(0, 10**6, shape).astype(np.float32)
    np.testing.assert_array_equal(simulated(TAKEN[name], x, arch), OF_ARRAYS[name](x))


@pytest.mark.parametrize("arch", ARCHS)
def test_products_backwards(arch):
    a, b = (RNG.integers(-3, 4, shape).astype(np.float16) for shape in ((128, 32), (32, 96)))
    c = np.zeros((128, 96), np.float32)

    def body(p):
        product = p.read(a, [128, 32]).at([0, 0]) @ p.read(b, [32, 96]).at([0, 0])
        p.write(c, [128, 96]).put(product.flip(1), [0, 0])

    found = tile.simulate(1, body, kind=ARCHS[arch], arch=arch)
    assert all(each.is_cost for each in found.findings), found.findings
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32))[:, ::-1])


def test_vectors_are_loaded_backwards_too():
    x, y = np.zeros((128, 48), np.float32), np.zeros((128, 48), np.float32)

    def body(p):
        p.write(y, [128, 48]).put(p.read(x, [128, 48]).at([0, 0]).flip(1), [0, 0])

    text = tile.explain(1, body, kind="cuda", arch="sm_80")
    assert "by workgroup memory: 32768 bytes, loads of 16 bytes" in text, text
    assert not tile.simulate(1, body, kind="cuda", arch="sm_80").findings


def test_a_tile_is_not_repeated_to_be_sliced():
    x, y = np.zeros((8, 12), np.float32), np.zeros((8, 12), np.float32)

    def body(p):
        p.write(y, [8, 12]).put(p.read(x, [8, 12]).at([0, 0]).flip(1), [0, 0])

    padded = simplify(trace("program", body, grid_rank=1).program)
    assert "concat" in {node.op for node in padded.body.walk()}
    wrapped = wrap_slices(padded)
    assert [node.op for node in wrapped.body.walk() if node.is_tile] == ["read", "slice"]
    assert wrap_slices(wrapped) is wrapped


def test_places_of_parts_count_modulo_the_size():
    """Eight neighbours in registers: 4 to 7 are also -4 to -1, and 16 places are not there once each."""
    layout = blocked((1, 16), (1, 0), 8, 2, 1)
    for start in (4, -12, 20):
        found = part(layout, (0, 1, 1), (start, 1, 4))
        assert found is None  # the lanes hold the upper half
    registers = blocked((1, 8), (1, 0), 8, 1, 1)
    for start in (4, -4, 12):
        assert part(registers, (0, 1, 1), (start, 1, 4)).registers == (4, 5, 6, 7)
    assert part(registers, (0, 1, 1), (0, 1, 16)) is None
    assert around(registers, (1, 4), (0, 1, 1), (0, 1, 8)) is None


def test_of_a_column_nothing_else_is_copied():
    """128 numbers of 16384 go through workgroup memory, not all of them."""
    x, y = np.zeros((128, 128), np.float32), np.zeros((128, 1), np.float32)

    def body(p):
        p.write(y, [128, 1]).put(p.read(x, [128, 128]).at([0, 0])[:, 77:78], [0, 0])

    text = tile.explain(1, body, kind="cuda", arch="sm_90a")
    assert "[128, 1] f32 from" in text and "by workgroup memory: 512 bytes" in text, text
