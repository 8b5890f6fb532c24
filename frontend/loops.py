"""Loops over ``range``: functions of the turn, and calls of fold and loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

from gizml_tile.frontend import advice, obstacles
from gizml_tile.frontend.obstacles import Obstacle
from gizml_tile.frontend.rewriter import Rewriter
from gizml_tile.frontend.spelling import (
    EQUAL,
    assign,
    call,
    line,
    list_of,
    own_lines,
    tuple_of,
)
from gizml_tile.frontend.states import Mode
from gizml_tile.frontend.syntax import targets, walk


def device_loop(rewriter: Rewriter, node: cst.For) -> list[Any]:
    """``for k in range(...)`` as a function of the turn and a call of fold or loop."""
    certain = rewriter.inference.modes[node] is Mode.DEVICE
    meeting = rewriter.inference.meetings.get(node)
    if meeting is None:  # it stands after a return and never runs
        return [node]
    obstacle = _loop_obstacle(
        rewriter, node, meeting.bound, meeting.definite, meeting.carried, certain
    )
    if obstacle is not None:
        if certain:
            rewriter.fail(obstacle.node, advice.inside(obstacle.word, "loop"))
        return [_guarded_loop(rewriter, node, obstacle.word)]
    bounds = _bounds(rewriter, node)
    assert isinstance(node.target, cst.Name)
    turn, carried = node.target.value, meeting.carried
    flags = rewriter.table.flags.get(node, ())
    first: list[Any] = []
    index = turn
    if turn in carried:
        index = rewriter.fresh(turn)
        first.append(assign([turn], cst.Name(index)))
    in_list = len(carried) > 1 or bool(flags)
    second = rewriter.unused("carried") if in_list or not carried else carried[0]
    if in_list:
        first.insert(0, _unpacked(carried, second))
    name, function = _body(
        rewriter,
        node,
        node.iter,
        [rewriter.made(cst.Name(index), node.target), cst.Name(second)],
        first,
        carried,
        in_list=in_list,
        certain=certain,
    )
    functions = [function]
    condition = None
    if flags:
        asked = [_asked(rewriter, node, flag) for flag in flags]
        condition, asking = _condition(rewriter, node.iter, carried, second, _all(asked))
        functions.append(asking)
    call = _loop_call(rewriter, node, certain, bounds, carried, name, condition)
    result = _unpacked(carried, call) if in_list else assign(carried, call)
    rewriter.mark(result, node.iter)
    after = [] if node.orelse is None else rewriter.body(node.orelse.body)
    return [*functions, result, *own_lines(after)]


def device_while(rewriter: Rewriter, node: cst.While, *, certain: bool) -> list[Any] | None:
    """``while`` as a function of a turn, one that asks whether there is a further one, and a call of while_.

    None where only Python can run it, and it is not certain that Python does not.
    """
    meeting = rewriter.inference.meetings.get(node)
    if meeting is None:  # it stands after a return and never runs
        return [node]
    carried = meeting.carried
    obstacle = _loop_obstacle(rewriter, node, meeting.bound, meeting.definite, carried, certain)
    if obstacle is not None:
        if certain:
            rewriter.fail(obstacle.node, advice.inside(obstacle.word, "loop"))
        return None
    for each in walk(node.test):
        if isinstance(each, cst.NamedExpr):
            if certain:
                rewriter.fail(each, advice.WALRUS)
            return None
    second = rewriter.unused("carried")
    first = [_unpacked(carried, second)] if carried else []
    loop, function = _body(
        rewriter, node, node.test, [cst.Name(second)], first, carried, in_list=True, certain=certain
    )
    condition, asking = _condition(
        rewriter, node.test, carried, second, rewriter.expr(node.test)
    )
    inits = list_of([cst.Name(each) for each in carried])
    arguments = [cst.Arg(each) for each in (inits, cst.Name(condition), cst.Name(loop))]
    name = "while_"
    function_called = (
        cst.Attribute(rewriter.program(), cst.Name(name)) if certain else rewriter.dispatch(name)
    )
    method = rewriter.made(function_called, node.test)
    result = _unpacked(carried, rewriter.made(cst.Call(method, arguments), node.test))
    rewriter.mark(result, node.test)
    after = [] if node.orelse is None else rewriter.body(node.orelse.body)
    return [function, asking, result, *own_lines(after)]


def _body(
    rewriter: Rewriter,
    node: cst.For | cst.While,
    origin: cst.CSTNode,
    params: Sequence[cst.Name],
    first: Sequence[Any],
    carried: tuple[str, ...],
    *,
    in_list: bool,
    certain: bool,
) -> tuple[str, cst.FunctionDef]:
    """A loop's body as a function of a turn that begins with some lines and returns what is carried."""
    name = rewriter.fresh("loop")
    rewriter.generated.add(name)
    local = rewriter.table.assigned(node.body) - set(carried)
    if isinstance(node, cst.For):
        local |= set(targets(node.target))
    rewriter.regions.append((local, certain))
    body = rewriter.body(node.body)
    rewriter.regions.pop()
    if carried:
        body = [*body, line(cst.Return(tuple_of(carried) if in_list else cst.Name(carried[0])))]
    function = rewriter.made(
        cst.FunctionDef(
            cst.Name(name),
            cst.Parameters([cst.Param(each) for each in params]),
            rewriter.block(node.body, [*first, *body]),
            leading_lines=node.leading_lines,
        ),
        origin,
    )
    return name, function


