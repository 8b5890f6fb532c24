"""The rules of constants, of numbers and of what is computed element by element."""

from __future__ import annotations

import math
from collections.abc import Callable

from gizml_tile.dtypes import F32, F64, I32, I64, MASK, MATHEMATICAL, U32, DType, math_dtype
from gizml_tile.nodes import (
    APPROXIMABLE,
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    COUNTS,
    RANDOM,
    UNARY_FLOAT,
    Const,
    Message,
    Node,
    Random,
    Scalar,
    Shape,
    TileProgram,
    broadcast,
    promote,
)

Rule = Callable[[Node, TileProgram], None]
_INDEX_OPS = frozenset("neg abs add sub mul div rem floordiv floormod maximum minimum select".split())
_LOGICAL = frozenset({"and_", "or_", "xor", "eq", "ne"})


def expect(node: Node, shape: Shape, dtype: DType | None) -> None:
    assert node.shape == shape and node.dtype is dtype, (
        f"{node} is {list(node.shape)} {node.dtype}, its operands give {list(shape)} {dtype}"
    )


def operands(node: Node, *counts: int) -> None:
    assert len(node.args) in counts, f"{node} has {len(node.args)} operands"
    assert bool(node.regions) == (node.op in ("loop", "cond")), f"{node}: regions"
    for arg in node.args:
        assert arg.is_index or arg.is_tile or node.op == "result", f"{node}: {arg} is no value"


def no_attribute(node: Node) -> None:
    assert node.attr is None, f"{node} has the attribute {node.attr!r}"


def dtype_of(node: Node) -> DType:
    assert node.dtype is not None, f"{node} has no type"
    return node.dtype


def expect_element(value: object, dtype: DType, node: Node) -> None:
    kind = float if dtype.is_float else bool if dtype is MASK else int
    assert type(value) is kind, f"{node}: {value!r} is no element of {dtype}"


def expect_shape(node: Node, shape: Shape) -> None:
    assert len(shape) == 2 and min(shape) > 0, f"{node}: {list(shape)}"
    elements = math.prod(1 << (size - 1).bit_length() for size in shape)
    assert elements <= 1 << 20, f"{node}: {list(shape)}"


def same_kind(node: Node) -> tuple[Shape, DType]:
    """The common shape and type of operands that are all indices or all tiles."""
    indices = [arg.is_index for arg in node.args]
    assert all(indices) or not any(indices), f"{node} mixes indices and tiles"
    shape = broadcast(*(arg.shape for arg in node.args))
    assert shape is not None, f"{node}: {[list(arg.shape) for arg in node.args]}"
    dtype = math_dtype(dtype_of(node.args[0]))
    for arg in node.args[1:]:
        common = promote(dtype, dtype_of(arg))
        assert common is not None, f"{node}: {[str(arg.dtype) for arg in node.args]}"
        dtype = common
    return shape, dtype


def _index(node: Node, program: TileProgram) -> None:
    operands(node, 0)
    assert type(node.attr) is int and -(2**63) <= node.attr < 2**63, f"{node}: {node.attr!r}"
    expect(node, (), I64)


def _axis_leaf(node: Node, program: TileProgram) -> None:
    operands(node, 0)
    assert type(node.attr) is int and 0 <= node.attr <= 2, f"{node}: axis {node.attr!r}"
    expect(node, (), I64)


def _size(node: Node, program: TileProgram) -> None:
    operands(node, 0)
    assert isinstance(node.attr, tuple)
    tensor, axis = node.attr
    assert 0 <= axis < program.tensors[tensor].rank, f"{node}: axis {axis}"
    expect(node, (), I64)


def _scalar(node: Node, program: TileProgram) -> None:
    operands(node, 0)
    assert isinstance(node.attr, Scalar) and node.attr in program.scalars, f"{node}: {node.attr!r}"
    assert node.attr.dtype in (I64, F32), f"{node}: {node.attr.dtype}"
    expect(node, node.attr.shape, node.attr.dtype)


