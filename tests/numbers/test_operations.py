"""Arithmetic, comparisons and reductions on every width and kind of processor, at their corners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from floats import SPECIAL, same, sample
from loops import FASTEST, VARIANTS, Variant, binary, compare, compile_loop, unary

from gizml_tile.dtypes import F32, I32, I64, MASK, DType
from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.builder import Function, Module

KINDS: dict[DType, Any] = {I32: np.int32, I64: np.int64}
Reference = Callable[..., np.ndarray]


def _float_pairs() -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special values, and of values close together, far apart and equal."""
    a, b = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    x = sample(1 << 12)
    y = np.random.default_rng(3).permutation(x)
    return np.concatenate([a, x, x]), np.concatenate([b, y, x])


def _integer_pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    kind = KINDS[dtype]
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    small = [0, 1, -1, 2, -2, 3, -3, 7, -7, 10, 31, 32, 33, 63, 64, 65, -64, 1000, -1000]
    ends = np.array([*small, low, low + 1, low + 2, low // 2, high // 2, high - 1, high], kind)
    a, b = (grid.ravel() for grid in np.meshgrid(ends, ends))
    random = np.random.default_rng(4)
    x, y = (random.integers(low, high, 4096, kind, endpoint=True) for _ in "xy")
    y = y >> random.integers(0, dtype.bits, y.size).astype(kind)
    x2 = x >> random.integers(0, dtype.bits, y.size).astype(kind)
    return np.concatenate([a, x, x2]), np.concatenate([b, y, y])


def _extreme(a: np.ndarray, b: np.ndarray, largest: bool) -> np.ndarray:
    """The seed's rule: a NaN loses, -0 is smaller than +0."""
    with np.errstate(invalid="ignore"):
        before = (a < b) | ((a == b) & np.signbit(a) & ~np.signbit(b))
    chosen = np.where(before == largest, b, a)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, chosen))


FLOAT_BINARY: dict[str, Reference] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": lambda a, b: _extreme(a, b, True),
    "minimum": lambda a, b: _extreme(a, b, False),
}


@pytest.mark.parametrize("op", FLOAT_BINARY)
def test_float_binary(op: str) -> None:
    a, b = _float_pairs()
    with np.errstate(all="ignore"):
        expected = FLOAT_BINARY[op](a, b)
    for variant in VARIANTS:
        result = binary(variant, op, F32)(a, b)
        wrong = ~same(result, expected)
        assert not wrong.any(), (variant.name, a[wrong][:3], b[wrong][:3], result[wrong][:3])


FLOAT_UNARY: dict[str, Reference] = {
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.float32(1) / np.sqrt(x),
    "relu": lambda x: np.where(x > 0, x, np.float32(0)),
    "reciprocal": lambda x: np.float32(1) / x,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
}


@pytest.mark.parametrize("op", FLOAT_UNARY)
def test_float_unary(op: str) -> None:
    x = np.concatenate([SPECIAL, sample(1 << 14)])
    with np.errstate(all="ignore"):
        expected = FLOAT_UNARY[op](x)
    for variant in VARIANTS:
        result = unary(variant, op, F32)(x)
        wrong = ~same(result, expected)
        assert not wrong.any(), (variant.name, x[wrong][:3], result[wrong][:3])


