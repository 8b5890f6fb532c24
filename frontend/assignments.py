"""Simple statements: stores in outputs, augmented assignments, and what stands only on host values."""

from __future__ import annotations

from typing import Any

import libcst as cst

from gizml_tile.frontend import advice, calls, operators
from gizml_tile.frontend.kinds import Kind
from gizml_tile.frontend.rewriter import Rewriter
from gizml_tile.frontend.spelling import is_plain, line, sign
from gizml_tile.frontend.syntax import root, stores


def line_statement(
    rewriter: Rewriter, node: cst.SimpleStatementLine
) -> list[cst.SimpleStatementLine]:
    """A line of simple statements: one line, or one for each where a value is bound first."""
    lines: list[cst.SimpleStatementLine] = []
    rest: list[cst.BaseSmallStatement] = []
    for each in node.body:
        first = _bound_first(rewriter, each)
        if first is not None:
            value, each = first
            lines.append(line(value))
            if rest:
                lines.insert(-1, cst.SimpleStatementLine([*rest[:-1], _last(rest[-1])]))
                rest = []
        else:
            each = small(rewriter, each)
        rest.append(each)
    if not lines and all(a is b for a, b in zip(rest, node.body, strict=True)):
        return [node]
    last: cst.SimpleStatementLine = rewriter.rebuilt(node, body=rest)
    if lines:
        lines[0] = lines[0].with_changes(leading_lines=node.leading_lines)
        last = rewriter.rebuilt(last, leading_lines=[])
    return [*lines, last]


def _bound_first(rewriter: Rewriter, node: Any) -> tuple[cst.Assign, cst.Expr] | None:
    """``view[i, j] = t`` where taking the view is more than reading a name: t is bound to a name first."""
    if not (isinstance(node, cst.Assign) and len(node.targets) == 1):
        return None
    target = node.targets[0].target
    if not isinstance(target, cst.Subscript) or is_plain(target.value) or is_plain(node.value):
        return None
    if rewriter.kind(target.value) is not Kind.OUT:
        return None
    coordinates = calls.coordinates(rewriter, target)
    if coordinates is None:
        return None
    name = rewriter.fresh("value")
    value = rewriter.expr(node.value)
    bound = rewriter.made(cst.Assign([cst.AssignTarget(cst.Name(name))], value), node)
    put = rewriter.method(node, rewriter.expr(target.value), "put", [cst.Name(name), coordinates])
    return bound, rewriter.made(cst.Expr(put, semicolon=node.semicolon), node)


def small_statement(rewriter: Rewriter, node: cst.BaseSmallStatement) -> list[Any]:
    """A simple statement that is not on a line of its own."""
    first = _bound_first(rewriter, node)
    return [small(rewriter, node)] if first is None else list(first)


def small(rewriter: Rewriter, node: Any) -> Any:
    """A simple statement, rewritten."""
    match node:
        case cst.Assign():
            return _assign(rewriter, node)
        case cst.AugAssign():
            return _augmented(rewriter, node)
        case cst.AnnAssign() if node.value is not None:
            check_target(rewriter, node.target)
            return rewriter.rebuilt(
                node, target=rewriter.expr(node.target), value=rewriter.expr(node.value)
            )
        case cst.Return() if node.value is not None:
            return _return(rewriter, node)
        case cst.Assert():
            return _assert(rewriter, node)
        case cst.Del():
            _check_del(rewriter, node.target)
            return node
        case cst.Import() | cst.ImportFrom() | cst.Global() | cst.Nonlocal() | cst.AnnAssign():
            return node
        case _:
            return rewriter.generic(node)


def _return(rewriter: Rewriter, node: cst.Return) -> cst.Return:
    assert node.value is not None
    kind = rewriter.kind(node.value)
    of_kernel = len(rewriter.functions) == 1 and rewriter.inference.is_kernel
    if of_kernel and (kind.is_device or isinstance(node.value, cst.Tuple)):
        rewriter.fail(
            node.value,
            "a kernel returns nothing: store the value in an output, C = p.write(c, block), "
            "C[i, j] = tile",
        )
    rebuilt: cst.Return = rewriter.rebuilt(node, value=rewriter.expr(node.value))
    return rebuilt


def _assert(rewriter: Rewriter, node: cst.Assert) -> cst.Assert:
    kind = rewriter.kind(node.test)
    if kind.is_device:
        rewriter.fail(node.test, advice.on_device("assert"))
    test = rewriter.expr(node.test)
    if not kind.is_host:
        test = rewriter.guard(node.test, test, "assert")
    message = node.msg if node.msg is None else rewriter.expr(node.msg)
    rebuilt: cst.Assert = rewriter.rebuilt(node, test=test, msg=message)
    return rebuilt


