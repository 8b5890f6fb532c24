"""The emitted text, run on this computer, gives the results of the CPU's own code."""

from __future__ import annotations

from itertools import product

import addressing_cases
import along_cases
import control_cases
import double_cases
import elementwise_cases
import port_cases
import product_cases
import pytest
import row_cases
import shape_cases
import window_cases
from gpu_agreement import arrays, assert_agree, on_the_cpu
from gpu_cases import Case
from on_host import run_texts

# One architecture for each length of waves, and for products one of each family of matrix units.
WAVES, FAMILIES = ("gfx942", "gfx1201"), ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
MODULES = (
    addressing_cases,
    along_cases,
    control_cases,
    double_cases,
    elementwise_cases,
    port_cases,
    row_cases,
    shape_cases,
    window_cases,
)
CASES = [
    *product([case for module in MODULES for case in module.CASES], WAVES),
    *product(product_cases.CASES, FAMILIES),
]
# Ragged blocks are computed with on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")


@pytest.mark.parametrize("case, arch", CASES, ids=str)
def test_agrees_with_the_cpu(case: Case, arch: str, monkeypatch) -> None:
    ran = run_texts(monkeypatch)
    tensors = case.tensors()
    case.launch.simulate(*tensors, kind="hip", arch=arch, **case.constants)
    assert ran
    for each in zip(arrays(tensors), on_the_cpu(case), arrays(case.tensors()), strict=True):
        assert_agree(case, *each)
