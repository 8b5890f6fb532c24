"""What `explain` and the program's text tell of operations along an axis."""

import numpy as np

import gizml_tile as tile

X, Y, Z = (np.zeros(shape, kind) for shape, kind in [((4, 256), "f4"), ((4, 8), "f4"), ((4, 256), "f4")])


def body(p):
    a = p.read(X, [4, 256]).at([0, 0])
    p.write(Y, [4, 8]).put(a.topk(8, 1)[0], [0, 0])
    p.write(Z, [4, 256]).put(a.cumsum(1, reverse=True), [0, 0])


def test_a_plan_tells_where_places_are():
    text = tile.explain((1,), body, kind="cuda", arch="sm_90a")
    assert "sort axis 1 descending first 8 has places of its axis in 32 registers, 8 lanes" in text
    assert "scan axis 1 has places of its axis in 8 registers, 32 lanes (blocked 4 wide)" in text


def test_the_cpus_plan_names_them():
    text = tile.explain((1,), body, kind="cpu")
    assert "sort [4, 256] along its axis" in text
    assert "scan [4, 256] along its axis" in text


def test_the_function_is_in_the_programs_text():
    text = tile.ir((1,), body, kind="cpu")
    assert "axis 1 descending first 8: " in text
    assert "axis 1 reverse by (%0 %1) %2 = add %0 %1 -> %2: " in text
