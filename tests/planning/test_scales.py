"""Factors that are applied to the largest of a row in place of the row: every bit stays."""

import numpy as np
import pytest

import gizml_tile as tile

N = 64


@tile.kernel(grid=1)
def largest(p, x, w, y, z, *, FACTOR=0.3, WIDTH=N, FIRST=False, APPROX=True):
    if APPROX:
        p.approx()
    t = p.read(x, [N, 16])[0, 0] @ p.read(w, [16, N])[0, 0]
    t = FACTOR * t if FIRST else t * FACTOR
    t = t if p.iota([1, N], 1) < WIDTH else -np.inf
    top = t.max(1)
    p.write(y, [N, 1])[0, 0] = top
    p.write(z, [N, 1])[0, 0] = (t - top).exp().sum(1)


def operands():
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float16) for shape in ((N, 16), (16, N)))
    x[1], x[2, 0], x[3, 0] = 0, np.inf, np.nan
    x[4:8] *= np.float16(1e-4)
    return x, w, np.zeros((N, 1), np.float32), np.zeros((N, 1), np.float32)


def bits(approximate, constants):
    x, w, y, z = operands()
    largest.simulate(x, w, y, z, kind="cuda", arch="sm_80", APPROX=approximate, **constants)
    return y.view(np.uint32)


# What does not qualify: a factor below zero turns the order round.
@pytest.mark.parametrize(
    "constants", [{}, {"FIRST": True}, {"WIDTH": 40}, {"FACTOR": -0.3}, {"FACTOR": 1e-38}]
)
def test_every_bit_of_the_largest_stays(constants):
    assert np.array_equal(bits(True, constants), bits(False, constants))


def test_the_largest_is_scaled_once():
    x, w, y, z = operands()
    told = largest.ir(x, w, y, z, kind="cuda", arch="sm_80").splitlines()
    number = next(line.split()[0] for line in told if " max " in line)
    assert any(" mul " in line and number in line.split()[4:] for line in told)
    told = largest.ir(x, w, y, z, kind="cuda", arch="sm_80", FACTOR=-0.3).splitlines()
    number = next(line.split()[0] for line in told if " max " in line)
    assert not any(" mul " in line and number in line.split()[4:] for line in told)
