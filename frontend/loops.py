"""Loops over ``range``: functions of the turn, and calls of fold and loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

from gizml_tile.frontend import advice, obstacles
from gizml_tile.frontend.obstacles import Obstacle
from gizml_tile.frontend.rewriter import Rewriter
from gizml_tile.frontend.spelling import EQUAL, assign, line, list_of, names_value, own_lines
from gizml_tile.frontend.states import Mode
from gizml_tile.frontend.syntax import targets


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
    name = rewriter.fresh("loop")
    rewriter.generated.add(name)
    local = rewriter.table.assigned(node.body) - set(carried) | {turn}
    rewriter.regions.append((local, certain))
    body = rewriter.body(node.body)
    rewriter.regions.pop()
    first: list[Any] = []
    index = turn
    if turn in carried:
        index = rewriter.fresh(turn)
        first.append(assign([turn], cst.Name(index)))
    second = carried[0] if len(carried) == 1 else rewriter.unused("carried")
    if len(carried) > 1:
        first.insert(0, assign(carried, cst.Name(second)))
    if carried:
        body = [*body, line(cst.Return(names_value(carried)))]
    function = rewriter.made(
        cst.FunctionDef(
            cst.Name(name),
            cst.Parameters(
                [
                    cst.Param(rewriter.made(cst.Name(index), node.target)),
                    cst.Param(cst.Name(second)),
                ]
            ),
            rewriter.block(node.body, [*first, *body]),
            leading_lines=node.leading_lines,
        ),
        node.iter,
    )
    result = assign(carried, _loop_call(rewriter, node, certain, bounds, carried, name))
    rewriter.mark(result, node.iter)
    after = [] if node.orelse is None else rewriter.body(node.orelse.body)
    return [function, result, *own_lines(after)]


def _loop_call(
    rewriter: Rewriter,
    node: cst.For,
    certain: bool,
    bounds: Sequence[cst.BaseExpression],
    carried: tuple[str, ...],
    name: str,
) -> cst.Call:
    single = len(carried) == 1
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
    node: cst.For,
    bound: frozenset[str],
    definite: frozenset[str],
    carried: tuple[str, ...],
    certain: bool,
) -> Obstacle | None:
    live = rewriter.inference.liveness[rewriter.enclosing()]
    assigned = rewriter.table.assigned(node.body)
    loop_names = frozenset(targets(node.target))
    local = (assigned - set(carried)) | loop_names
    if not certain and not (isinstance(node.target, cst.Name) and _simple_bounds(node)):
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