def _const(node: Node, program: TileProgram) -> None:
    operands(node, 0)
    assert isinstance(node.attr, Const)
    expect_shape(node, node.attr.shape)
    expect_element(node.attr.value, node.attr.dtype, node)
    expect(node, node.attr.shape, node.attr.dtype)


def _iota(node: Node, program: TileProgram) -> None:
    operands(node, 0)
    assert isinstance(node.attr, Const) and node.attr.value in (0, 1), f"{node}: {node.attr!r}"
    assert node.attr.dtype is not MASK, f"{node} counts in masks"
    expect_shape(node, node.attr.shape)
    expect(node, node.attr.shape, node.attr.dtype)


def _value(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    assert node.args[0].is_index and node.attr in MATHEMATICAL, f"{node}: {node.attr!r}"
    assert isinstance(node.attr, DType)
    expect(node, (1, 1), node.attr)


def _random(node: Node, program: TileProgram) -> None:
    operands(node, 2)
    assert isinstance(node.attr, Random) and node.attr.kind in RANDOM, f"{node}: {node.attr!r}"
    seed, counters = node.args
    assert seed.shape == (1, 1) and seed.dtype is I64, f"{node}: seed {seed}"
    assert counters.is_tile and dtype_of(counters).is_integer, f"{node}: counters {counters}"
    rows, columns = node.attr.shape
    groups = (rows, -(-columns // 4))
    assert broadcast(counters.shape, groups) == groups, f"{node}: counters {counters}"
    expect_shape(node, node.attr.shape)
    expect(node, node.attr.shape, U32 if node.attr.kind == "bits" else F32)


def _negation(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    no_attribute(node)
    dtype = dtype_of(node.args[0])
    assert dtype is not MASK, f"{node} of a mask"
    assert node.op == "neg" or not dtype.is_unsigned, f"{node} of {dtype}, which is its own size"
    expect(node, node.args[0].shape, math_dtype(dtype))


def _float_function(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    (a,) = node.args
    assert a.is_tile and dtype_of(a).is_float, f"{node} of {a}"
    if node.op in APPROXIMABLE:
        assert type(node.attr) is bool, f"{node}: {node.attr!r}"
    else:
        no_attribute(node)
    expect(node, a.shape, math_dtype(dtype_of(a)))


def _to(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    (a,) = node.args
    assert a.is_tile and isinstance(node.attr, DType), f"{node} of {a}"
    assert node.attr is not MASK or a.dtype is MASK, f"{node} makes a mask of {a}"
    expect(node, a.shape, node.attr)


def _bitcast(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    (a,) = node.args
    assert a.is_tile and isinstance(node.attr, DType), f"{node} of {a}"
    assert MASK not in (a.dtype, node.attr) and dtype_of(a).bits == node.attr.bits, f"{node} of {a}"
    expect(node, a.shape, node.attr)


def _count(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    no_attribute(node)
    (a,) = node.args
    assert a.is_tile and dtype_of(a).is_integer, f"{node} of {a}"
    expect(node, a.shape, math_dtype(dtype_of(a)))


def _arithmetic(node: Node, program: TileProgram) -> None:
    operands(node, 2)
    no_attribute(node)
    shape, dtype = same_kind(node)
    assert dtype is not MASK, f"{node} of masks"
    assert node.op in _INDEX_OPS or shape, f"{node} of indices"
    if shape and node.op == "div":
        assert dtype.is_float, f"{node} of integers"
    if shape and node.op == "floordiv":
        assert dtype.is_integer, f"{node} of floats"
    expect(node, shape, dtype)


def _power(node: Node, program: TileProgram) -> None:
    operands(node, 2)
    assert type(node.attr) is bool, f"{node}: {node.attr!r}"
    shape, dtype = same_kind(node)
    assert shape and dtype in (F32, F64), f"{node} of {dtype}"
    expect(node, shape, dtype)


def _high(node: Node, program: TileProgram) -> None:
    operands(node, 2)
    assert type(node.attr) is bool, f"{node}: {node.attr!r}"
    shape, dtype = same_kind(node)
    assert shape and dtype in (I32, U32), f"{node} of {dtype}"
    expect(node, shape, dtype)


def _bits(node: Node, program: TileProgram) -> None:
    operands(node, 2)
    no_attribute(node)
    shape, dtype = same_kind(node)
    assert shape, f"{node} of indices"
    assert dtype.is_integer or (dtype is MASK and node.op in _LOGICAL), f"{node} of {dtype}"
    expect(node, shape, dtype)


def _inversion(node: Node, program: TileProgram) -> None:
    operands(node, 1)
    no_attribute(node)
    (a,) = node.args
    assert a.is_tile and not dtype_of(a).is_float, f"{node} of {a}"
    expect(node, a.shape, math_dtype(dtype_of(a)))


def _comparison(node: Node, program: TileProgram) -> None:
    operands(node, 2)
    no_attribute(node)
    shape, dtype = same_kind(node)
    assert dtype is not MASK or node.op in _LOGICAL, f"{node} of masks"
    expect(node, shape or (1, 1), MASK)


def _select(node: Node, program: TileProgram) -> None:
    operands(node, 3)
    no_attribute(node)
    mask, yes, no = node.args
    assert mask.dtype is MASK, f"{node}: {mask} is no mask"
    if yes.is_index or no.is_index:
        assert yes.is_index and no.is_index and mask.shape == (1, 1), f"{node}: {node.args}"
        expect(node, (), I64)
        return
    shape = broadcast(mask.shape, yes.shape, no.shape)
    assert shape is not None, f"{node}: {[list(arg.shape) for arg in node.args]}"
    dtype = yes.dtype if yes.dtype is no.dtype else promote(dtype_of(yes), dtype_of(no))
    assert dtype is not None, f"{node}: {yes.dtype} and {no.dtype}"
    expect(node, shape, dtype)


def _fma(node: Node, program: TileProgram) -> None:
    operands(node, 3)
    shape, dtype = same_kind(node)
    assert shape and dtype in (F32, F64), f"{node} of {dtype}"
    assert isinstance(node.attr, tuple) and [type(each) for each in node.attr] == [bool, bool], (
        f"{node}: {node.attr!r}"
    )
    expect(node, shape, dtype)


def _print(node: Node, program: TileProgram) -> None:
    operands(node, len(node.args))
    assert isinstance(node.attr, Message), f"{node} has no message"
    assert node.attr.words.count(None) == len(node.args), f"{node}: {node.attr}"
    expect(node, (), None)


def _assertion(node: Node, program: TileProgram) -> None:
    operands(node, 1, 2)
    assert isinstance(node.attr, Message), f"{node} has no message"
    mask, *value = node.args
    assert mask.dtype is MASK, f"{node}: {mask} is no mask"
    for each in value:
        assert each.is_tile and broadcast(each.shape, mask.shape) == mask.shape, f"{node}: {each}"
    expect(node, (), None)


RULES: dict[str, Rule] = {
    "index": _index,
    "id": _axis_leaf,
    "count": _axis_leaf,
    "size": _size,
    "scalar": _scalar,
    "const": _const,
    "iota": _iota,
    "value": _value,
    "neg": _negation,
    "abs": _negation,
    "to": _to,
    "bitcast": _bitcast,
    "random": _random,
    "pow": _power,
    "mulhi": _high,
    "not_": _inversion,
    "select": _select,
    "fma": _fma,
    "print": _print,
    "check": _assertion,
    **dict.fromkeys(UNARY_FLOAT, _float_function),
    **dict.fromkeys(COUNTS, _count),
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    **dict.fromkeys(BITWISE, _bits),
    **dict.fromkeys(COMPARISONS, _comparison),
}
