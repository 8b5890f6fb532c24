"""Calls, items, attributes and the functions inside expressions."""

from __future__ import annotations

from typing import Any

import libcst as cst

from gizml_tile.frontend.kinds import METHODS, Kind
from gizml_tile.frontend.rewriter import Rewriter
from gizml_tile.frontend.spelling import chain_of, is_negative_number
from gizml_tile.frontend.syntax import Function, parameters

# Methods of Python's own containers and strings, which need no rewriting.
_TEXT_METHODS = frozenset(
    "keys values items format join split strip lower upper startswith endswith replace encode decode "
    "bit_length is_integer".split()
)
_HOST_METHODS = _TEXT_METHODS | frozenset(
    "append extend insert remove pop clear sort reverse update setdefault popitem discard add get index "
    "count copy".split()
)
_TAKES_FUNCTIONS = frozenset("map filter reduce partial fold loop cond associative_scan".split())


def attribute(rewriter: Rewriter, node: cst.Attribute) -> cst.BaseExpression:
    """``x.T`` of a tile as a call; other attributes stay."""
    value = rewriter.expr(node.value)
    if node.attr.value == "T" and rewriter.kind(node.value).is_tile:
        return rewriter.keep_parens(node, rewriter.method(node, value, "transpose", []))
    rebuilt: cst.BaseExpression = rewriter.rebuilt(node, value=value)
    return rebuilt


def call_expression(rewriter: Rewriter, node: cst.Call) -> cst.BaseExpression:
    """A call: min, max and abs as methods, functions of the person's as rewritten ones."""
    if isinstance(node.func, cst.Name) and rewriter.is_outside(node.func.value):
        extreme = _extreme(rewriter, node, node.func.value)
        if extreme is not None:
            return extreme
    if not node.args and isinstance(node.func, cst.Name) and node.func.value == "super":
        return _super(rewriter, node)
    arguments = [_call_argument(rewriter, node, each) for each in node.args]
    changed = any(a is not b for a, b in zip(arguments, node.args, strict=True))
    function = _callee(rewriter, node)
    rebuilt: cst.BaseExpression = rewriter.rebuilt(
        node, func=function, args=arguments if changed else node.args
    )
    return rebuilt


def _call_argument(rewriter: Rewriter, node: cst.Call, argument: cst.Arg) -> cst.Arg:
    """An argument; a function of the person's given to one that calls it is the rewritten one."""
    value = rewriter.expr(argument.value)
    name = (
        node.func.attr.value
        if isinstance(node.func, cst.Attribute)
        else getattr(node.func, "value", "")
    )
    chain = chain_of(argument.value)
    if (
        name in _TAKES_FUNCTIONS
        and chain
        and rewriter.is_outside(chain[0])
        and rewriter.resolver.is_helper(chain)
    ):
        value = rewriter.dispatched(argument.value, "helper", [value])
    rebuilt: cst.Arg = rewriter.rebuilt(argument, value=value)
    return rebuilt


def _extreme(rewriter: Rewriter, node: cst.Call, name: str) -> cst.BaseExpression | None:
    """``min``, ``max`` and ``abs``, where the name is Python's own function."""
    count = len(node.args)
    simple = all(each.keyword is None and not each.star for each in node.args)
    wanted = count == 1 if name == "abs" else name in ("min", "max") and count > 1
    if not wanted or not simple or not rewriter.resolver.is_builtin(name):
        return None
    kinds = [rewriter.kind(each.value) for each in node.args]
    if all(kind.is_host for kind in kinds):
        return None
    values = [rewriter.expr(each.value) for each in node.args]
    method = {"min": "minimum", "max": "maximum"}.get(name, name)
    if not kinds[0].is_device:
        rebuilt: cst.BaseExpression = rewriter.rebuilt(
            node,
            func=rewriter.made(rewriter.dispatch(method), node.func),
            args=[
                rewriter.rebuilt(old, value=new) for old, new in zip(node.args, values, strict=True)
            ],
        )
        return rebuilt
    result: cst.BaseExpression = values[0]
    for each in values[1:] or [None]:
        result = rewriter.method(node, result, method, [] if each is None else [each])
    return result


def _callee(rewriter: Rewriter, node: cst.Call) -> cst.BaseExpression:
    function: cst.BaseExpression = rewriter.expr(node.func)
    if _is_plain_callee(rewriter, node.func):
        return function
    return rewriter.dispatched(node.func, "helper", [rewriter.argument(function)])


