"""Mathematics, register by register: an instruction or an intrinsic for each operation and type.

Nothing carries a flag that would let LLVM contract, reassociate or approximate. What LLVM leaves undefined
(a quotient by zero, or of the smallest integer by -1) is kept away from it, since it would draw conclusions.
"""

from __future__ import annotations

from collections.abc import Callable

from gizml_tile.dtypes import F32, I32, I64
from gizml_tile.lowering.emit.amdgpu.literals import literal
from gizml_tile.lowering.emit.amdgpu.writer import Rule, Words, Writer, kind_of
from gizml_tile.lowering.kernel_ir.instructions import Instruction

_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul"}
_FLOAT_CALLS = {
    # On these GPUs a NaN loses against a number, and +0 is above -0.
    "min": "llvm.minnum",
    "max": "llvm.maxnum",
    "exp2": "llvm.exp2.f32",
    "log2": "llvm.log2.f32",
    "reciprocal": "llvm.amdgcn.rcp.f32",
    "rsqrt": "llvm.amdgcn.rsq.f32",
    "sin": "llvm.amdgcn.sin.f32",
    "cos": "llvm.amdgcn.cos.f32",
}
_INTEGER = {op: op for op in ("add", "sub", "mul", "and", "or", "xor", "shl")}
_INTEGER |= {"shr": "ashr", "ushr": "lshr"}
_INTEGER_CALLS = {"min": "llvm.smin", "max": "llvm.smax"}
_UNSIGNED_CALLS = {"min": "llvm.umin", "max": "llvm.umax"}
_FLOAT_COMPARISONS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_INTEGER_COMPARISONS = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_UNSIGNED_COMPARISONS = {op: text.replace("s", "u") for op, text in _INTEGER_COMPARISONS.items()}

# The suffixes of intrinsics of floats.
_FLOAT_KINDS = {"float": "f32", "double": "f64"}

# One register's value from its operands' words.
Scalar = Callable[[Writer, str, tuple[str, ...]], str]


def _mapped(signed: Scalar, unsigned: Scalar | None = None) -> Rule:
    """A rule that does one thing for each register, maybe another for integers without sign."""

    def rule(writer: Writer, instruction: Instruction) -> Words:
        dtype, kind = instruction.args[0].dtype, kind_of(instruction.args[0])
        assert dtype is not None
        scalar = signed if unsigned is None or not dtype.is_unsigned else unsigned
        columns = [writer.stretched(arg, instruction.count) for arg in instruction.args]
        return tuple([scalar(writer, kind, words) for words in zip(*columns, strict=True)])

    return rule


