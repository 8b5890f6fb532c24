"""What `explain` says of every operation: on which line, how it is done and why."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import gizml_tile as tile
import gizml_tile.lowering.explain as explaining
from gizml_tile.nodes import ELEMENTWISE, MOVES
from gizml_tile.text import line_of

sys.path.append(str(Path(__file__).parents[1] / "gpu"))
import addressing_cases
import along_cases
import control_cases
import function_cases
import port_cases

# What takes no time: indices, and values that are made where they are wanted.
FREE = set("index id count size scalar param const iota value result part".split())
STEPS = {"loop", "cond", "put", "scatter", "element"}
CASES = [
    *addressing_cases.CASES[::3],
    *along_cases.CASES,
    *control_cases.CASES,
    *function_cases.CASES,
    *port_cases.CASES,
]


@pytest.fixture
def plans(monkeypatch):
    """The plans that are explained, with what is said of them."""
    found, explain = [], explaining.explain

    def spied(plan, *args):
        said = explain(plan, *args)
        found.append((plan, str(said)))
        return said

    monkeypatch.setattr(explaining, "explain", spied)
    return found


def test_every_operation_that_costs_something_is_there(plans):
    told = set()
    for case in CASES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case.launch.explain(*case.tensors(), kind="cuda", arch="sm_90a", **case.constants)
    for plan, text in plans:
        for node in plan.program.body.walk():
            if node.op in FREE or not (node.is_tile or node.op in STEPS):
                continue
            line = line_of(node.place)
            assert f"{node.op} {line}" in text or f"{line}  {node.op}" in text, (node, line, text)
            told.add(node.op)
    wanted = "read put gather scatter element loop cond dot sum max scan sort histogram random exp pow select"
    assert set(wanted.split()) <= told and told & MOVES and len(told & ELEMENTWISE) > 30


def said(body, arch="sm_90a", kind="cuda"):
    """The lines of how operations are done, by the operation."""
    text = tile.explain((1,), body, kind=kind, arch=arch)
    return text.partition("How operations are done\n")[2].partition("\n\n")[0] + text


X, Y = np.zeros((64, 256), np.float32), np.zeros((64, 256), np.float32)
ONE, INDEX = np.zeros((64, 1), np.float32), np.zeros(256, np.int32)


def read(p):
    return p.read(X, [64, 256]).at([0, 0])


def test_reductions_tell_where_elements_meet():
    text = said(lambda p: p.write(ONE, [64, 1]).put(read(p).sum(1), [0, 0]))
    assert "sum axis 1: in pairs: of each thread's own" in text and "lanes by exchanges" in text
    text = said(lambda p: p.write(Y, [64, 256]).put(read(p).max(0) + read(p), [0, 0]))
    assert "warps through workgroup memory, with a barrier" in text


def test_functions_tell_what_makes_them():
    def body(approx):
        return lambda p: p.write(Y, [64, 256]).put(read(p).exp(approx=approx), [0, 0])

    assert "exp: within a few ulp, of operations with the same bits on every device" in said(body(False))
    assert "exp approx: approximate, by the device's unit for special functions, as asked" in said(body(True))


def test_random_numbers_and_moves():
    def body(p):
        drawn = p.random(7, 0, [64, 256], kind="normal")
        p.write(Y, [64, 256]).put(drawn + read(p)[:, ::-1], [0, 0])

    text = said(body)
    assert "random" in text and "ten rounds of Philox for each four normal numbers" in text
    assert "threads keep their elements, or trade them within a warp" in text


def test_a_tile_beside_itself_turned_round():
    def body(p):
        t = p.read(X, [64, 64]).at([0, 0])
        p.write(Y, [64, 64]).put(t * t.transpose(), [0, 0])

    assert "transpose: its elements move to other threads: see the moves between layouts" in said(body)


def test_loops():
    def body(p):
        x = p.read(X, [64, 16])
        total = p.fold(0, x.blocks(1), p.zeros([64, 16]), lambda k, acc: acc + x.at([0, k]))
        p.write(ONE, [64, 1]).put(total.sum(1), [0, 0])

    assert "loop: each turn reads what it takes; other warps run while it waits" in said(body)


@pytest.mark.parametrize("kind, arch", [("cuda", "sm_90a"), ("metal", "apple9")])
def test_scatters_that_combine(kind, arch):
    def body(p):
        places = p.read(INDEX, [256]).at([0])
        p.write(Y, [1, 256]).scatter_add(p.full([1, 256], 1.0), [0, places])

    text = said(body, arch, kind)
    assert "scatter" in text and "by atomic operations on 1 neighbour, in any order" in text
