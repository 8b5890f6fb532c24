"""The PTX of the corpus, of the examples and of what is measured, as NVIDIA's assembler sees it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import along_cases
import benchmark_cases
import double_cases
import elementwise_cases
import numpy as np
import port_cases
import product_cases
import pytest
import row_cases
import shape_cases
import window_cases
from example_launches import PROGRAMS, Catcher, run_example

import gizml_tile as tile
from gizml_tile.kernel import Kernel
from gizml_tile.nodes import UNARY_FLOAT

sys.path.append(str(Path(__file__).parents[1] / "assemble"))

from ptxas import ARCHS, Report, assemble

MODULES = (
    along_cases,
    double_cases,
    elementwise_cases,
    port_cases,
    row_cases,
    product_cases,
    shape_cases,
    window_cases,
)
CASES = [case for module in MODULES for case in module.CASES]
# Ragged blocks are computed with on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")


def reports(texts: Iterable[tuple[str, str, str]]) -> dict[str, Report]:
    """The assembler's reports by name, for names, texts and architectures; two run at a time."""
    with ThreadPoolExecutor(2) as pool:
        found = {name: pool.submit(assemble, text, arch) for name, text, arch in texts}
        return {name: report.result() for name, report in found.items()}


def source(case, arch):
    return case.launch.source(*case.tensors(), kind="cuda", arch=arch, **case.constants)


@pytest.mark.parametrize("number", range(len(ARCHS)), ids=ARCHS)
def test_the_corpus_assembles(number):
    """Two of seven cases for each architecture, so that each case is seen on two."""
    chosen = [case for place, case in enumerate(CASES) if (place * 3 + number) % len(ARCHS) < 2]
    arch = ARCHS[number]
    found = reports((case.name, source(case, arch), arch) for case in chosen)
    assert {name: report.warnings for name, report in found.items() if report.warnings} == {}


@pytest.mark.parametrize("arch", ARCHS)
def test_what_is_measured_does_not_spill(arch):
    found = reports((case.name, source(case, arch), arch) for case in benchmark_cases.cases(arch))
    assert {name: report for name, report in found.items() if report.spills or report.warnings} == {}


@tile.kernel(grid=1)
def doubled(p, x, y, z, *, NAME):
    a, b = p.read(x, [32, 128])[0, 0], p.read(y, [32, 128])[0, 0]
    p.write(z, [32, 128])[0, 0] = getattr(a, NAME)(b) if NAME in ("pow", "mod") else getattr(a, NAME)()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_functions_of_16_doubles_of_a_thread_fit_into_its_registers(arch):
    tensors = [np.zeros((32, 128)) for _ in range(3)]
    names = [*UNARY_FLOAT, "pow", "mod"]
    texts = ((name, doubled.source(*tensors, kind="cuda", arch=arch, NAME=name), arch) for name in names)
    found = reports(texts)
    assert {name: report for name, report in found.items() if report.spills or report.warnings} == {}
    assert max(report.registers for report in found.values()) <= 128


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_example_assembles(program, monkeypatch):
    """Launches run on the CPU here, so that the example goes on."""
    texts: dict[tuple[str, str], str] = {}
    on_the_cpu, run = Kernel._launch, tile.run

    def kernel(kernel, *args, **named):
        for arch in ARCHS:
            texts[kernel._kernel.__name__, arch] = kernel.source(*args, kind="cuda", arch=arch, **named)
        return on_the_cpu(kernel._kernel, kernel.grid, args, named)

    def body(grid, body):
        for arch in ARCHS:
            texts["body", arch] = tile.source(grid, body, kind="cuda", arch=arch)
        return run(grid, body)

    Catcher(monkeypatch, kernel, body)
    run_example(monkeypatch, program)
    found = reports((f"{name} {arch}", text, arch) for (name, arch), text in texts.items())
    assert {name: report.warnings for name, report in found.items() if report.warnings} == {}
    assert len(found) >= len(ARCHS)
