"""Reading a syntax tree: what is evaluated in which order, what assigning binds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst

Function = cst.FunctionDef | cst.Lambda


COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


# The parts of each node that are evaluated, in Python's order.
_PARTS: dict[type, tuple[str, ...]] = {
    cst.Attribute: ("value",),
    cst.Arg: ("value",),
    cst.IfExp: ("test", "body", "orelse"),
    cst.NamedExpr: ("value",),
    cst.Assign: ("value", "targets"),
    cst.AugAssign: ("target", "value"),
    cst.AnnAssign: ("value", "target"),
    cst.Import: (),
    cst.ImportFrom: (),
    cst.Global: (),
    cst.Nonlocal: (),
    cst.For: ("iter", "target", "body", "orelse"),
    cst.CompFor: ("iter", "target", "ifs", "inner_for_in"),
    cst.DictComp: ("for_in", "key", "value"),
    cst.ListComp: ("for_in", "elt"),
    cst.SetComp: ("for_in", "elt"),
    cst.GeneratorExp: ("for_in", "elt"),
    cst.Call: ("func", "args"),
    cst.BinaryOperation: ("left", "right"),
    cst.BooleanOperation: ("left", "right"),
    cst.UnaryOperation: ("expression",),
    cst.ComparisonTarget: ("comparator",),
    cst.MatchKeywordElement: ("pattern",),
    cst.MatchAs: ("pattern",),
    cst.MatchStar: (),
    cst.MatchMapping: ("elements",),
    cst.AsName: (),
    cst.ExceptHandler: ("type", "body"),
    cst.ExceptStarHandler: ("type", "body"),
    cst.FunctionDef: ("decorators", "params", "body"),
    cst.ClassDef: ("decorators", "bases", "keywords", "body"),
    cst.Lambda: ("params", "body"),
    cst.Param: ("default",),
    cst.Decorator: ("decorator",),
}


_SKIPPED = (
    "__",
    "whitespace",
    "lpar",
    "rpar",
    "leading_lines",
    "lines_after",
    "comma",
    "semicolon",
    "equal",
    "header",
    "footer",
    "trailing",
    "annotation",
    "returns",
    "type_parameters",
    "lbracket",
    "rbracket",
    "lbrace",
    "rbrace",
    "first_colon",
    "second_colon",
    "colon",
    "as_name",
    "operator",
    "prefix",
)


def part_names(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """The names of the fields of a kind of node that are evaluated, in Python's order."""
    names = _PARTS.get(kind)
    if names is None:
        names = tuple(name for name in kind.__dataclass_fields__ if not name.startswith(_SKIPPED))
        _PARTS[kind] = names
    return names


# Nodes that only hold others: the walks pass through them without looking further.
HOLDERS = frozenset(
    {
        cst.Arg,
        cst.Attribute,
        cst.BinaryOperation,
        cst.Call,
        cst.Comparison,
        cst.ComparisonTarget,
        cst.Element,
        cst.Expr,
        cst.Float,
        cst.IndentedBlock,
        cst.Index,
        cst.Integer,
        cst.List,
        cst.SimpleStatementLine,
        cst.SimpleString,
        cst.Subscript,
        cst.SubscriptElement,
        cst.Tuple,
        cst.UnaryOperation,
    }
)


def parts(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes inside that are evaluated, in Python's order."""
    for name in part_names(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, list | tuple):
            yield from value


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and every node inside that is evaluated, nested functions included."""
    yield node
    for part in parts(node):
        yield from walk(part)


def targets(node: cst.CSTNode) -> Iterator[str]:
    """The names that assigning to a target binds."""
    match node:
        case cst.Name():
            yield node.value
        case cst.Tuple() | cst.List():
            for element in node.elements:
                yield from targets(element.value)
        case cst.StarredElement() | cst.AssignTarget() | cst.AsName():
            yield from targets(node.target if isinstance(node, cst.AssignTarget) else _inner(node))


def _inner(node: Any) -> cst.CSTNode:
    inner: cst.CSTNode = node.name if isinstance(node, cst.AsName) else node.value
    return inner


def parameters(function: Function) -> Iterator[cst.Param]:
    """Every parameter, in the order of the signature."""
    params = function.params
    yield from params.posonly_params
    yield from params.params
    if isinstance(params.star_arg, cst.Param):
        yield params.star_arg
    yield from params.kwonly_params
    if params.star_kwarg is not None:
        yield params.star_kwarg


def statements(body: cst.BaseSuite) -> Sequence[cst.BaseStatement | cst.BaseSmallStatement]:
    """A body's statements; small ones that share a line apart."""
    found: list[cst.BaseStatement | cst.BaseSmallStatement] = []
    for each in body.body:
        if isinstance(each, cst.SimpleStatementLine):
            found.extend(each.body)
        else:
            found.append(each)
    return found


def outer_parts(node: cst.FunctionDef | cst.Lambda | cst.ClassDef) -> Iterator[cst.CSTNode]:
    """What a definition evaluates where it stands: decorators, defaults, bases."""
    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        for decorator in node.decorators:
            yield decorator.decorator
    if isinstance(node, cst.ClassDef):
        for argument in (*node.bases, *node.keywords):
            yield argument.value
    else:
        for parameter in parameters(node):
            if parameter.default is not None:
                yield parameter.default


def stores(target: cst.CSTNode) -> Iterator[cst.Attribute | cst.Subscript]:
    """The attributes and items that assigning to a target changes."""
    match target:
        case cst.Attribute() | cst.Subscript():
            yield target
        case cst.Tuple() | cst.List():
            for element in target.elements:
                yield from stores(element.value)
        case cst.StarredElement():
            yield from stores(target.value)


def imported(node: cst.Import | cst.ImportFrom) -> Iterator[str]:
    """The names that an import binds."""
    if isinstance(node.names, cst.ImportStar):
        return
    for alias in node.names:
        if alias.asname is not None:
            yield from targets(alias.asname.name)
            continue
        name: cst.BaseExpression = alias.name
        while isinstance(name, cst.Attribute):
            name = name.value
        yield from targets(name)


def root(node: cst.BaseExpression) -> str | None:
    """The name that a chain of attributes, items and calls starts at."""
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    return node.value if isinstance(node, cst.Name) else None
