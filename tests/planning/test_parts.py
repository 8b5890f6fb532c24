"""Sums that loops carry in parts, one for each lane, and programs that want the whole in every turn."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

import gizml_tile as tile

sys.path.append(str(Path(__file__).parents[1] / "gpu"))

from gpu_cases import numbers, room, wide

pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")
TARGET = {"kind": "cuda", "arch": "sm_80"}
TOLD = "each lane adds up its own part, and the lanes meet after the loop"


@tile.kernel(grid=lambda y, **_: (tile.cdiv(y.shape[0], 16),))
def sums(p, x, y, *, KIND="plain", START=0.0):
    i = p.id(0)
    X = p.read(x, [16, 64])
    total, other = p.full([16, 1], START), p.zeros([16, 1])
    for j in range(X.blocks(1)):
        block = X[i, j]
        if KIND == "plain":
            total = total + block.sum(1)
        elif KIND == "scaled":
            total = total * 0.5 + (block.sum(1) + (block * block).sum(1)) * 0.25
        elif KIND == "seen":
            total = total + block.sum(1)
            other = max(other, total)
        elif KIND == "squared":
            total = total * total + block.sum(1)
        elif KIND == "carried twice":
            total = total + block.sum(1)
            other = total
        elif KIND == "along the row":
            total = (block * total).sum(1) + block.sum(1)
        elif KIND == "larger":
            total = total * 2 + block.sum(1)
        else:
            total = total + block.max(1)
    p.write(y, [16, 1])[i, 0] = total + other


def expected(x, kind, start):
    total, other = np.full((len(x), 1), start), np.zeros((len(x), 1))
    for j in range(math.ceil(x.shape[1] / 64)):
        block = x[:, 64 * j : 64 * j + 64]
        added = block.sum(1, keepdims=True)
        if kind == "plain":
            total = total + added
        elif kind == "scaled":
            total = total * 0.5 + (added + (block**2).sum(1, keepdims=True)) * 0.25
        elif kind == "seen":
            total = total + added
            other = np.maximum(other, total)
        elif kind == "squared":
            total = total * total + added
        elif kind == "carried twice":
            total = other = total + added
        elif kind == "along the row":
            total = (block * total).sum(1, keepdims=True) + added
        elif kind == "larger":
            total = total * 2 + added
        else:
            total = total + block.max(1, keepdims=True)
    return total + other


@pytest.mark.parametrize(
    "kind, start, in_parts",
    [
        ("plain", 0.0, True),
        ("plain", 1.0, False),  # what it begins with would be added by every lane
        ("scaled", 0.0, True),
        ("seen", 0.0, False),
        ("squared", 0.0, False),
        ("beside", 0.0, False),
        ("carried twice", 0.0, False),
        ("along the row", 0.0, False),
        ("larger", 0.0, False),  # parts may be infinite where their sum is not
    ],
)
def test_sums_of_loops(kind, start, in_parts):
    x, y = numbers(37, 200), room(37, 1)
    constants = {"KIND": kind, "START": start}
    assert (TOLD in sums.explain(x, y, **TARGET, **constants)) is in_parts
    run = sums.simulate(x, y, **TARGET, **constants)
    assert not [finding for finding in run.findings if finding.kind != "uncoalesced"]
    want = expected(wide(x), kind, start)
    assert np.abs(wide(run.results[0]) - want).max() <= 2.0**-18 * np.abs(want).max()
