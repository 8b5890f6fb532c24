"""Long rows leave room for other workgroups, which wait while one works."""

import re
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from ptxas import assemble

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import gpu_kernels

KERNELS = [
    (gpu_kernels.softmax, 0, {"APPROX": True}),
    (gpu_kernels.layernorm, 2, {}),
    (gpu_kernels.rmsnorm, 1, {}),
]


@pytest.mark.parametrize("columns, workgroups", ((16384, 4), (32768, 2)))
@pytest.mark.parametrize("kernel, vectors, named", KERNELS, ids=("softmax", "layernorm", "rmsnorm"))
def test_workgroups_fit(kernel, vectors, named, columns, workgroups):
    x = np.empty((4, columns), ml_dtypes.bfloat16)
    weights = [np.empty(columns, ml_dtypes.bfloat16)] * vectors
    text = kernel.source(x, *weights, x.copy(), kind="cuda", arch="sm_90a", COLUMNS=columns, **named)
    threads, resident = (int(re.search(rf"\.{word} (\d+)", text)[1]) for word in ("reqntid", "minnctapersm"))
    report = assemble(text, "sm_90a")
    assert (resident, report.spills) == (workgroups, 0)
    assert threads * resident * report.registers <= 65536
