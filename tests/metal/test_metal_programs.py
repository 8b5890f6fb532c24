"""A sample of random programs: their texts give the simulator's results."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest
from metal_shim import Texts
from recorded import Recorder, assert_as_simulated

from gizml_tile import gpu
from gizml_tile.lowering import simulate as simulation

sys.path.append(str(Path(__file__).parents[1] / "random_programs"))

from execute import OnSimulator, check
from generate import generate
from generate_products import generate_products
from render import reproduction

# The programs count what lies past ragged ends on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")
# Metal has no F64.
GENERATE, PRODUCTS = partial(generate, doubles=False), partial(generate_products, doubles=False)
# The generator's number, the architecture, and whether tensors are said to reach beyond 32 bits.
SAMPLES = [
    *((GENERATE, seed, "apple9", False) for seed in range(902, 924)),
    *((GENERATE, seed, "apple7", True) for seed in range(924, 934)),
    *((PRODUCTS, seed, "apple9", False) for seed in range(900, 912)),
]


def test_the_texts_give_the_simulators_results(tmp_path, monkeypatch):
    recorder, programs = Recorder(), []
    monkeypatch.setattr(simulation, "simulate", recorder.simulate)
    for make, seed, arch, is_far in SAMPLES:
        program, before = make(seed), len(recorder.launches)
        with monkeypatch.context() as patch:
            if is_far:
                patch.setattr(gpu, "_NARROW", 0)
            check(program, OnSimulator(arch))
        programs += [program] * (len(recorder.launches) - before)
    assert len(programs) > 0.8 * len(SAMPLES)
    problems = Texts([each.artifact for each in recorder.launches], tmp_path).run(recorder.launches)
    for launch, program, problem in zip(recorder.launches, programs, problems, strict=True):
        assert not problem, reproduction(program)
        assert_as_simulated(launch)
