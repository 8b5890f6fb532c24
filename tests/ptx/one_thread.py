"""Runs the PTX of one thread in Python: the instructions on bits, conversions, accesses and branches.

Each operation follows the PTX ISA's own words, independently of how the emitter uses it. Registers hold
bit patterns, tensor number n begins at address (n + 1) * 2^32.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import ml_dtypes
import numpy as np

from gizml_tile.lowering.emit.ptx import PtxArtifact

WORD = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")
TYPES = {"b8": 8, "b16": 16, "b32": 32, "b64": 64}


def run(artifact: PtxArtifact, tensors: list[bytearray], sizes: tuple[int, ...] = ()) -> None:
    """Execute a kernel as thread 0 of workgroup 0; stores change the tensors' bytes."""
    Thread(artifact, tensors, sizes).run()


def signed(value: int, bits: int) -> int:
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def as_float(pattern: int) -> np.float32:
    return np.uint32(pattern & 0xFFFFFFFF).view(np.float32)


def as_bits(value: object) -> int:
    return int(np.float32(value).view(np.uint32))


def prmt(low: int, high: int, selector: int) -> int:
    """PTX ISA, "prmt": a digit of the selector names a byte; its bit 3 spreads that byte's sign."""
    both, result = (low & 0xFFFFFFFF) | (high & 0xFFFFFFFF) << 32, 0
    for place in range(4):
        digit = selector >> 4 * place & 15
        byte = both >> 8 * (digit & 7) & 255
        if digit & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << 8 * place
    return result


def truncated(pattern: int, bits: int, *, signed: bool = True) -> int:
    """PTX ISA, "cvt": clamps; a NaN gives 0, but the highest bit alone where the result has 64 bits."""
    value = as_float(pattern)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if np.isnan(value):
        return 0 if bits == 32 else 1 << 63
    if np.isinf(value):
        return high if value > 0 else low
    return min(max(int(value), low), high)


def toward_zero(number: int) -> int:
    """The F32 that is nearest among those no larger in magnitude."""
    shift = max(abs(number).bit_length() - 24, 0)
    whole = (abs(number) >> shift) << shift
    return as_bits(-float(whole) if number < 0 else float(whole))


def narrow(pattern: int, dtype: object) -> int:
    with np.errstate(over="ignore"):
        stored = as_float(pattern).astype(dtype)
    return int.from_bytes(stored.tobytes(), "little")


def e4m3(pattern: int) -> int:
    value = as_float(pattern)
    return narrow(as_bits(np.clip(value, -448, 448)), ml_dtypes.float8_e4m3fn)


def widened(half: int) -> int:
    return as_bits(np.uint16(half & 0xFFFF).view(np.float16))


def e4m3_pair(pair: int) -> int:
    values = np.array([pair & 255, pair >> 8 & 255], np.uint8).view(ml_dtypes.float8_e4m3fn)
    return int.from_bytes(values.astype(np.float16).tobytes(), "little")


OPERATIONS: dict[str, Callable[..., object]] = {
    "mov.b32": lambda a: a,
    "mov.u32": lambda a: a,
    "mov.b64": lambda a: a,
    "mov.pred": bool,
    "prmt.b32": prmt,
    "shl.b32": lambda a, b: a << b,
    "shl.b64": lambda a, b: a << b,
    "shr.u32": lambda a, b: (a & 0xFFFFFFFF) >> b,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "add.s32": lambda a, b: a + b,
    "add.s64": lambda a, b: a + b,
    "sub.s32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "mad.lo.s32": lambda a, b, c: a * b + c,
    "mad.wide.s32": lambda a, b, c: signed(a, 32) * signed(b, 32) + c,
    "cvta.to.global.u64": lambda a: a,
    "max.s32": lambda a, b: max(signed(a, 32), signed(b, 32)),
    "min.s32": lambda a, b: min(signed(a, 32), signed(b, 32)),
    "selp.b32": lambda a, b, p: a if p else b,
    "selp.b64": lambda a, b, p: a if p else b,
    "and.pred": lambda a, b: a and b,
    "or.pred": lambda a, b: a or b,
    "xor.pred": lambda a, b: a != b,
    "not.pred": lambda a: not a,
    "setp.ne.s32": lambda a, b: signed(a, 32) != signed(b, 32),
    "setp.ne.s64": lambda a, b: signed(a, 64) != signed(b, 64),
    "setp.eq.s32": lambda a, b: signed(a, 32) == signed(b, 32),
    "setp.lt.s32": lambda a, b: signed(a, 32) < signed(b, 32),
    "setp.gt.s32": lambda a, b: signed(a, 32) > signed(b, 32),
    "setp.gt.s64": lambda a, b: signed(a, 64) > signed(b, 64),
    "setp.lt.s64": lambda a, b: signed(a, 64) < signed(b, 64),
    "setp.nan.f32": lambda a, b: bool(np.isnan(as_float(a)) or np.isnan(as_float(b))),
    "cvt.s64.s32": lambda a: signed(a, 32),
    "cvt.u32.u64": lambda a: a,
    "cvt.rz.f32.s32": lambda a: toward_zero(signed(a, 32)),
    "cvt.rz.f32.s64": lambda a: toward_zero(signed(a, 64)),
    "cvt.rn.f32.s32": lambda a: as_bits(np.int64(signed(a, 32)).astype(np.float32)),
    "cvt.rn.f32.s64": lambda a: as_bits(np.int64(signed(a, 64)).astype(np.float32)),
    "cvt.rzi.s32.f32": lambda a: truncated(a, 32),
    "cvt.rzi.u32.f32": lambda a: truncated(a, 32, signed=False),
    "cvt.rzi.u64.f32": lambda a: truncated(a, 64, signed=False),
    "cvt.rzi.s64.f32": lambda a: truncated(a, 64),
    "cvt.f32.f16": widened,
    "cvt.rn.f16.f32": lambda a: narrow(a, np.float16),
    # The first operand becomes the upper half.
    "cvt.rn.f16x2.f32": lambda a, b: narrow(a, np.float16) << 16 | narrow(b, np.float16),
    "cvt.rn.bf16x2.f32": lambda a, b: narrow(a, ml_dtypes.bfloat16) << 16 | narrow(b, ml_dtypes.bfloat16),
    "cvt.rn.satfinite.e4m3x2.f32": lambda a, b: e4m3(a) << 8 | e4m3(b),
    "cvt.rn.f16x2.e4m3x2": e4m3_pair,
    "add.rn.f32": lambda a, b: as_bits(as_float(a) + as_float(b)),
    "mul.rn.f32": lambda a, b: as_bits(as_float(a) * as_float(b)),
}


