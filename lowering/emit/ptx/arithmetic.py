"""Mathematics, register by register: a mnemonic for each operation and type."""

from __future__ import annotations

from gizml_tile.dtypes import BF16, F16, F32, F64, I32, I64, MASK, U32, U64, DType
from gizml_tile.lowering.emit.ptx.packing import stretched
from gizml_tile.lowering.emit.ptx.writer import Rule, Words, Writer
from gizml_tile.lowering.kernel_ir.instructions import COMPARISONS, Instruction

# Rounding is spelled out: add.f32 without it may be contracted with a product.
_FLOAT = {
    "neg": "neg.f32",
    "abs": "abs.f32",
    "add": "add.rn.f32",
    "sub": "sub.rn.f32",
    "mul": "mul.rn.f32",
    "fma": "fma.rn.f32",
    "div": "div.rn.f32",
    "sqrt": "sqrt.rn.f32",
    # PTX: a NaN loses against a number, and +0 is above -0.
    "min": "min.f32",
    "max": "max.f32",
    "minimum": "min.NaN.f32",
    "maximum": "max.NaN.f32",
    "lt": "setp.lt.f32",
    "le": "setp.le.f32",
    "gt": "setp.gt.f32",
    "ge": "setp.ge.f32",
    "eq": "setp.eq.f32",
    "ne": "setp.neu.f32",
    # What is below 2^-126 is 0 for exp2 and reciprocal: scaling around it would cost more instructions
    # than the operation. The others keep subnormals, whose logarithm or root is an ordinary number.
    "exp2": "ex2.approx.ftz.f32",
    "log2": "lg2.approx.f32",
    "reciprocal": "rcp.approx.ftz.f32",
    "rsqrt": "rsqrt.approx.f32",
    "tanh": "tanh.approx.f32",
    "sin": "sin.approx.f32",
    "cos": "cos.approx.f32",
}
# What F64 has of these.
_DOUBLE = "neg abs add sub mul fma div sqrt min max lt le gt ge eq ne".split()
# What F16 and BF16 have, of both halves of a word.
_EXTREMES = "min max minimum maximum".split()
_INTEGER = {
    "neg": "neg.s{}",
    "abs": "abs.s{}",
    "add": "add.s{}",
    "sub": "sub.s{}",
    "mul": "mul.lo.s{}",
    "fma": "mad.lo.s{}",
    "div": "div.s{}",
    "rem": "rem.s{}",
    "high": "mul.hi.u{}",
    "min": "min.s{}",
    "max": "max.s{}",
    "and": "and.b{}",
    "or": "or.b{}",
    "xor": "xor.b{}",
    "not": "not.b{}",
    "shl": "shl.b{}",
    "shr": "shr.s{}",
    "ushr": "shr.u{}",
    "lt": "setp.lt.s{}",
    "le": "setp.le.s{}",
    "gt": "setp.gt.s{}",
    "ge": "setp.ge.s{}",
    "eq": "setp.eq.s{}",
    "ne": "setp.ne.s{}",
}
# A difference is the same with and without a sign, but negation is of numbers with one.
_UNSIGNED = {op: text if op == "neg" else text.replace(".s{}", ".u{}") for op, text in _INTEGER.items()}
_BITS = {"and": "and.b32", "or": "or.b32", "xor": "xor.b32", "not": "not.b32"}
_PREDICATE = {"and": "and.pred", "or": "or.pred", "xor": "xor.pred", "not": "not.pred", "ne": "xor.pred"}
_MNEMONICS = {
    F32: _BITS | _FLOAT,
    F64: {op: _FLOAT[op].replace("f32", "f64") for op in _DOUBLE},
    I32: {op: text.format(32) for op, text in _INTEGER.items()},
    I64: {op: text.format(64) for op, text in _INTEGER.items()},
    U32: {op: text.format(32) for op, text in _UNSIGNED.items()},
    U64: {op: text.format(64) for op, text in _UNSIGNED.items()},
    MASK: _PREDICATE,
    **{
        dtype: _BITS | {op: _FLOAT[op].replace("f32", f"{dtype.text}x2") for op in _EXTREMES}
        for dtype in (F16, BF16)
    },
}


