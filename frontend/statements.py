"""Compound statements that stay Python's, and functions."""

from __future__ import annotations

from typing import Any

import libcst as cst

from gizml_tile.frontend import advice, calls, loops
from gizml_tile.frontend.assignments import check_target
from gizml_tile.frontend.rewriter import Rewriter
from gizml_tile.frontend.scopes import NameTable
from gizml_tile.frontend.spelling import chain_of, line, with_first_lines
from gizml_tile.frontend.states import Mode


def function(rewriter: Rewriter, node: cst.FunctionDef) -> cst.FunctionDef:
    """A function with its body rewritten; annotations stay, and decorators but for ``tile.function``."""
    params = calls.defaults(rewriter, node)
    decorators = [each for each in node.decorators if not _is_mark(rewriter, each.decorator)]
    rewriter.enter(node)
    around = rewriter.regions, rewriter.python_loops
    rewriter.regions, rewriter.python_loops = [], []
    generated = len(rewriter.generated)
    body = rewriter.suite(node.body)
    rewriter.regions, rewriter.python_loops = around
    rewriter.leave()
    rebuilt: cst.FunctionDef = rewriter.rebuilt(node, params=params, body=body)
    if len(rewriter.generated) > generated:
        rebuilt = rewriter.made(_keep_local(rewriter, node, rebuilt), node)
    if len(decorators) < len(node.decorators):
        rebuilt = rewriter.rebuilt(rebuilt, decorators=decorators)
        rewriter.origins[rebuilt] = node
    return rebuilt


def _keep_local(rewriter: Rewriter, old: cst.FunctionDef, new: cst.FunctionDef) -> cst.FunctionDef:
    """Names that only functions of ours still bind, and that are read elsewhere, stay local without a value.

    Otherwise reading them would find a global of the same name.
    """
    lost = rewriter.table.of(old).local & NameTable().of(new).free
    if not lost:
        return new
    lines = [
        line(cst.AnnAssign(cst.Name(name), cst.Annotation(cst.Name("object"))))
        for name in sorted(lost)
    ]
    return with_first_lines(new, lines)


def function_statement(rewriter: Rewriter, node: cst.FunctionDef) -> list[cst.FunctionDef]:
    """A function inside a function."""
    return [function(rewriter, node)]


def _is_mark(rewriter: Rewriter, decorator: cst.BaseExpression) -> bool:
    """Whether a decorator is ``tile.function``: what it asks for is done."""
    chain = chain_of(decorator)
    return (
        chain is not None
        and rewriter.is_outside(chain[0])
        and rewriter.resolver.is_function_mark(chain)
    )


def for_statement(rewriter: Rewriter, node: cst.For) -> list[Any]:
    """A loop over ``range`` as one of the program, any other as it is."""
    if rewriter.inference.modes.get(node, Mode.PYTHON) is not Mode.PYTHON:
        return loops.device_loop(rewriter, node)
    rewriter.python_loops.append(node)
    new = _parts(rewriter, node)
    rewriter.python_loops.pop()
    return [new]


def compound(rewriter: Rewriter, node: Any) -> list[Any]:
    """A compound statement that stays Python's: its expressions and bodies rewritten."""
    return [_parts(rewriter, node)]


def _parts(rewriter: Rewriter, node: Any) -> Any:
    changes: dict[str, Any] = {}
    if isinstance(node, cst.For):
        check_target(rewriter, node.target)
    for name in (
        "iter",
        "target",
        "items",
        "body",
        "handlers",
        "orelse",
        "finalbody",
        "type",
        "guard",
        "pattern",
    ):
        value = getattr(node, name, None)
        if value is None:
            continue
        if name in ("handlers", "items"):
            new: Any = [
                _parts(rewriter, each) if name == "handlers" else rewriter.expr(each)
                for each in value
            ]
            if any(a is not b for a, b in zip(new, value, strict=True)):
                changes[name] = new
        elif isinstance(value, cst.BaseSuite):
            changes[name] = rewriter.suite(value)
        elif isinstance(value, cst.Else | cst.Finally):
            changes[name] = _parts(rewriter, value)
        elif name != "pattern":
            changes[name] = rewriter.expr(value)
    return rewriter.rebuilt(node, **changes)


def while_statement(rewriter: Rewriter, node: cst.While) -> list[Any]:
    """``while`` on a comparison of indices as a loop of the program, on a host value as it is."""
    mode = rewriter.inference.modes.get(node, Mode.PYTHON)
    if mode is not Mode.PYTHON:
        loop = loops.device_while(rewriter, node, certain=mode is Mode.DEVICE)
        if loop is not None:
            return loop
    kind = rewriter.kind(node.test)
    if kind.is_device:
        rewriter.fail(node.test, advice.WHILE_MASK if kind.is_tile else advice.on_device("while"))
    test = rewriter.expr(node.test)
    if not kind.is_host:
        test = rewriter.guard(node.test, test, "while")
    rewriter.python_loops.append(node)
    body = rewriter.suite(node.body)
    rewriter.python_loops.pop()
    orelse = None if node.orelse is None else _parts(rewriter, node.orelse)
    rebuilt: cst.While = rewriter.rebuilt(node, test=test, body=body, orelse=orelse)
    return [rebuilt]


def match_statement(rewriter: Rewriter, node: cst.Match) -> list[cst.Match]:
    """``match`` on a host value."""
    kind = rewriter.kind(node.subject)
    if kind.is_device:
        rewriter.fail(node.subject, advice.on_device("match"))
    subject = rewriter.expr(node.subject)
    if not kind.is_host:
        subject = rewriter.guard(node.subject, subject, "match")
    cases = [_parts(rewriter, each) for each in node.cases]
    changed = any(a is not b for a, b in zip(cases, node.cases, strict=True))
    rebuilt: cst.Match = rewriter.rebuilt(
        node, subject=subject, cases=cases if changed else node.cases
    )
    return [rebuilt]


def class_statement(rewriter: Rewriter, node: cst.ClassDef) -> list[cst.ClassDef]:
    """A class, whose functions are rewritten."""
    # A class body runs once and is Python's; its functions are rewritten.
    new = [
        function(rewriter, each) if isinstance(each, cst.FunctionDef) else each
        for each in node.body.body
    ]
    rebuilt: cst.ClassDef = rewriter.rebuilt(
        node, body=rewriter.with_body(node.body, node.body.body, new)
    )
    return [rebuilt]