def _binary(op: str) -> Scalar:
    def scalar(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
        mnemonic = (_FLOAT if kind in _FLOAT_KINDS else _INTEGER)[op]
        return writer.value(f"{mnemonic} {kind} {words[0]}, {words[1]}")

    return scalar


def _compare(op: str) -> Scalar:
    def scalar(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
        if kind in _FLOAT_KINDS:
            return writer.value(f"fcmp {_FLOAT_COMPARISONS[op]} {kind} {words[0]}, {words[1]}")
        return writer.value(f"icmp {_INTEGER_COMPARISONS[op]} {kind} {words[0]}, {words[1]}")

    return scalar


def _unsigned(text: str) -> Scalar:
    """An instruction of two integers without sign."""
    return lambda writer, kind, words: writer.value(f"{text} {kind} {words[0]}, {words[1]}")


def _unsigned_extreme(op: str) -> Scalar:
    return lambda writer, kind, words: writer.call(
        f"{_UNSIGNED_CALLS[op]}.{kind}", *[(kind, word) for word in words]
    )


def _unsigned_division(op: str) -> Scalar:
    """A quotient or remainder, by 1 in place of 0."""

    def scalar(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
        divisor = words[1]
        if divisor[0] == "%" or divisor == "0":
            nothing = writer.value(f"icmp eq {kind} {divisor}, 0")
            divisor = writer.value(f"select i1 {nothing}, {kind} 1, {kind} {divisor}")
        return writer.value(f"{op} {kind} {words[0]}, {divisor}")

    return scalar


def _extreme(op: str) -> Scalar:
    def scalar(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
        name = _FLOAT_CALLS[op] if kind in _FLOAT_KINDS else _INTEGER_CALLS[op]
        suffix = _FLOAT_KINDS.get(kind, kind)
        return writer.call(f"{name}.{suffix}", *[(kind, word) for word in words])

    return scalar


def _negated(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
    return writer.value(f"fneg {kind} {words[0]}" if kind in _FLOAT_KINDS else f"sub {kind} 0, {words[0]}")


def _absolute(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
    if kind in _FLOAT_KINDS:
        return writer.call(f"llvm.fabs.{_FLOAT_KINDS[kind]}", (kind, words[0]))
    return writer.call(f"llvm.abs.{kind}", (kind, words[0]), ("i1", "false"))


def fused(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
    """``a * b + c`` of one register: rounded once, or wrapping."""
    if kind in _FLOAT_KINDS:
        return writer.call(f"llvm.fma.{_FLOAT_KINDS[kind]}", *[(kind, word) for word in words])
    product = writer.value(f"mul {kind} {words[0]}, {words[1]}")
    return writer.value(f"add {kind} {product}, {words[2]}")


def _complement(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
    return writer.value(f"xor {kind} {words[0]}, {'true' if kind == 'i1' else '-1'}")


def _divided(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
    if kind in _FLOAT_KINDS:
        return writer.value(f"fdiv {kind} {words[0]}, {words[1]}")
    safe, opposite = _divisor(writer, kind, words[1])
    quotient = writer.value(f"sdiv {kind} {words[0]}, {safe}")
    if not opposite:
        return quotient
    negated = writer.value(f"sub {kind} 0, {words[0]}")
    return writer.value(f"select i1 {opposite}, {kind} {negated}, {kind} {quotient}")


def _remainder(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
    # By -1 as by the 1 that stands for it there is none.
    safe, _ = _divisor(writer, kind, words[1])
    return writer.value(f"srem {kind} {words[0]}, {safe}")


def _divisor(writer: Writer, kind: str, word: str) -> tuple[str, str]:
    """The divisor with 1 in place of 0 and -1, and whether it is -1: nothing if it cannot be."""
    if word[0] != "%" and word not in ("0", "-1"):
        return word, ""
    opposite = writer.value(f"icmp eq {kind} {word}, -1")
    nothing = writer.value(f"icmp eq {kind} {word}, 0")
    strange = writer.value(f"or i1 {opposite}, {nothing}")
    return writer.value(f"select i1 {strange}, {kind} 1, {kind} {word}"), opposite


def _high(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
    wide = [writer.value(f"zext i32 {word} to i64") for word in words]
    product = writer.value(f"mul i64 {wide[0]}, {wide[1]}")
    upper = writer.value(f"lshr i64 {product}, 32")
    return writer.value(f"trunc i64 {upper} to i32")


def _approximate(op: str) -> Scalar:
    return lambda writer, kind, words: writer.call(_FLOAT_CALLS[op], (kind, words[0]))


_TURN = literal(0.15915493667125702, F32)


def _turning(op: str) -> Scalar:
    """The unit counts in turns."""

    def scalar(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
        turns = writer.value(f"fmul float {words[0]}, {_TURN}")
        return writer.call(_FLOAT_CALLS[op], ("float", turns))

    return scalar


def _counted(op: str) -> Scalar:
    def scalar(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
        flag = [("i1", "false")] if op == "clz" else []
        name = {"popcount": "ctpop", "clz": "ctlz"}[op]
        return writer.call(f"llvm.{name}.{kind}", (kind, words[0]), *flag)

    return scalar


# Numbers below this are scaled up before their root is taken, so that what is left over of it is exact.
_SMALL = literal(2.0**-96, F32)
_UP, _DOWN = literal(2.0**32, F32), literal(2.0**-16, F32)
_ZERO, _INFINITY = literal(0.0, F32), literal(float("inf"), F32)


def _root(writer: Writer, kind: str, words: tuple[str, ...]) -> str:
    """The square root, correctly rounded whatever the version of LLVM: some take the unit's own for it.

    The unit's root is at most one step away; its neighbours are chosen where what is left over of the
    number says so. Zeros, infinity and NaN are their own roots, as is what comes of negative numbers.
    """
    (number,) = words
    if kind == "double":
        # Of F64 there is no unit that LLVM could take for it.
        return writer.call("llvm.sqrt.f64", (kind, number))
    small = writer.value(f"fcmp olt float {number}, {_SMALL}")
    scaled = writer.value(f"fmul float {number}, {_UP}")
    x = writer.value(f"select i1 {small}, float {scaled}, float {number}")
    root = writer.call("llvm.amdgcn.sqrt.f32", ("float", x))
    pattern = writer.value(f"bitcast float {root} to i32")
    better = root
    for step, relation in ((-1, "ole"), (1, "ogt")):
        moved = writer.value(f"add i32 {pattern}, {step}")
        neighbour = writer.value(f"bitcast i32 {moved} to float")
        negated = writer.value(f"fneg float {neighbour}")
        left = writer.call("llvm.fma.f32", ("float", negated), ("float", root), ("float", x))
        chosen = writer.value(f"fcmp {relation} float {left}, {_ZERO}")
        better = writer.value(f"select i1 {chosen}, float {neighbour}, float {better}")
    lowered = writer.value(f"fmul float {better}, {_DOWN}")
    result = writer.value(f"select i1 {small}, float {lowered}, float {better}")
    positive = writer.value(f"fcmp ogt float {x}, {_ZERO}")
    finite = writer.value(f"fcmp olt float {x}, {_INFINITY}")
    ordinary = writer.value(f"and i1 {positive}, {finite}")
    return writer.value(f"select i1 {ordinary}, float {result}, float {root}")


def _shift(op: str) -> Rule:
    """Shifts: LLVM counts in the type that it shifts."""

    def rule(writer: Writer, instruction: Instruction) -> Words:
        value, amount = instruction.args
        kind = kind_of(value)
        amounts = writer.words(amount)
        if amount.dtype is not value.dtype and amount.dtype in (I32, I64):
            change = "trunc i64" if amount.dtype is I64 else "zext i32"
            amounts = tuple(
                [word if word[0] != "%" else writer.value(f"{change} {word} to {kind}") for word in amounts]
            )
        amounts = amounts * (instruction.count // len(amounts))
        values = writer.stretched(value, instruction.count)
        return tuple(
            [writer.value(f"{_INTEGER[op]} {kind} {a}, {b}") for a, b in zip(values, amounts, strict=True)]
        )

    return rule


RULES: dict[str, Rule] = {
    **{op: _mapped(_binary(op)) for op in ("add", "sub", "mul", "and", "or", "xor")},
    **{op: _mapped(_compare(op), _unsigned(f"icmp {text}")) for op, text in _UNSIGNED_COMPARISONS.items()},
    **{op: _mapped(_extreme(op), _unsigned_extreme(op)) for op in ("min", "max")},
    **{op: _mapped(_approximate(op)) for op in ("exp2", "log2", "reciprocal", "rsqrt")},
    **{op: _shift(op) for op in ("shl", "shr", "ushr")},
    **{op: _mapped(_turning(op)) for op in ("sin", "cos")},
    **{op: _mapped(_counted(op)) for op in ("popcount", "clz")},
    "neg": _mapped(_negated),
    "abs": _mapped(_absolute),
    "fma": _mapped(fused),
    "not": _mapped(_complement),
    "div": _mapped(_divided, _unsigned_division("udiv")),
    "rem": _mapped(_remainder, _unsigned_division("urem")),
    "high": _mapped(_high),
    "sqrt": _mapped(_root),
}
