"""A rewritten function's first line as it runs by itself, without the names that stood around it."""

from __future__ import annotations

import builtins
import math
from types import FunctionType
from typing import Any

import libcst as cst

from gizml_tile.frontend.syntax import walk

_PLAIN = (bool, int, float, str, bytes, type(None))


def runnable(node: cst.FunctionDef, function: FunctionType) -> cst.FunctionDef:
    """The function with defaults and annotations that need only the original's globals.

    A default that reads another name is written as its value, an annotation that does as text.
    """
    params = node.params
    defaults = _default_values(params, function)
    changes: dict[str, Any] = {}
    for name in ("posonly_params", "params", "kwonly_params", "star_arg", "star_kwarg"):
        old = getattr(params, name)
        if isinstance(old, cst.Param):
            changes[name] = _param(old, function, defaults)
        elif isinstance(old, list | tuple):
            changes[name] = [_param(each, function, defaults) for each in old]
    if node.returns is not None:
        node = node.with_changes(returns=_annotation(node.returns, function))
    return node.with_changes(params=params.with_changes(**changes))


def _default_values(params: cst.Parameters, function: FunctionType) -> dict[str, object]:
    positional = [*params.posonly_params, *params.params]
    values = function.__defaults__ or ()
    named = [each.name.value for each in positional[len(positional) - len(values) :]]
    return {**dict(zip(named, values, strict=True)), **(function.__kwdefaults__ or {})}


def _param(param: cst.Param, function: FunctionType, defaults: dict[str, object]) -> cst.Param:
    if param.default is not None and not _is_known(param.default, function):
        value = defaults.get(param.name.value, ...)
        if _is_plain(value):
            param = param.with_changes(default=cst.parse_expression(repr(value)))
    if param.annotation is not None:
        annotation = _annotation(param.annotation, function)
        if annotation is not param.annotation:
            param = param.with_changes(annotation=annotation)
    return param


def _annotation(annotation: cst.Annotation, function: FunctionType) -> cst.Annotation:
    if _is_known(annotation.annotation, function):
        return annotation
    text = cst.Module([]).code_for_node(annotation.annotation)
    return annotation.with_changes(annotation=cst.SimpleString(repr(text)))


def _is_known(node: cst.CSTNode, function: FunctionType) -> bool:
    """Whether every name in an expression is a global or Python's own."""
    return all(
        each.value in function.__globals__ or hasattr(builtins, each.value)
        for each in walk(node)
        if isinstance(each, cst.Name)
    )


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(each) for each in value)
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return type(value) in _PLAIN
