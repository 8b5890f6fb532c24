"""Compiles one operation of the CPU arithmetic into a loop over NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field

import llvmlite.binding as llvm
import numpy as np

from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.builder import Function, Module, vector

AVX2 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "popcnt")
AVX512 = (*AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


@dataclass(frozen=True)
class Machine:
    """Instructions that a test compiles for, and the widest vector to try with them."""

    name: str
    features: tuple[str, ...]
    avx512: bool = False
    half: bool = False


def machines() -> list[Machine]:
    """The kinds of processor that this one can stand for; the plainest runs everywhere."""
    host = {name for name, on in llvm.get_host_cpu_features().items() if on}
    found = [Machine("plain", ())]
    if host.issuperset(AVX2):
        found.append(Machine("avx2", AVX2, half=True))
    if host.issuperset(AVX512):
        found.append(Machine("avx512", AVX512, avx512=True, half=True))
    return found


@dataclass
class _Jit:
    engines: list[object] = field(default_factory=list)

    def function(self, text: str, name: str, machine: Machine, pointers: int) -> Callable[..., None]:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        triple = llvm.get_process_triple()
        x86 = triple.startswith("x86_64")
        target = llvm.Target.from_triple(triple).create_target_machine(
            cpu="x86-64" if x86 else "generic",
            features=",".join(f"+{feature}" for feature in machine.features),
            opt=2,
            jit=True,
        )
        module = llvm.parse_assembly(text)
        module.verify()
        engine = llvm.create_mcjit_compiler(module, target)
        engine.finalize_object()
        self.engines.append(engine)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * pointers, ctypes.c_int64)
        return kind(engine.get_function_address(name))


_JIT = _Jit()


def loop_text(
    width: int, machine: Machine, inputs: list[str], output: str, body: Callable[..., str]
) -> str:
    """LLVM text of ``loop(input pointers, output pointer, n)``; n is a multiple of the width."""
    module = Module(attributes={"#0": '"prefer-vector-width"="512"'})
    names = [*(f"in{i}" for i in range(len(inputs))), "out"]
    function = Function(module, "loop", [*(("ptr", name) for name in names), ("i64", "n")])
    arithmetic = Arithmetic(function, width, avx512=machine.avx512, half=machine.half)

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


_KINDS = {"float": np.float32, "i8": np.uint8, "i16": np.uint16, "i32": np.int32, "i64": np.int64}


def compile_loop(
    width: int, machine: Machine, inputs: list[str], output: str, body: Callable[..., str]
) -> Callable[..., np.ndarray]:
    """A function of NumPy arrays that runs ``body(arithmetic, *vectors)`` over them.

    ``inputs`` and ``output`` are LLVM types of single elements; arrays are viewed as those.
    """
    text = loop_text(width, machine, inputs, output, body)
    native = _JIT.function(text, "loop", machine, len(inputs) + 1)

    def run(*arrays: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        count = arrays[0].size
        padded = -(-count // width) * width
        if padded != count:
            arrays = tuple(np.concatenate([a, np.repeat(a[-1:], padded - count)]) for a in arrays)
        arrays = tuple(np.ascontiguousarray(a) for a in arrays)
        result = np.empty(padded, _KINDS[output]) if out is None else out
        native(*(a.ctypes.data for a in arrays), result.ctypes.data, padded)
        return result[:count]

    return run
