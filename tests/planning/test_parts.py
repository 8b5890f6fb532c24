"""Sums that loops carry in parts, one for each thread, and programs that want the whole in every turn."""

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
TOLD = "each thread adds up its own part, and the threads meet after the loop"


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


@tile.kernel(grid=lambda y, **_: (y.shape[0],))
def of_rows(p, x, y, *, BLOCK=1024):
    """The logarithm of a sum of exponentials, and a sum of squares."""
    i = p.id(0)
    X = p.read(x, [1, BLOCK], pad=-math.inf)
    top, total, squares = p.full([1, 1], -math.inf), p.zeros([1, 1]), p.zeros([1, 1])
    for j in range(X.blocks(1)):
        block = X[i, j]
        higher = max(top, block.max(1))
        total = total * (top - higher).exp() + (block - higher).exp().sum(1)
        squares += (block * block if block > -math.inf else 0).sum(1)
        top = higher
    p.write(y, [1, 2])[i, 0] = (top + total.log()).concat(squares, 1)


@pytest.mark.parametrize("kind", ["f32", "bf16"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("columns", [1, 1000, 5000])
def test_one_number_of_several_warps(kind, arch, columns):
    x, y = numbers(3, columns, kind=kind), room(3, 2)
    target = {"kind": "cuda", "arch": arch, "warps": 4}
    assert of_rows.explain(x, y, **target).count(TOLD) == 2
    run = of_rows.simulate(x, y, **target)
    assert not [finding for finding in run.findings if finding.kind != "uncoalesced"]
    given = wide(x)
    want = np.stack([np.log(np.exp(given).sum(1)), (given**2).sum(1)], 1)
    assert np.abs(wide(run.results[0]) - want).max() <= 2.0**-18 * np.abs(want).max()


@tile.kernel(grid=1)
def of_products(p, a, b, y):
    A, B = p.read(a, [128, 64]), p.read(b, [64, 128])
    total = p.zeros([1, 1])
    for k in range(A.blocks(1)):
        product = A[0, k] @ B[k, 0]
        total += (product * product).sum(1).sum(0)
    p.write(y, [1, 1])[0, 0] = total


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_one_number_of_products(arch):
    a, b, y = numbers(128, 200, kind="bf16"), numbers(200, 128, kind="bf16", seed=1), room(1, 1)
    target = {"kind": "cuda", "arch": arch}
    assert TOLD in of_products.explain(a, b, y, **target)
    run = of_products.simulate(a, b, y, **target)
    assert not [finding for finding in run.findings if finding.kind != "uncoalesced"]
    parts = [wide(a)[:, k : k + 64] @ wide(b)[k : k + 64] for k in range(0, 200, 64)]
    want = sum((part**2).sum() for part in parts)
    assert abs(wide(run.results[0])[0, 0] - want) <= 2.0**-18 * want


@tile.kernel(grid=1)
def of_both_axes(p, x, w, y, *, WIDE=32, NARROW=4):
    """Sums of one number over the threads of a row, of a column, and of rows of other lengths."""
    X, W = p.read(x, [8, WIDE]), p.read(w, [1, NARROW])
    total = p.zeros([1, 1])
    for k in range(X.blocks(1)):
        block = X[0, k]
        total += block.sum(1).sum(0) + (block * block).sum(0).sum(1) + W[0, k].sum(1)
    p.write(y, [1, 1])[0, 0] = total


@pytest.mark.parametrize("target", [("cuda", "sm_90a"), ("hip", "gfx942"), ("metal", "apple9")])
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("wide_columns, narrow", [(32, 4), (4, 128), (256, 256)])
def test_sums_over_different_threads(target, warps, wide_columns, narrow):
    """They have no parts that one sum after the loop could join."""
    x, w, y = numbers(8, 3 * wide_columns), numbers(1, 3 * narrow, seed=1), room(1, 1)
    kind, arch = target
    sizes = {"WIDE": wide_columns, "NARROW": narrow}
    run = of_both_axes.simulate(x, w, y, kind=kind, arch=arch, warps=warps, **sizes)
    terms = wide(x), wide(x) ** 2, wide(w)
    want, magnitude = sum(each.sum() for each in terms), sum(np.abs(each).sum() for each in terms)
    assert abs(wide(run.results[0])[0, 0] - want) <= 2.0**-18 * magnitude
