"""Looking inside: previews of every example, tile IR, code, and plans for every kind of GPU."""

import importlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.kernel import Kernel

EXAMPLES = Path(__file__).parents[2] / "examples"
# The one that reads the weights of a model needs packages beside this one.
NAMES = sorted(
    path.stem for path in EXAMPLES.glob("*.py") if path.stem not in ("measure", "sentence_embeddings")
)


def kernels(module):
    return {name: item for name, item in vars(module).items() if isinstance(item, Kernel)}


@pytest.mark.parametrize("name", NAMES)
def test_previews_of_the_examples_trace_to_the_same_tile_ir(name, monkeypatch, previews, capsys):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    module = importlib.import_module(name)
    importlib.reload(module)
    module.main(quick=True)
    assert kernels(module)
    assert set(kernels(module).values()) <= set(previews)


def test_previews_of_the_model_are_programs(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    module = importlib.import_module("sentence_embeddings")
    for kernel in kernels(module).values():
        compile(kernel.preview(), "preview", "exec")
        assert kernel.preview().startswith(f"def {kernel.__name__}(p, ")


@tile.kernel(grid=lambda out, **_: tile.cdiv(out.shape[0], 8))
def plain(p, x, out, *, SCALE=2.0):
    # A comment that stays.
    value = p.read(x, [8])[p.id(0)]  # and one more
    p.write(out, [8])[p.id(0)] = value * SCALE


PREVIEW = """\
def plain(p, x, out, *, SCALE=2.0):
    # A comment that stays.
    value = p.read(x, [8]).at([p.id(0)])  # and one more
    value_1 = value.mul(SCALE)
    p.write(out, [8]).put(value_1, [p.id(0)])
"""


def test_a_preview_is_the_function_alone_with_its_comments():
    assert plain.preview() == PREVIEW


def test_the_difference_shows_what_changes():
    lines = plain.preview(diff=True).splitlines()
    assert lines[:2] == ["--- written", "+++ rewritten"]
    assert "-    value = p.read(x, [8])[p.id(0)]  # and one more" in lines
    assert "+    value = p.read(x, [8]).at([p.id(0)])  # and one more" in lines
    assert "     # A comment that stays." in lines


def test_a_preview_runs_as_an_explicit_program():
    names = {"tile": tile}
    exec(plain.preview(), names)
    x, out, expected = np.arange(20, dtype=np.float32), np.zeros(20, np.float32), np.zeros(20, np.float32)
    tile.run(3, lambda p: names["plain"](p, x, out, SCALE=3.0))
    plain(x, expected, SCALE=3.0)
    assert np.array_equal(out, expected)


def test_ir_of_kernels_and_of_bodies_is_the_same():
    x, out = np.zeros(20, np.float32), np.zeros(20, np.float32)

    def body(p):
        value = p.read(x, [8]).at([p.id(0)])
        p.write(out, [8]).put(value.mul(2.0), [p.id(0)])

    def operations(text):
        return [line.split()[1] for line in text.splitlines()[2:]]

    assert operations(plain.ir(x, out)) == operations(tile.ir(3, body))
    assert "program plain(x: f32 rank 1, out: f32 rank 1)" in plain.ir(x, out)
    assert "test_looking.py:" in plain.ir(x, out)
    assert not out.any()


def test_storage_stands_for_other_types():
    x, out = np.zeros(20, np.float32), np.zeros(20, np.float32)
    text = plain.ir(x, out, storage=[tile.BF16, ml_dtypes.float8_e4m3fn])
    assert "program plain(x: bf16 rank 1, out: fp8 rank 1)" in text
    assert "bf16 rank 1" in plain.ir(x, out, storage=[tile.BF16])
    assert tile.source(1, lambda p: None, kind="cpu")
    with pytest.raises(tile.TileError, match=r"storage has 1 types, and the program 0 read and write calls"):
        tile.ir(1, lambda p: None, storage=[tile.F16])


def test_source_is_llvm_text_of_the_kernel_on_a_grid():
    x, out = np.zeros(20, np.float32), np.zeros(20, np.float32)
    text = plain.source(x, out)
    assert "define" in text
    assert text == plain[3].source(x, out, kind="cpu", arch="native")
    assert text != plain.source(x[::2], out[:10])


def test_explain_tells_of_the_code():
    x, out = np.zeros(20, np.float32), np.zeros(20, np.float32)
    assert plain.explain(x, out).strip()
    assert tile.explain(1, lambda p: None).strip()


def test_warps_and_stages_are_shown():
    x, out = np.zeros(20, np.float32), np.zeros(20, np.float32)
    assert "warps 4" in plain.ir(x, out, warps=4)
    assert "stages 3" in plain.ir(x, out, stages=3)
    assert "warps 2" in tile.ir(1, lambda p: None, warps=2)
    with pytest.raises(tile.TileError, match="warps takes 1, 2, 4, 8, 16 or 32, found 3"):
        plain(x, out, warps=3)
    plain(x + 1, out, warps=4, stages=2)
    assert list(out) == [2] * 20


@pytest.mark.parametrize("kind, arch", [("hip", "gfx942"), ("metal", "apple9")])
def test_other_gpus_are_planned_and_simulated(kind, arch):
    x, out = np.arange(20, dtype=np.float32), np.zeros(20, np.float32)
    assert f"for {kind} ({arch})\n" in plain.explain(x, out, kind=kind)
    assert "blocked" in plain.ir(x, out, kind=kind, arch=arch)
    assert plain[3].simulate(x, out, kind=kind).findings == ()
    assert np.array_equal(out, x * 2)


@pytest.mark.parametrize("warps, launched", [(1, 1), (2, 1), (8, 4)])
def test_a_warp_counts_32_threads(warps, launched):
    """On waves of 64 lanes two are one, and a single one is a whole one too."""
    x, out = np.zeros(20, np.float32), np.zeros(20, np.float32)
    assert f"{launched} warp" in plain.explain(x, out, kind="hip", arch="gfx90a", warps=warps)
    assert f"{warps} warp" in plain.explain(x, out, kind="hip", arch="gfx1100", warps=warps)


def test_simulate_runs_in_place_and_tells_what_it_found():
    x, out = np.arange(20, dtype=np.float32), np.zeros(20, np.float32)
    found = plain[3].simulate(x, out)
    assert np.array_equal(out, x * 2)
    assert found.results == (out,) and found.results[0] is out
    assert found.findings == ()
    body = tile.simulate(1, lambda p: p.write(out, [8]).put(p.zeros([1, 8]), [0]), arch="sm_80")
    assert body.results[0] is out
    assert list(out[:9]) == [0] * 8 + [16]


def test_what_runs_on_a_gpu_is_shown_without_one():
    x, out = np.zeros(20, np.float32), np.zeros(20, np.float32)
    assert "{blocked 1 wide}" in plain.ir(x, out, kind="cuda", arch="sm_80")
    text = plain.source(x, out, kind="cuda", arch="sm_80")
    assert ".target sm_80" in text
    assert ".target sm_90a" in plain.source(x, out, kind="cuda")
    assert "half" not in text and ".b16" in plain.source(x, out, kind="cuda", storage=[tile.BF16, tile.BF16])


@tile.function
def helper(x, y):
    """Adds where it is not negative."""
    return x + y if y >= 0 else x


def test_a_helper_is_rewritten_in_kernels_and_itself_elsewhere():
    assert helper(1, 2) == 3
    assert helper(1, -2) == 1
    assert helper.__doc__ == "Adds where it is not negative."
    assert "select" in helper.preview()
    assert repr(helper) == "<function helper>"

    @tile.kernel(grid=1)
    def body(p, x, y, out):
        p.write(out, [8])[0] = helper(p.read(x, [8])[0], p.read(y, [8])[0])

    x, y, out = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32) - 4, np.zeros(8, np.float32)
    body(x, y, out)
    assert np.array_equal(out, np.where(y >= 0, x + y, x))


