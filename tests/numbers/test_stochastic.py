"""Rounding by chance: the documented rule, bit for bit on all devices, and what it comes to on average."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exact import all_patterns
from floats import SPECIAL, same, sample
from stochastic import DOUBLE_FORMATS, FORMATS, rounded
from test_methods import DEVICES, computed

import gizml_tile as tile
from gizml_tile.dtypes import BF16, to_numpy


@pytest.mark.parametrize("device, arch", DEVICES)
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_the_rule(dtype: Any, device: str, arch: str) -> None:
    random = np.random.default_rng(2)
    near = np.ldexp(random.uniform(-2, 2, 4000), random.integers(-32, 10, 4000)).astype(np.float32)
    x = np.concatenate([SPECIAL, SPECIAL, sample(2000), near])
    bits = random.integers(-(2**31), 2**31, x.size).astype(np.int32)
    bits[: len(SPECIAL)] = 0
    bits[len(SPECIAL) : 2 * len(SPECIAL)] = -1
    kind = to_numpy(dtype)
    result = computed(lambda t, r: t.to(dtype, random=r), [x, bits], kind, device, arch)
    with np.errstate(all="ignore"):
        wanted = np.where(np.isnan(x), np.float32(np.nan), rounded(x, bits, dtype).astype(np.float32))
    wrong = ~same(result.astype(np.float32), wanted.astype(np.float32))
    assert not wrong.any(), (x[wrong][:3], bits[wrong][:3], result[wrong][:3], wanted[wrong][:3])


@pytest.mark.parametrize("device, arch", DEVICES[:-1])  # Apple's GPUs have no F64
@pytest.mark.parametrize("dtype", DOUBLE_FORMATS, ids=str)
def test_the_rule_for_doubles(dtype: Any, device: str, arch: str) -> None:
    random = np.random.default_rng(3)
    near = np.ldexp(random.uniform(-2, 2, 4000), random.integers(-32, 10, 4000))
    far = np.ldexp(random.uniform(-2, 2, 1000), random.integers(-1080, 1023, 1000))
    # Next to numbers that are there, below and above them by less than any random bit, and by some.
    held = near[:1000].astype(to_numpy(dtype)).astype(np.float64)
    beside = held * (1 + random.choice([2.0**-52, -(2.0**-53), 2.0**-40, 2.0**-30], 1000))
    ends = [np.finfo(np.float64).max, 2.0**128, 2.0**128 * (1 - 2.0**-53), 5e-324, 2.0**-149, 0.7 * 2.0**-149]
    special = np.array([0.0, np.inf, np.nan, 448, 464, 470, 57344, 61440, 65504, 65520, *ends])
    special = np.concatenate([special, -special])
    x = np.concatenate([special, special, near, far, held, beside])
    bits = random.integers(-(2**31), 2**31, x.size).astype(np.int32)
    bits[: len(special)] = 0
    bits[len(special) : 2 * len(special)] = -1
    result = computed(lambda t, r: t.to(dtype, random=r), [x, bits], to_numpy(dtype), device, arch)
    with np.errstate(all="ignore"):
        wanted = np.where(np.isnan(x), np.float32(np.nan), rounded(x, bits, dtype).astype(np.float32))
    wrong = ~same(result.astype(np.float32), wanted.astype(np.float32))
    assert not wrong.any(), (x[wrong][:3], bits[wrong][:3], result[wrong][:3], wanted[wrong][:3])


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_what_the_type_holds_stays(dtype: Any) -> None:
    x = all_patterns(dtype)
    x = x[np.isfinite(x.astype(np.float32))]
    for bits in (0, -1, 12345):
        noise = np.full(x.size, bits, np.int32)
        result = computed(lambda t, r: t.to(dtype, random=r), [x, noise], x.dtype, "cpu", "")
        assert same(result.astype(np.float32), x.astype(np.float32)).all()


def test_the_mean_is_kept() -> None:
    """Sums of many small steps, each of which rounding to nearest would lose."""
    count = 1 << 16
    x, y = np.full((256, 256), 1 + 2**-10, np.float32), np.zeros((256, 256), to_numpy(BF16))

    def body(p: Any) -> None:
        i = p.id(0)
        drawn = p.random(11, i * (16 * 64), [16, 256])
        p.write(y, [16, 256]).put(p.read(x, [16, 256]).at([i, 0]).to(tile.BF16, random=drawn), [i, 0])

    tile.run([16], body)
    up = (y.astype(np.float32) > 1).mean()
    # One in eight: the spacing is 2^-7.
    assert abs(up - 1 / 8) < 5 * np.sqrt(7 / 64 / count)
