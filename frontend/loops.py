"""Rewriting loops over ``range`` and branches into functions and the call that traces them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

from gizml_tile.frontend import advice
from gizml_tile.frontend.inference import Mode
from gizml_tile.frontend.kinds import Kind
from gizml_tile.frontend.operators import Expressions
from gizml_tile.frontend.rules import Obstacle, Rules, effectful_functions
from gizml_tile.frontend.scopes import Function, targets, walk
from gizml_tile.frontend.spelling import assign, line, list_of, tuple_of


class Loops(Expressions):
    """Rewrites what must become a loop or a branch of the program."""

    def suite(self, body: cst.BaseSuite) -> cst.BaseSuite:
        raise NotImplementedError

    def body(self, body: cst.BaseSuite) -> list[Any]:
        raise NotImplementedError

    def block(self, body: cst.BaseSuite, new: Sequence[Any]) -> cst.IndentedBlock:
        raise NotImplementedError

    def program(self) -> cst.BaseExpression:
        """The program: its name where the source has one, else a call that gives it."""
        name = self.inference.program_name(self.functions)
        if name is not None:
            return cst.Name(name)
        return cst.Call(self.dispatch("program"))

    # Loops

    def device_loop(self, node: cst.For) -> list[Any]:
        """``for k in range(...)`` as a function of the turn and a call of fold or loop."""
        certain = self.inference.modes[node] is Mode.DEVICE
        meeting = self.inference.meetings.get(node)
        if meeting is None:  # it stands after a return and never runs
            return [node]
        obstacle = self._loop_obstacle(node, meeting.bound, meeting.definite, meeting.carried, certain)
        if obstacle is not None:
            if certain:
                self.fail(obstacle.node, advice.inside(obstacle.word, "loop"))
            return [self._guarded_loop(node, obstacle.word)]
        bounds = self._bounds(node)
        assert isinstance(node.target, cst.Name)
        turn, carried = node.target.value, meeting.carried
        name = self.fresh("loop")
        self.generated.add(name)
        local = self.table.assigned(node.body) - set(carried) | {turn}
        self.regions.append(local)
        body = self.body(node.body)
        self.regions.pop()
        first: list[Any] = []
        index = turn
        if turn in carried:
            index = self.fresh(turn)
            first.append(assign([turn], cst.Name(index)))
        second = carried[0] if len(carried) == 1 else self.fresh("carried") if "carried" in self._identifiers \
            else "carried"  # fmt: skip
        if len(carried) > 1:
            first.insert(0, assign(carried, cst.Name(second)))
        if carried:
            body = [*body, line(cst.Return(self._values(carried)))]
        function = self.made(
            cst.FunctionDef(
                cst.Name(name),
                cst.Parameters([cst.Param(self.made(cst.Name(index), node.target)), cst.Param(cst.Name(second))]),
                self.block(node.body, [*first, *body]),
                leading_lines=node.leading_lines,
            ),
            _header(node),
        )
        result = assign(carried, self._loop_call(node, certain, bounds, carried, name))
        self._mark(result, node.iter)
        after = [] if node.orelse is None else self.body(node.orelse.body)
        return [function, result, *_own_lines(after)]

    def _loop_call(self, node: cst.For, certain: bool, bounds: Sequence[cst.BaseExpression],
                   carried: tuple[str, ...], name: str) -> cst.Call:  # fmt: skip
        single = len(carried) == 1
        start, stop = (cst.Integer("0"), bounds[0]) if len(bounds) == 1 else bounds[:2]
        inits = cst.Name(carried[0]) if single else list_of([cst.Name(each) for each in carried])
        values = [start, stop, inits, cst.Name(name)]
        if certain:
            function: cst.BaseExpression = cst.Attribute(self.program(), cst.Name("fold" if single else "loop"))
        else:
            function = self.dispatch("fold" if single else "loop")
            values.insert(0, cst.Call(cst.Name("locals")))
        arguments = [cst.Arg(each) for each in values]
        if len(bounds) == 3:
            arguments.append(cst.Arg(bounds[2], keyword=cst.Name("step"), equal=_EQUAL))
        made: cst.Call = self.made(cst.Call(self.made(function, node.iter), arguments), node.iter)
        return made

    def _bounds(self, node: cst.For) -> list[cst.BaseExpression]:
        assert isinstance(node.iter, cst.Call)
        if not isinstance(node.target, cst.Name):
            self.fail(node.target, "a loop over range gives one number a turn: use one name, as in `for k in range(n)`")
        for each in node.iter.args:
            if each.star or each.keyword is not None:
                self.fail(node.iter, "range of a device loop takes its bounds one by one: range(start, stop, step)")
        if not 1 <= len(node.iter.args) <= 3:
            self.fail(node.iter, f"range takes 1 to 3 bounds, found {len(node.iter.args)}")
        return [self.expr(each.value) for each in node.iter.args]

    def _loop_obstacle(self, node: cst.For, bound: frozenset[str], definite: frozenset[str],
                       carried: tuple[str, ...], certain: bool) -> Obstacle | None:  # fmt: skip
        live = self.inference.liveness[self._enclosing()]
        assigned = self.table.assigned(node.body)
        loop_names = frozenset(targets(node.target))
        local = (assigned - set(carried)) | loop_names
        if not certain and not (isinstance(node.target, cst.Name) and self._simple_bounds(node)):
            return Obstacle(node.target, "an unpacked range")
        found = self._search(node.body, local, certain)
        if found is not None:
            return found
        exposed = live.exposed(node.body)
        for name in self.table.assigned_in_order(node.body):
            if name in exposed and name not in bound and name not in loop_names:
                first = self._first_read(node.body, name)
                if first is not None:
                    return Obstacle(first, f"name {name}")
        after = [name for name in (*loop_names, *self.table.assigned_in_order(node.body))
                 if name in live.after[node] and name not in carried]  # fmt: skip
        for name in after:
            return Obstacle(self._read_after(node, name), f"name {name}")
        for name in carried:
            if not certain and name not in definite:
                return Obstacle(node, f"name {name}")
        return self._closure(node, frozenset(carried) | (assigned & bound))

    def _simple_bounds(self, node: cst.For) -> bool:
        assert isinstance(node.iter, cst.Call)
        return 1 <= len(node.iter.args) <= 3 and not any(each.star or each.keyword for each in node.iter.args)

    def _guarded_loop(self, node: cst.For, word: str) -> cst.For:
        """A loop that only Python can run: an error where the helper holds traced values."""
        assert isinstance(node.iter, cst.Call)
        given = [self.rebuilt(each, value=self.expr(each.value)) for each in node.iter.args]
        before = [cst.Arg(cst.Call(cst.Name("locals"))), cst.Arg(cst.SimpleString(f'"{word}"'))]
        call = self.made(cst.Call(self.dispatch("host_range"), [*before, *given]), node.iter)
        orelse = node.orelse
        if orelse is not None:
            orelse = self.rebuilt(orelse, body=self.suite(orelse.body))
        rebuilt: cst.For = self.rebuilt(node, iter=call, body=self.suite(node.body), orelse=orelse)
        return rebuilt

    # Branches

    def branch(self, node: cst.If) -> list[Any]:
        """``if``: Python's on host values, else functions for its arms and a call of cond."""
        kind = self.kind(node.test)
        if kind is Kind.MASK:
            self.fail(node.test, advice.IF_MASK)
        if kind is Kind.INDEX:
            self.fail(node.test, advice.IF_INDEX)
        meeting = self.inference.meetings.get(node)
        if kind.is_host or meeting is None:
            return [self._python_if(node, self.expr(node.test))]
        obstacle = self._branch_obstacle(node, meeting.bound, meeting.definite, kind.is_device)
        if obstacle is not None:
            if kind.is_device:
                self.fail(obstacle.node, advice.inside(obstacle.word, "branch"))
            return [self._python_if(node, self.guard(node.test, self.expr(node.test), obstacle.word))]
        return self._device_if(node, kind.is_device)

    def _python_if(self, node: cst.If, test: cst.BaseExpression) -> cst.If:
        orelse: Any = node.orelse
        body = self.suite(node.body)
        if isinstance(orelse, cst.If):
            new = self.branch(orelse)
            if len(new) == 1 and isinstance(new[0], cst.If):
                orelse = new[0]
            else:
                lines, new = _without_leading_lines(new)
                orelse = cst.Else(cst.IndentedBlock(new), leading_lines=lines)
        elif orelse is not None:
            orelse = self.rebuilt(orelse, body=self.suite(orelse.body))
        rebuilt: cst.If = self.rebuilt(node, test=test, body=body, orelse=orelse)
        return rebuilt

    def _device_if(self, node: cst.If, certain: bool) -> list[Any]:
        live = self.inference.liveness[self._enclosing()].after[node]
        outputs = tuple([name for name in self.table.assigned_in_order(node) if name in live])
        test = self.expr(node.test)
        then = self.fresh("then")
        functions = [self._arm(then, node, node.body, self.body_in_branch(node.body), outputs)]
        arguments: list[cst.BaseExpression] = [self._argument(test), cst.Name(then)]
        if node.orelse is not None:
            name = self.fresh("else")
            suite = node.orelse.body if isinstance(node.orelse, cst.Else) else cst.IndentedBlock([])
            if isinstance(node.orelse, cst.If):
                _, new = _without_leading_lines(self._in_region(node.orelse, lambda: self.branch(node.orelse)))
            else:
                new = self.body_in_branch(suite)
            functions.append(self._arm(name, node.orelse, suite, new, outputs))
            arguments.append(cst.Name(name))
        elif outputs:
            arguments.append(cst.Lambda(cst.Parameters(), self._values(outputs, in_parentheses=True),
                                        whitespace_after_lambda=cst.SimpleWhitespace("")))  # fmt: skip
        function = cst.Attribute(self.program(), cst.Name("cond")) if certain else self.dispatch("cond")
        call = self.made(cst.Call(self.made(function, node.test), [cst.Arg(each) for each in arguments]), node.test)
        result = assign(outputs, call)
        self._mark(result, node.test)
        return [*functions, result]

    def body_in_branch(self, body: cst.BaseSuite) -> list[Any]:
        """The statements of an arm, rewritten."""
        return self._in_region(body, lambda: self.body(body))  # type: ignore[no-any-return]

    def _in_region(self, node: cst.CSTNode, rewrite: Any) -> Any:
        self.regions.append(self.table.assigned(node))
        new = rewrite()
        self.regions.pop()
        return new

    def _arm(self, name: str, node: cst.If | cst.Else, suite: cst.BaseSuite, new: Sequence[Any],
             outputs: tuple[str, ...]) -> cst.FunctionDef:  # fmt: skip
        self.generated.add(name)
        live = self.inference.liveness[self._enclosing()]
        piece = cst.IndentedBlock([node]) if isinstance(node, cst.If) and not suite.body else suite
        # A name that an arm assigns is its own; where it is read or given unassigned it starts as the outer one.
        wanted = live.wanted(piece, frozenset(outputs))
        start = [each for each in self.table.assigned_in_order(piece) if each in wanted]
        params = [cst.Param(cst.Name(each), default=cst.Name(each), equal=_EQUAL, star="") for each in start]
        if outputs:
            new = [*_own_lines(new), line(cst.Return(self._values(outputs)))]
        function: cst.FunctionDef = self.made(
            cst.FunctionDef(cst.Name(name), cst.Parameters(params), self.block(suite, new),
                            leading_lines=node.leading_lines),
            _header(node),
        )  # fmt: skip
        return function

    def _branch_obstacle(self, node: cst.If, bound: frozenset[str], definite: frozenset[str],
                         certain: bool) -> Obstacle | None:  # fmt: skip
        arms: list[cst.CSTNode] = [node.body]
        if node.orelse is not None:
            arms.append(node.orelse)
        live = self.inference.liveness[self._enclosing()]
        known = bound if certain else definite
        for arm in arms:
            found = self._search(arm, self.table.assigned(arm) - bound, certain)
            if found is not None:
                return found
        assigned = [self.table.assigned(arm) for arm in arms] + ([frozenset()] if len(arms) == 1 else [])
        for name in self.table.assigned_in_order(node):
            everywhere = all(name in each for each in assigned)
            if name in live.after[node] and name not in known and not (everywhere and certain):
                return Obstacle(self._read_after(node, name), f"name {name}")
        outputs = live.after[node] & self.table.assigned(node)
        for arm in arms:
            piece = arm if isinstance(arm, cst.BaseSuite) else cst.IndentedBlock([arm]) if isinstance(arm, cst.If) \
                else arm.body  # type: ignore[attr-defined]  # fmt: skip
            wanted = live.wanted(piece, outputs)
            for name in self.table.assigned_in_order(arm):
                if name in wanted and name not in known:
                    return Obstacle(self._first_read(arm, name) or node, f"name {name}")
        return self._closure(node, self.table.assigned(node), inside=not certain)

    # What a body holds

    def _enclosing(self) -> Function:
        """The function whose statements are being rewritten."""
        return next(each for each in reversed(self.functions) if isinstance(each, cst.FunctionDef))

    def _search(self, body: cst.CSTNode, local: frozenset[str], certain: bool) -> Obstacle | None:
        declared: set[str] = set()
        effectful: set[str] = set()
        for each in self.functions:
            if isinstance(each, cst.FunctionDef | cst.Lambda):
                effectful |= effectful_functions(self.inference, each)
        declared |= self.table.of(self._enclosing()).declared
        rules = Rules(self.inference, certain, frozenset(declared), frozenset(effectful))
        return next(rules.obstacles(body, local - declared), None)

    def _closure(self, node: cst.CSTNode, changed: frozenset[str], *, inside: bool = False) -> Obstacle | None:
        """A function made outside a body (or, with ``inside``, in it) that reads a name the body assigns."""
        names = self.table.of(self._enclosing())
        within = {each for each, _ in self.table.captures(node)}
        called = self.table.reads(node)
        for name in sorted(called & names.functions.keys()):
            for function in names.functions[name]:
                if (function in within) > inside or (function not in within and not self._made_before(function, node)):
                    continue
                for read in sorted((self.table.of(function).free | set(names.behind[name])) & changed):
                    who = f"`{name}`" if isinstance(function, cst.FunctionDef) else "a function"
                    return Obstacle(function, f"closure {read} {who}")
        return None

    def _made_before(self, function: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether a function may exist when a statement runs: it stands before it, or in a loop around both."""
        if self.start(function) < self.start(node):
            return True
        return any(self.start(function) < self.end(each) for each in self.python_loops)

    def _first_read(self, body: cst.CSTNode, name: str) -> cst.CSTNode | None:
        """The first place of a name in a body, where it is a read."""
        for each in walk(body):
            if isinstance(each, cst.Name) and each.value == name:
                return None if each in self.inference.kinds and self._is_target(body, each) else each
        return None

    def _is_target(self, body: cst.CSTNode, name: cst.Name) -> bool:
        for each in walk(body):
            if isinstance(each, cst.Assign) and any(_holds(target.target, name) for target in each.targets):
                return True
            if isinstance(each, cst.For | cst.AnnAssign) and _holds(each.target, name):
                return True
        return False

    def _read_after(self, node: cst.CSTNode, name: str) -> cst.CSTNode:
        """Where a name is read after a statement; the statement itself where it is read before it in the text."""
        passed = False
        inside = set(walk(node))
        for each in walk(self._enclosing().body):
            if each is node:
                passed = True
            if passed and each not in inside and isinstance(each, cst.Name) and each.value == name:
                return each
        return node

    def _values(self, names: Sequence[str], *, in_parentheses: bool = False) -> cst.BaseExpression:
        if len(names) == 1:
            return cst.Name(names[0])
        values = tuple_of(names)
        if in_parentheses:
            return values.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return values

    def _mark(self, statement: cst.SimpleStatementLine, origin: cst.CSTNode) -> None:
        self.origins[statement] = origin
        for each in statement.body:
            self.origins[each] = origin


_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _header(node: cst.For | cst.If | cst.Else) -> cst.CSTNode:
    """What a generated function stands for: the loop's range, the branch's condition."""
    return node.iter if isinstance(node, cst.For) else node.test if isinstance(node, cst.If) else node


def _holds(target: cst.CSTNode, name: cst.Name) -> bool:
    if target is name:
        return True
    if isinstance(target, cst.Tuple | cst.List):
        return any(_holds(each.value, name) for each in target.elements)
    return False


def _own_lines(statements: Sequence[Any]) -> list[Any]:
    """Statements each on a line of its own."""
    return [line(each) if isinstance(each, cst.BaseSmallStatement) else each for each in statements]


def _without_leading_lines(statements: Sequence[Any]) -> tuple[Sequence[cst.EmptyLine], list[Any]]:
    """The comments before some statements, and the statements without them."""
    first, *rest = statements
    lines = first.leading_lines
    return lines, [first.with_changes(leading_lines=[]), *rest]


