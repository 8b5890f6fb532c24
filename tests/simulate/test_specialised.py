import numpy as np
import pytest
from roles_product import BUFFERS, SIGNALS, data, product
from small_writers import run

OPTIONS = {"grid": (2,), "threads": 256, "signals": SIGNALS}


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_product_with_roles(steps):
    a, b, c = data(steps)
    found = run(product(steps), [a, b, c], BUFFERS, **OPTIONS)
    assert not found.wrong, found
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(c - expected).max() < 1e-3


BROKEN = [
    ({"without": ["empty wait"]}, {("in flight", 12), ("in flight", 13)}),
    ({"without": ["full wait"]}, {("in flight", 22)}),
    ({"without": ["full wait of other warps"]}, {("in flight", 22)}),
    ({"without": ["group wait"]}, {("in flight", 12), ("in flight", 13), ("in flight", 30)}),
    ({"without": ["group fence"]}, {("race", 22)}),
    ({"without": ["empty arrive"]}, {("deadlock", 10), ("deadlock", 20)}),
    ({"without": ["fence"]}, {("race", 33)}),
    ({"without": ["out barrier"]}, {("race", 33)}),
    ({"without": ["bulk wait"]}, {("in flight", 33)}),
    ({"without": ["bulk wait", "reuse"]}, {("in flight", 36), ("in flight", 33)}),
    ({"without": [("init", 1)]}, {("unwritten", 11)}),
    ({"without": ["init barrier"]}, {("race", 20)}),
    ({"bytes": 2 * 16384}, {("deadlock", 20)}),
    ({"bytes": 8192}, {("deadlock", 20)}),
    ({"parity": 1}, {("deadlock", 20)}),
    ({"arrivals": 2}, {("deadlock", 10)}),
]


@pytest.mark.parametrize("options, expected", BROKEN, ids=[str(options) for options, _ in BROKEN])
def test_broken(options, expected):
    found = run(product(5, **options), data(5), BUFFERS, **OPTIONS)
    print(found)
    assert {(each.kind, each.place.line) for each in found.wrong} >= expected
