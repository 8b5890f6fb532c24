"""Storage types to registers and back, and ``to`` between all of them, against exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from exact import STORAGE, all_patterns, bits_of, convert, round_float
from floats import SPECIAL, same, sample
from loops import FASTEST, VARIANTS, Variant, compile_loop
from loops import convert as compiled_convert
from numpy_arithmetic import NumpyArithmetic

from gizml_tile.dtypes import BF16, E5M2, F16, F32, FP8, I32, DType, to_numpy
from gizml_tile.lowering import rounding
from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.storage import storage_kind

NARROW = [F16, BF16, FP8, E5M2]


def _decoded(variant: Variant, dtype: DType, raw: np.ndarray) -> np.ndarray:
    def body(a: Arithmetic, value: str) -> str:
        return a.decode(dtype, value)

    return compile_loop(variant, [storage_kind(dtype)], "float", body)(raw)


def _encoded(variant: Variant, dtype: DType, values: np.ndarray) -> np.ndarray:
    def body(a: Arithmetic, value: str) -> str:
        return a.encode(dtype, value)

    raw = compile_loop(variant, ["float"], storage_kind(dtype), body)(values)
    return raw.view(to_numpy(dtype))


def _assert_same(result: np.ndarray, expected: np.ndarray, what: np.ndarray, why: str) -> None:
    if result.dtype.kind == "V" or (result.dtype.itemsize < 4 and result.dtype.kind not in "iub"):
        equal = same(result.astype(np.float32), expected.astype(np.float32))
    else:
        equal = same(result, expected)
    assert equal.all(), f"{why}: {what[~equal][:4]} gave {result[~equal][:4]} not {expected[~equal][:4]}"


@pytest.mark.parametrize("dtype", NARROW)
def test_decode_every_pattern(dtype: DType) -> None:
    patterns = all_patterns(dtype)
    expected = patterns.astype(np.float32)
    for variant in VARIANTS:
        result = _decoded(variant, dtype, bits_of(patterns))
        _assert_same(result, expected, bits_of(patterns), variant.name)


def _around(dtype: DType) -> np.ndarray:
    """Every value of a type, every tie between neighbours, and the floats on both sides of each."""
    values = all_patterns(dtype).astype(np.float32)
    values = np.unique(values[np.isfinite(values)])
    ends = np.array([-np.inf, np.inf, np.nan], np.float32)
    double = values.astype(np.float64)
    ties = (double[1:] + double[:-1]) / 2
    # Past the last value the next tie is half a spacing further.
    last = double[-1] + (double[-1] - double[-2]) / 2
    centre = np.concatenate([values, ties, [last, -last, 0.0, -0.0]]).astype(np.float32)
    above, below = (np.nextafter(centre, np.float32(side)) for side in (np.inf, -np.inf))
    return np.concatenate([centre, above, below, SPECIAL, ends])


@pytest.mark.parametrize("dtype", NARROW)
def test_encode_values_ties_and_neighbours(dtype: DType) -> None:
    x = np.concatenate([_around(dtype), sample(1 << 18)])
    expected = round_float(x, dtype)
    for variant in VARIANTS:
        _assert_same(_encoded(variant, dtype, x), expected, x, variant.name)


def test_every_float8_and_its_ends() -> None:
    """The corners of FP8 in numbers: saturation, ties, the smallest subnormal, signs of zero."""
    cases = [(448.0, 448.0), (449.0, 448.0), (464.0, 448.0), (480.0, 448.0), (1e9, 448.0)]
    cases += [
        (np.inf, 448.0),
        (17.0, 16.0),
        (18.0, 18.0),
        (19.0, 20.0),
        (0.0, 0.0),
        (2.0**-9, 2.0**-9),
        (3 * 2.0**-11, 2.0**-9),
    ]
    cases += [(2.0**-9, 2.0**-9), (3 * 2.0**-11, 2.0**-9), (2.0**-10, 0.0), (2.0**-11, 0.0)]
    values, expected = np.array(cases + [(-x, -y) for x, y in cases], np.float32).T.copy()
    for variant in VARIANTS:
        result = _encoded(variant, FP8, values).astype(np.float32)
        assert same(result, expected).all(), (variant.name, values, result)


@pytest.mark.parametrize("source", STORAGE)
@pytest.mark.parametrize("target", STORAGE)
def test_convert(source: DType, target: DType) -> None:
    values = _values(source)
    expected = convert(values, target)
    for variant in (FASTEST, VARIANTS[-2], VARIANTS[-1]):
        raw = compiled_convert(variant, source, target)(bits_of(values))
        result = raw if target is F32 else raw.view(to_numpy(target))
        _assert_same(result, expected, values, f"{source} to {target} on {variant.name}")


def _values(dtype: DType) -> np.ndarray:
    if dtype.bits <= 16:
        return all_patterns(dtype)
    if dtype is F32:
        halves = np.arange(-70000, 70000, 7, dtype=np.float32) / 2
        return np.concatenate([SPECIAL, sample(1 << 12), halves])
    kind = to_numpy(dtype)
    random = np.random.default_rng(2)
    limits = np.iinfo(kind)
    spread = random.integers(limits.min, limits.max, 4000, kind, endpoint=True)
    # Magnitudes of every length, and the ties of 8 and 24 significant bits with their neighbours.
    short = spread >> random.integers(0, dtype.bits, 4000).astype(kind)
    unit = np.concatenate([kind.type(1) << np.arange(dtype.bits - 26, dtype=kind)] * 16)
    near = [
        (2 * random.integers(128, 256, unit.size, kind) + 1) * unit + np.int64(step).astype(kind)
        for step in (-1, 0, 1)
    ]
    ends = [limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max]
    negative = [] if dtype.is_unsigned else [np.array([-1], kind), *[-n for n in near]]
    return np.concatenate([spread, short, *near, *negative, np.array(ends, kind)])


def test_the_shared_roundings_equal_numpy_types() -> None:
    """The generic functions, which other devices use, in their NumPy form."""
    e = NumpyArithmetic()
    for dtype, encode, decode in (
        (BF16, rounding.bfloat16_bits, rounding.bfloat16_value),
        (F16, rounding.half_bits, rounding.half_value),
        (FP8, rounding.float8_bits, rounding.float8_value),
        (E5M2, rounding.e5m2_bits, rounding.e5m2_value),
    ):
        patterns = all_patterns(dtype)
        raw = bits_of(patterns)
        _assert_same(decode(e, raw.astype(np.int32)), patterns.astype(np.float32), raw, f"{dtype}")
        x = np.concatenate([_around(dtype), sample(1 << 16)])
        result = encode(e, x).astype(raw.dtype).view(to_numpy(dtype))
        _assert_same(result, round_float(x, dtype), x, f"{dtype}")
    x = np.concatenate([SPECIAL, sample(1 << 12)])
    for dtype in (DType.I8, DType.U8, DType.I16, DType.U16, I32):
        limits = np.iinfo(to_numpy(dtype))
        result = rounding.integer_bits(e, x, int(limits.min), int(limits.max))
        assert (result == convert(x, dtype).astype(np.int32)).all()
