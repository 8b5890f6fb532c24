"""The rules of leaves, registers and mathematics."""

from __future__ import annotations

from collections.abc import Callable

from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    F64,
    FP8,
    I8,
    I16,
    I32,
    I64,
    MASK,
    U8,
    U16,
    U32,
    U64,
    DType,
    integer_range,
)
from gizml_tile.lowering.kernel_ir.instructions import COMPARISONS, Instruction, Kernel, Parameter
from gizml_tile.target import Target

Rule = Callable[[Instruction, Kernel], None]


def operands(i: Instruction, *counts: int) -> None:
    """An instruction has one of some numbers of operands, all with values but for results."""
    assert len(i.args) in counts, f"{i} has {len(i.args)} operands"
    if i.op != "result":
        for arg in i.args:
            assert arg.dtype is not None, f"{i} uses {arg}, which has no value"


def expect(i: Instruction, dtype: DType | None, count: int = 0) -> None:
    """An instruction's value has a type and a number of registers."""
    assert (i.dtype, i.count) == (dtype, count), f"{i} is {dtype} x {count}"


def _leaf(dtype: DType, *, axis: bool = False) -> Rule:
    def rule(i: Instruction, kernel: Kernel) -> None:
        operands(i, 0)
        expect(i, dtype, 1)
        if axis:
            assert type(i.attr) is int and 0 <= i.attr < 3, f"{i}: axis {i.attr!r}"
        else:
            assert i.attr is None, f"{i}: {i.attr!r}"

    return rule


def _constant(i: Instruction, kernel: Kernel) -> None:
    operands(i, 0)
    assert i.dtype is not None, f"{i} has no type"
    numbers = i.attr if isinstance(i.attr, tuple) else (i.attr,)
    assert i.count == len(numbers), f"{i}: {len(numbers)} numbers"
    for number in numbers:
        if i.dtype is MASK:
            assert type(number) is bool, f"{i}: {number!r}"
        elif i.dtype.is_float:
            assert type(number) in (int, float), f"{i}: {number!r}"
        else:
            low, high = integer_range(i.dtype)
            assert type(number) is int and low <= number <= high, f"{i}: {number!r}"


def _param(i: Instruction, kernel: Kernel) -> None:
    raise AssertionError(f"{i} is no block's parameter")


def _parameter(i: Instruction, kernel: Kernel) -> None:
    operands(i, 0)
    parameter = i.attr
    assert isinstance(parameter, Parameter), f"{i}: {parameter!r}"
    assert parameter in kernel.parameters, f"{i}: {parameter} is not passed"
    kind = parameter.kind
    assert kind in ("pointer", "size", "stride", "scalar", "grid"), f"{i}: {parameter}"
    assert i.dtype is I64 or (i.dtype is F32 and kind == "scalar"), f"{i} of a {kind}"
    expect(i, i.dtype, 1)
    if kind in ("pointer", "size", "stride"):
        assert 0 <= parameter.number < len(kernel.tensors), f"{i}: {parameter}"
        rank = kernel.tensors[parameter.number].rank
        assert kind == "pointer" or 0 <= parameter.axis < rank, f"{i}: {parameter} of rank {rank}"


def _pick(i: Instruction, kernel: Kernel) -> None:
    operands(i, 1)
    (a,) = i.args
    assert isinstance(i.attr, tuple), f"{i}: {i.attr!r}"
    for register in i.attr:
        assert type(register) is int and 0 <= register < a.count, f"{i}: register {register!r} of {a}"
    expect(i, a.dtype, len(i.attr))


def _join(i: Instruction, kernel: Kernel) -> None:
    operands(i, *range(1, len(i.args) + 1))
    assert i.attr is None, f"{i}: {i.attr!r}"
    assert len({arg.dtype for arg in i.args}) == 1, f"{i} joins {list(i.args)}"
    expect(i, i.args[0].dtype, sum(arg.count for arg in i.args))


def _bitcast(i: Instruction, kernel: Kernel) -> None:
    operands(i, 1)
    (a,) = i.args
    assert a.dtype is not None and i.dtype is not None
    assert MASK not in (a.dtype, i.dtype) and a.dtype.bits == i.dtype.bits, f"{i} of {a}"
    expect(i, i.dtype, a.count)


def _again(i: Instruction, kernel: Kernel) -> None:
    operands(i, 2)
    value, other = i.args
    assert other.dtype in (F32, I32) and other.count == 1, f"{i} once {other} is there"
    assert value.dtype is not None and value.dtype is not MASK and value.dtype.bits < 64, f"{i} of {value}"
    expect(i, value.dtype, value.count)


# The integers that mathematics is done in.
_INTEGERS = (I32, I64, U32, U64)

