"""Folding: constants, identities that keep every bit, and branches and loops known to do nothing."""

from __future__ import annotations

import math

from gizml_tile.dtypes import F32, F64, I64, MASK, DType, math_dtype
from gizml_tile.lowering.tile_passes.addresses import fold_places
from gizml_tile.lowering.tile_passes.constants import compare, convert, evaluate, wrap
from gizml_tile.lowering.tile_passes.rewriting import Emit, Rewriting
from gizml_tile.nodes import (
    COMPARISONS,
    REDUCTIONS,
    Const,
    Node,
    Reflow,
    Slice,
    Steps,
    TileProgram,
    make,
    slices,
)
from gizml_tile.rounding import Number

_DIVISIONS = frozenset({"div", "floordiv"})
_REMAINDERS = frozenset({"rem", "floormod"})


def fold(program: TileProgram) -> TileProgram:
    """The program with what is known while compiling computed; every stored bit stays the same."""
    return Rewriting(_fold, _fold_structured).program(program)


def _fold(node: Node, emit: Emit) -> Node:
    if node.op in ("gather", "scatter"):
        return fold_places(node, emit)
    if node.op == "put":
        return node
    if node.is_index:
        return _fold_index(node, emit)
    constants = [_constant(arg) for arg in node.args]
    if node.args and all(each is not None for each in constants):
        value = _fold_constant(node, tuple([each for each in constants if each is not None]))
        if value is not None:
            return emit(_const(node, value))
    if node.op == "iota":
        assert isinstance(node.attr, Const)
        one = node.shape[int(node.attr.value)] == 1
        return emit(_const(node, 0.0 if node.attr.dtype.is_float else 0)) if one else node
    kept = _identity(node, constants, emit)
    return node if kept is None else kept


def _constant(node: Node) -> Number | None:
    """The value of a constant index or of every element of a constant tile."""
    if node.op == "const":
        assert isinstance(node.attr, Const)
        return node.attr.value
    return node.attr if node.op == "index" and isinstance(node.attr, int) else None


def _const(node: Node, value: Number) -> Node:
    """A constant with the shape and type of a node."""
    rows, columns = node.shape
    assert node.dtype is not None
    return make("const", (), Const((rows, columns), node.dtype, value), node.place)


def _fold_constant(node: Node, values: tuple[Number, ...]) -> Number | None:
    dtype, source = node.dtype, node.args[0].dtype
    assert dtype is not None and source is not None
    match node.op:
        case "value" | "to":
            return convert(values[0], source, dtype)
        case "transpose" | "reshape" | "slice":
            return values[0]
        case "concat" | "interleave":
            return values[0] if _is_equal(*values) else None
        case "select":
            chosen = node.args[1 if values[0] else 2]
            assert chosen.dtype is not None
            return convert(values[1 if values[0] else 2], chosen.dtype, dtype)
        case "max" | "min":
            return bool(values[0]) if dtype is MASK else values[0]
        case "sum":
            count = math.prod(node.args[0].shape) // math.prod(node.shape)
            if dtype.is_integer:
                return wrap(int(values[0]) * count, dtype)
            return 0.0 if values[0] == 0 else None
    if node.op in COMPARISONS:
        return compare(node.op, values[0], values[1])
    if node.op in ("dot", "read", "fma"):
        return None
    return evaluate(node.op, values, dtype)


