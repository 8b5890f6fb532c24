"""Every instruction that is planned for Apple's GPUs: its text, executed, gives the simulator's bits."""

from __future__ import annotations

import numpy as np
import pytest
from metal_shim import Texts
from recorded import Recorder, assert_as_simulated, of_metal
from small_metal_kernels import CASES, programs, recorded

from gizml_tile.dtypes import F32
from gizml_tile.lowering.emit.metal.module import RULES
from gizml_tile.lowering.simulate import Memory

# bfloat is another type before apple8, with other conversions and shuffles, and without products.
BITS = [name for name in CASES if "BF16" in name]
RUNS = [*((name, "apple9") for name in CASES), *((name, "apple7") for name in BITS)]
PROGRAMS = range(40)
OF_UNITS = "exp2 log2 reciprocal rsqrt tanh sin cos".split()


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The launches by name and architecture, after their texts ran, and what went wrong."""
    launches = {run: recorded(run[0], CASES[run[0]], run[1]) for run in RUNS}
    for name, build in programs(PROGRAMS).items():
        recorder = Recorder()
        data = np.random.default_rng(len(launches)).integers(-50, 50, 64, np.int32)
        recorder.simulate(of_metal(build.kernel()), [Memory.of(data)])
        launches[name, "apple9"] = recorder.launches[0]
    texts = Texts([each.artifact for each in launches.values()], tmp_path_factory.mktemp("metal"))
    problems = texts.run(list(launches.values()))
    return {run: (launch, problem) for (run, launch), problem in zip(launches.items(), problems, strict=True)}


@pytest.mark.parametrize("run", [*RUNS, *((f"program {each}", "apple9") for each in PROGRAMS)], ids=" ".join)
def test_the_text_gives_the_simulators_bits(run, executed):
    launch, problem = executed[run]
    assert not problem
    assert_as_simulated(launch)


def test_all_instructions_are_among_them(executed):
    """But leaves of grids, and what approximates or is atomic, which have tests of their own."""
    seen = {each.op for launch, _ in executed.values() for each in launch.kernel.body.walk()}
    elsewhere = "workgroup workgroups warp parameter warp_barrier atomic update".split() + OF_UNITS
    assert set(RULES) - seen == set(elsewhere)


def test_what_approximates_is_near(tmp_path):
    """Metal's fast functions have errors of their own; the shim's are the nearest floats'."""
    builds = {op: lambda build, op=op: build.output(build.map(op, positive(build))) for op in OF_UNITS}
    launches = [recorded(op, build, "apple9") for op, build in builds.items()]
    assert not any(Texts([each.artifact for each in launches], tmp_path).run(launches))
    for op, launch in zip(OF_UNITS, launches, strict=True):
        assert f"fast::{'divide(1.0f, ' if op == 'reciprocal' else op}" in launch.artifact.text
        got, want = (each[1].view(np.float32) for each in (launch.pieces, launch.wanted))
        np.testing.assert_allclose(got, want, rtol=2**-22)


def positive(build):
    """Floats above 0."""
    return build.map("max", build.map("abs", build.input(F32, 8)), build.constant(1e-6, F32))
