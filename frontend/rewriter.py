"""What rewriting a function knows and builds: names of ours, nodes that remember what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import libcst as cst

from gizml_tile.frontend.inference import Inference
from gizml_tile.frontend.kinds import Kind
from gizml_tile.frontend.spelling import bare, call, dotted, is_primary, parenthesized
from gizml_tile.frontend.syntax import Function, part_names

# What a kind of node becomes: an expression, or the statements in a statement's place.
Rules = Mapping[type[cst.CSTNode], Callable[["Rewriter", Any], Any]]
Place = tuple[int, int, int, int]


def keep(rewriter: Rewriter, node: cst.CSTNode) -> cst.CSTNode:
    """Nothing in the node is rewritten."""
    return node


def fresh(identifiers: set[str], stem: str) -> str:
    """A name of ours that is not among the identifiers, and then is: ``loop_1``."""
    number = 1
    while f"{stem}_{number}" in identifiers:
        number += 1
    name = f"{stem}_{number}"
    identifiers.add(name)
    return name


class Rewriter:
    """One function's rewriting. What each kind of node becomes is told by the rules it is given."""

    def __init__(
        self,
        rules: Rules,
        inference: Inference,
        identifiers: frozenset[str],
        fail: Callable[[cst.CSTNode, str], NoReturn],
        places: Mapping[cst.CSTNode, Place],
    ) -> None:
        self._rules = rules
        self.inference = inference
        self.table = inference.table
        self.resolver = inference.resolver
        self.fail = fail
        self._places = places
        self.origins: dict[cst.CSTNode, cst.CSTNode] = {}
        self.generated: set[str] = set()
        self.uses_dispatch = False
        self.tile_name = "tile"
        self._identifiers = set(identifiers)
        # The loops and branches around that become functions, innermost last: the names whose objects
        # are made inside, and whether they surely are the device's.
        self.regions: list[tuple[frozenset[str], bool]] = []
        self.python_loops: list[cst.For | cst.While] = []
        # For each function: the functions made in it that change something outside themselves.
        self.effectful: dict[cst.CSTNode, frozenset[str]] = {}
        # The functions around the place that is being rewritten, outermost first, with their local names.
        self.functions: list[Function] = []
        self.scopes: list[frozenset[str]] = []

    # Rules

    def expr(self, node: Any) -> Any:
        """An expression, or a part of one, rewritten."""
        rule = self._rules.get(type(node))
        return self.generic(node) if rule is None else rule(self, node)

    def statement(self, node: Any) -> list[Any]:
        """What a statement becomes: itself where nothing in it changes."""
        rule = self._rules.get(type(node))
        found: list[Any] = [self.generic(node)] if rule is None else rule(self, node)
        return found

    def start(self, node: cst.CSTNode) -> tuple[int, int]:
        """Where a piece of the person's source starts."""
        return self._places[node][:2]

    def end(self, node: cst.CSTNode) -> tuple[int, int]:
        """Where a piece of the person's source ends."""
        return self._places[node][2:]

    def one_line(self, node: cst.CSTNode) -> bool:
        """Whether a piece of the person's source is on one line."""
        return self.start(node)[0] == self.end(node)[0]

    def fresh(self, stem: str) -> str:
        """A name of ours that the person's source does not use: ``loop_1``."""
        return fresh(self._identifiers, stem)

    def unused(self, name: str) -> str:
        """A name of ours as it is where the person's source does not use it, else numbered."""
        if name in self._identifiers:
            return self.fresh(name)
        return name

    def is_outside(self, name: str) -> bool:
        """Whether a name is bound in none of the functions around."""
        return not any(name in scope for scope in self.scopes)

    def dispatch(self, name: str) -> cst.BaseExpression:
        """``tile.dispatch.NAME``."""
        self.uses_dispatch = True
        return dotted(f"{self.tile_name}.dispatch.{name}")

    def kind(self, node: cst.CSTNode) -> Kind:
        """What an expression of the person's holds."""
        return self.inference.kind(node)

    def made(self, new: Any, origin: cst.CSTNode) -> Any:
        """Remember which piece of the person's source a new node stands for."""
        self.origins[new] = origin
        return new

    def method(
        self,
        origin: cst.CSTNode,
        receiver: cst.BaseExpression,
        name: str,
        arguments: Sequence[cst.BaseExpression],
    ) -> cst.Call:
        """``receiver.name(arguments)``."""
        function = self.made(cst.Attribute(self.receiver(receiver), cst.Name(name)), origin)
        made: cst.Call = self.made(
            call(function, [self.argument(each) for each in arguments]), origin
        )
        return made

    def dispatched(
        self, origin: cst.CSTNode, name: str, arguments: Sequence[cst.BaseExpression]
    ) -> cst.Call:
        """``tile.dispatch.name(arguments)``."""
        made: cst.Call = self.made(call(self.dispatch(name), arguments), origin)
        return made

    def mark(self, statement: cst.SimpleStatementLine, origin: cst.CSTNode) -> None:
        """Remember what a line of ours stands for."""
        self.origins[statement] = origin
        for each in statement.body:
            self.origins[each] = origin

    def lazily(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """``lambda: node``."""
        made: cst.BaseExpression = self.made(
            cst.Lambda(cst.Parameters(), node, whitespace_after_lambda=cst.SimpleWhitespace("")),
            node,
        )
        return made

    def receiver(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """An expression as what a method is called on: in parentheses where it needs them."""
        if not is_primary(node):
            return self.same(node, parenthesized(node))
        if node.lpar and is_primary(bare(node)) and self.one_line(self.origins.get(node, node)):
            return self.same(node, bare(node))
        return node

    def argument(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """An expression as an argument: without parentheses of its own."""
        if isinstance(node, cst.Tuple | cst.GeneratorExp | cst.NamedExpr | cst.Yield):
            return node
        return self.same(node, bare(node))

    def same(self, old: cst.BaseExpression, new: cst.BaseExpression) -> cst.BaseExpression:
        """A new form of a node that stands for what the old one did."""
        if new is not old:
            self.origins[new] = self.origins.get(old, old)
        return new

    def again(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """A second copy of a name or constant."""
        made: cst.BaseExpression = self.made(node.deep_clone(), self.origins.get(node, node))
        return made

    def rebuilt(self, node: Any, **changes: Any) -> Any:
        """A node with some parts replaced, standing for the same source."""
        changes = {
            name: value for name, value in changes.items() if value is not getattr(node, name)
        }
        if not changes:
            return node
        new = node.with_changes(**changes)
        self.origins[new] = node
        return new

    def generic(self, node: Any) -> Any:
        """A node whose parts alone are rewritten."""
        changes: dict[str, Any] = {}
        for name in part_names(type(node)):
            value = getattr(node, name)
            if isinstance(value, cst.CSTNode):
                changes[name] = self.expr(value)
            elif isinstance(value, list | tuple) and value:
                new = [self.expr(each) for each in value]
                if any(a is not b for a, b in zip(new, value, strict=True)):
                    changes[name] = new
        return self.rebuilt(node, **changes)

    def keep_parens(self, node: cst.BaseExpression, new: cst.BaseExpression) -> cst.BaseExpression:
        """Parentheses around an expression that spans lines stay, so that the result does too."""
        if not node.lpar or self.one_line(node):
            return new
        return self.same(new, new.with_changes(lpar=node.lpar, rpar=node.rpar))

    def guard(self, origin: cst.CSTNode, value: cst.BaseExpression, word: str) -> cst.Call:
        """``tile.dispatch.host(value, word)``: the value, or an error where it is the device's."""
        return self.dispatched(
            origin, "host", [self.argument(value), cst.SimpleString(f'"{word}"')]
        )

    def program(self) -> cst.BaseExpression:
        """The program: its name where the source has one, else a call that gives it."""
        name = self.inference.program_name(self.functions)
        if name is not None:
            return cst.Name(name)
        return cst.Call(self.dispatch("program"))

    def enclosing(self) -> Function:
        """The function whose statements are being rewritten."""
        return next(each for each in reversed(self.functions) if isinstance(each, cst.FunctionDef))

    def suite(self, body: cst.BaseSuite) -> cst.BaseSuite:
        """A body with its statements rewritten."""
        new = self.body(body)
        old: Sequence[Any] = body.body
        if isinstance(body, cst.SimpleStatementSuite):
            if all(not isinstance(each, cst.BaseStatement) for each in new):
                return self.with_body(body, old, new)
            return self.block(body, new)
        return self.with_body(body, old, new)

    def with_body(self, body: Any, old: Sequence[Any], new: Sequence[Any]) -> cst.BaseSuite:
        """A body with other statements, itself where they are the same."""
        if len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True)):
            return body  # type: ignore[no-any-return]
        rebuilt: cst.BaseSuite = self.rebuilt(body, body=list(new))
        return rebuilt

    def body(self, body: cst.BaseSuite) -> list[Any]:
        """The statements of a body, rewritten."""
        new: list[Any] = []
        for each in body.body:
            new.extend(self.statement(each))
        return new

    def block(self, body: cst.BaseSuite, new: Sequence[Any]) -> cst.IndentedBlock:
        """An indented body of statements, with the comments of the old one."""
        if isinstance(body, cst.IndentedBlock):
            return body.with_changes(body=list(new))
        assert isinstance(body, cst.SimpleStatementSuite)
        lines: list[cst.BaseStatement] = []
        small: list[cst.BaseSmallStatement] = []
        for each in new:
            if isinstance(each, cst.BaseSmallStatement):
                small.append(each)
                continue
            if small:
                lines.append(cst.SimpleStatementLine(small))
                small = []
            lines.append(each)
        if small:
            lines.append(cst.SimpleStatementLine(small))
        return cst.IndentedBlock(lines, header=body.trailing_whitespace)

    def enter(self, function: Any) -> None:
        """Begin a function's inside."""
        self.functions.append(function)
        self.scopes.append(self.table.of(function).local)

    def leave(self) -> None:
        """End the innermost function's inside."""
        self.functions.pop()
        self.scopes.pop()
