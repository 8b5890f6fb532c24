"""Matrix units of one wave, and products by ordinary multiply-adds."""

from __future__ import annotations

from gizml_tile.dtypes import BF16, E5M2, F16, F32, F64, FP8, I8, U8, DType
from gizml_tile.lowering.emit.amdgpu.arithmetic import fused
from gizml_tile.lowering.emit.amdgpu.intrinsics import INTRINSICS
from gizml_tile.lowering.emit.amdgpu.literals import vector_type
from gizml_tile.lowering.emit.amdgpu.writer import Rule, Words, Writer, kind_of, type_of
from gizml_tile.lowering.kernel_ir.instructions import Atom, Instruction, Matrix

# By the sizes m, n and k, the type of a, and the registers of a in a lane; with places for what the two
# operands are.
_FLOATS = {FP8: "fp8", E5M2: "bf8"}
_NAMES: dict[tuple[int, int, int, DType, int], str] = {
    (16, 16, 4, F32, 1): "mfma.f32.16x16x4f32",
    (32, 32, 2, F32, 1): "mfma.f32.32x32x2f32",
    (16, 16, 4, F64, 1): "mfma.f64.16x16x4f64",
    (16, 16, 8, F32, 2): "mfma.f32.16x16x8.xf32",
    (16, 16, 16, F16, 4): "mfma.f32.16x16x16f16",
    (32, 32, 8, F16, 4): "mfma.f32.32x32x8f16",
    (16, 16, 16, BF16, 4): "mfma.f32.16x16x16bf16.1k",
    (32, 32, 8, BF16, 4): "mfma.f32.32x32x8bf16.1k",
    (16, 16, 32, F16, 8): "mfma.f32.16x16x32.f16",
    (32, 32, 16, F16, 8): "mfma.f32.32x32x16.f16",
    (16, 16, 32, BF16, 8): "mfma.f32.16x16x32.bf16",
    (32, 32, 16, BF16, 8): "mfma.f32.32x32x16.bf16",
    **{(16, 16, 32, dtype, 8): "mfma.f32.16x16x32.{}.{}" for dtype in _FLOATS},
    **{(32, 32, 16, dtype, 8): "mfma.f32.32x32x16.{}.{}" for dtype in _FLOATS},
    (16, 16, 16, I8, 4): "mfma.i32.16x16x16i8",
    (32, 32, 8, I8, 4): "mfma.i32.32x32x8i8",
    (16, 16, 32, I8, 8): "mfma.i32.16x16x32.i8",
    (32, 32, 16, I8, 8): "mfma.i32.32x32x16.i8",
    (16, 16, 64, I8, 16): "mfma.i32.16x16x64.i8",
    (32, 32, 32, I8, 16): "mfma.i32.32x32x32.i8",
    (16, 16, 16, F16, 16): "wmma.f32.16x16x16.f16.v8f32.v16f16",
    (16, 16, 16, BF16, 16): "wmma.f32.16x16x16.bf16.v8f32.v16i16",
    (16, 16, 16, F16, 8): "wmma.f32.16x16x16.f16.v8f32.v8f16",
    (16, 16, 16, BF16, 8): "wmma.f32.16x16x16.bf16.v8f32.v8i16",
    **{(16, 16, 16, dtype, 8): "wmma.f32.16x16x16.{}.{}.v8f32.v2i32" for dtype in _FLOATS},
    **{(16, 16, 16, dtype, 16): "wmma.i32.16x16x16.iu8.v8i32.v4i32" for dtype in (I8, U8)},
    **{(16, 16, 16, dtype, 8): "wmma.i32.16x16x16.iu8.v8i32.v2i32" for dtype in (I8, U8)},
}
# What LLVM may move across: none of its kinds of instructions.
_NOTHING = "0"


def _name(atom: Atom) -> str:
    """The intrinsic of an atom."""
    found = _NAMES.get((atom.m, atom.n, atom.k, atom.a_dtype, atom.a.size("register")))
    if found is None:
        raise LookupError(f"LLVM IR for AMD GPUs has no entry for the atom {atom.name!r}")
    dtypes = (atom.b_dtype, atom.a_dtype) if atom.turned else (atom.a_dtype, atom.b_dtype)
    return f"llvm.amdgcn.{found.format(*(_FLOATS.get(dtype) for dtype in dtypes))}"


def _mma(writer: Writer, instruction: Instruction) -> Words:
    matrix = instruction.attr
    assert isinstance(matrix, Matrix)
    atom, (a, b, c) = matrix.atom, (writer.words(each) for each in instruction.args)
    name = _name(atom)
    lefts = _fragment(a, matrix.m * matrix.k)
    rights = _fragment(b, matrix.n * matrix.k)
    sums = _fragment(c, matrix.m * matrix.n)
    # Steps of k are outermost, so that neighbours do not wait for each other's sums.
    for k in range(matrix.k):
        for m in range(matrix.m):
            for n in range(matrix.n):
                number = m * matrix.n + n
                left, right = lefts[m * matrix.k + k], rights[n * matrix.k + k]
                sums[number] = _product(writer, name, atom, left, right, sums[number])
    # Reads stay where the kernel has them, a step ahead. LLVM reads whole operands before the first product
    # where that fills all registers, and finds too late what else it needed them for.
    writer.call("llvm.amdgcn.sched.barrier", ("i32", _NOTHING))
    return tuple([word for words in sums for word in words])


def _product(writer: Writer, name: str, atom: Atom, a: Words, b: Words, c: Words) -> Words:
    """One instruction: the sums, with its operands as the intrinsic wants them.

    A turned atom's layouts are those of the transposed product, whose left operand is b.
    """
    operands = [(a, atom.a_dtype), (b, atom.b_dtype)]
    if atom.turned:
        operands.reverse()
    kinds, total = INTRINSICS[name].operands, type_of(atom.c_dtype)
    signs = kinds[0] == "i1"
    passed: list[tuple[str, str]] = []
    for words, dtype in operands:
        passed += [("i1", "false" if dtype is U8 else "true")] if signs else []
        kind = kinds[len(passed)]
        passed.append((kind, _operand(writer, words, dtype, kind)))
    passed.append((vector_type(total, len(c)), writer.vector(c, total)))
    passed += [(kind, "false" if kind == "i1" else "0") for kind in kinds[len(passed) :]]
    return writer.elements(writer.call(name, *passed), total, len(c))


def _operand(writer: Writer, words: Words, dtype: DType, kind: str) -> str:
    element = type_of(dtype)
    key = ("operand", words, kind)
    found = writer.cached(key)
    if found is not None:
        return found
    whole = writer.vector(words, element)
    return writer.keep(key, writer.bitcast(whole, vector_type(element, len(words)), kind))


def _fragment(words: Words, parts: int) -> list[Words]:
    """Words in equal parts, one for each atom."""
    size = len(words) // parts
    assert size * parts == len(words), f"{len(words)} words are not {parts} fragments"
    return [words[number * size : number * size + size] for number in range(parts)]


def _outer(writer: Writer, instruction: Instruction) -> Words:
    a, b, c = (writer.words(each) for each in instruction.args)
    kind = kind_of(instruction)
    return tuple(
        [
            fused(writer, kind, (left, right, c[i * len(b) + j]))
            for i, left in enumerate(a)
            for j, right in enumerate(b)
        ]
    )


RULES: dict[str, Rule] = {"mma": _mma, "outer": _outer}
