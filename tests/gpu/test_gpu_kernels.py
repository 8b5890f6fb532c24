"""Every kernel of the corpus on simulated GPUs: nothing wrong is found, and results agree with the CPU's."""

from __future__ import annotations

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

from gizml_tile import TileError
from gizml_tile.lowering.simulate.findings import COSTS
from gizml_tile.target import gpus

MODULES = (
    addressing_cases,
    along_cases,
    control_cases,
    double_cases,
    elementwise_cases,
    port_cases,
    row_cases,
    product_cases,
    shape_cases,
    window_cases,
)
CASES = [case for module in MODULES for case in module.CASES]
# One of each family that plans differ for.
ARCHS = ("sm_75", "sm_80", "sm_90a", "sm_120a", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "apple9")
KINDS = {target.arch: target.kind for target in gpus()}
# A case that asks for more than the 32 KiB of workgroup memory that there are.
TOO_LARGE = {("apple9", "matmul 8 warps, 3 stages")}
# What needs types that a GPU has not.
UNKNOWN = {("apple9", str(case)) for case in double_cases.CASES}
# Ragged blocks are computed with on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_the_cpu(case: Case, arch: str) -> None:
    tensors = case.tensors()
    refusals = ("bytes of workgroup memory and", TOO_LARGE), ("has no F64, which this", UNKNOWN)
    for text, cases in refusals:
        if (arch, str(case)) not in cases:
            continue
        with pytest.raises(TileError, match=text):
            case.launch.simulate(*tensors, kind=KINDS[arch], arch=arch, **case.constants)
        return
    ran = case.launch.simulate(*tensors, kind=KINDS[arch], arch=arch, **case.constants)
    wrong = [str(finding) for finding in ran.findings if finding.kind not in COSTS]
    assert not wrong
    for each in zip(arrays(tensors), on_the_cpu(case), arrays(case.tensors()), strict=True):
        assert_agree(case, *each)