def _identity(node: Node, constants: list[Number | None], emit: Emit) -> Node | None:
    """The value that a node is anyway; None where it has to be computed."""
    args, dtype = node.args, node.dtype
    match node.op, args:
        case "neg", (Node("neg", (x,)),) if x.dtype is dtype:
            return x
        case "abs", (Node("neg" | "abs", (x,)),) if math_dtype(_dtype(x)) is dtype:
            return emit(make("abs", (x,), None, node.place))
        case "not_", (Node("not_", (x,)),) if x.dtype is dtype:
            return x
        case "transpose", (Node("transpose", (x,)),):
            return x
        case "reshape" | "slice" | "concat", _:
            return _moved(node, emit)
        case "to" | "bitcast", (x,) if x.dtype is dtype:
            return x
        case "bitcast", (Node("bitcast", (x,)),) if x.dtype is dtype:
            return x
        case "to", (Node("to", (x,)) as wide,) if x.dtype is dtype and _holds(_dtype(wide), dtype):
            return x
        case "select", (_, yes, no):
            chosen = yes if yes is no else None if constants[0] is None else yes if constants[0] else no
            return chosen if chosen is not None and _same(chosen, node) else None
    if node.op in REDUCTIONS and node.args[0].shape == node.shape:
        if _same(args[0], node):
            return args[0]
        return emit(make("to", (args[0],), dtype, node.place))
    if len(args) != 2:
        return None
    a, b = args
    if constants[1] is not None and _same(a, node) and _right_identity(node.op, constants[1], _dtype(node)):
        return a
    if constants[0] is not None and _same(b, node) and _left_identity(node.op, constants[0], _dtype(node)):
        return b
    return _absorbed(node, constants, emit)


def _holds(wide: DType, dtype: DType | None) -> bool:
    """Whether a type holds all values of another float type."""
    floats = dtype is not None and dtype.is_float
    return floats and (wide is F64 or (wide is F32 and dtype is not F64))


def _moved(node: Node, emit: Emit) -> Node | None:
    """What moving elements comes to: those that move twice move once, and parts may be whole again."""
    first = node.args[0]
    if node.op == "reshape":
        if isinstance(node.attr, Reflow) or isinstance(first.attr, Reflow):
            return None
        if first.op == "reshape":
            (first,) = first.args
            return first if _same(first, node) else emit(make("reshape", (first,), node.attr, node.place))
        return first if _same(first, node) else None
    if node.op == "concat":
        return _whole_again(node)
    rows, columns = slices(node.attr)
    if first.op == "slice":
        before = slices(first.attr)
        rows, columns, (first,) = rows.of(before[0]), columns.of(before[1]), first.args
        again = make("slice", (first,), Slice(rows, columns), node.place)
        return first if _is_whole(again) else emit(again)
    if first.op == "concat":
        axis = first.attr
        assert isinstance(axis, int)
        for number, part in enumerate(first.args):
            beginning = number * part.shape[axis]
            wanted = [Steps.whole(size) for size in part.shape]
            wanted[axis] = Steps(beginning, 1, part.shape[axis])
            if (rows, columns) == tuple(wanted):
                return part
    return first if _is_whole(node) else None


def _is_whole(node: Node) -> bool:
    """Whether a slice takes every element in its order."""
    return slices(node.attr) == tuple(map(Steps.whole, node.args[0].shape))


def _whole_again(node: Node) -> Node | None:
    """The tile whose halves are put together again."""
    one, other = node.args
    if one.op != "slice" or other.op != "slice" or one.args != other.args or not _same(one.args[0], node):
        return None
    axis, number = node.attr, 0
    assert isinstance(axis, int)
    for part in node.args:
        wanted = [Steps.whole(size) for size in node.shape]
        wanted[axis] = Steps(number, 1, part.shape[axis])
        if slices(part.attr) != tuple(wanted):
            return None
        number += part.shape[axis]
    return one.args[0]


def _is_equal(one: Number, other: Number) -> bool:
    """Whether two constants have the same bits (any NaN is like any other)."""
    return repr(one) == repr(other)


def _dtype(node: Node) -> DType:
    assert node.dtype is not None
    return node.dtype


def _same(value: Node, node: Node) -> bool:
    return value.shape == node.shape and value.dtype is node.dtype


def _right_identity(op: str, value: Number, dtype: DType) -> bool:
    """Whether ``x op value`` is x in every bit."""
    if dtype.is_float:
        # x + 0 would make +0 of -0; x + -0 and x - 0 keep every x.
        negative = math.copysign(1, value) < 0
        match op:
            case "add":
                return value == 0 and negative
            case "sub":
                return value == 0 and not negative
            case "mul" | "div":
                return value == 1
        return False
    match op:
        case "add" | "sub" | "or_" | "xor" | "shl" | "shr":
            return value == 0
        case "mul":
            return value == 1
        case "floordiv" | "div":
            return value == 1
        case "and_":
            return value == (True if dtype is MASK else -1)
    return False


