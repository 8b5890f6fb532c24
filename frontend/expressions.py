"""What an expression holds, from what the names in it hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from gizml_tile.frontend.kinds import Kind, arithmetic, chosen, comparison, join, logic, method, moved
from gizml_tile.frontend.spelling import chain_of, comparison_sign, sign
from gizml_tile.frontend.states import State
from gizml_tile.frontend.syntax import COMPREHENSIONS, parts, targets

if TYPE_CHECKING:
    from gizml_tile.frontend.inference import Inference

_HOST_RESULTS = frozenset(
    "len isinstance issubclass callable hasattr bool int float str repr format id hash ord chr type print "
    "list dict set tuple frozenset range enumerate zip sorted all any".split()
)
_BUILTINS = _HOST_RESULTS | {"abs", "round", "min", "max"}


def expression_kind(inference: Inference, node: Any, state: State) -> Kind:
    """What an expression holds in a state, from its parts."""
    match node:
        case cst.Name():
            return _name(inference, node.value, state)
        case (
            cst.Integer()
            | cst.Float()
            | cst.Imaginary()
            | cst.SimpleString()
            | cst.ConcatenatedString()
        ):
            return Kind.CONSTANT
        case cst.FormattedString():
            return Kind.HOST
        case cst.Attribute():
            return _attribute(inference, node, state)
        case cst.Subscript():
            return _subscript(inference, node, state)
        case cst.Call():
            return _call(inference, node, state)
        case cst.BinaryOperation():
            left = inference.expression(node.left, state)
            right = inference.expression(node.right, state)
            return arithmetic(sign(node.operator), left, right)
        case cst.UnaryOperation():
            kind = inference.expression(node.expression, state)
            if isinstance(node.operator, cst.Not) and kind is Kind.INDEX:
                return Kind.UNKNOWN
            return kind if kind.is_device or kind.is_host else Kind.UNKNOWN
        case cst.BooleanOperation():
            left = inference.expression(node.left, state)
            other = state.copy()
            right = inference.expression(node.right, other)
            state.meet(other)
            return logic(left, right)
        case cst.Comparison():
            return _comparison(inference, node, state)
        case cst.IfExp():
            test = inference.expression(node.test, state)
            yes, no = (
                inference.expression(node.body, state),
                inference.expression(node.orelse, state),
            )
            if test.is_host:
                return join(yes, no)
            return chosen(yes, no) if test.is_tile else join(join(yes, no), chosen(yes, no))
        case cst.NamedExpr():
            kind = inference.expression(node.value, state)
            inference.assign(node.target, node.value, kind, state)
            return kind
        case cst.Lambda():
            inference.definition(node, state)
            return Kind.HOST
        case cst.List() | cst.Set() | cst.Tuple() | cst.Dict():
            found = [inference.expression(part, state) for part in parts(node)]
            constant = isinstance(node, cst.Tuple) and all(each is Kind.CONSTANT for each in found)
            return Kind.CONSTANT if constant else Kind.HOST
        case cst.Element() | cst.Index() | cst.Arg() | cst.Expr():
            return inference.expression(node.value, state)
        case _ if isinstance(node, COMPREHENSIONS):
            return _comprehension(inference, node, state)
        case _:
            for part in parts(node):
                inference.expression(part, state)
            return Kind.UNKNOWN


def _name(inference: Inference, name: str, state: State) -> Kind:
    if name in ("True", "False", "None", "Ellipsis", "__debug__"):
        return Kind.CONSTANT
    if name in inference.scopes[-1]:
        return state.kinds.get(name, Kind.UNKNOWN)
    for scope, stable in zip(
        reversed(inference.scopes[:-1]), reversed(inference.stable[:-1]), strict=False
    ):
        if name in scope:
            return stable.get(name, Kind.UNKNOWN)
    return inference.resolver.kind((name,))


def _attribute(inference: Inference, node: cst.Attribute, state: State) -> Kind:
    receiver = inference.expression(node.value, state)
    name = node.attr.value
    match receiver:
        case Kind.CONSTANT:
            return Kind.CONSTANT
        case Kind.TENSOR:
            return {"shape": Kind.SHAPE, "ndim": Kind.CONSTANT, "dtype": Kind.CONSTANT}.get(
                name, Kind.UNKNOWN
            )
        case Kind.TILE | Kind.MASK | Kind.UNIFORM:
            if name == "T":
                return receiver
            return Kind.CONSTANT if name in ("shape", "dtype") else Kind.UNKNOWN
        case Kind.IN | Kind.OUT:
            return Kind.CONSTANT if name in ("block", "dtype", "ndim") else Kind.UNKNOWN
    chain = chain_of(node)
    if chain and inference.is_outside(chain[0]):
        return inference.resolver.kind(chain)
    return Kind.UNKNOWN


def _subscript(inference: Inference, node: cst.Subscript, state: State) -> Kind:
    receiver = inference.expression(node.value, state)
    for element in node.slice:
        inference.expression(element.slice, state)
    single = len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index)
    match receiver:
        case Kind.IN:
            return Kind.TILE
        case Kind.TILE | Kind.MASK | Kind.UNIFORM:
            return moved(receiver)
        case Kind.SHAPE:
            return Kind.INDEX if single else Kind.SHAPE
        case Kind.CONSTANT:
            return Kind.CONSTANT
    return Kind.UNKNOWN


def _call(inference: Inference, node: cst.Call, state: State) -> Kind:
    receiver = Kind.UNKNOWN
    if isinstance(node.func, cst.Attribute):
        receiver = inference.expression(node.func.value, state)
        inference.kinds[node.func] = Kind.UNKNOWN
    elif not isinstance(node.func, cst.Name):
        inference.expression(node.func, state)
    arguments = [inference.expression(each.value, state) for each in node.args]
    if isinstance(node.func, cst.Attribute):
        return method(receiver, node.func.attr.value, arguments)
    if isinstance(node.func, cst.Name) and inference.is_outside(node.func.value):
        return _builtin(inference, node.func.value, arguments)
    return Kind.UNKNOWN


def _builtin(inference: Inference, name: str, arguments: list[Kind]) -> Kind:
    if name not in _BUILTINS or not inference.resolver.is_builtin(name):
        return Kind.UNKNOWN
    if name in ("abs", "round") and len(arguments) == 1:
        return arguments[0] if arguments[0].is_device or arguments[0].is_host else Kind.UNKNOWN
    if name in ("min", "max"):
        if len(arguments) < 2:
            return Kind.UNKNOWN
        kind = arguments[0]
        for other in arguments[1:]:
            kind = arithmetic("+", kind, other)
        return kind
    return Kind.HOST if name in _HOST_RESULTS else Kind.UNKNOWN


def _comparison(inference: Inference, node: cst.Comparison, state: State) -> Kind:
    left = inference.expression(node.left, state)
    result: Kind | None = None
    for each in node.comparisons:
        right = inference.expression(each.comparator, state)
        symbol = comparison_sign(each.operator)
        if symbol in ("is", "is not", "in", "not in") or (
            not left.is_device
            and not right.is_device
            and (_is_word(each.comparator) or _is_word(node.left))
        ):
            kind = Kind.HOST
        else:
            kind = comparison(left, right)
        result = kind if result is None else logic(result, kind)
        left = right
    return result or Kind.UNKNOWN


def _comprehension(inference: Inference, node: Any, state: State) -> Kind:
    inside = state.copy()
    clause = node.for_in
    first = True
    while clause is not None:
        # The first iterable is evaluated outside, the rest inside.
        inference.expression(clause.iter, state if first else inside)
        if first:
            inference.scopes.append(inference.scopes[-1] | inference.table.of(node).local)
        first = False
        for name in targets(clause.target):
            inside.kinds[name] = Kind.UNKNOWN
        if isinstance(clause.target, cst.Name):
            inside.kinds[clause.target.value] = element_kind(inference, clause.iter)
        for condition in clause.ifs:
            inference.expression(condition.test, inside)
        clause = clause.inner_for_in
    if isinstance(node, cst.DictComp):
        inference.expression(node.key, inside)
        inference.expression(node.value, inside)
    else:
        inference.expression(node.elt, inside)
    inference.scopes.pop()
    return Kind.HOST


def element_kind(inference: Inference, iterable: cst.BaseExpression) -> Kind:
    """What a loop over something gives each turn."""
    if isinstance(iterable, cst.Call) and isinstance(iterable.func, cst.Name | cst.Attribute):
        chain = chain_of(iterable.func)
        if chain and inference.is_outside(chain[0]) and inference.resolver.is_unroll(chain):
            constant = all(inference.kind(each.value) is Kind.CONSTANT for each in iterable.args)
            return Kind.CONSTANT if constant or len(iterable.args) > 1 else Kind.UNKNOWN
        name = chain[0] if chain else ""
        if (
            chain == ("range",)
            and inference.is_outside(name)
            and inference.resolver.is_builtin(name)
        ):
            return Kind.CONSTANT
    return Kind.CONSTANT if inference.kind(iterable) is Kind.CONSTANT else Kind.UNKNOWN


def _is_word(node: cst.BaseExpression) -> bool:
    """Whether an expression is text, which no tile compares with."""
    return isinstance(node, cst.SimpleString | cst.ConcatenatedString | cst.FormattedString)
