"""Products on 8x8 matrices of a simdgroup."""

from __future__ import annotations

from gizml_tile.dtypes import BF16, F16, F32
from gizml_tile.lowering.emit.metal.spelling import has_bfloat
from gizml_tile.lowering.emit.metal.words import Words
from gizml_tile.lowering.emit.metal.writer import Rule, Writer
from gizml_tile.lowering.kernel_ir.instructions import Atom, Instruction, Matrix


def _require(writer: Writer, atom: Atom) -> None:
    types = {F32, F16} | ({BF16} if has_bfloat(writer.target) else set())
    same = atom.a_dtype is atom.b_dtype and atom.a_dtype in types and atom.c_dtype is F32
    if (atom.m, atom.n, atom.k) != (8, 8, 8) or not same:
        raise LookupError(f"Metal has no entry for the atom {atom.name!r}")


def _mma(writer: Writer, instruction: Instruction) -> Words:
    matrix = instruction.attr
    assert isinstance(matrix, Matrix) and instruction.dtype is not None
    _require(writer, matrix.atom)
    a, b = (writer.array(each) for each in instruction.args[:2])
    home = writer.target_of(instruction, instruction.args[2:])
    assert not isinstance(home[0], str)
    sums = writer.words(instruction.args[2])
    if sums != home:
        writer.each([home, sums], "{} = {};".format)
    helper = writer.helper("multiply_accumulate")
    # Steps of k are outermost, so that neighbours do not wait for each other's sums.
    counts = {"step": matrix.k, "row": matrix.m, "column": matrix.n}
    depth = [name for name, count in counts.items() if count > 1]
    places = (
        (home[0][0].name, ("row", 2 * matrix.n), ("column", 2)),
        (a, ("row", 2 * matrix.k), ("step", 2)),
        (b, ("column", 2 * matrix.k), ("step", 2)),
    )
    texts = [_pointer(name, [term for term in terms if term[0] in depth]) for name, *terms in places]
    writer.nested([(name, counts[name]) for name in depth], f"{helper}({', '.join(texts)});")
    return home


def _pointer(name: str, terms: list[tuple[str, int]]) -> str:
    return " + ".join([name, *(f"{size} * {index}" for index, size in terms)])


RULES: dict[str, Rule] = {"mma": _mma}
