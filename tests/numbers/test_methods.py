"""Methods that record several operations, and casts, as programs on the CPU and simulated GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from exact import all_patterns
from floats import SPECIAL, same, ulps

import gizml_tile as tile
from gizml_tile.dtypes import BF16, F16, F32, FP8, I8, I16, I32, I64, U8, to_numpy
from gizml_tile.lowering.simulate.findings import COSTS

DEVICES = [("cpu", ""), ("cuda", "sm_80"), ("hip", "gfx1100"), ("metal", "apple9")]
BLOCK = 256


def computed(method: Callable[..., Any], arrays: list[np.ndarray], kind: Any, device: str, arch: str) -> Any:
    """A method of tiles over flat arrays of one size."""
    size = -(-arrays[0].size // BLOCK) * BLOCK
    given = [np.resize(array, size) for array in arrays]
    result = np.zeros(size, kind)

    def body(p: Any) -> None:
        i = p.id(0)
        tiles = [p.read(array, [BLOCK]).at([i]) for array in given]
        p.write(result, [BLOCK]).put(method(*tiles), [i])

    if device == "cpu":
        tile.run([size // BLOCK], body)
    else:
        found = tile.simulate([size // BLOCK], body, kind=device, arch=arch).findings
        assert not [each for each in found if each.kind not in COSTS]
    return result[: arrays[0].size]


def pairs() -> list[np.ndarray]:
    return [each.ravel() for each in np.meshgrid(SPECIAL, SPECIAL)]


def _sign(x: np.ndarray) -> np.ndarray:
    return np.where((x == 0) | np.isnan(x), x, np.sign(x))


METHODS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sign": (lambda x, y: x.sign(), lambda x, y: _sign(x)),
    "clamp": (lambda x, y: x.clamp(-2, y), lambda x, y: np.fmin(np.fmax(x, np.float32(-2)), y)),
    "clamp above": (lambda x, y: x.clamp(high=y), np.fmin),
    "mod": (lambda x, y: x.mod(y), np.mod),
    "% of a number": (lambda x, y: 2.5 % y, lambda x, y: np.mod(np.float32(2.5), y)),
    "rem": (lambda x, y: x.rem(y), np.fmod),
    "copysign": (lambda x, y: x.copysign(y), np.copysign),
    "copysign of a number": (lambda x, y: y.copysign(-0.0), lambda x, y: -np.abs(y)),
    "fma of equals": (
        lambda x, y: x.fma(x, y),
        lambda x, y: (x.astype(np.float64) * x + y).astype(np.float32),
    ),
    "round": (lambda x, y: round(x), lambda x, y: np.rint(x)),
    "floor": (lambda x, y: math.floor(x), lambda x, y: np.floor(x)),
    "ceil": (lambda x, y: math.ceil(x), lambda x, y: np.ceil(x)),
    "trunc": (lambda x, y: math.trunc(x), lambda x, y: np.trunc(x)),
    "reciprocal": (lambda x, y: x.reciprocal(), lambda x, y: np.float32(1) / x),
}
# NumPy's rounding of x * x + y to float64 shows here: these are sums that it rounds once.
ONCE = np.array([0.0, -0.0, 1.0, 2.5, 3.0, np.inf, -np.inf, np.nan, 1e30, -(2.0**-30)], np.float32)
ASKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}


@pytest.mark.parametrize("device, arch", DEVICES)
@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str, device: str, arch: str) -> None:
    method, true = METHODS[name]
    x, y = [each.ravel() for each in np.meshgrid(ONCE, ONCE)] if name.startswith("fma") else pairs()
    with np.errstate(all="ignore"):
        # NumPy lets a signaling NaN win.
        quiet = [np.where(np.isnan(each), np.copysign(np.float32(np.nan), each), each) for each in (x, y)]
        wanted = np.asarray(true(*quiet), np.float32)
    # Extremes of zeros: -0 is smaller, of which NumPy says nothing.
    both = (x == 0) & (y == 0) if name.startswith("clamp") else np.zeros(x.shape, bool)
    result = computed(method, [x, y], np.float32, device, arch)
    wrong = ~same(result, wanted) & ~both
    assert not wrong.any(), (x[wrong][:3], y[wrong][:3], result[wrong][:3], wanted[wrong][:3])


@pytest.mark.parametrize("device, arch", DEVICES)
@pytest.mark.parametrize("dtype", [F32, F16, BF16, FP8])
def test_questions(dtype: Any, device: str, arch: str) -> None:
    x = SPECIAL if dtype is F32 else all_patterns(dtype)
    for name, true in ASKS.items():
        result = computed(lambda t, name=name: getattr(t, name)(), [x], np.bool_, device, arch)
        assert (result == true(x.astype(np.float32))).all(), name


CASTS = [(F32, I32), (I32, F32), (F16, I16), (I16, F16), (F16, BF16), (BF16, I16), (I16, BF16)]
CASTS += [(FP8, U8), (U8, FP8), (I8, FP8), (I8, U8), (U8, I8), (I64, I64)]


@pytest.mark.parametrize("device, arch", DEVICES)
@pytest.mark.parametrize("source, target", CASTS, ids=str)
def test_casts(source: Any, target: Any, device: str, arch: str) -> None:
    """Every pattern of up to 16 bits; where either is no number some NaN is meant."""
    if source.bits > 16:
        x = np.concatenate([SPECIAL.view(np.int32), np.arange(-100, 100)]).astype(f"i{source.bytes}")
        x = x.view(to_numpy(source))
    else:
        x = all_patterns(source)
        x = x[:: max(1, len(x) // 4096)]
    result = computed(lambda t: t.bitcast(target), [x], to_numpy(target), device, arch)
    wanted = x.view(to_numpy(target))
    nan = np.isnan(x.astype(np.float32)) if source.is_float else np.zeros(x.shape, bool)
    if target.is_float:
        assert (np.isnan(result.astype(np.float32)) >= np.isnan(wanted.astype(np.float32))).all()
        nan = nan | np.isnan(wanted.astype(np.float32))
    bits = f"u{target.bytes}"
    assert (result.view(bits) == wanted.view(bits))[~nan].all()


@pytest.mark.parametrize("device, arch", DEVICES)
def test_powers_of_constants(device: str, arch: str) -> None:
    x = np.concatenate([SPECIAL, np.linspace(-20, 20, 400, dtype=np.float32)])
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
    for base, exponent in ((2, None), (2.5, None), (-1.5, None), (None, 0.3), (None, -9), (None, 11.0)):
        if exponent is None:
            method, power = (lambda t, b=base: b**t), (base, wide)
        else:
            method, power = (lambda t, e=exponent: t**e), (wide, np.float64(np.float32(exponent)))
        with np.errstate(all="ignore"):
            true = np.power(*power)
        assert ulps(computed(method, [x], np.float32, device, arch), true).max() <= 3, (base, exponent)