class Thread:
    """The state of one thread: registers by name, and memory."""

    def __init__(self, artifact: PtxArtifact, tensors: list[bytearray], sizes: tuple[int, ...]) -> None:
        lines = artifact.text.splitlines()
        self.lines = [line for line in lines[lines.index("{") + 1 : -1] if line[0] != "."]
        self.labels = {line[:-1]: number for number, line in enumerate(self.lines) if line[-1] == ":"}
        self.tensors = tensors
        pointers = [(number + 1) << 32 for number in range(len(tensors))]
        self.parameters = {
            f"[{artifact.entry}_{number}]": value for number, value in enumerate([*pointers, *sizes])
        }
        self.values: dict[str, object] = {"%tid.x": 0, "%laneid": 0, "%ctaid.x": 0}

    def run(self) -> None:
        at, steps = 0, 0
        while self.lines[at] != "ret;":
            steps += 1
            assert steps < 100_000, "the kernel does not end"
            at = self.step(self.lines[at], at)

    def step(self, line: str, at: int) -> int:
        """Execute a line; the number of the next."""
        if line[-1] == ":":
            return at + 1
        if line[0] == "@":
            guard, _, line = line.partition(" ")
            if bool(self.values[guard.strip("@!")]) == ("!" in guard):
                return at + 1
        name, _, rest = line.rstrip(";").partition(" ")
        operands = WORD.findall(rest)
        if name in ("bra", "bra.uni"):
            return self.labels[operands[0]]
        if name.startswith("ld.param"):
            self.values[operands[0]] = self.parameters[operands[1]]
        elif name.startswith(("ld.", "st.")):
            self.access(name, operands)
        elif operands[0][0] == "{":
            self.split(operands)
        elif operands[-1][0] == "{":
            self.set(operands[0], self.combined(operands[-1]))
        else:
            self.set(operands[0], OPERATIONS[name](*map(self.get, operands[1:])))
        return at + 1

    def get(self, operand: str) -> object:
        if operand[0] == "%":
            return self.values[operand]
        return int(operand[2:], 16) if operand.startswith("0f") else int(operand, 0)

    def set(self, name: str, value: object) -> None:
        bits = {"h": 16, "r": 32, "d": 64}.get(name[1])
        self.values[name] = bool(value) if bits is None else int(value) % (1 << bits)  # type: ignore[call-overload]

    def split(self, operands: list[str]) -> None:
        low, high = operands[0].strip("{}").replace(" ", "").split(",")
        bits = 16 if low[1] == "h" else 32
        value = self.get(operands[1])
        self.set(low, value)
        self.set(high, int(value) >> bits)  # type: ignore[call-overload]

    def combined(self, group: str) -> int:
        low, high = group.strip("{}").replace(" ", "").split(",")
        bits = 16 if low[1] == "h" else 32
        return int(self.get(low)) | int(self.get(high)) << bits  # type: ignore[call-overload]

    def access(self, name: str, operands: list[str]) -> None:
        is_load = name.startswith("ld.")
        group, where = operands if is_load else reversed(operands)
        words = group.strip("{}").replace(" ", "").split(",")
        size = TYPES[name.rpartition(".")[2]] // 8
        base, _, constant = where.strip("[]").partition("+")
        address = int(self.get(base)) + int(constant or 0)  # type: ignore[call-overload]
        memory, first = self.tensors[(address >> 32) - 1], address & 0xFFFFFFFF
        assert first % (size * len(words)) == 0, f"{name} at {first} is not aligned"
        assert first + size * len(words) <= len(memory), f"{name} at {first} is outside"
        for number, word in enumerate(words):
            place = slice(first + number * size, first + (number + 1) * size)
            if is_load:
                self.set(word, int.from_bytes(memory[place], "little"))
            else:
                stored = int(self.get(word)) % (1 << 8 * size)  # type: ignore[call-overload]
                memory[place] = stored.to_bytes(size, "little")
