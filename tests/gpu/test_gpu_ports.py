"""Kernels that people bring from elsewhere, against what they compute in float64."""

from __future__ import annotations

import inspect

import numpy as np
import port_cases
import pytest
from along_cases import best_of_blocks, gating, selective_scan
from gpu_cases import HALF_ULP, numbers, room, wide
from philox import drawn
from row_cases import cross_entropy, labels

DEVICES = [None, ("cuda", "sm_90a"), ("hip", "gfx942"), ("metal", "apple9")]
on_every_device = pytest.mark.parametrize("device", DEVICES)


def run(kernel, device, *tensors, **constants):
    if device is None:
        kernel(*tensors, **constants)
        return
    findings = kernel.simulate(*tensors, kind=device[0], arch=device[1], **constants).findings
    assert all(each.is_cost for each in findings), findings


@on_every_device
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


@on_every_device
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


@on_every_device
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


@on_every_device
def test_cross_entropy_of_a_large_vocabulary(device):
    columns = 4000
    x, y, loss = numbers(6, columns) * np.float32(3), labels(6, columns), room(6, 1)
    run(cross_entropy, device, x, y, loss, BLOCK=256)
    v = wide(x)
    truth = np.log(np.exp(v - v.max(1, keepdims=True)).sum(1, keepdims=True)) + v.max(1, keepdims=True)
    truth -= np.take_along_axis(v, y, 1)
    assert (np.abs(loss - truth) <= 2e-5 * (1 + np.abs(truth))).all()


@on_every_device
def test_dropout_and_its_gradient_draw_one_mask(device):
    """Kernels with other blocks: an element's number is of its place alone, and another seed differs."""
    x, rest, gradient, share = numbers(37, 130), numbers(37, 130, seed=1), numbers(37, 130, seed=2), 0.3
    masks = []
    for seed in (5, 5, 1 << 40):
        y, back = room(37, 130), room(37, 130)
        run(port_cases.dropout, device, x, rest, seed, y, SHARE=share)
        run(port_cases.dropout_gradient, device, gradient, seed, back, SHARE=share)
        mask = back != 0
        scale = np.float32(1 / (1 - share))
        np.testing.assert_array_equal(back, np.where(mask, gradient * scale, 0))
        # A product that is added may be one fused operation: within a rounding of the product.
        truth = rest.astype(np.float64) + np.where(mask, x.astype(np.float64) * scale, 0)
        assert (np.abs(y - truth) <= HALF_ULP * (np.abs(truth) + 2 * np.abs(x))).all()
        # Five standard deviations of a count of this size.
        assert abs(mask.mean() - (1 - share)) < 5 * np.sqrt(share * (1 - share) / mask.size)
        masks.append(mask)
    np.testing.assert_array_equal(masks[0], masks[1])
    assert (masks[0] != masks[2]).mean() > 0.3


def test_dropout_draws_the_published_numbers():
    """Element (r, c) takes number c % 4 of counter r * ceil(width / 4) + c // 4, whatever the block."""
    width, share = 130, 0.3
    back = room(5, width)
    port_cases.dropout_gradient(np.ones((5, width), np.float32), 77, back, SHARE=share)
    uniform = drawn("uniform", np.arange(5 * 33), 77).reshape(5, 132)[:, :width]
    np.testing.assert_array_equal(back != 0, uniform >= np.float32(share))


@on_every_device
@pytest.mark.parametrize("m, n, k", [(40, 70, 100), (1, 64, 64)])
def test_product_of_quantised_rows(device, m, n, k):
    """Each number is off by half of its row's step at most; then sums of integers are exact."""
    x, w = numbers(m, k), numbers(n, k, seed=1)
    x[0] = 0
    found = []
    for each in (x, w):
        q, scales = room(*each.shape, kind="i1"), room(len(each), 1)
        run(port_cases.quantise, device, each, q, scales, COLUMNS=128)
        truth = np.abs(wide(each)).max(1, keepdims=True) / 127
        np.testing.assert_allclose(scales, truth, rtol=2 * HALF_ULP)
        assert (np.abs(wide(q) * scales - each) <= scales * (0.5 + 127 * 3 * HALF_ULP)).all()
        found.append((q, scales))
    (a, rows), (b, columns) = found
    y = room(m, n)
    run(port_cases.quantised_product, device, a, b, rows, columns, y)
    exact = a.astype(np.int32) @ b.astype(np.int32).T
    np.testing.assert_array_equal(y, exact.astype(np.float32) * rows * columns.T)


@on_every_device
def test_fourier_transform_of_1024(device):
    """Against NumPy's in float64, and back again by the inverse roots."""
    x = numbers(2, 3, 32, 32)
    y, again = room(2, 3, 32, 32), room(2, 3, 32, 32)
    run(port_cases.fft, device, x, *port_cases.roots_of_one(32), y)
    truth = np.fft.fft((wide(x[0]) + 1j * x[1]).reshape(3, 1024)).reshape(3, 32, 32)
    assert (np.abs(y[0] + 1j * y[1] - truth) <= port_cases.of_transform([x], y)).all()
    run(port_cases.fft, device, y, *port_cases.roots_of_one(32, inverse=True), again)
    assert (np.abs(again / 1024 - x) <= 2 * port_cases.of_transform([x], y) / 32).all()


@on_every_device
@pytest.mark.parametrize("columns, k", [(200, 8), (16, 16), (64, 1)])
def test_largest_by_a_network(device, columns, k):
    x, block = numbers(3, columns), max(1 << (columns - 1).bit_length(), k)
    y, places = room(3, k), room(3, k, kind="i4")
    run(port_cases.bitonic_topk, device, x, y, places, COLUMNS=block, K=k)
    order = np.argsort(-x, 1, kind="stable")[:, :k]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(y, np.take_along_axis(x, order, 1))


def test_each_port_is_short():
    """With the functions that it calls."""
    shared = {
        "dropout": [port_cases.kept],
        "dropout_gradient": [port_cases.kept],
        "fft": [port_cases.times],
        "bitonic_topk": [port_cases.exchanged],
    }
    for case in port_cases.CASES:
        name = case.kernel.__name__
        parts = [case.kernel.__wrapped__, *shared.get(name, [])]
        assert sum(len(inspect.getsource(part).splitlines()) for part in parts) < 40, name
