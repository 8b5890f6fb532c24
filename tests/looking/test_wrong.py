"""What a simulated launch finds in kernels that are wrong or slow on purpose: the line, what happened there,
and what to do; and that it finds nothing in their mended forms."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import slow_kernels as slow
from ml_dtypes import bfloat16
from slow_kernels import column_major, zeros
from test_slow import ALL, KINDS, line_of, told

import gizml_tile as tile


def found(kernel, arguments, arch, **constants):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = kernel.simulate(*arguments, kind=KINDS[arch], arch=arch, **constants)
    return run.findings


@pytest.mark.parametrize("arch", ALL)
def test_a_race_between_programs(arch):
    x, y = zeros(256), zeros(256)
    (race,) = (each for each in found(slow.smoothed, [x, x], arch) if not each.is_cost)
    assert (race.kind, race.line) == ("race", line_of("race"))
    who = r"thread \d+ of workgroup \d"
    assert re.search(rf"{who} writes y\[\d+\], which {who} reads, and nothing orders the two", race.text)
    assert "the programs of a launch run in any order: write to another tensor than is read" in str(race)
    assert not [each for each in found(slow.smoothed, [x, y], arch) if not each.is_cost]


@pytest.mark.parametrize("arch", ALL)
def test_uncoalesced_accesses(arch):
    arguments = [column_major(64, 1024), column_major(64, 1024)]
    costs = found(slow.doubled, arguments, arch)
    assert (costs[0].kind, costs[0].line) == ("uncoalesced", line_of("uncoalesced"))
    assert "bytes of x each, which lie in" in costs[0].text
    assert "let blocks go along the axis of the tensor that is contiguous in memory" in str(costs[0])
    assert not found(slow.doubled, arguments, arch, BR=64, BC=64)


@pytest.mark.parametrize("arch", ALL)
def test_bank_conflicts(arch):
    """No plan has them of its own accord here: a variant is asked for that has."""
    constants = {"BR": 64, "BC": 64, "ELEMENTWISE": "workgroup"}
    tensors = [zeros(64, 64), column_major(64, 64), zeros(64, 64)]
    (cost,) = found(slow.added, tensors, arch, **constants)
    assert (cost.kind, cost.line) == ("bank conflict", line_of("mixed"))
    assert "lanes of a warp want different words of one bank, in block of y in workgroup memory" in cost.text
    assert "give tensors that meet the same order of axes in memory" in str(cost)
    assert not found(slow.added, [zeros(64, 64), zeros(64, 64), zeros(64, 64)], arch, **constants)
    assert not found(slow.added, tensors, arch, BR=64, BC=64)


@pytest.mark.parametrize("arch", ALL)
def test_a_missing_pad_before_a_maximum(arch):
    ragged, whole = [[zeros(4, columns), zeros(4, columns)] for columns in (1000, 1024)]
    ((line, text),) = told(slow.softmax, ragged, arch)
    assert line == line_of("no pad")
    assert "the max also takes 0 for each element past the end of x axis 1 (blocks of 1024)" in text
    assert "read with pad=-inf, or choose the elements inside with select" in text
    assert told(slow.softmax, whole, arch) == told(slow.softmax, ragged, arch, PAD=-np.inf) == []


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80", "apple9"])
def test_tiles_that_are_too_large(arch):
    tensors = [zeros(64, 8192, dtype=bfloat16) for _ in range(2)]
    with pytest.raises(tile.TileError) as caught:
        slow.three_norms.explain(*tensors, kind=KINDS[arch], arch=arch, N=8192, warps=4)
    assert caught.value.lineno == line_of("too large")
    assert re.search(
        r"takes 1024 registers of each of 128 threads and a thread has \d+; use", str(caught.value)
    )
    assert "smaller blocks" in str(caught.value)
    assert told(slow.three_norms, tensors, arch, R=1, N=8192) == []


@pytest.mark.parametrize("arch", ALL)
def test_mended_kernels_are_clean_on_every_account(arch):
    a, b, c = (np.zeros((128, 128), bfloat16) for _ in range(3))
    assert not [each for each in found(slow.matmul, [a, b, c], arch) if not each.is_cost]
    assert not [each for each in found(slow.shifted_matmul, [a, b, c], arch, SHIFT=8) if not each.is_cost]
    assert not found(slow.turned_after_the_loop, [a, np.zeros((128, 32), bfloat16), zeros(128, 32)], arch)