def _check_del(rewriter: Rewriter, target: cst.BaseExpression) -> None:
    elements = (
        target.elements if isinstance(target, cst.Tuple | cst.List) else [cst.Element(target)]
    )
    for each in elements:
        value = each.value
        inside = value.value if isinstance(value, cst.Subscript | cst.Attribute) else value
        kind = rewriter.kind(inside)
        if kind.is_device or (inside is not value and kind in (Kind.IN, Kind.OUT)):
            rewriter.fail(
                value,
                "`del` on a value of the program: values live as long as they are used; leave "
                "it out",
            )


def check_target(rewriter: Rewriter, target: cst.BaseExpression) -> None:
    """Refuse a block of an input as what is assigned."""
    for each in stores(target):
        if isinstance(each, cst.Subscript) and rewriter.kind(each.value) is Kind.IN:
            rewriter.fail(each, advice.INPUT)


def _assign(rewriter: Rewriter, node: cst.Assign) -> cst.BaseSmallStatement:
    for each in node.targets:
        check_target(rewriter, each.target)
    target = node.targets[0].target
    if len(node.targets) == 1 and isinstance(target, cst.Subscript):
        stored = _store(rewriter, node, target)
        if stored is not None:
            return stored
    targets = [rewriter.rebuilt(each, target=rewriter.expr(each.target)) for each in node.targets]
    changed = any(a is not b for a, b in zip(targets, node.targets, strict=True))
    rebuilt: cst.Assign = rewriter.rebuilt(
        node, targets=targets if changed else node.targets, value=rewriter.expr(node.value)
    )
    return rebuilt


def _store(rewriter: Rewriter, node: cst.Assign, target: cst.Subscript) -> cst.Expr | None:
    """``C[i, j] = t`` as a call, where C is known to be an output or must be one."""
    value = node.value
    if rewriter.kind(target.value) is Kind.OUT and (is_plain(target.value) or is_plain(value)):
        coordinates = calls.coordinates(rewriter, target)
        if coordinates is not None and not isinstance(value, cst.NamedExpr):
            # One of them is a name, so that taking the view before the value makes no difference.
            put = rewriter.method(
                node, rewriter.expr(target.value), "put", [rewriter.expr(value), coordinates]
            )
            made: cst.Expr = rewriter.made(cst.Expr(put, semicolon=node.semicolon), node)
            return made
        return None
    around = _regions_outside_of(rewriter, root(target))
    if not around or rewriter.kind(target.value) is not Kind.UNKNOWN:
        return None
    key = _key(rewriter, target)
    if key is None:
        return None
    arguments = [rewriter.expr(value), rewriter.expr(target.value), key]
    if not any(around):
        arguments.append(cst.Integer(str(len(around))))
    store = rewriter.dispatched(node, "store", arguments)
    stored: cst.Expr = rewriter.made(cst.Expr(store, semicolon=node.semicolon), node)
    return stored


def _regions_outside_of(rewriter: Rewriter, name: str | None) -> list[bool]:
    """For the loops and branches between where an object is made and here: whether they are the device's."""
    found: list[bool] = []
    for local, certain in reversed(rewriter.regions):
        if name in local:
            break
        found.append(certain)
    return found


def _key(rewriter: Rewriter, target: cst.Subscript) -> cst.BaseExpression | None:
    """What stands in the brackets as an expression; None for slices."""
    items: list[cst.BaseElement] = []
    for each in target.slice:
        if not isinstance(each.slice, cst.Index):
            return None
        value = rewriter.expr(each.slice.value)
        items.append(cst.StarredElement(value) if each.slice.star else cst.Element(value))
    if len(items) == 1 and isinstance(items[0], cst.Element):
        return items[0].value
    return cst.Tuple(items)


def _augmented(rewriter: Rewriter, node: cst.AugAssign) -> cst.BaseSmallStatement:
    check_target(rewriter, node.target)
    for each in stores(node.target):
        if rewriter.kind(each.value) is Kind.OUT:
            rewriter.fail(
                node,
                f"`{sign(node.operator)}=` on an output, which is not read; read the tensor with "
                "A = p.read(tensor, block) and write C[i, j] = A[i, j] + t",
            )
    value = rewriter.expr(node.value)
    kinds = rewriter.kind(node.target), rewriter.kind(node.value)
    name = None
    if isinstance(node.target, cst.Name):
        name = operators.operator_method(sign(node.operator), *kinds)
    if name is None:
        rebuilt: cst.AugAssign = rewriter.rebuilt(
            node, target=rewriter.expr(node.target), value=value
        )
        return rebuilt
    result = rewriter.method(node, rewriter.again(node.target), name, [value])
    target = rewriter.made(cst.AssignTarget(node.target), node.target)
    made: cst.Assign = rewriter.made(cst.Assign([target], result, semicolon=node.semicolon), node)
    return made


def _last(node: cst.BaseSmallStatement) -> cst.BaseSmallStatement:
    """A statement that ends its line."""
    return node.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