def mnemonic(op: str, dtype: DType) -> str:
    """PTX's name of an operation on a type; types under 32 bits have the operations on bits alone."""
    found = _MNEMONICS.get(dtype, _BITS).get(op)
    if found is None:
        raise LookupError(f"PTX has no entry for the instruction {op!r} on {dtype}")
    return found


def _map(writer: Writer, instruction: Instruction) -> Words:
    """One instruction for each register, or for each word of packed ones."""
    op, args, count = instruction.op, instruction.args, instruction.count
    assert args[0].dtype is not None
    text = mnemonic(op, args[0].dtype)
    made = writer.registers("p", count) if op in COMPARISONS else writer.target(instruction, args)
    columns = [stretched(writer, arg, count) for arg in args]
    if len(columns) == 2:
        lines = [f"{text} {out}, {a}, {b};" for out, a, b in zip(made, *columns, strict=True)]
    elif len(columns) == 1:
        lines = [f"{text} {out}, {a};" for out, a in zip(made, *columns, strict=True)]
    else:
        lines = [f"{text} {out}, {a}, {b}, {c};" for out, a, b, c in zip(made, *columns, strict=True)]
    writer.lines += lines
    return made


def _shift(writer: Writer, instruction: Instruction) -> Words:
    """Shifts: PTX counts in 32 bits whatever it shifts."""
    value, amount = instruction.args
    assert value.dtype is not None and instruction.dtype is not None
    text = mnemonic(instruction.op, value.dtype)
    made = writer.fresh(instruction.dtype, instruction.count)
    values = stretched(writer, value, instruction.count)
    amounts = stretched(writer, amount, instruction.count)
    if amount.dtype in (I64, U64):
        amounts = tuple([low_half(writer, word) for word in amounts])
    writer.lines += [f"{text} {out}, {a}, {b};" for out, a, b in zip(made, values, amounts, strict=True)]
    return made


def low_half(writer: Writer, word: str) -> str:
    """The lower 32 bits of a 64-bit word."""
    if word[0] != "%":
        return word
    made = writer.register("r")
    writer.lines.append(f"cvt.u32.u64 {made}, {word};")
    return made


def _equal(writer: Writer, instruction: Instruction) -> Words:
    if instruction.args[0].dtype is not MASK:
        return _map(writer, instruction)
    made = writer.registers("p", instruction.count)
    a, b = (stretched(writer, arg, instruction.count) for arg in instruction.args)
    for out, one, other in zip(made, a, b, strict=True):
        writer.lines += (f"xor.pred {out}, {one}, {other};", f"not.pred {out}, {out};")
    return made


def _count(writer: Writer, instruction: Instruction) -> Words:
    """Counts of bits: PTX gives them in 32 bits whatever they are of."""
    (value,) = instruction.args
    assert value.dtype is not None
    text = {"popcount": "popc", "clz": "clz"}[instruction.op]
    counts = writer.registers("r", instruction.count)
    words = stretched(writer, value, instruction.count)
    writer.lines += [
        f"{text}.b{value.dtype.bits} {out}, {word};" for out, word in zip(counts, words, strict=True)
    ]
    if value.dtype.bits < I64.bits:
        return counts
    wide = writer.registers("d", instruction.count)
    writer.lines += [f"cvt.u64.u32 {out}, {count};" for out, count in zip(wide, counts, strict=True)]
    return wide


_MAPPED = (
    "neg abs add sub mul fma div sqrt rem high min max minimum maximum and or xor not lt le gt "
    "ge ne exp2 log2 reciprocal rsqrt tanh sin cos"
)
RULES: dict[str, Rule] = {
    **dict.fromkeys(_MAPPED.split(), _map),
    **dict.fromkeys("shl shr ushr".split(), _shift),
    "eq": _equal,
    **dict.fromkeys(("popcount", "clz"), _count),
}