def _left_identity(op: str, value: Number, dtype: DType) -> bool:
    """Whether ``value op x`` is x in every bit."""
    commutes = op in ("add", "mul", "or_", "xor", "and_")
    return commutes and _right_identity(op, value, dtype)


def _absorbed(node: Node, constants: list[Number | None], emit: Emit) -> Node | None:
    """A constant that one constant operand makes whatever the other is."""
    dtype = _dtype(node)
    if dtype.is_float:
        return None
    for value in constants:
        if value is None:
            continue
        if value == 0 and node.op in ("mul", "and_"):
            return emit(_const(node, False if dtype is MASK else 0))
        if dtype is MASK and node.op == "or_" and value == 1:
            return emit(_const(node, True))
    return None


def _fold_index(node: Node, emit: Emit) -> Node:
    args = node.args
    if not args or node.op in ("result", "element"):
        return node
    constants = [_constant(arg) for arg in args]
    if node.op == "select":
        _, yes, no = args
        if constants[0] is not None:
            return yes if constants[0] else no
        return yes if yes is no else node
    known = tuple([int(each) for each in constants if each is not None])
    if len(known) == len(args):
        value = evaluate(node.op, known, I64)
        assert value is not None, f"{node.op} of constant indices"
        return emit(_index(int(value), node))
    if len(args) == 1:
        inner = args[0]
        if node.op == "neg" and inner.op == "neg":
            return inner.args[0]
        return node
    kept = _index_identity(node, constants, emit)
    return node if kept is None else kept


def _index(value: int, node: Node) -> Node:
    return make("index", (), wrap(value, I64), node.place)


def _again(node: Node, emit: Emit) -> Node:
    """What a node made by folding folds to in turn, standing in the copy."""
    result = _fold_index(node, emit)
    return emit(node) if result is node else result


def _index_identity(node: Node, constants: list[Number | None], emit: Emit) -> Node | None:
    op, (a, b) = node.op, node.args
    left, right = constants
    if left is not None and op in ("add", "mul"):
        # A constant stands on the right, so that chains of them meet.
        return _again(make(op, (b, a), None, node.place), emit) if right is None else None
    if a is b:
        if op == "sub" or op in _REMAINDERS:
            return emit(_index(0, node))
        return a if op in ("maximum", "minimum") else None
    if right is None:
        return None
    right = int(right)
    if op == "sub":
        return _again(make("add", (a, emit(_index(-right, node))), None, node.place), emit)
    if (op == "add" and right == 0) or (right == 1 and (op == "mul" or op in _DIVISIONS)):
        return a
    if (op == "mul" and right == 0) or (op in _REMAINDERS and right in (1, -1)):
        return emit(_index(0, node))
    if op in ("add", "mul") and a.op == op:
        inner = _constant(a.args[1])
        if inner is not None:
            both = evaluate(op, (int(inner), right), I64)
            assert both is not None
            return _again(make(op, (a.args[0], emit(_index(int(both), node))), None, node.place), emit)
    return None


def _fold_structured(rewriting: Rewriting, node: Node, args: tuple[Node, ...]) -> tuple[Node, ...] | None:
    """The results of a branch whose way is known, or of a loop without a turn."""
    if node.op == "cond":
        way = _constant(args[0])
        if way is None:
            return None
        region = node.regions[0 if way else 1]
        rewriting.nodes(region.nodes)
        return rewriting.values(region.results)
    start, stop, step = (_constant(arg) for arg in args[:3])
    if step == 0 or (start is not None and start == stop):
        return args[3:]
    if start is None or stop is None or step is None:
        return None
    return None if len(range(int(start), int(stop), int(step))) else args[3:]
