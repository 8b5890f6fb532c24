"""Checks the mathematics and the conversions on all 2^32 floats and prints a table.

Run by hand (some minutes a function): ``python tests/numbers/all_floats.py [exp log bf16 i32 ...]``.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from exact import bits_of, round_float
from floats import TRUE, documented, same, ulps
from loops import VARIANTS, compile_loop, convert, unary

from gizml_tile.dtypes import BF16, F16, F32, FP8, I64, DType, integer_range, to_numpy
from gizml_tile.lowering import math
from gizml_tile.lowering.emit.cpu.arithmetic import Arithmetic
from gizml_tile.lowering.emit.cpu.builder import float_text, splat
from gizml_tile.runtime.compiler import compile_text, load_with_llvm
from gizml_tile.runtime.host import host

CHUNK = 1 << 15  # what a turn works on stays in the L2
PROCESSES = 2
FLOATS = {"bf16": BF16, "f16": F16, "fp8": FP8}
INTEGERS = {dtype.text: dtype for dtype in DType if dtype.is_integer}

# A loop over a function of the C library.
_LOOP = """
define void @loop(ptr %in, ptr %out, i64 %n) {
entry:
  br label %turn
turn:
  %i = phi i64 [0, %entry], [%next, %turn]
  %source = getelementptr double, ptr %in, i64 %i
  %place = getelementptr double, ptr %out, i64 %i
  %x = load double, ptr %source
  %y = call double @NAME(double %x)
  store double %y, ptr %place
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %turn, label %end
end:
  ret void
}
declare double @NAME(double)
"""


@dataclass
class Worst:
    """The largest error so far and its argument, results within half an ulp, and bits that differ."""

    error: float = 0.0
    at: float = 0.0
    nearest: int = 0
    numbers: int = 0
    different: int = 0

    def merge(self, other: Worst) -> Worst:
        larger = self if self.error >= other.error else other
        return Worst(
            larger.error,
            larger.at,
            self.nearest + other.nearest,
            self.numbers + other.numbers,
            self.different + other.different,
        )


def chunks(first: int, last: int) -> Iterator[np.ndarray]:
    for start in range(first, last, CHUNK):
        yield np.arange(start, start + CHUNK, dtype=np.int64).astype(np.uint32).view(np.float32)


def check(name: str, first: int, last: int) -> Worst:
    """One function or conversion on the bit patterns from ``first`` to ``last``."""
    if name in TRUE:
        return _check_function(name, first, last)
    dtype = FLOATS.get(name) or INTEGERS[name]
    loops = [convert(variant, F32, dtype) for variant in (VARIANTS[0], VARIANTS[4])]
    worst = Worst()
    for x in chunks(first, last):
        expected = round_float(x, dtype) if dtype.is_float else _truncated(x, dtype)
        for loop in loops:
            result = loop(x)
            wrong = result != bits_of(expected)
            if dtype.is_float:
                nan = np.isnan(x)
                wrong &= ~nan
                wrong |= nan & ~np.isnan(result.view(to_numpy(dtype)).astype(np.float32))
            worst.different += int(np.count_nonzero(wrong))
        worst.numbers += x.size
    return worst


def _check_function(name: str, first: int, last: int) -> Worst:
    # The fastest code, and code of other instructions, whose bits have to be the same.
    fast, other = unary(VARIANTS[0], name, F32), unary(VARIANTS[4], name, F32)
    distance = compile_loop(VARIANTS[0], ["float", "double"], "float", _distance)
    true = _OF_C[name]() if name in _OF_C else TRUE[name][0]
    worst = Worst()
    for x in chunks(first, last):
        with np.errstate(all="ignore"):
            exact = true(x.astype(np.float64))
        result = fast(x)
        error = distance(result, exact)
        rare = np.flatnonzero(~(error < np.inf))
        if rare.size:
            error[rare] = ulps(result[rare], exact[rare])
        worst.different += int(np.count_nonzero(~same(result, other(x))))
        worst.numbers += x.size
        worst.nearest += int(np.count_nonzero(error <= 0.5))
        place = int(np.argmax(error))
        if error[place] > worst.error:
            worst.error, worst.at = float(error[place]), float(x[place])
    return worst


def _distance(a: Arithmetic, result: str, true: str) -> str:
    """``ulps`` as compiled code; infinite or NaN where that has to look closer."""
    vectors, kind = a.vectors, "double"

    def number(value: float) -> str:
        return splat(kind, float_text(value), a.width)

    off = vectors.operation("fsub", kind, vectors.cast("fpext", "float", kind, result), true)
    bits = vectors.cast("bitcast", kind, "i64", true)
    bits = vectors.operation("and", "i64", bits, vectors.integer("i64", 0x7FF << 52))
    power = vectors.cast("bitcast", "i64", kind, bits)
    spacing = vectors.operation("fmul", kind, power, number(2.0**-23))
    large = vectors.operation("fcmp ogt", kind, spacing, number(2.0**-149))
    spacing = vectors.choose(kind, large, spacing, number(2.0**-149))
    ratio = vectors.operation("fdiv", kind, vectors.intrinsic("fabs", kind, off), spacing)
    return vectors.cast("fptrunc", kind, "float", ratio)


def _of_c(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """A function of the C library, which Python calls one by one."""
    code = load_with_llvm(compile_text(_LOOP.replace("NAME", name), host()), ("loop",))
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    native = kind(code.address("loop"))

    def function(x: np.ndarray) -> np.ndarray:
        assert code is not None  # the closure keeps the code in memory
        argument, result = np.ascontiguousarray(x), np.empty_like(x)
        native(argument.ctypes.data, result.ctypes.data, x.size)
        return result

    return function


def _true_gelu_erf() -> Callable[[np.ndarray], np.ndarray]:
    erfc = _of_c("erfc")

    def gelu_erf(x: np.ndarray) -> np.ndarray:
        x = np.maximum(x, -1e30)
        return 0.5 * x * erfc(-x * np.sqrt(0.5))

    return gelu_erf


# As in ``TRUE``.
_OF_C: dict[str, Callable[[], Callable[[np.ndarray], np.ndarray]]] = {
    "gelu_erf": _true_gelu_erf,
    "erf": lambda: _of_c("erf"),
}


def _truncated(x: np.ndarray, dtype: DType) -> np.ndarray:
    low, high = integer_range(dtype)
    inside = np.where(np.isnan(x), np.float32(0), x)
    if dtype is I64:
        cut = np.clip(inside, -(2.0**63), np.float32(2.0**63 - 2.0**40)).astype(np.int64)
        return np.where(inside >= 2.0**63, high, cut)
    return np.clip(inside.astype(np.float64), low, high).astype(to_numpy(dtype))


def main(names: list[str]) -> None:
    print("function: max ulp (at), within half an ulp, results that differ between instruction sets")
    for name in names or [*TRUE, *FLOATS, *INTEGERS]:
        step = 1 << 27
        with ProcessPoolExecutor(PROCESSES) as pool:
            parts = [pool.submit(check, name, at, at + step) for at in range(0, 1 << 32, step)]
            worst = Worst()
            for part in parts:
                worst = worst.merge(part.result())
        print(line(name, worst), flush=True)


def line(name: str, worst: Worst) -> str:
    if name not in TRUE:
        return f"to {name}: {worst.different} of {worst.numbers} differ"
    share, said = worst.nearest / worst.numbers, documented(getattr(math, name))
    more = f", MORE THAN the {said} that it says" if worst.error > said else ""
    return f"{name}: {worst.error:.3f} ({worst.at!r}), {share:.2%}, {worst.different}{more}"


if __name__ == "__main__":
    main(sys.argv[1:])
