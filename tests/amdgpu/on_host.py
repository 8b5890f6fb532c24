"""Simulated launches that run the emitted text on this computer instead."""

from __future__ import annotations

import math
from typing import Any

from host import launch

from gizml_tile import simulating
from gizml_tile.lowering.emit.amdgpu import AmdgpuArtifact, emit
from gizml_tile.runtime.parameters import of_arguments, words

_FEW = 3


def run_texts(monkeypatch: Any) -> list[AmdgpuArtifact]:
    """Let ``simulate`` run texts, of which it returns those that ran."""
    ran = []

    def run(kernel, infos, written, scalars, grid):
        artifact = emit(kernel)
        packed = words(of_arguments(artifact.arguments), infos, scalars, grid)
        workgroups = grid if kernel.axes == len(grid) else (math.prod(grid),)
        launch(artifact, packed, (min(math.prod(grid), _FEW),) if kernel.persistent else workgroups)
        ran.append(artifact)
        return ()

    monkeypatch.setattr(simulating, "run", run)
    return ran
