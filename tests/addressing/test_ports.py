"""Kernels that people bring, each against NumPy in float64; the corpus has the same ones for every device."""

from __future__ import annotations

import inspect

import addressing_cases as cases
import numpy as np
import pytest
from ml_dtypes import bfloat16
from references import agree

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("kind, width", [(np.float32, 300), (bfloat16, 1024), (np.float16, 77)])
def test_an_embedding_and_its_gradient(kind, width):
    table, ids = RNG.standard_normal((50, width)).astype(kind), RNG.integers(0, 50, 333).astype(np.int64)
    found, gradient = np.zeros((333, width), kind), RNG.integers(-4, 5, (333, width)).astype(kind)
    cases.rows(table, ids, found, BR=8, BC=64)
    agree(found, table[ids])
    into, extremes = np.zeros((50, width), kind), np.zeros((2, 50, width), kind)
    cases.gradients(gradient, ids, into, extremes)
    want, high, low = np.zeros((50, width)), np.zeros((50, width)), np.zeros((50, width))
    np.add.at(want, ids, gradient.astype(np.float64))
    np.maximum.at(high, ids, gradient.astype(np.float64))
    np.minimum.at(low, ids, gradient.astype(np.float64))
    np.testing.assert_array_equal(into.astype(np.float64), want)
    np.testing.assert_array_equal(extremes.astype(np.float64), np.stack([high, low]))


def test_rows_permuted_and_back():
    x, order = RNG.standard_normal((100, 128)).astype(np.float32), RNG.permutation(100).astype(np.int32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    cases.permute(x, order, y, z)
    agree(y, x[order])
    agree(z[order], x)


@pytest.mark.parametrize("lengths", [(1, 1, 1), (16, 5, 48), (0, 33, 47)])
def test_attention_over_pages(lengths):
    """Within the rounding of weights and F32 sums; a sequence of no keys divides 0 by 0."""
    q, keys, values, table, _, out = cases.cache("f32", 8, 16, 64)
    cases.paged_decode(q, keys, values, table, np.array(lengths, np.int32), out, PAGE=16, GROUP=8, D=64)
    for batch, length in enumerate(lengths):
        pages = table[batch]
        k, v = (each[pages].swapaxes(1, 2).reshape(-1, 2, 64)[:length] for each in (keys, values))
        for head in range(2):
            scores = q[batch, head].astype(np.float64) @ k[:, head].T.astype(np.float64) / 8
            if not length:
                assert np.isnan(out[batch, head]).all()
                continue
            weights = np.exp(scores - scores.max(1, keepdims=True))
            want = weights @ v[:, head].astype(np.float64) / weights.sum(1, keepdims=True)
            assert np.abs(out[batch, head] - want).max() <= 2.0**-18


def test_sums_of_segments_and_by_id():
    """F32 sums of up to 500 rows: within (n / 64 + 8) * 2^-24, and n * 2^-24, of their size."""
    starts = np.array([0, 500, 500, 501, 777, 1000], np.int32)
    x, y, z = RNG.standard_normal((1000, 200)).astype(np.float32), *np.zeros((2, 5, 200), np.float32)
    cases.segmented_sum(x, starts, y)
    ids = np.repeat(np.arange(5, dtype=np.int32), np.diff(starts))
    shuffled = RNG.permutation(1000)
    cases.sum_by_id(x[shuffled], ids[shuffled], z)
    want, size = np.zeros((5, 200)), np.zeros((5, 200))
    np.add.at(want, ids, x.astype(np.float64))
    np.add.at(size, ids, np.abs(x.astype(np.float64)))
    count = np.diff(starts)[:, None]
    # Blocks of 16 rows are summed, and then their sums one after the other.
    assert (np.abs(y - want) <= (count / 16 + 9) * 2.0**-24 * size).all()
    assert (np.abs(z - want) <= count * 2.0**-24 * size).all()


def test_each_port_is_short():
    for name in "rows gradients permute pages segmented_sum sum_by_id paged_decode histogram".split():
        lines = inspect.getsource(getattr(cases, name).__wrapped__).splitlines()
        assert len(lines) < 40, name
