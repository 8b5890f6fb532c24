"""Every example on simulated GPUs: its own checks pass, and nothing wrong is found."""

from __future__ import annotations

import pytest
from example_launches import PROGRAMS, Catcher, run_example

import gizml_tile as tile
from gizml_tile.lowering.simulate.findings import COSTS


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_example(program, arch, monkeypatch, capsys):
    launches = 0

    def results(ran):
        nonlocal launches
        launches += 1
        assert not [str(finding) for finding in ran.findings if finding.kind not in COSTS]
        return ran.results

    def kernel(kernel, *args, **named):
        return results(kernel.simulate(*args, kind="cuda", arch=arch, **named))

    def body(grid, body):
        return results(tile.simulate(grid, body, kind="cuda", arch=arch))

    Catcher(monkeypatch, kernel, body)
    run_example(monkeypatch, program)
    assert launches
