"""When warnings about slow lines are told: where code is made, once, not of small launches, and silenced."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import slow_kernels as slow
from ml_dtypes import bfloat16
from on_gpu import OnGpu
from slow_kernels import column_major, zeros
from test_slow import line_of, told

import gizml_tile as tile
from gizml_tile.errors import TileWarning

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import gpu_kernels
import gpu_port_kernels


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", "off")


def launched(kernel, *tensors, **constants):
    """The lines of the warnings of a launch."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        kernel(*(OnGpu(each) for each in tensors), **constants)
    return [each.lineno for each in found if each.category is TileWarning]


def doubled():
    """A kernel that nobody launched yet."""
    return tile.kernel(grid=slow.doubled.grid)(slow.doubled.__wrapped__)


def test_a_launch_tells_once_where_code_is_made(cuda):
    kernel, line = doubled(), line_of("uncoalesced")
    large, odd = ([zeros(4096, columns) for _ in range(2)] for columns in (4096, 4095))
    assert launched(kernel, *large, BR=1024, BC=1) == [line, line + 1]
    assert launched(kernel, *large, BR=1024, BC=1) == []
    # Of another layout the same is not told again.
    assert launched(kernel, *odd, BR=1024, BC=1) == []


def test_small_launches_are_nobodys_concern(cuda):
    assert launched(doubled(), zeros(256, 256), zeros(256, 256), BR=256, BC=1) == []
    assert told(slow.doubled, [column_major(256, 256), column_major(256, 256)], "sm_90a") == []


def test_a_filter_silences_it(cuda):
    large = [OnGpu(zeros(4096, 4096)) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=TileWarning)
        doubled()(*large, BR=1024, BC=1)
    assert cuda.launches


def test_explain_tells_what_costs_time():
    text = slow.doubled.explain(
        column_major(4096, 4096), column_major(4096, 4096), kind="cuda", arch="sm_90a"
    )
    section = text.partition("What costs time here, and what to do\n")[2].splitlines()
    line = line_of("uncoalesced")
    assert f"  slow_kernels.py:{line}  50% of the memory of the device" in section
    (number,) = (
        at
        for at, each in enumerate(section)
        if each.startswith(f"  slow_kernels.py:{line}  scalar copy, 44%")
    )
    assert section[number + 1] == "    to do: use blocks of x with at least 8 rows"


def test_explain_tells_what_less_exact_results_would_be_made_by():
    line = line_of("product")
    hint = "; F16 or BF16 operands, or precision='tf32', would go to the matrix units"
    constants = {"BM": 64, "BN": 64, "BK": 32, "kind": "cuda", "arch": "sm_80"}
    exact = slow.matmul.explain(*products(1024, np.float32), **constants)
    (shown,) = (each for each in exact.splitlines() if hint in each)
    assert shown.startswith(f"  slow_kernels.py:{line}  ") and "% of " in shown
    assert hint not in slow.matmul.explain(*products(1024), **constants)
    # AMD's matrix units multiply F32 as it is.
    assert hint not in slow.matmul.explain(
        *products(1024, np.float32), **constants | {"kind": "hip", "arch": "gfx942"}
    )


def test_explain_tells_of_larger_blocks_where_workgroup_memory_takes_the_time_of_products():
    hint = "% of workgroup memory; blocks with more rows or columns would take less of it"
    for size, said in ((64, True), (128, False)):
        text = slow.matmul.explain(
            *products(2048), BM=size, BN=size, BK=32, kind="cuda", arch="sm_80", warps=4
        )
        assert (hint in text) == said, text


def test_explain_tells_of_approximate_functions_where_exact_ones_take_the_time():
    exact, approximate = (
        slow.sigmoids.explain(*rows(4096, 4096), APPROX=approx, kind="cuda", arch="sm_90a")
        for approx in (False, True)
    )
    hint = "% of issuing instructions; sigmoid with approx=True, or p.approx(), would take the device's own"
    (told,) = (each for each in exact.splitlines() if hint in each)
    assert told.startswith(f"  slow_kernels.py:{line_of('sigmoids')}  ")
    assert "would take the device's own" not in approximate
    # No device has functions of F64.
    doubles = slow.sigmoids.explain(*rows(4096, 4096, np.float64), APPROX=False, kind="cuda", arch="sm_90a")
    assert "sigmoid: within a few ulp" in doubles and "approx" not in doubles


def test_explain_tells_what_the_assembler_spills(monkeypatch):
    """Also where that takes little of the time, and by what tiles take where no assembler is installed."""
    large = [zeros(1 << 16, 1024), zeros(1 << 16, 1024)]
    found = slow.three_norms.explain(*large, warps=4, kind="cuda", arch="sm_80")
    assert re.search(r"for \d\d+ bytes of each thread, which spill to memory: use warps=8, which ", found)
    assert "spill" not in slow.three_norms.explain(*large, R=4, warps=8, kind="cuda", arch="sm_80")
    queries = [zeros(1, 4, 512, 64, dtype=bfloat16) for _ in range(4)]
    blocks = {"D": 64, "CAUSAL": False, "APPROX": False, "kind": "cuda", "arch": "sm_80"}
    monkeypatch.setenv("GIZML_TILE_PTXAS", "off")
    text = gpu_kernels.attention_bf16.explain(*queries, **blocks, BM=128, BN=128, warps=4)
    assert re.search(r"about \d+ registers of each thread may spill to memory: use warps=8, which ", text)
    assert "spill" not in gpu_kernels.attention_bf16.explain(*queries, **blocks, BM=64, BN=64, warps=4)