def _super(rewriter: Rewriter, node: cst.Call) -> cst.Call:
    """``super()`` spelled out, because it looks at the function that it stands in, which may be ours."""
    function = next(
        each for each in reversed(rewriter.functions) if isinstance(each, cst.FunctionDef)
    )
    first = next(iter(parameters(function)), None)
    if first is None:
        return node
    arguments = [cst.Arg(cst.Name("__class__")), cst.Arg(cst.Name(first.name.value))]
    rebuilt: cst.Call = rewriter.rebuilt(node, args=arguments)
    return rebuilt


def _is_plain_callee(rewriter: Rewriter, function: cst.BaseExpression) -> bool:
    """Whether a call needs no look at what it calls."""
    match function:
        case cst.Name():
            for scope, around in zip(
                reversed(rewriter.scopes), reversed(rewriter.functions), strict=True
            ):
                if function.value in scope:
                    names = rewriter.table.of(around)
                    return names.bound[function.value] == names.made[function.value]
            return rewriter.resolver.call_is_plain((function.value,))
        case cst.Attribute():
            name, receiver = function.attr.value, rewriter.kind(function.value)
            if receiver.is_device or receiver in (Kind.PROGRAM, Kind.IN, Kind.OUT, Kind.TENSOR):
                return True
            chain = chain_of(function)
            if chain and rewriter.is_outside(chain[0]):
                if rewriter.resolver.call_is_plain(chain):
                    return True
                return not rewriter.resolver.is_helper(chain) and name in _HOST_METHODS
            if receiver is Kind.HOST:
                return name in _HOST_METHODS
            return receiver is not Kind.OBJECT and (
                name in _TEXT_METHODS or (receiver is Kind.UNKNOWN and name in METHODS)
            )
        case cst.Lambda():
            return True
    return False


def coordinates(rewriter: Rewriter, node: cst.Subscript) -> cst.List | None:
    """``[i, k]`` of ``A[i, k]``; None where one item may be a tuple of them."""
    elements: list[cst.BaseElement] = []
    for each in node.slice:
        item = each.slice
        if isinstance(item, cst.Slice):
            rewriter.fail(
                item if item.lower or item.upper else node,
                "a slice of blocks: A[i, k] takes one block; its sizes are given to p.read and p.write, "
                "and .window(offsets) takes one at any element",
            )
        assert isinstance(item, cst.Index)
        if isinstance(item.value, cst.Ellipsis):
            rewriter.fail(item.value, "`...` among block coordinates: write every coordinate")
        value = rewriter.expr(item.value)
        elements.append(cst.StarredElement(value) if item.star else cst.Element(value))
    if len(elements) == 1:
        only = node.slice[0].slice
        assert isinstance(only, cst.Index)
        known = (
            rewriter.kind(only.value) is Kind.INDEX
            or isinstance(only.value, cst.Integer)
            or is_negative_number(only.value)
        )
        if only.star is None and not known:
            return None
    return cst.List(elements)


def subscript(rewriter: Rewriter, node: cst.Subscript) -> cst.BaseExpression:
    """``A[i, k]`` of an input as ``A.at([i, k])``."""
    if rewriter.kind(node.value) is Kind.IN:
        found = coordinates(rewriter, node)
        if found is not None:
            return rewriter.keep_parens(
                node, rewriter.method(node, rewriter.expr(node.value), "at", [found])
            )
    rebuilt: cst.BaseExpression = rewriter.generic(node)
    return rebuilt


def lambda_expression(rewriter: Rewriter, node: cst.Lambda) -> cst.BaseExpression:
    """A lambda with its body rewritten."""
    params = defaults(rewriter, node)
    rewriter.enter(node)
    body = rewriter.expr(node.body)
    rewriter.leave()
    rebuilt: cst.BaseExpression = rewriter.rebuilt(node, params=params, body=body)
    return rebuilt


def defaults(rewriter: Rewriter, node: Function) -> cst.Parameters:
    """A function's parameters with their defaults rewritten."""
    params = node.params
    if all(each.default is None for each in parameters(node)):
        return params
    changes: dict[str, Any] = {}
    for name in ("posonly_params", "params", "kwonly_params"):
        old = getattr(params, name)
        changes[name] = [
            each
            if each.default is None
            else rewriter.rebuilt(each, default=rewriter.expr(each.default))
            for each in old
        ]
    return params.with_changes(**changes)


def comprehension(rewriter: Rewriter, node: Any) -> cst.BaseExpression:
    """A comprehension, which stays Python's, with its parts rewritten."""
    rewriter.enter(node)
    rebuilt: cst.BaseExpression = rewriter.generic(node)
    rewriter.leave()
    return rebuilt
