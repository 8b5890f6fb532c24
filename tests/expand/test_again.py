"""Tiles that are made again after reductions are what they were, from fewer registers."""

import math

import ml_dtypes
import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile import gpu
from gizml_tile.lowering.planning import residency
from gizml_tile.lowering.simulate.findings import COSTS

COLUMNS = 32768


def softmax(p, x, w, y, z, *, MASKED=False):
    p.approx()
    row = p.read(x, [1, COLUMNS], pad=-math.inf)[p.id(0), 0]
    e = (row - row.max(1)).exp()
    p.write(y, [1, COLUMNS])[p.id(0), 0] = e / e.sum(1)


def exact_softmax(p, x, w, y, z, *, MASKED=False):
    row = p.read(x, [1, COLUMNS], pad=-math.inf)[p.id(0), 0]
    e = (row - row.max(1)).exp()
    p.write(y, [1, COLUMNS])[p.id(0), 0] = e / e.sum(1)


def layernorm(p, x, w, y, z, *, MASKED=False):
    row = p.read(x, [1, COLUMNS])[p.id(0), 0]
    centred = row - row.sum(1) * (1 / COLUMNS)
    if MASKED:
        centred = centred if p.iota([1, COLUMNS], 1) < x.shape[1] else 0
    scale = ((centred * centred).sum(1) * (1 / COLUMNS) + 1e-5).rsqrt()
    weight = p.read(w, [COLUMNS])[0]
    p.write(y, [1, COLUMNS])[p.id(0), 0] = centred * scale * weight
    p.write(z, [1, COLUMNS])[p.id(0), 0] = centred


def given(columns, dtype):
    numbers = np.random.default_rng(3)
    x, w = (numbers.standard_normal(shape).astype(dtype) for shape in ((2, columns), (columns,)))
    # Rows with numbers that softmax divides in the long way.
    x[1, ::7] *= 40
    return x, w, np.zeros_like(x), np.zeros_like(x)


def stored(kernel, columns, dtype, **named):
    tensors = given(columns, dtype)
    gpu.plan.cache_clear()
    gpu.expanded.cache_clear()
    ran = kernel.simulate(*tensors, kind="cuda", arch="sm_90a", **named)
    assert not [str(finding) for finding in ran.findings if finding.kind not in COSTS]
    return [each.tobytes() for each in tensors]


CASES = [
    (softmax, COLUMNS, {}, True),
    (softmax, COLUMNS - 8, {}, True),
    (softmax, COLUMNS - 3, {}, True),
    # Half of the exponentials wait in workgroup memory.
    (exact_softmax, COLUMNS, {}, True),
    (exact_softmax, COLUMNS - 3, {}, True),
    (layernorm, COLUMNS, {}, True),
    (layernorm, COLUMNS - 3, {}, True),
    # A choice is not made again.
    (layernorm, COLUMNS - 8, {"MASKED": True}, False),
]


@pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")
@pytest.mark.parametrize("body, columns, named, made_again", CASES)
def test_it_stores_the_same(body, columns, named, made_again, monkeypatch):
    kernel = tile.kernel(grid=2)(body)
    tensors = given(columns, ml_dtypes.bfloat16)
    found = stored(kernel, columns, ml_dtypes.bfloat16, **named)
    source = kernel.source(*tensors, kind="cuda", arch="sm_90a", **named)
    assert (".minnctapersm 2" in source) == made_again
    monkeypatch.setattr(residency, "made_again", lambda *given: frozenset())
    assert found == stored(kernel, columns, ml_dtypes.bfloat16, **named)
    assert ".minnctapersm 1" in kernel.source(*tensors, kind="cuda", arch="sm_90a", **named)


def test_the_explanation_says_so():
    kernel = tile.kernel(grid=2)(layernorm)
    text = kernel.explain(*given(COLUMNS, ml_dtypes.bfloat16), kind="cuda", arch="sm_90a")
    assert "what is cheap to make of them is made again" in text


def test_what_lies_wide_in_memory_is_kept():
    kernel = tile.kernel(grid=2)(layernorm)
    assert ".minnctapersm 1" in kernel.source(*given(COLUMNS, np.float32), kind="cuda", arch="sm_90a")


def test_the_explanation_tells_what_waits():
    kernel = tile.kernel(grid=2)(exact_softmax)
    text = kernel.explain(*given(COLUMNS, ml_dtypes.bfloat16), kind="cuda", arch="sm_90a")
    assert "for that, 32 of 64 elements of the exp wait in workgroup memory" in text
