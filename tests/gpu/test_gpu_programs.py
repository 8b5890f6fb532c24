"""Random programs on simulated GPUs: nothing wrong is found, and results are as the language says."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "random_programs"))

from execute import OnSimulator, arch_in_turn, check
from generate import generate
from generate_products import generate_products
from programs import has_doubles
from render import reproduction

from gizml_tile import gpu

# The programs count what lies past ragged ends on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")
ARCHS = ("sm_75", "sm_80", "sm_90a", "sm_120a")
OTHERS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "apple9")
COUNT, STEP = 300, 15


@pytest.mark.parametrize(
    "archs, start",
    [
        *((ARCHS, start) for start in range(0, COUNT, STEP)),
        *((OTHERS, start) for start in range(2 * COUNT, 2 * COUNT + 180, STEP)),
    ],
    ids=str,
)
def test_programs_agree(archs, start):
    """Each architecture in turn; every fifth program is one of matrix products."""
    refused = unknown = stored = 0
    for seed in range(start, start + STEP):
        program = (generate_products if seed % 5 == 4 else generate)(seed)
        arch = arch_in_turn(program, archs, seed // 5 if seed % 5 == 4 else seed)
        outcome = check(program, OnSimulator(arch))
        assert outcome.problem is None, f"seed {seed}, {arch}: {outcome.problem}\n{reproduction(program)}"
        refused += outcome.kind == "refused"
        stored, unknown = stored + outcome.stored, unknown + outcome.unknown
    assert refused <= 2
    # A few large sums that stay open are most of what some programs store.
    assert unknown < 0.95 * stored


def test_a_gpu_without_f64_refuses_it_and_runs_the_rest():
    refused = {False: 0, True: 0}
    for seed in range(4):
        for doubles in refused:
            program = generate(seed, doubles=doubles)
            outcome = check(program, OnSimulator("apple7"))
            assert outcome.problem is None, f"seed {seed}: {outcome.problem}\n{reproduction(program)}"
            assert has_doubles(program) <= doubles
            refused[doubles] += outcome.kind == "refused"
    assert refused[True] >= 2 > refused[False]


FORCED = [
    (generate, "elementwise", "workgroup", range(130, 150)),
    (generate, "read", "element", range(12)),
    (generate, "put", "element", range(12)),
    (generate_products, "dot", "multiply-add", range(6)),
    (generate_products, "loop", "uniform", range(6)),
    (generate_products, "copy to workgroup memory", "copy of 4 bytes through registers", range(12)),
]


@pytest.mark.parametrize(
    "make, operation, name, seeds", FORCED, ids=lambda each: each if isinstance(each, str) else ""
)
def test_programs_that_ask_for_a_variant(make, operation, name, seeds):
    refused = 0
    for seed in seeds:
        program = dataclasses.replace(make(seed), variants=((operation, name),))
        outcome = check(program, OnSimulator("sm_90a"))
        assert outcome.problem is None, f"seed {seed}: {outcome.problem}\n{reproduction(program)}"
        refused += outcome.kind == "refused"
    assert refused < len(seeds)


def test_offsets_of_64_bits(monkeypatch):
    """Tensors that are said to reach beyond what 32 bits count."""
    monkeypatch.setattr(gpu, "_NARROW", 0)
    for seed in range(COUNT, COUNT + 20):
        program = (generate_products if seed % 4 == 0 else generate)(seed)
        outcome = check(program, OnSimulator(ARCHS[seed % len(ARCHS)]))
        assert outcome.problem is None, f"seed {seed}: {outcome.problem}\n{reproduction(program)}"