def _python_integers(op: str, a: int, b: int, bits: int) -> int:
    """LANGUAGE's integers in Python's."""
    floor = a // b if b else 0
    cut = -(-a // b) if b and (a < 0) != (b < 0) else floor
    match op:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "div":
            return cut
        case "rem":
            return a - cut * b if b else 0
        case "floordiv":
            return floor
        case "floormod":
            return a - floor * b if b else 0
        case "maximum":
            return max(a, b)
        case "minimum":
            return min(a, b)
        case "and_":
            return a & b
        case "or_":
            return a | b
        case "xor":
            return a ^ b
        case "shl":
            return a << b if 0 <= b < bits else 0
        case "shr":
            return a >> (b if 0 <= b < bits else bits)
    raise AssertionError(op)


INTEGER_BINARY = "add sub mul div rem floordiv floormod maximum minimum and_ or_ xor shl shr".split()


@pytest.mark.parametrize("dtype", [I32, I64])
@pytest.mark.parametrize("op", INTEGER_BINARY)
def test_integer_binary(op: str, dtype: DType) -> None:
    a, b = _integer_pairs(dtype)
    bits, half = dtype.bits, 1 << (dtype.bits - 1)
    exact = [_python_integers(op, x, y, bits) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    expected = np.array([(value + half) % (2 * half) - half for value in exact], KINDS[dtype])
    for variant in VARIANTS:
        result = binary(variant, op, dtype)(a, b)
        wrong = result != expected
        assert not wrong.any(), (variant.name, a[wrong][:3], b[wrong][:3], result[wrong][:3])


@pytest.mark.parametrize("dtype", [I32, I64])
@pytest.mark.parametrize("divisor", [0, 1, -1, 3, -7, 16, -(2**31)])
def test_division_by_a_constant(divisor: int, dtype: DType) -> None:
    a, _ = _integer_pairs(dtype)
    half = 1 << (dtype.bits - 1)
    kind = "i32" if dtype is I32 else "i64"
    for op in ("div", "rem", "floordiv", "floormod"):
        exact = [_python_integers(op, x, divisor, dtype.bits) for x in a.tolist()]
        expected = np.array([(value + half) % (2 * half) - half for value in exact], KINDS[dtype])

        def body(arithmetic: Arithmetic, x: str, op: str = op) -> str:
            return arithmetic.binary(op, dtype, x, arithmetic.constant(dtype, divisor))

        for variant in (FASTEST, VARIANTS[-1]):
            assert (compile_loop(variant, [kind], kind, body)(a) == expected).all(), (op, variant)


@pytest.mark.parametrize("dtype", [I32, I64])
def test_integer_unary(dtype: DType) -> None:
    a, _ = _integer_pairs(dtype)
    for variant in VARIANTS:
        with np.errstate(over="ignore"):
            assert (unary(variant, "neg", dtype)(a) == -a).all()
            assert (unary(variant, "abs", dtype)(a) == np.abs(a)).all()
        assert (unary(variant, "not_", dtype)(a) == ~a).all()
        patterns = [value % (1 << dtype.bits) for value in a.tolist()]
        zeros = [dtype.bits - each.bit_length() for each in patterns]
        assert unary(variant, "popcount", dtype)(a).tolist() == [each.bit_count() for each in patterns]
        assert unary(variant, "clz", dtype)(a).tolist() == zeros


@pytest.mark.parametrize("unsigned", [False, True])
def test_upper_halves_of_products(unsigned: bool) -> None:
    a, b = _integer_pairs(I32)
    x, y = (each.astype(np.uint32 if unsigned else np.int32).astype(object) for each in (a, b))
    expected = np.array([int(each) for each in x * y >> 32], np.int64).astype(np.int32)
    for variant in VARIANTS:
        result = compile_loop(variant, ["i32"] * 2, "i32", lambda e, p, q: e.high(p, q, unsigned=unsigned))
        assert (result(a, b) == expected).all(), variant.name


COMPARISONS: dict[str, Reference] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


@pytest.mark.parametrize("dtype", [F32, I32, I64])
@pytest.mark.parametrize("op", COMPARISONS)
def test_compare(op: str, dtype: DType) -> None:
    a, b = _float_pairs() if dtype is F32 else _integer_pairs(dtype)
    with np.errstate(invalid="ignore"):
        expected = COMPARISONS[op](a, b)
    for variant in VARIANTS:
        assert (compare(variant, op, dtype)(a, b) == expected).all(), variant.name


MASKS: dict[str, Reference] = {
    "and_": lambda x, y: x & y,
    "or_": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
}


@pytest.mark.parametrize("op", MASKS)
def test_masks(op: str) -> None:
    # A stored mask may be any byte: all but 0 are true.
    x, y = (grid.ravel() for grid in np.meshgrid(np.array([0, 1, 2, 255], np.uint8), [0, 1]))
    x, y = np.tile(x, 8), np.tile(y, 8).astype(np.uint8)

    def body(a: Arithmetic, p: str, q: str) -> str:
        left, right = a.decode(MASK, p), a.decode(MASK, q)
        whole = a.compare if op in COMPARISONS else a.binary
        result = whole(op, MASK, left, right)
        return a.encode(MASK, a.unary("not_", MASK, result))

    for variant in VARIANTS:
        result = compile_loop(variant, ["i8", "i8"], "i8", body)(x, y)
        assert (result == ~MASKS[op](x != 0, y != 0)).all(), variant.name


def test_select_and_fma_with_signs() -> None:
    a, b = _float_pairs()
    c = np.roll(a, 1)

    for variant in VARIANTS:
        plain = compile_loop(variant, ["float"] * 3, "float", lambda e, x, y, z: e.fma(F32, x, y, z))
        for product, addend in ((False, True), (True, False), (True, True)):

            def body(e: Arithmetic, x: str, y: str, z: str, p: bool = product, q: bool = addend) -> str:
                return e.fma(F32, x, y, z, negate_product=p, negate_c=q)

            signed = compile_loop(variant, ["float"] * 3, "float", body)
            expected = plain(-a if product else a, b, -c if addend else c)
            assert same(signed(a, b, c), expected).all(), variant.name

        def larger(e: Arithmetic, x: str, y: str) -> str:
            return e.select(F32, e.compare("gt", F32, x, y), x, y)

        with np.errstate(invalid="ignore"):
            expected = np.where(a > b, a, b)
        assert same(compile_loop(variant, ["float", "float"], "float", larger)(a, b), expected).all()


def _reduced(variant: Variant, op: str, dtype: DType, x: np.ndarray) -> np.ndarray:
    """Rows of ``width`` lanes, each accumulated onto the identity and reduced, in every lane."""
    kind = "float" if dtype is F32 else "i32" if dtype is I32 else "i64"

    def body(a: Arithmetic, value: str) -> str:
        total = a.accumulate(op, dtype, a.identity(op, dtype), value)
        scalar = a.reduce(op, dtype, total)
        if a.width == 1:
            return scalar
        of, function = a.type(dtype), a.vectors.function
        first = function.emit(f"insertelement {of} poison, {kind} {scalar}, i64 0")
        lanes = f"<{a.width} x i32> zeroinitializer"
        return function.emit(f"shufflevector {of} {first}, {of} poison, {lanes}")

    return compile_loop(variant, [kind], kind, body)(x)


@pytest.mark.parametrize("op", ["max", "min"])
def test_reduce_floats_to_the_extreme(op: str) -> None:
    random = np.random.default_rng(5)
    # Few values, so that rows of nothing but NaN or zeros of both signs occur.
    x = random.choice(SPECIAL, 1 << 12)
    x[: 1 << 11] = random.choice(np.array([0.0, -0.0, np.nan, -1.0], np.float32), 1 << 11)
    x[:64] = np.nan
    for variant in VARIANTS:
        rows = x.reshape(-1, variant.width)
        expected = rows[:, 0]
        for column in rows.T[1:]:
            expected = _extreme(expected, column, op == "max")
        result = _reduced(variant, op, F32, x).reshape(rows.shape)
        assert same(result, np.repeat(expected, variant.width).reshape(rows.shape)).all()


def test_sum_is_the_same_tree_on_every_machine() -> None:
    x = np.random.default_rng(6).normal(size=1 << 12).astype(np.float32)
    for variant in VARIANTS:
        rows = x.reshape(-1, variant.width)
        while rows.shape[1] > 1:
            half = rows.shape[1] // 2
            rows = rows[:, :half] + rows[:, half:]
        result = _reduced(variant, "sum", F32, x).reshape(-1, variant.width)
        assert (result == rows).all(), variant.name


@pytest.mark.parametrize("dtype", [I32, I64])
def test_reduce_integers(dtype: DType) -> None:
    x, _ = _integer_pairs(dtype)
    x = np.resize(x, 1 << 12)
    for variant in VARIANTS:
        rows = x.reshape(-1, variant.width)
        for op, function in (("sum", np.add), ("max", np.maximum), ("min", np.minimum)):
            with np.errstate(over="ignore"):
                expected = function.reduce(rows, axis=1, keepdims=True, dtype=x.dtype)
            result = _reduced(variant, op, dtype, x).reshape(rows.shape)
            assert (result == expected).all(), (variant.name, op)


def test_reduce_masks() -> None:
    """The max of masks is any, the min all."""
    x = np.random.default_rng(7).integers(0, 2, 1 << 10).astype(np.uint8)
    x[:32], x[32:64] = 0, 1
    for variant in VARIANTS:
        rows = x.reshape(-1, variant.width)
        for op, function in (("max", np.max), ("min", np.min)):

            def body(a: Arithmetic, raw: str, op: str = op) -> str:
                total = a.accumulate(op, MASK, a.identity(op, MASK), a.decode(MASK, raw))
                scalar = a.with_width(1).encode(MASK, a.reduce(op, MASK, total))
                if a.width == 1:
                    return scalar
                of, function = a.storage_type(MASK), a.vectors.function
                first = function.emit(f"insertelement {of} poison, i8 {scalar}, i64 0")
                lanes = f"<{a.width} x i32> zeroinitializer"
                return function.emit(f"shufflevector {of} {first}, {of} poison, {lanes}")

            result = compile_loop(variant, ["i8"], "i8", body)(x).reshape(rows.shape)
            assert (result == function(rows, axis=1, keepdims=True)).all(), (variant.name, op)


def test_unknown_operations_are_named() -> None:
    a = Arithmetic(Function(Module(), "f", []), 4)
    with pytest.raises(AssertionError, match="no exp of I32"):
        a.unary("exp", I32, "%x")
    with pytest.raises(AssertionError, match="no add of masks"):
        a.binary("add", MASK, "%x", "%y")
    with pytest.raises(AssertionError, match="no lt of masks"):
        a.compare("lt", MASK, "%x", "%y")
