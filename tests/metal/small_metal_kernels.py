"""Kernels of a few instructions with the numbers that they are run on, for texts compiled together."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from recorded import Launch, Recorder, of_metal
from small_kernels import SmallKernel

from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    FP8,
    I8,
    I16,
    I32,
    I64,
    MASK,
    U8,
    U16,
    U32,
    U64,
    DType,
    integer_range,
    to_numpy,
)
from gizml_tile.lowering.atoms import ATOMS
from gizml_tile.lowering.kernel_ir.instructions import COMPARISONS, WORKGROUP, Access, Matrix
from gizml_tile.lowering.simulate import Memory

THREADS = 64
COUNT = 8
STORED = (F32, F16, BF16, FP8, E5M2, I8, U8, I16, U16, I32, U32, I64, U64)
# Divisors are not 0, and counts of shifts are those of bits.
FLOATS = "neg abs add sub mul fma div sqrt min max".split() + sorted(COMPARISONS)
INTEGERS = "neg abs popcount clz add sub mul div rem min max and or xor not shl shr ushr".split()
INTEGERS += sorted(COMPARISONS)
UNSIGNED = [op for op in INTEGERS if op not in ("abs", "shr")]
ARITY = {"neg": 1, "abs": 1, "popcount": 1, "clz": 1, "sqrt": 1, "not": 1, "fma": 3, "high": 2}
CONVERSIONS = [
    (F16, F32),
    (F32, F16),
    (BF16, F32),
    (E5M2, F16),
    *((each, I32) for each in (I8, U8, I16, U16, I64, F32)),
    *((I32, each) for each in (I8, U8, I16, U16, I64, F32)),
    *((F32, each) for each in (I8, U8, I16, U16, I64, U32, U64)),
    *((each, F32) for each in (I64, U32, U64)),
    (U32, I64),
]

Build = Callable[[SmallKernel], None]
ODD = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 127.5, 128.0, -128.5, 255.5, 3e38, 65519.0]
ODD += [65520.0, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 1e-40, 2.0**-126, 16777217.0, 2147483520.0]


def numbers(dtype: DType, count: int, seed: int) -> np.ndarray:
    """Random elements of a type, among them those at which operations go wrong."""
    rng = np.random.default_rng(seed)
    storage = to_numpy(dtype)
    if dtype.is_float:
        with np.errstate(over="ignore"):
            values = (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)).astype(np.float32)
            values[rng.permutation(count)[: len(ODD)]] = ODD[:count]
            return values.astype(storage)
    low, high = integer_range(dtype)
    values = rng.integers(low, high, count, storage, endpoint=True)
    odd = [each for each in (low, high, 0, 1, -1, low + 1, 7) if low <= each <= high]
    values[rng.permutation(count)[: len(odd)]] = odd
    return values.astype(storage)


def _operation(op: str, dtype: DType) -> Build:
    def build(kernel: SmallKernel) -> None:
        args = [kernel.input(dtype, COUNT) for _ in range(ARITY.get(op, 2))]
        if op in ("div", "rem") and dtype.is_integer:
            zero = kernel.map("eq", args[1], kernel.constant(0, dtype))
            args[1] = kernel.select(zero, kernel.constant(3, dtype), args[1])
        if op in ("shl", "shr", "ushr"):
            args[1] = kernel.map("and", args[1], kernel.constant(dtype.bits - 1, dtype))
        result = kernel.map(op, *args)
        if result.dtype is MASK:
            one, none = kernel.constant(1, dtype), kernel.constant(0, dtype)
            result = kernel.select(result, one, none)
        kernel.output(result)

    return build


def _conversion(source: DType, to: DType) -> Build:
    return lambda kernel: kernel.output(kernel.convert(kernel.input(source, COUNT), to))


def _bits(source: DType, to: DType) -> Build:
    return lambda kernel: kernel.output(kernel.bitcast(kernel.input(source, COUNT), to))


def _shuffles(dtype: DType) -> Build:
    def build(kernel: SmallKernel) -> None:
        value = kernel.input(dtype, 4)
        lane = kernel.map("and", kernel.mul(kernel.lane(), kernel.number(5)), kernel.number(31))
        kernel.output(kernel.join([kernel.shuffle_xor(value, 9), kernel.shuffle(value, lane)]))

    return build


def _mask_shuffle(kernel: SmallKernel) -> None:
    mask = kernel.map("lt", kernel.input(F32), kernel.constant(0.0, F32))
    moved = kernel.shuffle_xor(mask, 3)
    kernel.output(kernel.select(moved, kernel.number(1), kernel.number(0)))


def _logic(kernel: SmallKernel) -> None:
    """Every operation on masks."""
    zero = kernel.constant(0.0, F32)
    a, b = (kernel.map("lt", kernel.input(F32, COUNT), zero) for _ in range(2))
    masks = [kernel.map(op, a, b) for op in ("and", "or", "xor")]
    for mask in [*masks, kernel.map("not", a)]:
        kernel.output(kernel.select(mask, kernel.number(1), kernel.number(0)))


def _accesses(dtype: DType, width: int) -> Build:
    """Masked vector loads to registers, through threadgroup memory in another order, and back."""

    def build(kernel: SmallKernel) -> None:
        offsets = kernel.mul(kernel.thread(), kernel.number(4 * width))
        places = tuple((0, place * width) for place in (0, 1, 2, 3))
        mask = kernel.map("lt", kernel.input(I32, 4), kernel.number(0))
        tensor = kernel.tensor(dtype)
        value = kernel.load(Access("global", tensor, width, places, 1), offsets, dtype, mask)
        buffer = kernel.buffer(dtype, THREADS * 4 * width)
        kernel.store(Access(WORKGROUP, buffer, width, places), value, offsets)
        kernel.barrier(0, THREADS)
        last = kernel.sub(kernel.number((THREADS - 1) * 4 * width), offsets)
        taken = kernel.load(Access(WORKGROUP, buffer, width, places[::-1]), last, dtype)
        order = list(range(4 * width))
        random.Random(width).shuffle(order)
        result = kernel.tensor(dtype)
        kernel.store(Access("global", result, width, places), kernel.pick(taken, order), offsets, mask)
        kernel.output(taken, width)

    return build


def _product(name: str, m: int, n: int, k: int) -> Build:
    def build(kernel: SmallKernel) -> None:
        atom = next(each for each in ATOMS if each.name == name)
        a, b = kernel.input(atom.a_dtype, 2 * m * k), kernel.input(atom.b_dtype, 2 * n * k)
        kernel.output(kernel.mma(Matrix(atom, m, n, k), a, b, kernel.input(F32, 2 * m * n)))

    return build


def _outer(kernel: SmallKernel) -> None:
    kernel.output(kernel.outer(kernel.input(F32, 4), kernel.input(F32, 2), kernel.input(F32, 8)))


def _again(dtype: DType) -> Build:
    def build(kernel: SmallKernel) -> None:
        kernel.output(kernel.again(kernel.input(dtype, 4), kernel.input(F32)))

    return build


def _constants(kernel: SmallKernel) -> None:
    for dtype in STORED:
        values = [0.0, -0.0, 1.5, -448.0] if dtype.is_float else [0, 1, *integer_range(dtype)]
        kernel.output(kernel.constant(values, dtype))


def _turns(kernel: SmallKernel) -> None:
    """Carried values that change places, loops of all directions, branches apart and together."""
    a, b = kernel.input(I32, 4), kernel.input(I32, 4)
    step = kernel.input(I32)
    numbers = [kernel.number(each) for each in (0, 5, 1, 9, -1, -4)]
    swap = lambda counter, carried: [carried[1], kernel.pick(carried[0], [1, 2, 3, 0])]
    results = list(kernel.loop(*numbers[:3], [a, b], swap))
    back = lambda counter, carried: [kernel.add(carried[0], counter)]
    results += kernel.loop(numbers[3], numbers[4], numbers[5], [a], back)
    small = kernel.map("and", step, kernel.number(3))
    one = kernel.add(small, kernel.number(1))
    results += kernel.loop(numbers[0], numbers[3], one, [b], back)
    mask = kernel.map("lt", step, kernel.number(0))
    results += kernel.branch(mask, lambda: [a], lambda: [kernel.add(a, b)], apart=True)
    for value in results:
        kernel.output(value)
    place = Access("global", kernel.tensor(I32), 1, ((0, 0),))
    kernel.when(mask, lambda: kernel.store(place, step, kernel.thread()))


CASES: dict[str, Build] = {
    **{f"{op} {dtype}": _operation(op, dtype) for dtype in (I32, I64) for op in INTEGERS},
    **{f"{op} F32": _operation(op, F32) for op in FLOATS},
    **{f"{op} {dtype}": _operation(op, dtype) for dtype in (U32, U64) for op in UNSIGNED},
    "high U32": _operation("high", U32),
    "fma I32": _operation("fma", I32),
    "high I32": _operation("high", I32),
    **{f"{source} to {to}": _conversion(source, to) for source, to in CONVERSIONS},
    **{f"bits of {a} as {b}": _bits(a, b) for a, b in [(F32, I32), (I16, BF16), (BF16, I16), (U8, FP8)]},
    **{f"bits of {a} as {b}": _bits(a, b) for a, b in [(I32, U32), (U64, I64), (U8, E5M2)]},
    **{f"shuffles of {dtype}": _shuffles(dtype) for dtype in STORED},
    **{
        f"{width} x {dtype}": _accesses(dtype, width)
        for dtype, width in itertools.product(STORED, (1, 2, 4, 8, 16))
        if width * dtype.bytes <= 16
    },
    **{
        f"{name} {m} x {n} x {k}": _product(f"simdgroup_{name}_8x8x8", m, n, k)
        for name, (m, n, k) in itertools.product(("f16", "bf16", "f32"), [(1, 1, 1), (2, 4, 2), (1, 2, 4)])
    },
    **{f"again {dtype}": _again(dtype) for dtype in (F32, I32, BF16, F16, FP8)},
    "shuffle of masks": _mask_shuffle,
    "logic": _logic,
    "outer": _outer,
    "constants": _constants,
    "turns": _turns,
}


def recorded(name: str, build: Build, arch: str) -> Launch:
    """A case's kernel after the simulator ran it."""
    kernel = SmallKernel("sm_90a", THREADS)
    build(kernel)
    made = of_metal(kernel.kernel(name.replace(" ", "_")), arch)
    products = any(each.op == "mma" for each in made.body.walk())
    tensors: list[Any] = []
    for number, tensor in enumerate(made.tensors):
        values = numbers(tensor.dtype, THREADS * 4 * 16, number)
        if products:
            # Small whole numbers, whose sums are the same in any order.
            values = np.random.default_rng(number).integers(-3, 4, len(values)).astype(values.dtype)
        tensors.append(values)
    recorder = Recorder()
    recorder.simulate(made, [Memory.of(each) for each in tensors])
    return recorder.launches[0]


def programs(seeds: range) -> dict[str, SmallKernel]:
    """Random programs of loops and branches, those that PTX is tested with."""
    import sys

    sys.path.append(str(Path(__file__).parents[1] / "ptx"))
    from test_programs import Chance

    return {f"program {seed}": Chance(seed).program() for seed in seeds}
