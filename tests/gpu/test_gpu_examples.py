"""Every example on simulated GPUs: its own checks pass, and nothing wrong is found."""

from __future__ import annotations

import pytest
from example_launches import PROGRAMS, Catcher, run_example

import gizml_tile as tile
from gizml_tile.lowering.simulate.findings import COSTS
from gizml_tile.target import gpus

KINDS = {target.arch: target.kind for target in gpus()}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a", "gfx942", "gfx1201", "apple9"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_example(program, arch, monkeypatch, capsys):
    launches = 0
    device = {"kind": KINDS[arch], "arch": arch}

    def results(ran):
        nonlocal launches
        launches += 1
        assert not [str(finding) for finding in ran.findings if finding.kind not in COSTS]
        return ran.results

    def kernel(kernel, *args, **named):
        return results(kernel.simulate(*args, **device, **named))

    def body(grid, body):
        return results(tile.simulate(grid, body, **device))

    Catcher(monkeypatch, kernel, body)
    run_example(monkeypatch, program)
    assert launches
