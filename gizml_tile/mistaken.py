"""Python's own errors about what a program holds: what the person meant, at their expression.

``p.zeros[8, 8]`` and ``p.id + 1`` fail in Python itself, which only says that a method takes no subscript.
What stood there is found again from the place of the error; errors about the person's own values stay.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from types import FrameType, FunctionType, MethodType, TracebackType
from typing import Any

from gizml_tile.errors import Place, TileError, is_own_file, place_of
from gizml_tile.helpful import Helpful, Sizes, not_called
from gizml_tile.index import Index
from gizml_tile.tile import Tile
from gizml_tile.views import In, Out

# What some operations give, to take apart.
_GIVEN = {
    "split": "it gives two tiles: first, second = {it}.split(1)",
    "deinterleave": "it gives two tiles: first, second = {it}.deinterleave(1)",
    "sort": "it gives two tiles: values, places = {it}.sort(1)",
    "topk": "it gives two tiles: values, places = {it}.topk(n, 1)",
    "shape": "it has one size for each axis: rows, columns = {it}.shape of a tile",
    "loop": "it gives as many values as it is given to carry",
    "cond": "it gives as many values as its functions return",
}


def explained(error: TypeError | ValueError) -> TileError | None:
    """The error that tells what is wrong with an expression about the program's objects, if it is one."""
    found = _innermost(error)
    if found is None:
        return None
    place, frame = found
    if isinstance(error, ValueError):
        message = _unpacked(place, frame) if "to unpack (expected" in str(error) else None
    else:
        message = next(_mistakes(place, frame, str(error)), None)
    return None if message is None else TileError(message, place)


def _innermost(error: BaseException) -> tuple[Place, FrameType] | None:
    """Where an error was raised, if that is the person's own code."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or is_own_file(trace.tb_frame.f_code.co_filename):
        return None
    assert error.__traceback__ is not None
    place = place_of(error.__traceback__)
    return None if place is None else (place, trace.tb_frame)


def _mistakes(place: Place, frame: FrameType, reason: str) -> Iterator[str]:
    """What is wrong with the expression at a place, by its operands that are of ours."""
    try:
        expression = ast.parse(f"({_text(place)})", mode="eval").body
    except SyntaxError:
        return
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
        owner, asked = _value(expression.func.value, frame), _value(expression.func, frame)
        if isinstance(owner, Helpful) and not callable(asked):
            name = ast.unparse(expression.func)
            yield f"{name} is no method and not called; write {name}"
    operands = list(_operands(expression))
    for operand in operands:
        value = _value(operand, frame)
        if (isinstance(value, MethodType) and isinstance(value.__self__, Helpful)) or _is_of_ours(value):
            yield not_called(value, ast.unparse(operand))
    for operand in operands:
        value = _value(operand, frame)
        if isinstance(value, Helpful):
            yield f"{ast.unparse(operand)} is {value._told()}, which does not take this: {reason}"
        elif isinstance(operand, ast.Attribute) and _begins_with_ours(operand.value, frame):
            methods = (getattr(kind, operand.attr, None) for kind in (Tile, Index, In, Out))
            method = next((each for each in methods if isinstance(each, FunctionType)), None)
            if method is not None:
                yield not_called(method, ast.unparse(operand), of_class=True)


def _operands(expression: ast.expr) -> Iterator[ast.expr]:
    """What an expression is made of; what a call is given is for who wrote the function to judge."""
    match expression:
        case ast.Subscript(value=value):
            yield value
        case ast.BinOp(left=left, right=right):
            yield from (left, right)
        case ast.Compare(left=left, comparators=others):
            yield from (left, *others)
        case ast.UnaryOp(operand=operand):
            yield operand
        case ast.Name() | ast.Attribute():
            yield expression


def _unpacked(place: Place, frame: FrameType) -> str | None:
    """What is wrong with names that stand for the values which an operation of ours gives."""
    source = "".join(linecache.getlines(place.filename))
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Tuple | ast.List) and _is_at(target, place):
                return _apart(node.value, len(target.elts), frame)
    return None


def _is_at(node: ast.expr, place: Place) -> bool:
    return (node.lineno, node.end_lineno) == (place.line, place.end_line) and node.lineno == place.line


def _apart(value: ast.expr, names: int, frame: FrameType) -> str | None:
    asked = value.func if isinstance(value, ast.Call) else value
    if not isinstance(asked, ast.Attribute) or asked.attr not in _GIVEN:
        return None
    if not _begins_with_ours(asked.value, frame) and not isinstance(_value(asked, frame), Sizes):
        return None
    given = _GIVEN[asked.attr].format(it=ast.unparse(asked.value))
    return f"{names} name{'s' * (names != 1)} cannot stand for what {asked.attr} gives; {given}"


def _value(expression: ast.expr, frame: FrameType) -> Any:
    """What a name or a chain of attributes holds, without calling anything; None where it is not known."""
    match expression:
        case ast.Name(id=name):
            return frame.f_locals.get(name, frame.f_globals.get(name))
        case ast.Attribute(value=value, attr=name):
            owner = _value(value, frame)
            return None if owner is None else getattr(owner, name, None)
    return None


def _begins_with_ours(expression: ast.expr, frame: FrameType) -> bool:
    """Whether an expression is an object of ours, or made of one by calls, subscripts and operators."""
    if isinstance(_value(expression, frame), Helpful):
        return True
    match expression:
        case ast.Call(func=inner) | ast.Attribute(value=inner) | ast.Subscript(value=inner):
            return _begins_with_ours(inner, frame)
        case ast.BinOp() | ast.UnaryOp() | ast.Compare():
            return any(_begins_with_ours(each, frame) for each in _operands(expression))
    return False


def _is_of_ours(value: Any) -> bool:
    """Whether something is a function of this library's modules."""
    return isinstance(value, FunctionType) and value.__module__.partition(".")[0] == "gizml_tile"


def _text(place: Place) -> str:
    """The person's text at a place."""
    lines = [linecache.getline(place.filename, line) for line in range(place.line, place.end_line + 1)]
    if not lines:
        return ""
    lines[-1] = lines[-1][: place.end_column - 1]
    lines[0] = lines[0][place.column - 1 :]
    return "".join(lines)
