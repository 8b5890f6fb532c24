"""Matrix units of one warp, and products by ordinary multiply-adds."""

from __future__ import annotations

from gizml_tile.dtypes import BF16, E5M2, F16, F32, F64, FP8, I8, I32, U8
from gizml_tile.lowering.emit.ptx.arithmetic import mnemonic
from gizml_tile.lowering.emit.ptx.writer import Rule, Words, Writer, elements_of_word, register_class
from gizml_tile.lowering.kernel_ir.instructions import Atom, Instruction, Matrix

TYPES = {F16: "f16", BF16: "bf16", F32: "tf32", FP8: "e4m3", E5M2: "e5m2", I8: "s8", U8: "u8", F64: "f64"}
_TOTALS = {F32: "f32", I32: "s32", F64: "f64"}
# Shapes by the bits of an operand.
_SHAPES = {
    16: ((16, 8, 16), (16, 8, 8)),
    32: ((16, 8, 8),),
    8: ((16, 8, 32), (8, 8, 16)),
    64: ((16, 8, 16), (8, 8, 4)),
}


def _form(atom: Atom) -> str:
    """The instruction of an atom."""
    shape = (atom.m, atom.n, atom.k)
    if atom.a_dtype not in TYPES or shape not in _SHAPES[atom.a_dtype.bits]:
        raise LookupError(f"PTX has no entry for the atom {atom.name!r}")
    total = _TOTALS[atom.c_dtype]
    a, b = TYPES[atom.a_dtype], TYPES[atom.b_dtype]
    return f"mma.sync.aligned.m{atom.m}n{atom.n}k{atom.k}.row.col.{total}.{a}.{b}.{total}"


def _mma(writer: Writer, instruction: Instruction) -> Words:
    matrix = instruction.attr
    assert isinstance(matrix, Matrix)
    atom, (a, b, c) = matrix.atom, (_named(writer, each) for each in instruction.args)
    text = _form(atom)
    a_words = _fragment(a, matrix.m * matrix.k)
    b_words = _fragment(b, matrix.n * matrix.k)
    sums = _fragment(c, matrix.m * matrix.n)
    made = _fragment(writer.target(instruction, instruction.args[2:]), len(sums))
    lists = [", ".join(words) for words in b_words]
    # Steps of k are outermost, so that neighbours do not wait for each other's sums.
    for k in range(matrix.k):
        for m in range(matrix.m):
            left = ", ".join(a_words[m * matrix.k + k])
            for n in range(matrix.n):
                number = m * matrix.n + n
                writer.lines.append(
                    f"{text} {{{', '.join(made[number])}}}, {{{left}}}, {{{lists[n * matrix.k + k]}}}, "
                    f"{{{', '.join(sums[number])}}};"
                )
        sums = made
    return tuple([word for words in sums for word in words])


def _named(writer: Writer, value: Instruction) -> Words:
    assert value.dtype is not None
    return writer.all_named(writer.words(value), register_class(value.dtype))


def _fragment(words: Words, parts: int) -> list[Words]:
    """Words in equal parts, one for each atom."""
    size = len(words) // parts
    assert size * parts == len(words), f"{len(words)} words are not {parts} fragments"
    return [words[number * size : number * size + size] for number in range(parts)]


def _outer(writer: Writer, instruction: Instruction) -> Words:
    a, b, c = (writer.words(each) for each in instruction.args)
    dtype = instruction.dtype
    assert dtype is not None and elements_of_word(dtype) == 1
    text = mnemonic("fma", dtype)
    made = writer.target(instruction, instruction.args[2:])
    for i, left in enumerate(a):
        for j, right in enumerate(b):
            number = i * len(b) + j
            writer.lines.append(f"{text} {made[number]}, {left}, {right}, {c[number]};")
    return made


RULES: dict[str, Rule] = {"mma": _mma, "outer": _outer}