def _condition(
    rewriter: Rewriter,
    origin: cst.CSTNode,
    carried: tuple[str, ...],
    parameter: str,
    value: cst.BaseExpression,
) -> tuple[str, cst.FunctionDef]:
    """The function that tells of what is carried whether there is a further turn."""
    name = rewriter.fresh("while")
    rewriter.generated.add(name)
    answer = line(cst.Return(rewriter.argument(value)))
    rewriter.mark(answer, origin)
    first = [_unpacked(carried, parameter)] if carried else []
    function = rewriter.made(
        cst.FunctionDef(
            cst.Name(name),
            cst.Parameters([cst.Param(cst.Name(parameter))]),
            cst.IndentedBlock([*first, answer]),
        ),
        origin,
    )
    return name, function


def _asked(rewriter: Rewriter, node: cst.For, flag: str) -> cst.BaseExpression:
    return rewriter.method(node.iter, cst.Name(flag), "ne", [cst.Integer("0")])


def _all(masks: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    """``a.and_(b)``."""
    result = masks[0]
    for each in masks[1:]:
        result = call(cst.Attribute(result, cst.Name("and_")), [each])
    return result


def _unpacked(names: tuple[str, ...], value: str | cst.BaseExpression) -> cst.SimpleStatementLine:
    """``a, b = value``, of one name ``(a,) = value``; ``value`` alone where there are no names."""
    given = cst.Name(value) if isinstance(value, str) else value
    if len(names) != 1:
        return assign(names, given)
    target = tuple_of(names).with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return line(cst.Assign([cst.AssignTarget(target)], given))


def _loop_call(
    rewriter: Rewriter,
    node: cst.For,
    certain: bool,
    bounds: Sequence[cst.BaseExpression],
    carried: tuple[str, ...],
    name: str,
    condition: str | None,
) -> cst.Call:
    single = len(carried) == 1 and condition is None
    start, stop = (cst.Integer("0"), bounds[0]) if len(bounds) == 1 else bounds[:2]
    inits = cst.Name(carried[0]) if single else list_of([cst.Name(each) for each in carried])
    values = [start, stop, inits, cst.Name(name)]
    if certain:
        function: cst.BaseExpression = cst.Attribute(
            rewriter.program(), cst.Name("fold" if single else "loop")
        )
    else:
        function = rewriter.dispatch("fold" if single else "loop")
        values.insert(0, cst.Call(cst.Name("locals")))
    arguments = [cst.Arg(each) for each in values]
    if len(bounds) == 3:
        arguments.append(cst.Arg(bounds[2], keyword=cst.Name("step"), equal=EQUAL))
    if condition is not None:
        arguments.append(cst.Arg(cst.Name(condition), keyword=cst.Name("condition"), equal=EQUAL))
    made: cst.Call = rewriter.made(
        cst.Call(rewriter.made(function, node.iter), arguments), node.iter
    )
    return made


def _bounds(rewriter: Rewriter, node: cst.For) -> list[cst.BaseExpression]:
    assert isinstance(node.iter, cst.Call)
    if not isinstance(node.target, cst.Name):
        rewriter.fail(
            node.target,
            "a loop over range gives one number a turn: use one name, as in `for k in range(n)`",
        )
    for each in node.iter.args:
        if each.star or each.keyword is not None:
            rewriter.fail(
                node.iter,
                "range of a device loop takes its bounds one by one: range(start, stop, step)",
            )
    if not 1 <= len(node.iter.args) <= 3:
        rewriter.fail(node.iter, f"range takes 1 to 3 bounds, found {len(node.iter.args)}")
    return [rewriter.expr(each.value) for each in node.iter.args]


def _loop_obstacle(
    rewriter: Rewriter,
    node: cst.For | cst.While,
    bound: frozenset[str],
    definite: frozenset[str],
    carried: tuple[str, ...],
    certain: bool,
) -> Obstacle | None:
    live = rewriter.inference.liveness[rewriter.enclosing()]
    assigned = rewriter.table.assigned(node.body)
    loop_names = frozenset(targets(node.target) if isinstance(node, cst.For) else ())
    local = (assigned - set(carried)) | loop_names
    simple = not isinstance(node, cst.For) or (
        isinstance(node.target, cst.Name) and _simple_bounds(node)
    )
    if not certain and not simple:
        assert isinstance(node, cst.For)
        return Obstacle(node.target, "an unpacked range")
    found = obstacles.search(rewriter, node.body, local)
    if found is not None:
        return found
    exposed = live.exposed(node.body)
    for name in rewriter.table.assigned_in_order(node.body):
        if name in exposed and name not in bound and name not in loop_names:
            first = obstacles.first_read(rewriter, node.body, name)
            if first is not None:
                return Obstacle(first, f"name {name}")
    after = [
        name
        for name in (*loop_names, *rewriter.table.assigned_in_order(node.body))
        if name in live.after[node] and name not in carried
    ]
    for name in after:
        return Obstacle(obstacles.read_after(rewriter, node, name), f"name {name}")
    for name in carried:
        if not certain and name not in definite:
            return Obstacle(node, f"name {name}")
    return obstacles.closure(rewriter, node, frozenset(carried) | (assigned & bound))


def _simple_bounds(node: cst.For) -> bool:
    assert isinstance(node.iter, cst.Call)
    return 1 <= len(node.iter.args) <= 3 and not any(
        each.star or each.keyword for each in node.iter.args
    )


def _guarded_loop(rewriter: Rewriter, node: cst.For, word: str) -> cst.For:
    """A loop that only Python can run: an error where the helper holds traced values."""
    assert isinstance(node.iter, cst.Call)
    given = [rewriter.rebuilt(each, value=rewriter.expr(each.value)) for each in node.iter.args]
    before = [cst.Arg(cst.Call(cst.Name("locals"))), cst.Arg(cst.SimpleString(f'"{word}"'))]
    call = rewriter.made(cst.Call(rewriter.dispatch("host_range"), [*before, *given]), node.iter)
    orelse = node.orelse
    if orelse is not None:
        orelse = rewriter.rebuilt(orelse, body=rewriter.suite(orelse.body))
    rebuilt: cst.For = rewriter.rebuilt(
        node, iter=call, body=rewriter.suite(node.body), orelse=orelse
    )
    return rebuilt
