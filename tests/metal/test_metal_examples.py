"""The examples' texts give the simulator's results, and the sanitizers find nothing in them."""

from __future__ import annotations

import pytest
from example_launches import PROGRAMS, Catcher, run_example
from metal_shim import Texts, run_watched
from recorded import Recorder, assert_as_simulated

import gizml_tile as tile
from gizml_tile.lowering import simulate as simulation


@pytest.fixture(scope="module")
def launches():
    """Every launch of every example, with the memory before and after."""
    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIZML_TILE_CACHE", "off")
        patch.setattr(simulation, "simulate", recorder.simulate)
        Catcher(
            patch,
            lambda kernel, *args, **named: kernel.simulate(*args, kind="metal", **named).results,
            lambda grid, body: tile.simulate(grid, body, kind="metal").results,
        )
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
