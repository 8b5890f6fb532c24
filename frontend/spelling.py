"""Reading and building small pieces of syntax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

_SIGNS: dict[type, str] = {
    cst.Add: "+",
    cst.Subtract: "-",
    cst.Multiply: "*",
    cst.Divide: "/",
    cst.FloorDivide: "//",
    cst.Modulo: "%",
    cst.MatrixMultiply: "@",
    cst.Power: "**",
    cst.BitAnd: "&",
    cst.BitOr: "|",
    cst.BitXor: "^",
    cst.LeftShift: "<<",
    cst.RightShift: ">>",
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.DivideAssign: "/",
    cst.FloorDivideAssign: "//",
    cst.ModuloAssign: "%",
    cst.MatrixMultiplyAssign: "@",
    cst.PowerAssign: "**",
    cst.BitAndAssign: "&",
    cst.BitOrAssign: "|",
    cst.BitXorAssign: "^",
    cst.LeftShiftAssign: "<<",
    cst.RightShiftAssign: ">>",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
    cst.Equal: "==",
    cst.NotEqual: "!=",
    cst.Is: "is",
    cst.IsNot: "is not",
    cst.In: "in",
    cst.NotIn: "not in",
}


# ``=`` without spaces, as in keyword arguments.
EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def sign(operator: cst.CSTNode) -> str:
    """The sign of a binary or augmented operator, without ``=``."""
    return _SIGNS[type(operator)]


def comparison_sign(operator: cst.BaseCompOp) -> str:
    """A comparison's sign."""
    return _SIGNS[type(operator)]


def chain_of(node: cst.BaseExpression) -> tuple[str, ...] | None:
    """``a.b.c`` as its names; None for anything else."""
    names: list[str] = []
    while isinstance(node, cst.Attribute):
        names.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    return (node.value, *reversed(names))


def is_plain(node: cst.BaseExpression) -> bool:
    """Whether evaluating an expression once more, or later, makes no difference: a name or a constant."""
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.expression, cst.Integer | cst.Float) and isinstance(
            node.operator, cst.Minus
        )
    return isinstance(node, cst.Name | cst.Integer | cst.Float | cst.SimpleString)


_PRIMARY = (
    cst.Name,
    cst.Attribute,
    cst.Subscript,
    cst.Call,
    cst.List,
    cst.Dict,
    cst.Set,
    cst.ListComp,
    cst.DictComp,
    cst.SetComp,
    cst.SimpleString,
    cst.FormattedString,
)


def parenthesized(node: cst.BaseExpression) -> cst.BaseExpression:
    """An expression in parentheses."""
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """An expression without parentheses of its own."""
    return node.with_changes(lpar=[], rpar=[]) if node.lpar else node


def is_primary(node: cst.BaseExpression) -> bool:
    """Whether ``.name`` or ``(...)`` can follow an expression."""
    return bool(node.lpar) or isinstance(node, _PRIMARY)


def call(function: cst.BaseExpression, arguments: Sequence[cst.BaseExpression]) -> cst.Call:
    """``function(arguments)``."""
    return cst.Call(func=function, args=[cst.Arg(each) for each in arguments])


def dotted(text: str) -> cst.BaseExpression:
    """``a.b.c`` as a node."""
    first, *rest = text.split(".")
    node: cst.BaseExpression = cst.Name(first)
    for name in rest:
        node = cst.Attribute(node, cst.Name(name))
    return node


def tuple_of(names: Sequence[str]) -> cst.Tuple:
    """``a, b`` without parentheses."""
    return cst.Tuple([cst.Element(cst.Name(name)) for name in names], lpar=[], rpar=[])


def names_value(names: Sequence[str], *, in_parentheses: bool = False) -> cst.BaseExpression:
    """``a``, or ``a, b``."""
    if len(names) == 1:
        return cst.Name(names[0])
    values = tuple_of(names)
    return parenthesized(values) if in_parentheses else values


def own_lines(statements: Sequence[Any]) -> list[Any]:
    """Statements each on a line of its own."""
    return [line(each) if isinstance(each, cst.BaseSmallStatement) else each for each in statements]


def is_negative_number(node: cst.BaseExpression) -> bool:
    """Whether an expression is a number with a minus sign."""
    return isinstance(node, cst.UnaryOperation) and is_plain(node)


def list_of(values: Sequence[cst.BaseExpression]) -> cst.List:
    """``[a, b]``."""
    return cst.List([cst.Element(value) for value in values])


def line(statement: cst.BaseSmallStatement) -> cst.SimpleStatementLine:
    """A statement on its own line."""
    return cst.SimpleStatementLine([statement])


def with_first_lines(node: cst.FunctionDef, lines: Sequence[cst.BaseStatement]) -> cst.FunctionDef:
    """A function with lines before its first, after its docstring."""
    body = node.body
    assert isinstance(body, cst.IndentedBlock)
    first = 1 if node.get_docstring() is not None else 0
    return node.with_changes(
        body=body.with_changes(body=[*body.body[:first], *lines, *body.body[first:]])
    )


def assign(names: Sequence[str], value: cst.BaseExpression) -> cst.SimpleStatementLine:
    """``a, b = value``; ``value`` alone where there are no names."""
    if not names:
        return line(cst.Expr(value))
    target: cst.BaseAssignTargetExpression = (
        cst.Name(names[0]) if len(names) == 1 else tuple_of(names)
    )
    return line(cst.Assign([cst.AssignTarget(target)], value))
