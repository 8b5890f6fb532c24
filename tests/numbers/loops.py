"""Compiles one operation of the CPU arithmetic into a loop over NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gizml_tile.dtypes import DType
from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.builder import Function, Module, vector
from gizml_tile.lowering.emit.cpu.storage import register_kind, storage_kind
from gizml_tile.runtime.compiler import Code, compile_text, load_object
from gizml_tile.runtime.host import host

Body = Callable[..., str]
Loop = Callable[..., np.ndarray]

_AVX2 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "popcnt")
_AVX512 = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_ARRAYS = {"float": np.float32, "double": np.float64}
_ARRAYS |= {"i8": np.uint8, "i16": np.uint16, "i32": np.int32, "i64": np.int64}


@dataclass(frozen=True)
class Variant:
    """What a loop is compiled for: the instructions and the lanes."""

    features: tuple[str, ...]
    width: int

    @property
    def name(self) -> str:
        level = "avx512" if self.avx512 else "avx2" if "avx2" in self.features else "plain"
        return f"{level}-{self.width}"

    @property
    def avx512(self) -> bool:
        return "avx512dq" in self.features

    @property
    def half(self) -> bool:
        return not {"f16c", "neon"}.isdisjoint(self.features)


def _variants() -> tuple[Variant, ...]:
    """The kinds of processor that this one can stand for, the fastest first."""
    present = set(host().features)
    found = []
    if present.issuperset((*_AVX2, *_AVX512)):
        found += [Variant(host().features, width) for width in (16, 8, 4, 1)]
    if present.issuperset(_AVX2):
        features = tuple(f for f in host().features if not f.startswith("avx512"))
        found += [Variant(features, width) for width in (8, 16)]
    if "neon" in present:
        found += [Variant(host().features, width) for width in (4, 8, 1)]
    return (*found, Variant((), 4), Variant((), 1))


VARIANTS = _variants()
FASTEST = VARIANTS[0]


def compile_loop(variant: Variant, inputs: Sequence[str], output: str, body: Body) -> Loop:
    """A function of NumPy arrays that runs ``body(arithmetic, *vectors)`` over them.

    ``inputs`` and ``output`` are LLVM types of single elements; a mask is returned as ``i8``.
    """
    text = loop_text(variant, inputs, output, body)
    target = replace(host(), features=variant.features)
    code = load_object(compile_text(text, target), ("loop",))
    pointers = [ctypes.c_void_p] * (len(inputs) + 1)
    native = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(code.address("loop"))
    return _over_arrays(native, code, variant.width, output)


def loop_text(variant: Variant, inputs: Sequence[str], output: str, body: Body) -> str:
    """LLVM text of ``loop(input pointers, output pointer, n)``; n is a multiple of the width."""
    width = variant.width
    module = Module(attributes={"#0": '"prefer-vector-width"="512"'})
    names = [*(f"in{i}" for i in range(len(inputs))), "out"]
    function = Function(module, "loop", [*(("ptr", name) for name in names), ("i64", "n")])
    arithmetic = Arithmetic(function, width, avx512=variant.avx512, half=variant.half)

    def turn(index: object, _: list[str]) -> list[str]:
        values = []
        for name, kind in zip(names, inputs, strict=False):
            place = function.emit(f"getelementptr {kind}, ptr %{name}, i64 {index}")
            values.append(function.load(vector(kind, width), place, 1))
        result = body(arithmetic, *values)
        place = function.emit(f"getelementptr {output}, ptr %out, i64 {index}")
        function.store(vector(output, width), result, place, 1)
        return []

    function.loop(0, "%n", width, turn)
    function.ret()
    return module.text()


def _over_arrays(native: Callable[..., None], code: Code, width: int, output: str) -> Loop:
    def run(*arrays: np.ndarray) -> np.ndarray:
        count = arrays[0].size
        padded = -(-count // width) * width
        fitting = [np.ascontiguousarray(array) for array in arrays]
        if padded != count:
            fitting = [np.resize(array, padded) for array in fitting]
        result = np.empty(padded, _ARRAYS[output])
        native(*(array.ctypes.data for array in fitting), result.ctypes.data, padded)
        assert code is not None  # the closure keeps the code in memory
        return result[:count]

    return run


def unary(variant: Variant, op: str, dtype: DType) -> Loop:
    kind = register_kind(dtype)
    return compile_loop(variant, [kind], kind, lambda a, x: a.unary(op, dtype, x))


def binary(variant: Variant, op: str, dtype: DType) -> Loop:
    kind = register_kind(dtype)
    return compile_loop(variant, [kind, kind], kind, lambda a, x, y: a.binary(op, dtype, x, y))


def compare(variant: Variant, op: str, dtype: DType) -> Loop:
    kind = register_kind(dtype)

    def body(a: Arithmetic, x: str, y: str) -> str:
        return a.encode(DType.MASK, a.compare(op, dtype, x, y))

    return compile_loop(variant, [kind, kind], "i8", body)


def convert(variant: Variant, source: DType, target: DType) -> Loop:
    """From arrays of the source's storage bits to arrays of the target's."""

    def body(a: Arithmetic, raw: str) -> str:
        return a.encode(target, a.convert(source, target, a.decode(source, raw)))

    return compile_loop(variant, [storage_kind(source)], storage_kind(target), body)
