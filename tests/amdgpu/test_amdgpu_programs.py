"""The examples, and random programs: their texts, run on this computer, do what they should."""

from __future__ import annotations

import pytest
from example_launches import PROGRAMS, Catcher, run_example
from execute import OnSimulator, check
from generate import generate
from generate_products import generate_products
from on_host import run_texts, run_texts_beside
from render import reproduction

import gizml_tile as tile
from gizml_tile import gpu

# The programs count what lies past ragged ends on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_example_passes_its_own_checks(program, arch, monkeypatch, capsys):
    ran = run_texts(monkeypatch)

    def kernel(kernel, *args, **named):
        return kernel.simulate(*args, kind="hip", arch=arch, **named).results

    def body(grid, body):
        return tile.simulate(grid, body, kind="hip", arch=arch).results

    Catcher(monkeypatch, kernel, body)
    run_example(monkeypatch, program)
    assert ran


# The generator's number, and whether tensors are said to reach beyond 32 bits.
SAMPLES = [
    *((generate, seed, False) for seed in range(700, 730)),
    *((generate, seed, True) for seed in range(740, 750)),
    *((generate_products, seed, False) for seed in range(700, 720)),
]


@pytest.mark.parametrize("first", range(0, len(SAMPLES), 10))
def test_random_programs_give_the_simulators_results(first, monkeypatch):
    ran = run_texts_beside(monkeypatch)
    for number, (make, seed, is_far) in enumerate(SAMPLES[first : first + 10]):
        program, arch = make(seed), ARCHS[(first + number) % len(ARCHS)]
        with monkeypatch.context() as patch:
            if is_far:
                patch.setattr(gpu, "_NARROW", 0)
            outcome = check(program, OnSimulator(arch))
        assert outcome.problem is None, f"seed {seed}, {arch}: {outcome.problem}\n{reproduction(program)}"
    assert len(ran) >= 8
