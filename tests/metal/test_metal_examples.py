"""The examples' texts give the simulator's results, and the sanitizers find nothing in them."""

from __future__ import annotations

import importlib

import example_launches
import pytest
from example_launches import EXAMPLES, PROGRAMS, Catcher, run_example
from metal_shim import Texts, run_watched
from recorded import Recorder, assert_as_simulated

import gizml_tile as tile
from gizml_tile.lowering import simulate as simulation

SMALL = {"BM": 64, "BN": 64, "BK": 32}
# Blocks that fit 32 KiB of threadgroup memory, by kernel.
BLOCKS = {"matmul": SMALL, "linear": SMALL}
# It has no blocks to make smaller.
TOO_LARGE = {"pool"}


@pytest.fixture(scope="module")
def launches():
    """Every launch of every example, with the memory before and after."""
    recorder = Recorder()

    def kernel(launched, *args, **named):
        name = launched._kernel.__name__
        kind = "cuda" if name in TOO_LARGE else "metal"
        return launched.simulate(*args, kind=kind, **named | BLOCKS.get(name, {})).results

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIZML_TILE_CACHE", "off")
        patch.setattr(simulation, "simulate", recorder.simulate)
        patch.setitem(example_launches.BLOCKS, "attention", {"BM": 16, "BN": 16})
        patch.syspath_prepend(str(EXAMPLES))
        defaults = importlib.import_module("matmul").matmul_explicit.__kwdefaults__
        for name, size in SMALL.items():
            patch.setitem(defaults, name, size)
        Catcher(patch, kernel, lambda grid, body: tile.simulate(grid, body, kind="metal").results)
        for program in PROGRAMS:
            run_example(patch, program)
    return recorder.launches


def test_the_texts_give_the_simulators_results(launches, tmp_path):
    problems = Texts([each.artifact for each in launches], tmp_path).run(launches)
    assert not any(problems)
    for each in launches:
        assert_as_simulated(each)


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_the_sanitizers_find_nothing(launches, sanitizer, tmp_path):
    """Nothing outside of memory, no undefined arithmetic, no threads that touch what others write."""
    assert not run_watched(launches, tmp_path, sanitizer)
