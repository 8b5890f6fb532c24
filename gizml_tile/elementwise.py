"""Operations of two tiles: lifting, promotion and broadcasting, and the errors of each."""

from __future__ import annotations

from typing import NoReturn

from gizml_tile.dtypes import I32, MASK, U32, DType, math_dtype
from gizml_tile.lifting import lift, number
from gizml_tile.nodes import BITWISE, Attr, Node, broadcast, promote
from gizml_tile.tracing import Trace, Value, article, fail, noun

_INTEGER_DIVISIONS = frozenset({"rem", "floordiv", "floormod"})
_SHIFTS = frozenset({"shl", "shr"})
_MASK_OPS = frozenset({"and_", "or_", "eq", "ne"})
_SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "floormod": "%",
    "shl": "<<",
    "shr": ">>",
    "pow": "**",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "and_": "&",
    "or_": "|",
    "xor": "^",
}


def binary(trace: Trace, op: str, left: object, right: object, attr: Attr = None) -> Node:
    """Record ``left op right``, of which at least one is a tile."""
    if op == "truediv":
        op = "div"
    left_type, right_type = _tile_type(left), _tile_type(right)
    if op == "xor" and MASK in (left_type, right_type):
        op = "ne"
    _check_divisor(op, left_type, right)
    _check_shift(op, left_type, right)
    a = lift(trace, left, right_type, op)
    b = lift(trace, right, left_type, op)
    _check_types(op, a, b)
    if a.shape != b.shape and broadcast(a.shape, b.shape) is None:
        _shapes_differ(op, a, b)
    return trace.record(op, (a, b), attr)


def _tile_type(value: object) -> DType | None:
    if isinstance(value, Value) and value._node.is_tile:
        return value._node.dtype
    return None


def _check_types(op: str, a: Node, b: Node) -> None:
    assert a.dtype is not None and b.dtype is not None
    if a.dtype is MASK or b.dtype is MASK:
        if op in _MASK_OPS and a.dtype is b.dtype:
            return
        found = f"found {article(noun(a))} and {article(noun(b))}"
        if a.dtype is b.dtype or op not in _MASK_OPS:
            fail(f"{op} does not take masks, {found}; combine masks with and_, or_, not_, or use .to(F32)")
        fail(f"{op} needs two masks or none, {found}; make a mask by comparing, as in x.gt(0)")
    if promote(a.dtype, b.dtype) is None:
        if a.dtype.is_integer and b.dtype.is_integer:
            fail(
                f"{op} does not mix U32 or U64 with other integers, found {article(noun(a))} and "
                f"{article(noun(b))}; convert one with .to(dtype)"
            )
        fail(
            f"{op} does not mix integers and floats, found {article(noun(a))} and {article(noun(b))}; "
            "convert one with .to(F32) or .to(I32)"
        )
    integers = a.dtype.is_integer
    if op == "div" and integers:
        fail(
            f"/ does not take integer tiles, found {article(noun(a))} and {article(noun(b))}; write // for "
            "the rounded-down quotient, or convert with .to(F32)"
        )
    if integers and op == "pow":
        fail(f"** takes no exponents in {article(noun(b))}; convert both tiles with .to(F32)")
    if not integers and op == "floordiv":
        fail(
            f"// takes integer tiles, found {article(noun(a))} and {article(noun(b))}; for floats write (a / "
            "b).floor()"
        )
    if op == "mulhi" and promote(a.dtype, b.dtype) not in (I32, U32):
        fail(
            f"mulhi takes integers of 32 bits or fewer, found {article(noun(a))} and {article(noun(b))}; "
            "convert both with .to(I32)"
        )
    if not integers and op in BITWISE:
        fail(
            f"{op} takes masks or integer tiles, found {article(noun(a))} and {article(noun(b))}; "
            "make a mask by comparing, as in x.gt(0), or integers with .to(I32)"
        )


def _check_divisor(op: str, left_type: DType | None, right: object) -> None:
    if op in _INTEGER_DIVISIONS and number(right) == 0 and (left_type is None or left_type.is_integer):
        fail(f"{op} by 0 has no result; divide by another number")


def _check_shift(op: str, left_type: DType | None, right: object) -> None:
    if op not in _SHIFTS or left_type is None or not left_type.is_integer:
        return
    host = number(right)
    bits = math_dtype(left_type).bits
    if isinstance(host, int) and not 0 <= host < bits:
        fail(f"{op} moves by 0 to {bits - 1} bits, found {host}")


def _spoken(op: str) -> str:
    """The operator of an operation in brackets, if it has one."""
    return f" ({_SIGNS[op]})" if op in _SIGNS else ""


def _shapes_differ(op: str, a: Node, b: Node) -> NoReturn:
    hint = (
        "transpose one of them with .T"
        if a.shape == b.shape[::-1]
        else "take blocks of one shape, or reduce one along an axis (which stays as size 1)"
    )
    found = f"found {list(a.shape)} and {list(b.shape)}"
    fail(f"{op}{_spoken(op)} needs sizes that are equal or 1, {found}; {hint}")
