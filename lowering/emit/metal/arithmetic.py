"""Mathematics, register by register: an expression for each operation and type."""

from __future__ import annotations

from gizml_tile.dtypes import F32, I32, I64, MASK, U32, U64, DType
from gizml_tile.lowering.emit.metal.helpers import HELPERS
from gizml_tile.lowering.emit.metal.spelling import literal, type_name
from gizml_tile.lowering.emit.metal.words import Array, Words, registers
from gizml_tile.lowering.emit.metal.writer import Rule, Writer
from gizml_tile.lowering.kernel_ir.instructions import Instruction, Number

_COMPARED = {
    "lt": "({} < {})",
    "le": "({} <= {})",
    "gt": "({} > {})",
    "ge": "({} >= {})",
    "eq": "({} == {})",
    "ne": "({} != {})",
}
# Contraction is off, so sums and products are rounded each. Plain quotients and roots need not be
# correctly rounded, those of the namespace `precise` are (MSL specification, "Numerical Compliance").
_FLOAT = {
    "neg": "(-{})",
    "abs": "fabs({})",
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "fma": "fma({}, {}, {})",
    "div": "precise::divide({}, {})",
    "sqrt": "precise::sqrt({})",
    "min": "smaller({}, {})",
    "max": "larger({}, {})",
    "exp2": "fast::exp2({})",
    "log2": "fast::log2({})",
    "reciprocal": "fast::divide(1.0f, {})",
    "rsqrt": "fast::rsqrt({})",
    "tanh": "fast::tanh({})",
    "sin": "fast::sin({})",
    "cos": "fast::cos({})",
}
_INTEGER = {
    "neg": "wrap_sub({zero}, {})",
    "add": "wrap_add({}, {})",
    "sub": "wrap_sub({}, {})",
    "mul": "wrap_mul({}, {})",
    "fma": "wrap_add(wrap_mul({}, {}), {})",
    "div": "quotient({}, {})",
    "rem": "remainder_of({}, {})",
    "min": "min({}, {})",
    "max": "max({}, {})",
    "and": "({} & {})",
    "or": "({} | {})",
    "xor": "({} ^ {})",
    "not": "(~{})",
    "shl": "shift_left({}, {})",
    "shr": "({} >> {})",
    "ushr": "shift_right_zeros({}, {})",
    "popcount": "popcount({})",
    "clz": "clz({})",
}
_BITS = {"and": "({} & {})", "or": "({} | {})", "xor": "({} ^ {})", "not": "(~{})"}
_TRUTH = {
    "and": "({} && {})",
    "or": "({} || {})",
    "xor": "({} != {})",
    "not": "(!{})",
    "eq": "({} == {})",
    "ne": "({} != {})",
}


# In C++ integers without a sign wrap around.
_UNSIGNED = {
    **_BITS,
    **_COMPARED,
    **{op: _INTEGER[op] for op in ("min", "max", "popcount", "clz")},
    "neg": "(0u - {})",
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "div": "({} / {})",
    "rem": "({} % {})",
    "shl": "({} << {})",
    "ushr": "({} >> {})",
}


def _of_integers(dtype: DType) -> dict[str, str]:
    zero = "0L" if dtype is I64 else "0"
    texts = {op: text.replace("{zero}", zero) for op, text in _INTEGER.items()}
    return texts | _COMPARED | {"abs": "magnitude({})"}


_EXPRESSIONS: dict[DType, dict[str, str]] = {
    F32: _FLOAT | _COMPARED,
    I32: _of_integers(I32) | {"high": "upper_product({}, {})"},
    I64: _of_integers(I64),
    U32: _UNSIGNED | {"high": "mulhi({}, {})"},
    U64: _UNSIGNED,
    MASK: _TRUTH,
}


def expression(writer: Writer, op: str, dtype: DType) -> str:
    """How an operation on a type is written; types under 32 bits have the operations on bits alone."""
    found = _EXPRESSIONS.get(dtype, {}).get(op)
    if found is None:
        raise LookupError(f"Metal has no entry for the instruction {op!r} on {dtype}")
    for name in HELPERS:
        if f"{name}(" in found:
            writer.helper(name)
    return found


def _map(writer: Writer, instruction: Instruction) -> Words:
    dtype = instruction.args[0].dtype
    assert dtype is not None
    columns = [writer.stretched(each, instruction.count) for each in instruction.args]
    return writer.made(instruction, columns, expression(writer, instruction.op, dtype).format)


def _outer(writer: Writer, instruction: Instruction) -> Words:
    a, b, c = (writer.words(each) for each in instruction.args)
    assert instruction.dtype is not None
    text = expression(writer, "fma", instruction.dtype)
    home = writer.target_of(instruction, instruction.args[2:])
    rows = [each for each in a for _ in b]
    writer.each([home, rows, b * len(a), c], lambda out, *others: f"{out} = {text.format(*others)};")
    return home


def _select(writer: Writer, instruction: Instruction) -> Words:
    columns = [writer.stretched(each, instruction.count) for each in instruction.args]
    return writer.made(instruction, columns, "({} ? {} : {})".format)


# Registers


def _constant(writer: Writer, instruction: Instruction) -> Words:
    dtype, attr, count = instruction.dtype, instruction.attr, instruction.count
    assert dtype is not None
    if not isinstance(attr, tuple):
        return (literal(attr, dtype, writer.target),) * count  # type: ignore[arg-type]
    numbers: tuple[Number, ...] = attr  # type: ignore[assignment]
    texts = [literal(number, dtype, writer.target) for number in numbers]
    name = writer.numbered("constant")
    writer.line(f"const {type_name(dtype, writer.target)} {name}[{count}] = {{{', '.join(texts)}}};")
    return registers(Array(name, count))


def _pick(writer: Writer, instruction: Instruction) -> Words:
    words, chosen = writer.words(instruction.args[0]), instruction.attr
    assert isinstance(chosen, tuple)
    return tuple([words[register] for register in chosen])  # type: ignore[index]


def _join(writer: Writer, instruction: Instruction) -> Words:
    return tuple([word for value in instruction.args for word in writer.words(value)])


def _again(writer: Writer, instruction: Instruction) -> Words:
    """Every register XOR a zero of which the compiler does not know."""
    value, other = instruction.args
    assert value.dtype is not None
    number = writer.text(other)
    number = number if other.dtype is I32 else f"as_type<int>({number})"
    zero, helper = writer.numbered("zero"), writer.helper("hidden_zero")
    writer.line(f"const uint {zero} = {helper}({number});")
    bits = {8: "uchar", 16: "ushort", 32: "uint"}[value.dtype.bits]
    to = type_name(value.dtype, writer.target)
    text = f"as_type<{to}>({bits}(as_type<{bits}>({{}}) ^ {zero}))"
    return writer.made(instruction, [writer.words(value)], text.format)


_MAPPED = (
    "neg abs add sub mul fma div sqrt rem high min max and or xor not shl shr ushr popcount clz lt le gt ge "
    "eq ne exp2 log2 reciprocal rsqrt tanh sin cos"
)
RULES: dict[str, Rule] = {
    **dict.fromkeys(_MAPPED.split(), _map),
    "outer": _outer,
    "select": _select,
    "constant": _constant,
    "pick": _pick,
    "join": _join,
    "again": _again,
}
