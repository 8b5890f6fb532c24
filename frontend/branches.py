"""``if``: Python's on host values, else functions for its arms and a call of cond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import libcst as cst

from gizml_tile.frontend import advice, obstacles
from gizml_tile.frontend.kinds import Kind
from gizml_tile.frontend.obstacles import Obstacle
from gizml_tile.frontend.rewriter import Rewriter
from gizml_tile.frontend.spelling import EQUAL, assign, line, names_value, own_lines
from gizml_tile.frontend.states import Meeting


def branch(rewriter: Rewriter, node: cst.If) -> list[Any]:
    """``if``: Python's on host values, else functions for its arms and a call of cond."""
    kind = rewriter.kind(node.test)
    if kind is Kind.MASK:
        rewriter.fail(node.test, advice.IF_MASK)
    if kind is Kind.INDEX:
        rewriter.fail(node.test, advice.IF_INDEX)
    meeting = rewriter.inference.meetings.get(node)
    if kind.is_host or meeting is None:
        return [_python_if(rewriter, node, rewriter.expr(node.test))]
    obstacle = _branch_obstacle(rewriter, node, meeting, kind.is_device)
    if obstacle is not None:
        if kind.is_device:
            rewriter.fail(obstacle.node, advice.inside(obstacle.word, "branch"))
        return [
            _python_if(
                rewriter, node, rewriter.guard(node.test, rewriter.expr(node.test), obstacle.word)
            )
        ]
    return _device_if(rewriter, node, kind.is_device)


def _python_if(rewriter: Rewriter, node: cst.If, test: cst.BaseExpression) -> cst.If:
    orelse: Any = node.orelse
    body = rewriter.suite(node.body)
    if isinstance(orelse, cst.If):
        new = branch(rewriter, orelse)
        if len(new) == 1 and isinstance(new[0], cst.If):
            orelse = new[0]
        else:
            lines, new = _without_leading_lines(new)
            orelse = cst.Else(cst.IndentedBlock(new), leading_lines=lines)
    elif orelse is not None:
        orelse = rewriter.rebuilt(orelse, body=rewriter.suite(orelse.body))
    rebuilt: cst.If = rewriter.rebuilt(node, test=test, body=body, orelse=orelse)
    return rebuilt


def _device_if(rewriter: Rewriter, node: cst.If, certain: bool) -> list[Any]:
    live = rewriter.inference.liveness[rewriter.enclosing()].after[node]
    outputs = tuple([name for name in rewriter.table.assigned_in_order(node) if name in live])
    test = rewriter.expr(node.test)
    then = rewriter.fresh("then")
    functions = [
        _arm(rewriter, then, node, node.body, _body(rewriter, node.body, certain), outputs)
    ]
    arguments: list[cst.BaseExpression] = [rewriter.argument(test), cst.Name(then)]
    if node.orelse is not None:
        name = rewriter.fresh("else")
        suite = node.orelse.body if isinstance(node.orelse, cst.Else) else cst.IndentedBlock([])
        if isinstance(node.orelse, cst.If):
            nested = node.orelse
            _, new = _without_leading_lines(
                _in_region(rewriter, nested, certain, lambda: branch(rewriter, nested))
            )
        else:
            new = _body(rewriter, suite, certain)
        functions.append(_arm(rewriter, name, node.orelse, suite, new, outputs))
        arguments.append(cst.Name(name))
    elif outputs:
        arguments.append(
            cst.Lambda(
                cst.Parameters(),
                names_value(outputs, in_parentheses=True),
                whitespace_after_lambda=cst.SimpleWhitespace(""),
            )
        )
    function = (
        cst.Attribute(rewriter.program(), cst.Name("cond"))
        if certain
        else rewriter.dispatch("cond")
    )
    call = rewriter.made(
        cst.Call(rewriter.made(function, node.test), [cst.Arg(each) for each in arguments]),
        node.test,
    )
    result = assign(outputs, call)
    rewriter.mark(result, node.test)
    return [*functions, result]


def _body(rewriter: Rewriter, body: cst.BaseSuite, certain: bool) -> list[Any]:
    """The statements of an arm, rewritten."""
    return _in_region(rewriter, body, certain, lambda: rewriter.body(body))


def _in_region(
    rewriter: Rewriter, node: cst.CSTNode, certain: bool, rewrite: Callable[[], list[Any]]
) -> list[Any]:
    rewriter.regions.append((rewriter.table.assigned(node), certain))
    new = rewrite()
    rewriter.regions.pop()
    return new


def _arm(
    rewriter: Rewriter,
    name: str,
    node: cst.If | cst.Else,
    suite: cst.BaseSuite,
    new: Sequence[Any],
    outputs: tuple[str, ...],
) -> cst.FunctionDef:
    rewriter.generated.add(name)
    live = rewriter.inference.liveness[rewriter.enclosing()]
    piece = suite if suite.body else _suite_of(node)
    # A name that an arm assigns is its own; where it is read or given unassigned it starts as the outer one.
    wanted = live.wanted(piece, frozenset(outputs))
    start = [each for each in rewriter.table.assigned_in_order(piece) if each in wanted]
    params = [
        cst.Param(cst.Name(each), default=cst.Name(each), equal=EQUAL, star="") for each in start
    ]
    if outputs:
        new = [*own_lines(new), line(cst.Return(names_value(outputs)))]
    function: cst.FunctionDef = rewriter.made(
        cst.FunctionDef(
            cst.Name(name),
            cst.Parameters(params),
            rewriter.block(suite, new),
            leading_lines=node.leading_lines,
        ),
        node.test if isinstance(node, cst.If) else node,
    )
    return function


def _branch_obstacle(
    rewriter: Rewriter, node: cst.If, meeting: Meeting, certain: bool
) -> Obstacle | None:
    arms: list[cst.BaseSuite | cst.If | cst.Else] = [node.body]
    if node.orelse is not None:
        arms.append(node.orelse)
    live = rewriter.inference.liveness[rewriter.enclosing()]
    known = meeting.bound if certain else meeting.definite
    for arm in arms:
        found = obstacles.search(rewriter, arm, rewriter.table.assigned(arm) - meeting.bound)
        if found is not None:
            return found
    assigned = [rewriter.table.assigned(arm) for arm in arms] + (
        [frozenset()] if len(arms) == 1 else []
    )
    for name in rewriter.table.assigned_in_order(node):
        everywhere = certain and all(name in each for each in assigned)
        if name in live.after[node] - known - meeting.given and not everywhere:
            return Obstacle(obstacles.read_after(rewriter, node, name), f"name {name}")
    outputs = live.after[node] & rewriter.table.assigned(node)
    for arm in arms:
        piece = _suite_of(arm)
        wanted = live.wanted(piece, outputs)
        for name in rewriter.table.assigned_in_order(arm):
            if name in wanted and name not in known:
                return Obstacle(obstacles.first_read(rewriter, arm, name) or node, f"name {name}")
    return obstacles.closure(rewriter, node, rewriter.table.assigned(node), inside=not certain)


def _suite_of(arm: cst.BaseSuite | cst.If | cst.Else) -> cst.BaseSuite:
    """An arm as a body: ``elif`` is a branch of its own."""
    if isinstance(arm, cst.If):
        return cst.IndentedBlock([arm])
    return arm.body if isinstance(arm, cst.Else) else arm


def _without_leading_lines(statements: Sequence[Any]) -> tuple[Sequence[cst.EmptyLine], list[Any]]:
    """The comments before some statements, and the statements without them."""
    first, *rest = statements
    lines = first.leading_lines
    return lines, [first.with_changes(leading_lines=[]), *rest]
