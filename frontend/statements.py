"""Rewriting statements: assignments, and the control flow that stays Python's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

from gizml_tile.frontend import advice
from gizml_tile.frontend.inference import Mode
from gizml_tile.frontend.kinds import Kind
from gizml_tile.frontend.loops import Loops
from gizml_tile.frontend.scopes import root, stores
from gizml_tile.frontend.spelling import chain_of, is_plain, line, sign


class Statements(Loops):
    """Rewrites the statements of one function."""

    def function(self, node: cst.FunctionDef) -> cst.FunctionDef:
        """A function with its body rewritten; annotations stay, and decorators but for ``tile.function``."""
        params = self.defaults(node)
        decorators = [each for each in node.decorators if not self._is_mark(each.decorator)]
        self.functions.append(node)
        self.scopes.append(self.table.of(node).local)
        around = self.regions, self.python_loops
        self.regions, self.python_loops = [], []
        body = self.suite(node.body)
        self.regions, self.python_loops = around
        self.scopes.pop()
        self.functions.pop()
        rebuilt: cst.FunctionDef = self.rebuilt(node, params=params, body=body)
        if len(decorators) < len(node.decorators):
            rebuilt = self.rebuilt(rebuilt, decorators=decorators)
            self.origins[rebuilt] = node
        return rebuilt

    def _is_mark(self, decorator: cst.BaseExpression) -> bool:
        """Whether a decorator is ``tile.function``: what it asks for is done."""
        chain = chain_of(decorator)
        return chain is not None and self.is_outside(chain[0]) and self.resolver.is_function_mark(chain)

    def suite(self, body: cst.BaseSuite) -> cst.BaseSuite:
        """A body with its statements rewritten."""
        new = self.body(body)
        old: Sequence[Any] = body.body
        if isinstance(body, cst.SimpleStatementSuite):
            if all(not isinstance(each, cst.BaseStatement) for each in new):
                return self._with_body(body, old, new)
            return self.block(body, new)
        return self._with_body(body, old, new)

    def _with_body(self, body: Any, old: Sequence[Any], new: Sequence[Any]) -> cst.BaseSuite:
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

    def statement(self, node: Any) -> list[Any]:
        """What a statement becomes: itself where nothing in it changes."""
        match node:
            case cst.SimpleStatementLine():
                return self._line(node)
            case cst.If():
                return self.branch(node)
            case cst.For() if self.inference.modes.get(node, Mode.PYTHON) is not Mode.PYTHON:
                return self.device_loop(node)
            case cst.While():
                return [self._while(node)]
            case cst.FunctionDef():
                return [self.function(node)]
            case cst.ClassDef():
                return [self._class(node)]
            case cst.BaseSmallStatement():
                return [self.small(node)]
            case cst.Match():
                return [self._match(node)]
            case _:
                return [self._compound(node)]

    def _compound(self, node: Any) -> Any:
        """A compound statement that stays Python's: its expressions and bodies rewritten."""
        if isinstance(node, cst.For):
            self.python_loops.append(node)
            new = self._parts(node)
            self.python_loops.pop()
            return new
        return self._parts(node)

    def _parts(self, node: Any) -> Any:
        changes: dict[str, Any] = {}
        for name in ("iter", "target", "items", "body", "handlers", "orelse", "finalbody", "type", "guard",
                     "pattern"):  # fmt: skip
            value = getattr(node, name, None)
            if value is None:
                continue
            if name in ("handlers", "items"):
                new: Any = [self._compound(each) if name == "handlers" else self.expr(each) for each in value]
                if any(a is not b for a, b in zip(new, value, strict=True)):
                    changes[name] = new
            elif isinstance(value, cst.BaseSuite):
                changes[name] = self.suite(value)
            elif isinstance(value, cst.Else | cst.Finally):
                changes[name] = self._compound(value)
            elif name != "pattern":
                changes[name] = self.expr(value)
        return self.rebuilt(node, **changes)

    def _while(self, node: cst.While) -> cst.While:
        kind = self.kind(node.test)
        if kind.is_device:
            self.fail(node.test, advice.on_device("while"))
        test = self.expr(node.test)
        if not kind.is_host:
            test = self.guard(node.test, test, "while")
        self.python_loops.append(node)
        body = self.suite(node.body)
        self.python_loops.pop()
        orelse = None if node.orelse is None else self._compound(node.orelse)
        rebuilt: cst.While = self.rebuilt(node, test=test, body=body, orelse=orelse)
        return rebuilt

    def _match(self, node: cst.Match) -> cst.Match:
        kind = self.kind(node.subject)
        if kind.is_device:
            self.fail(node.subject, advice.on_device("match"))
        subject = self.expr(node.subject)
        if not kind.is_host:
            subject = self.guard(node.subject, subject, "match")
        cases = [self._compound(each) for each in node.cases]
        changed = any(a is not b for a, b in zip(cases, node.cases, strict=True))
        rebuilt: cst.Match = self.rebuilt(node, subject=subject, cases=cases if changed else node.cases)
        return rebuilt

    def _class(self, node: cst.ClassDef) -> cst.ClassDef:
        # A class body runs once and is Python's; its functions are rewritten.
        new = [self.function(each) if isinstance(each, cst.FunctionDef) else each for each in node.body.body]
        rebuilt: cst.ClassDef = self.rebuilt(node, body=self._with_body(node.body, node.body.body, new))
        return rebuilt

    # Small statements

    def _line(self, node: cst.SimpleStatementLine) -> list[cst.SimpleStatementLine]:
        """A line of simple statements: one line, or one for each where a value is bound first."""
        lines: list[cst.SimpleStatementLine] = []
        small: list[cst.BaseSmallStatement] = []
        for each in node.body:
            first = self._bound_first(each)
            if first is not None:
                value, each = first
                lines.append(line(value))
                if small:
                    lines.insert(-1, cst.SimpleStatementLine([*small[:-1], _last(small[-1])]))
                    small = []
            else:
                each = self.small(each)
            small.append(each)
        if not lines and all(a is b for a, b in zip(small, node.body, strict=True)):
            return [node]
        last: cst.SimpleStatementLine = self.rebuilt(node, body=small)
        if lines:
            lines[0] = lines[0].with_changes(leading_lines=node.leading_lines)
            last = self.rebuilt(last, leading_lines=[])
        return [*lines, last]

    def _bound_first(self, node: Any) -> tuple[cst.Assign, cst.Expr] | None:
        """``view[i, j] = t`` where taking the view is more than reading a name: t is bound to a name first."""
        if not (isinstance(node, cst.Assign) and len(node.targets) == 1):
            return None
        target = node.targets[0].target
        if not isinstance(target, cst.Subscript) or is_plain(target.value) or is_plain(node.value):
            return None
        if self.kind(target.value) is not Kind.OUT:
            return None
        coordinates = self.coordinates(target)
        if coordinates is None:
            return None
        name = self.fresh("value")
        value = self.expr(node.value)
        bound = self.made(cst.Assign([cst.AssignTarget(cst.Name(name))], value), node)
        put = self.method(node, self.expr(target.value), "put", [cst.Name(name), coordinates])
        return bound, self.made(cst.Expr(put, semicolon=node.semicolon), node)

    def small(self, node: Any) -> Any:
        """A simple statement, rewritten."""
        match node:
            case cst.Assign():
                return self._assign(node)
            case cst.AugAssign():
                return self._augmented(node)
            case cst.AnnAssign() if node.value is not None:
                return self.rebuilt(node, target=self.expr(node.target), value=self.expr(node.value))
            case cst.Return() if node.value is not None:
                return self._return(node)
            case cst.Assert():
                return self._assert(node)
            case cst.Del():
                self._check_del(node.target)
                return node
            case cst.Import() | cst.ImportFrom() | cst.Global() | cst.Nonlocal() | cst.AnnAssign():
                return node
            case _:
                return self.generic(node)

    def _return(self, node: cst.Return) -> cst.Return:
        assert node.value is not None
        kind = self.kind(node.value)
        if len(self.functions) == 1 and self.inference.is_kernel:
            if kind.is_device or isinstance(node.value, cst.Tuple):
                self.fail(
                    node.value,
                    "a kernel returns nothing: store the value in an output, C = p.write(c, block), C[i, j] = tile",
                )
        rebuilt: cst.Return = self.rebuilt(node, value=self.expr(node.value))
        return rebuilt

    def _assert(self, node: cst.Assert) -> cst.Assert:
        kind = self.kind(node.test)
        if kind.is_device:
            self.fail(node.test, advice.on_device("assert"))
        test = self.expr(node.test)
        if not kind.is_host:
            test = self.guard(node.test, test, "assert")
        message = node.msg if node.msg is None else self.expr(node.msg)
        rebuilt: cst.Assert = self.rebuilt(node, test=test, msg=message)
        return rebuilt

    def _check_del(self, target: cst.BaseExpression) -> None:
        elements = target.elements if isinstance(target, cst.Tuple | cst.List) else [cst.Element(target)]
        for each in elements:
            value = each.value
            inside = value.value if isinstance(value, cst.Subscript | cst.Attribute) else value
            kind = self.kind(inside)
            if kind.is_device or (inside is not value and kind in (Kind.IN, Kind.OUT)):
                self.fail(value, "`del` on a value of the program: values live as long as they are used; leave it out")

    def _assign(self, node: cst.Assign) -> cst.BaseSmallStatement:
        target = node.targets[0].target
        if len(node.targets) == 1 and isinstance(target, cst.Subscript):
            stored = self._store(node, target)
            if stored is not None:
                return stored
        for each in node.targets:
            self._check_target(each.target)
        targets_ = [self.rebuilt(each, target=self.expr(each.target)) for each in node.targets]
        changed = any(a is not b for a, b in zip(targets_, node.targets, strict=True))
        rebuilt: cst.Assign = self.rebuilt(
            node, targets=targets_ if changed else node.targets, value=self.expr(node.value)
        )
        return rebuilt

    def _check_target(self, target: cst.BaseExpression) -> None:
        if isinstance(target, cst.Tuple | cst.List):
            for each in target.elements:
                if isinstance(each, cst.StarredElement) and len(target.elements) >= 1:
                    continue
                self._check_target(each.value)

    def _store(self, node: cst.Assign, target: cst.Subscript) -> cst.Expr | None:
        """``C[i, j] = t`` as a call, where C is known to be an output or must be one."""
        value = node.value
        if self.kind(target.value) is Kind.OUT and (is_plain(target.value) or is_plain(value)):
            coordinates = self.coordinates(target)
            if coordinates is not None and not isinstance(value, cst.NamedExpr):
                # One of them is a name, so that taking the view before the value makes no difference.
                put = self.method(node, self.expr(target.value), "put", [self.expr(value), coordinates])
                return self.made(cst.Expr(put, semicolon=node.semicolon), node)  # type: ignore[no-any-return]
            return None
        if self.regions and self.kind(target.value) is Kind.UNKNOWN and root(target) not in self.regions[-1]:
            items = [cst.StarredElement(self.expr(each.slice.value)) if each.slice.star
                     else cst.Element(self.expr(each.slice.value))
                     for each in target.slice if isinstance(each.slice, cst.Index)]  # fmt: skip
            if len(items) != len(target.slice):
                return None
            key: cst.BaseExpression = items[0].value if len(items) == 1 and not target.slice[0].slice.star else (  # type: ignore[union-attr]
                cst.Tuple(items)
            )
            store = self.dispatched(node, "store", [self.expr(value), self.expr(target.value), key])
            return self.made(cst.Expr(store, semicolon=node.semicolon), node)  # type: ignore[no-any-return]
        return None

    def _augmented(self, node: cst.AugAssign) -> cst.BaseSmallStatement:
        for each in stores(node.target):
            if self.kind(each.value) is Kind.OUT:
                self.fail(
                    node,
                    f"`{sign(node.operator)}=` on an output, which is not read; read the tensor with "
                    "A = p.read(tensor, block) and write C[i, j] = A[i, j] + t",
                )
        value = self.expr(node.value)
        kinds = self.kind(node.target), self.kind(node.value)
        name = self.operator_method(sign(node.operator), *kinds) if isinstance(node.target, cst.Name) else None
        if name is None:
            rebuilt: cst.AugAssign = self.rebuilt(node, target=self.expr(node.target), value=value)
            return rebuilt
        result = self.method(node, self.again(node.target), name, [value])
        target = self.made(cst.AssignTarget(node.target), node.target)
        return self.made(cst.Assign([target], result, semicolon=node.semicolon), node)  # type: ignore[no-any-return]


def _last(node: cst.BaseSmallStatement) -> cst.BaseSmallStatement:
    """A statement that ends its line."""
    return node.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)


def import_line(name: str) -> cst.SimpleStatementLine:
    """``import gizml_tile as NAME``."""
    return line(cst.Import([cst.ImportAlias(cst.Name("gizml_tile"), asname=cst.AsName(cst.Name(name)))]))