# What is asked of a target, by source and type.
_CONVERSIONS: dict[tuple[DType, DType], str] = {
    (F16, F32): "",
    (F32, F16): "",
    (BF16, F32): "",
    (F32, BF16): "bf16_convert",
    (FP8, F32): "fp8_convert",
    (F32, FP8): "fp8_convert",
    (FP8, F16): "fp8_convert",
    (E5M2, F16): "",
    (F32, F64): "f64",
    (F64, F32): "f64",
    **{(each, F64): "f64" for each in _INTEGERS},
    **{(F64, each): "f64" for each in _INTEGERS},
    **{(each, I32): "" for each in (I8, U8, I16, U16, I64)},
    **{(I32, each): "" for each in (I8, U8, I16, U16, I64)},
    (U32, I64): "",
    **{(F32, each): "" for each in (I8, U8, I16, U16, *_INTEGERS)},
    **{(each, F32): "" for each in _INTEGERS},
}


def is_convertible(target: Target, source: DType, dtype: DType) -> bool:
    """Whether a target has an instruction that converts one type to another."""
    needs = _CONVERSIONS.get((source, dtype))
    return needs is not None and (not needs or target.can(needs))


def _convert(i: Instruction, kernel: Kernel) -> None:
    operands(i, 1)
    (a,) = i.args
    assert a.dtype is not None and i.dtype is not None
    assert is_convertible(kernel.target, a.dtype, i.dtype), f"{i} of {a}"
    expect(i, i.dtype, a.count)


def _elementwise(arity: int, *dtypes: DType, ability: str = "", gives: DType | None = None) -> Rule:
    def rule(i: Instruction, kernel: Kernel) -> None:
        operands(i, arity)
        assert i.attr is None, f"{i}: {i.attr!r}"
        assert not ability or kernel.target.can(ability), f"{kernel.target} has no {i.op}"
        dtype = i.args[0].dtype
        assert dtype in dtypes, f"{i} of {dtype}"
        for arg in i.args:
            assert arg.dtype is dtype and arg.count in (1, i.count), f"{i} of {list(i.args)}"
        assert i.count == max(arg.count for arg in i.args), f"{i} of {list(i.args)}"
        expect(i, gives or dtype, i.count)

    return rule


def _select(i: Instruction, kernel: Kernel) -> None:
    operands(i, 3)
    mask, yes, no = i.args
    assert mask.dtype is MASK, f"{i}: mask {mask}"
    assert yes.dtype is no.dtype and yes.dtype is not MASK, f"{i} of {yes} and {no}"
    count = max(arg.count for arg in i.args)
    assert all(arg.count in (1, count) for arg in i.args), f"{i} of {list(i.args)}"
    expect(i, yes.dtype, count)


def _extreme(*dtypes: DType, ability: str = "") -> Rule:
    def rule(i: Instruction, kernel: Kernel) -> None:
        packed = any(arg.dtype in (F16, BF16) for arg in i.args)
        _elementwise(2, F16, BF16, *dtypes, ability="extremes_16" if packed else ability)(i, kernel)

    return rule


RULES: dict[str, Rule] = {
    "constant": _constant,
    "param": _param,
    **{op: _leaf(I32) for op in ("thread", "lane", "warp", "rank")},
    **{op: _leaf(I32, axis=True) for op in ("workgroup", "workgroups")},
    "parameter": _parameter,
    "pick": _pick,
    "join": _join,
    "bitcast": _bitcast,
    "again": _again,
    "convert": _convert,
    "neg": _elementwise(1, F32, F64, *_INTEGERS),
    "abs": _elementwise(1, F32, F64, I32, I64),
    **{op: _elementwise(2, F32, F64, *_INTEGERS) for op in ("add", "sub", "mul", "div")},
    **{op: _extreme(F32, F64, *_INTEGERS) for op in ("min", "max")},
    **{op: _extreme(F32, ability="nan_minimum") for op in ("minimum", "maximum")},
    "fma": _elementwise(3, F32, F64, I32),
    "sqrt": _elementwise(1, F32, F64),
    "rem": _elementwise(2, *_INTEGERS),
    "high": _elementwise(2, I32, U32),
    **{op: _elementwise(2, *_INTEGERS, MASK) for op in ("and", "or", "xor")},
    "not": _elementwise(1, *_INTEGERS, MASK),
    "shr": _elementwise(2, I32, I64),
    **{op: _elementwise(2, *_INTEGERS) for op in ("shl", "ushr")},
    **{op: _elementwise(2, F32, F64, *_INTEGERS, gives=MASK) for op in COMPARISONS},
    "select": _select,
    **{op: _elementwise(1, *_INTEGERS) for op in ("popcount", "clz")},
    **{
        op: _elementwise(1, F32, ability="exp2_f32")
        for op in ("exp2", "log2", "reciprocal", "rsqrt", "sin", "cos")
    },
    "tanh": _elementwise(1, F32, ability="tanh_f32"),
}