def rows(count, columns, dtype=bfloat16):
    return [zeros(count, columns, dtype=dtype) for _ in range(2)]


def products(size, dtype=bfloat16):
    return [zeros(size, size, dtype=dtype) for _ in range(3)]


# As benchmarks launch them.
GOOD = {
    "matmul 8192": (gpu_kernels.matmul, lambda: products(8192), {"BM": 128, "BN": 256}),
    "matmul 1024": (gpu_kernels.matmul, lambda: products(1024), {}),
    "matmul f32": (
        gpu_kernels.matmul,
        lambda: products(4096, np.float32),
        {"BK": 16, "warps": 8, "stages": 3},
    ),
    "attention": (
        gpu_kernels.attention_bf16,
        lambda: [zeros(4, 16, 4096, 64, dtype=bfloat16) for _ in range(4)],
        {"D": 64, "CAUSAL": True, "APPROX": False},
    ),
    "softmax 512": (gpu_kernels.softmax, lambda: rows(1 << 17, 512), {"COLUMNS": 512}),
    "softmax 32768": (gpu_kernels.softmax, lambda: rows(1 << 11, 32768), {"COLUMNS": 32768}),
    "copy": (gpu_kernels.copy, lambda: [zeros(1 << 28), zeros(1 << 28)], {}),
    "transpose": (gpu_kernels.transpose, lambda: products(16384)[:2], {}),
}


# As ports are measured, on an H200.
PORTS = {
    "cross entropy": (
        gpu_port_kernels.cross_entropy,
        lambda: [zeros(4096, 1 << 17, dtype=bfloat16), zeros(4096, dtype=np.int64), zeros(4096)],
        {"BLOCK": 2048, "APPROX": True},
    ),
    "recurrence": (
        gpu_port_kernels.recurrence,
        lambda: [zeros(4096, 16384) for _ in range(3)],
        {"T": 8, "C": 32},
    ),
    "gating": (
        gpu_port_kernels.gating,
        lambda: [zeros(1 << 18, 64), zeros(1 << 18, 8, dtype=np.int32), zeros(1 << 18, 8)],
        {"ROWS": 8, "warps": 1},
    ),
}


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_told_of_good_kernels(name, arch):
    kernel, tensors, constants = GOOD[name]
    assert told(kernel, tensors(), arch, **constants) == []


def test_of_what_is_tried_only_the_winner_is_told(cuda, monkeypatch):
    for device in cuda.devices:
        device["L2_CACHE_SIZE"] = 1 << 10
    cuda.milliseconds = lambda launch: 1.0 if launch.grid[1] > 1 else 2.0
    configs = [{"BR": 4096, "BC": 1}, {"BR": 1024, "BC": 1}]
    kernel = tile.kernel(grid=slow.doubled.grid, configs=configs)(slow.doubled.__wrapped__)
    line = line_of("uncoalesced")
    assert launched(kernel, zeros(4096, 1024), zeros(4096, 1024)) == [line, line + 1]
    assert launched(kernel, zeros(4096, 1024), zeros(4096, 1024)) == []


@pytest.mark.parametrize("name", PORTS)
def test_nothing_is_told_of_good_ports(name):
    kernel, tensors, constants = PORTS[name]
    assert told(kernel, tensors(), "sm_90a", **constants) == []


@tile.kernel(grid=lambda y, ROWS, **_: tile.cdiv(y.shape[0], ROWS))
def centred(p, x, y, *, COLUMNS, ROWS=4):
    i = p.id(0)
    row = p.read(x, [ROWS, COLUMNS])[i, 0]
    p.write(y, [ROWS, COLUMNS])[i, 0] = row - row.sum(1).tanh() / x.shape[1]


@tile.kernel(grid=lambda c, B: (tile.cdiv(c.shape[0], B), tile.cdiv(c.shape[1], B)))
def four_bits(p, a, packed, c, *, B=64):
    i, j = p.id(0), p.id(1)
    A, Q, acc = p.read(a, [B, B]), p.read(packed, [B // 2, B]), p.zeros([B, B])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ Q[k, j].unpack4(0).to(tile.F16)
    p.write(c, [B, B])[i, j] = acc


@pytest.mark.parametrize("kind, arch", [("cuda", "sm_90a"), ("hip", "gfx942")])
def test_what_helps_nobody_is_not_told(kind, arch):
    """What a reduction leaves is repeated by threads that have enough elements of the tile before it."""
    text = centred.explain(*(zeros(16, 200) for _ in "xy"), COLUMNS=256, kind=kind, arch=arch)
    assert "few programs" in text and "replicated work" not in text
    # What a loop moves is another tile in each turn.
    tensors = [zeros(4096, 4096, dtype=np.float16) for _ in "ac"]
    tensors.insert(1, zeros(2048, 4096, dtype=np.int8))
    text = four_bits.explain(*tensors, kind=kind, arch=arch)
    assert "do the interleave once: after the loop, or before the launch for the whole tensor" in text
    assert "replicated work" not in text
