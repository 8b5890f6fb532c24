"""Kernels that people bring from elsewhere, against what they compute in float64."""

from __future__ import annotations

import numpy as np
import pytest
from along_cases import best_of_blocks, gating, selective_scan
from gpu_cases import HALF_ULP, numbers, room, wide
from row_cases import cross_entropy, labels

DEVICES = [None, ("cuda", "sm_90a"), ("hip", "gfx942"), ("metal", "apple9")]
pytestmark = pytest.mark.parametrize("device", DEVICES)


def run(kernel, device, *tensors, **constants):
    if device is None:
        kernel(*tensors, **constants)
        return
    findings = kernel.simulate(*tensors, kind=device[0], arch=device[1], **constants).findings
    assert all(each.is_cost for each in findings), findings


def test_gating(device):
    """Top-k softmax of experts, with how many tokens come before each expert's in a block of them."""
    x, rows, k = numbers(70, 64), 32, 4
    weights, experts, load = room(70, k), room(70, k, kind="i4"), room(3, 64, kind="i4")
    run(gating, device, x, weights, experts, load, K=k, ROWS=rows)
    order = np.argsort(-wide(x), 1, kind="stable")[:, :k]
    np.testing.assert_array_equal(experts, order)
    e = np.exp(np.take_along_axis(wide(x), order, 1))
    np.testing.assert_allclose(weights, e / e.sum(1, keepdims=True), rtol=2e-6)
    for block in range(3):
        counts = np.bincount(order[block * rows : (block + 1) * rows].ravel(), minlength=64)
        np.testing.assert_array_equal(load[block], np.cumsum(counts) - counts)


def test_largest_of_long_rows(device):
    """The largest of each block first, then of all these: two launches of one kernel."""
    x, k = numbers(3, 4000), 8
    x[1, ::3] = x[1, 0]
    candidates, places = room(3, 16 * k), room(3, 16 * k, kind="i4")
    run(best_of_blocks, device, x, candidates, places, K=k, BLOCK=256)
    values, chosen = room(3, k), room(3, k, kind="i4")
    run(best_of_blocks, device, candidates, values, chosen, K=k, BLOCK=16 * k)
    order = np.argsort(-x, 1, kind="stable")[:, :k]
    np.testing.assert_array_equal(np.take_along_axis(places, chosen, 1), order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


def test_selective_scan(device):
    """The recurrence over blocks of time, within what a running sum of these magnitudes may be off."""
    a, b = np.abs(numbers(100, 40)) * np.float32(0.5), numbers(100, 40, seed=1)
    h = room(100, 40)
    run(selective_scan, device, a, b, h)
    state = size = np.zeros(40)
    for t in range(100):
        state = wide(a)[t] * state + b[t]
        size = wide(a)[t] * size + np.abs(b[t])
        assert (np.abs(h[t] - state) <= 4 * 100 * HALF_ULP * size).all()


def test_cross_entropy_of_a_large_vocabulary(device):
    columns = 4000
    x, y, loss = numbers(6, columns) * np.float32(3), labels(6, columns), room(6, 1)
    run(cross_entropy, device, x, y, loss, BLOCK=256)
    v = wide(x)
    truth = np.log(np.exp(v - v.max(1, keepdims=True)).sum(1, keepdims=True)) + v.max(1, keepdims=True)
    truth -= np.take_along_axis(v, y, 1)
    assert (np.abs(loss - truth) <= 2e-5 * (1 + np.abs(truth))).all()
