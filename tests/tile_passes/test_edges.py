"""Products and sums that count what lies past a tensor's end, and those that do not."""

from __future__ import annotations

import numpy as np
import pytest

from gizml_tile.check import check
from gizml_tile.dtypes import F32, I32
from gizml_tile.lowering.tile_passes.edges import Source, find_ragged
from gizml_tile.program import trace

X = np.ones((20, 12), np.float32)
Y = np.ones((12, 20), np.float32)
OUT = np.zeros((20, 20), np.float32)


def findings(function, pad=0.0):
    def body(p):
        A, B = p.read(X, [8, 8], pad=pad), p.read(Y, [8, 8])
        result = function(p, A, B)
        p.write(OUT, [8, 8])[0, 0] = result

    program = trace("test", body).program
    check(program)
    return find_ragged(program), program


def mean(t, axis):
    return t.sum(axis) / t.shape[axis]


def squares(t):
    return (t * t).sum(1)


QUIET = {
    "plain product": lambda p, A, B: A[0, 1] @ B[1, 0],
    "one side": lambda p, A, B: (A[0, 1] + 1) @ B[1, 0],
    "softmax": lambda p, A, B: (A[0, 1] - A[0, 1].abs().max(1)).exp() @ B[1, 0],
    "chosen": lambda p, A, B: (p.iota([1, 8], 1) < 4).select((A[0, 1] + 1), 0) @ (B[1, 0] + 1),
    "plain sum": lambda p, A, B: A[0, 1].sum(1),
    "other axis": lambda p, A, B: A[0, 1].sum(1) + A[0, 1].T.sum(0),
    "windows": lambda p, A, B: (A.window([0, 4]) + 1) @ (B.window([4, 0]) + 1),
    "squares": lambda p, A, B: (A[0, 1] * A[0, 1]).sum(1),
    "constants": lambda p, A, B: p.full([8, 8], 2.0) @ p.full([8, 8], 3.0),
    "index": lambda p, A, B: (A[0, 1] + p.id(0)).sum(1),
    "a row": lambda p, A, B: (A[0, 0] + A[0, 1].abs().max(0)).sum(0),
    "a square": lambda p, A, B: (lambda a: (a * a).max(1))(A[0, 1]),
    "functions of zero": lambda p, A, B: (A[0, 1].sin() + A[0, 1].silu() * A[0, 1].erf()).sum(1),
    "random": lambda p, A, B: (A[0, 1] * p.random(1, 2, [8, 8], "normal")).sum(1),
    "a mean of no squares": lambda p, A, B: ((A[0, 1] - mean(A[0, 1], 1)) * A[0, 1]).sum(1),
    "a mean of the other axis": lambda p, A, B: (A[0, 1] - mean(A[0, 1], 0)).sum(1),
    "a mean and a maximum": lambda p, A, B: (A[0, 1] - mean(A[0, 1], 1)).abs().max(1),
    "a mean and a product": lambda p, A, B: (A[0, 1] - mean(A[0, 1], 1)) @ B[1, 0],
    "a mean where it is chosen": lambda p, A, B: squares(
        (p.iota([1, 8], 1) < 4).select(A[0, 1] - mean(A[0, 1], 1), 0)
    ),
    "overflow": lambda p, A, B: (A[0, 1] + 1e9).exp().sum(1),
}


@pytest.mark.parametrize("name", QUIET)
def test_what_is_meant_is_quiet(name):
    found, _ = findings(QUIET[name])
    assert found == ()


LOUD = {
    "both sides": (
        lambda p, A, B: (A[0, 1] + 1) @ (B[1, 0] + 2),
        "the product adds 2 ",
        {(0, 1, 8), (1, 0, 8)},
    ),
    "ones": (lambda p, A, B: p.full([8, 8], 2.0) @ (B[1, 0] + 2), "the product adds 4 ", {(1, 0, 8)}),
    "infinite": (lambda p, A, B: (1 / A[0, 1]) @ B[1, 0], "the product adds nan ", {(0, 1, 8), (1, 0, 8)}),
    "exponentials": (lambda p, A, B: A[0, 1].exp().sum(1), "the sum adds 1 ", {(0, 1, 8)}),
    "cosines": (lambda p, A, B: A[0, 1].cos().sum(1), "the sum adds 1 ", {(0, 1, 8)}),
    "rows": (lambda p, A, B: (A[0, 1] - 3).abs().sum(0), "the sum adds 3 ", {(0, 0, 8)}),
    "transposed": (lambda p, A, B: (A[0, 1] + 1).T.sum(0).T, "the sum adds 1 ", {(0, 1, 8)}),
    "counted": (lambda p, A, B: A[0, 1].ge(0).sum(1).to(F32), "the sum adds 1 ", {(0, 1, 8)}),
    "integers": (lambda p, A, B: (A[0, 1].to(I32) + 5).sum(1).to(F32), "the sum adds 5 ", {(0, 1, 8)}),
    "largest": (lambda p, A, B: A[0, 1].max(1), "the max also takes 0 ", {(0, 1, 8)}),
    "smallest": (lambda p, A, B: (A[0, 1] + 2).min(0), "the min also takes 2 ", {(0, 0, 8)}),
    "two tensors": (
        lambda p, A, B: (A[0, 1] + B[0, 1] + 1).sum(1),
        "the sum adds 1 ",
        {(0, 1, 8), (1, 1, 8)},
    ),
    "a variance": (
        lambda p, A, B: squares(A[0, 1] - mean(A[0, 1], 1)),
        "the sum adds what taking the mean makes of each element ",
        {(0, 1, 8)},
    ),
    "deviations": (
        lambda p, A, B: (A[0, 1] - mean(A[0, 1], 0)).abs().sum(0),
        "the sum adds what taking the mean makes of each element ",
        {(0, 0, 8)},
    ),
    "in a loop": (
        lambda p, A, B: p.fold(0, 2, p.zeros([8, 1]), lambda k, acc: acc + A[0, k].exp().sum(1)),
        "the sum adds 1 ",
        {(0, 1, 8)},
    ),
}


@pytest.mark.parametrize("name", LOUD)
def test_what_adds_something_is_found(name):
    function, message, sources = LOUD[name]
    (found,), program = findings(function)
    assert found.message.startswith(message)
    assert "pad" in found.message and "select" in found.message
    assert found.sources == {Source(*each) for each in sources}
    assert found.place.filename == __file__
    assert program.tensors[0].name in found.message or program.tensors[1].name in found.message


def test_pads_matter():
    (found,), _ = findings(lambda p, A, B: A[0, 1].sum(1), pad=2.0)
    assert found.message.startswith("the sum adds 2 ")
    found, _ = findings(lambda p, A, B: A[0, 1].exp().sum(1), pad=-np.inf)
    assert found == ()
    found, _ = findings(lambda p, A, B: (A[0, 1] - A[0, 1].max(1)).exp() @ B[1, 0], pad=-np.inf)
    assert found == ()


def test_only_ragged_shapes_count():
    (found,), _ = findings(lambda p, A, B: (A[0, 1] + 1) @ (B[1, 0] + 2))
    assert found.holds(((20, 12), (12, 20), (20, 20)))
    assert not found.holds(((20, 16), (16, 20), (20, 20)))
    assert not found.holds(((20, 12), (16, 20), (20, 20)))
