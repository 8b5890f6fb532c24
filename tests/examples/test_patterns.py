"""Each pattern of examples/patterns.py on the CPU and on a simulated GPU of each vendor, against float64.

On a real GPU ``python tests/device/check.py pattern`` checks the same ones.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))
import patterns  # noqa: E402

DEVICES = [None, ("cuda", "sm_80"), ("cuda", "sm_90a"), ("hip", "gfx942"), ("metal", "apple9")]


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device[1] if device else "cpu")
@pytest.mark.parametrize("name", patterns.patterns())
def test_pattern(name, device):
    pattern = patterns.patterns()[name]
    if device is None:
        pattern.launch()
    else:
        kind, arch = device
        ran = pattern.kernel.simulate(*pattern.arguments, kind=kind, arch=arch, **pattern.constants)
        assert all(finding.is_cost for finding in ran.findings), ran.findings
    result, truth = pattern.arguments[-1], pattern.truth
    assert result.shape == truth.shape and np.isfinite(truth).all()
    assert (np.abs(result - truth) <= pattern.bound(truth)).all()
