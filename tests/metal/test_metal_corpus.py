"""The MSL of the corpus, compiled against the shim and executed, gives the CPU's results."""

from __future__ import annotations

import addressing_cases
import along_cases
import control_cases
import elementwise_cases
import port_cases
import product_cases
import pytest
import row_cases
import shape_cases
from gpu_cases import Case
from metal_shim import Texts
from recorded import Recorder
from test_gpu_kernels import arrays, assert_agree, on_the_cpu

from gizml_tile import simulating

# Too large for 32 KiB of threadgroup memory.
TOO_LARGE = {"matmul 8 warps, 3 stages"}
CASES = [
    case
    for module in (
        addressing_cases,
        along_cases,
        control_cases,
        elementwise_cases,
        port_cases,
        row_cases,
        product_cases,
        shape_cases,
    )
    for case in module.CASES
    if case.name not in TOO_LARGE
]
# The type bfloat came with apple8, so BF16 is another text before.
BITS = [case for case in CASES if "bf16" in case.name][:12]
RUNS = [*((case, "apple9") for case in CASES), *((case, "apple7") for case in BITS)]
# Ragged blocks are computed with on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """The tensors of each case after its text ran, or what went wrong."""
    recorder, tensors, runs = Recorder(), {}, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulating, "run", recorder.run)
        for case, arch in RUNS:
            given = tensors[case, arch] = case.tensors()
            case.launch.simulate(*given, kind="metal", arch=arch, **case.constants)
            # A launch may be of several programs, one after the other.
            runs += [(case, arch)] * (len(recorder.launches) - len(runs))
    texts = Texts([each.artifact for each in recorder.launches], tmp_path_factory.mktemp("metal"))
    problems = texts.run(recorder.launches)
    found = dict.fromkeys(tensors, "")
    for run, problem in zip(runs, problems, strict=True):
        found[run] = found[run] or problem
    return {run: (given, found[run]) for run, given in tensors.items()}


@pytest.mark.parametrize("case, arch", RUNS, ids=lambda each: str(each))
def test_the_text_gives_the_cpus_results(case: Case, arch: str, launched) -> None:
    tensors, problem = launched[case, arch]
    assert not problem
    for each in zip(arrays(tensors), on_the_cpu(case), arrays(case.tensors()), strict=True):
        assert_agree(case, *each)