class Layer:
    def __init__(self, width):
        self.width = width

    @tile.function
    def scaled(self, x):
        return x * self.width if x > 0 else -x


def test_a_helper_in_a_class_is_a_method():
    layer = Layer(3.0)
    assert layer.scaled(2.0) == 6.0
    assert layer.scaled(-2.0) == 2.0

    @tile.kernel(grid=1)
    def body(p, x, out):
        p.write(out, [8])[0] = layer.scaled(p.read(x, [8])[0])

    x, out = np.arange(8, dtype=np.float32) - 4, np.zeros(8, np.float32)
    for layer.width in (3.0, 5.0):
        body(x, out)
        assert np.array_equal(out, np.where(x > 0, x * layer.width, -x))


def test_unroll():
    assert list(tile.unroll(3)) == [0, 1, 2]
    assert list(tile.unroll(5, 1, -2)) == [5, 3]
    assert list(tile.unroll("ab")) == ["a", "b"]
    assert list(tile.unroll(np.int64(2))) == [0, 1]

    @tile.kernel(grid=1)
    def body(p, out, n):
        for _ in tile.unroll(n):
            pass

    with pytest.raises(tile.TileError) as caught:
        body(np.zeros(8, np.float32), 3)
    assert caught.value.message == (
        "unroll needs a number of turns that is known before the kernel runs, found an index; use range "
        "for a loop on the device"
    )
