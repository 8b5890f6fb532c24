"""How long the making of a kernel's PTX takes, stage by stage, in CPU time.

    python tests/benchmarks/planning.py [--arch sm_90a] [--rounds 5] [--profile KERNEL]

prints a row for each kernel: its nodes of tile IR after the passes that all devices share, for each stage
the least milliseconds of some rounds, each with the kernel written anew, and the sum of all that comes after
the trace; ``first`` is that sum when this process makes the kernel for the first time. Nothing needs a GPU.
"""

from __future__ import annotations

import argparse
import cProfile
import importlib
import pstats
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1] / "device")]
import checkout  # noqa: E402, F401

from gizml_tile.frontend import rewriting  # noqa: E402

# Whose time a stage is: a function of ours by module and name. What it calls of other stages is theirs.
STAGES = {
    "rewrite": ("gizml_tile.frontend", "rewrite"),
    "trace": ("gizml_tile.looking", "trace"),
    "simplify": ("gizml_tile.lowering.tile_passes.pipeline", "simplify"),
    "plan": ("gizml_tile.lowering.planning.planner", "plan"),
    "expand": ("gizml_tile.lowering.expand.kernel", "expand_noting"),
    "passes": ("gizml_tile.lowering.expand.kernel", "simplify"),
    "emit": ("gizml_tile.lowering.emit.ptx", "emit"),
}
PLANNED = ("simplify", "plan", "expand", "passes", "emit")
KERNELS = ("add", "softmax", "matmul", "attention", "many")
SIZES = {
    "copy": [(4096,)] * 2,
    "add": [(1 << 20,)] * 3,
    "softmax": [(64, 4096)] * 2,
    "matmul": [(512, 512)] * 3,
    "attention": [(1, 2, 256, 64)] * 4,
    "many": [(1 << 20,)] * 3,
}
TYPES = {"matmul": np.float16, "attention": np.float16}
CONSTANTS = {"softmax": {"COLUMNS": 4096}, "matmul": {"BM": 128, "BN": 128, "BK": 32}}


@dataclass
class Watch:
    """What the stages took, each without the stages that it called, and what the planner was given."""

    spent: dict[str, float] = field(default_factory=dict)
    nodes: int = 0
    _inside: list[float] = field(default_factory=lambda: [0.0])

    @property
    def planned(self) -> float:
        """Seconds of all that comes after the trace."""
        return sum(self.spent[stage] for stage in PLANNED)

    def timed(self, stage: str, function: Callable) -> Callable:
        def call(*args, **named):
            if stage == "plan":
                self.nodes = sum(1 for _ in args[0].body.walk())
            start = time.process_time()
            self._inside.append(0.0)
            try:
                return function(*args, **named)
            finally:
                whole = time.process_time() - start
                self.spent[stage] = self.spent.get(stage, 0.0) + whole - self._inside.pop()
                self._inside[-1] += whole

        return call


def made(name: str, arch: str) -> str:
    """The PTX of a kernel, whose module is loaded anew so that nothing of it is known."""
    rewriting._DRAFTS.clear()
    for module in ("gpu_kernels", "planning_kernels"):
        sys.modules.pop(module, None)
    kernels = importlib.import_module("planning_kernels" if name == "many" else "gpu_kernels")
    tensors = [np.empty(shape, TYPES.get(name, np.float32)) for shape in SIZES[name]]
    return getattr(kernels, name).source(*tensors, kind="cuda", arch=arch, **CONSTANTS.get(name, {}))


def watched(name: str, arch: str, rounds: int) -> list[Watch]:
    """What the stages took in each round."""
    places = {stage: importlib.import_module(module) for stage, (module, _) in STAGES.items()}
    plain = {stage: getattr(places[stage], function) for stage, (_, function) in STAGES.items()}
    watches = [Watch() for _ in range(rounds)]
    try:
        for watch in watches:
            for stage, (_, function) in STAGES.items():
                setattr(places[stage], function, watch.timed(stage, plain[stage]))
            made(name, arch)
    finally:
        for stage, (_, function) in STAGES.items():
            setattr(places[stage], function, plain[stage])
    return watches


def row(name: str, arch: str, rounds: int) -> str:
    """A kernel's row of the table."""
    watches = watched(name, arch, rounds)
    least = {stage: min(watch.spent[stage] for watch in watches) for stage in STAGES}
    shown = [*least.values(), sum(least[stage] for stage in PLANNED), watches[0].planned]
    return f"| {name} | {watches[0].nodes} | {' | '.join(f'{1e3 * seconds:.1f}' for seconds in shown)} |"


def table(arch: str, rounds: int) -> None:
    """Print the stages of every kernel as rows of a table."""
    print(f"| kernel, {arch} | nodes | {' | '.join(STAGES)} | planned | first |")
    print("|---" * (len(STAGES) + 4) + "|")
    made("copy", arch)
    for name in KERNELS:
        print(row(name, arch, rounds), flush=True)


def profile(name: str, arch: str) -> None:
    """Print where the time of one kernel goes, by function."""
    made(name, arch)
    profiler = cProfile.Profile()
    profiler.runcall(made, name, arch)
    statistics = pstats.Stats(profiler)
    for order in ("tottime", "cumtime"):
        statistics.sort_stats(order).print_stats("gizml_tile|lowering", 40)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", choices=KERNELS)
    chosen = parser.parse_args()
    if chosen.profile:
        profile(chosen.profile, chosen.arch)
    else:
        table(chosen.arch, chosen.rounds)
