"""What each name and expression of a function holds, found by one walk in the order of execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import libcst as cst

from gizml_tile.frontend.kinds import (
    TRACED,
    Kind,
    arithmetic,
    chosen,
    comparison,
    join,
    lifted,
    logic,
    method,
)
from gizml_tile.frontend.liveness import Liveness
from gizml_tile.frontend.resolve import Resolver
from gizml_tile.frontend.scopes import (
    COMPREHENSIONS,
    Function,
    NameTable,
    imported,
    outer_parts,
    parameters,
    parts,
    statements,
    targets,
)
from gizml_tile.frontend.spelling import chain_of, comparison_sign, sign


class Mode(Enum):
    """How a loop over ``range`` runs: on the device, as Python's, or told when it is met."""

    DEVICE = "device"
    PYTHON = "python"
    EITHER = "either"


@dataclass
class State:
    """What names may hold at one point; ``definite`` are those bound on every way here."""

    kinds: dict[str, Kind]
    definite: set[str]
    ended: bool = False

    def copy(self) -> State:
        return State(dict(self.kinds), set(self.definite), self.ended)

    def meet(self, other: State) -> None:
        """Become what holds where this way and another meet."""
        if other.ended:
            return
        if self.ended:
            self.kinds, self.definite, self.ended = other.kinds, other.definite, False
            return
        for name in self.kinds.keys() | other.kinds.keys():
            self.kinds[name] = join(self.kinds.get(name), other.kinds.get(name))
        self.definite &= other.definite


@dataclass(frozen=True)
class Meeting:
    """A loop or branch as the walk met it: the names that may be, and those that are, bound before it."""

    bound: frozenset[str]
    definite: frozenset[str]
    carried: tuple[str, ...] = ()


@dataclass
class Inference:
    """Kinds of expressions, modes of loops, and what was bound at each loop and branch."""

    resolver: Resolver
    table: NameTable
    is_kernel: bool
    kinds: dict[cst.CSTNode, Kind] = field(default_factory=dict)
    modes: dict[cst.For, Mode] = field(default_factory=dict)
    meetings: dict[cst.CSTNode, Meeting] = field(default_factory=dict)
    liveness: dict[cst.CSTNode, Liveness] = field(default_factory=dict)
    # Names bound in the functions around, innermost last; what they hold where that never changes.
    _scopes: list[frozenset[str]] = field(default_factory=list)
    _stable: list[dict[str, Kind]] = field(default_factory=list)
    _logs: list[dict[str, Kind]] = field(default_factory=list)
    _function: list[Function] = field(default_factory=list)
    _steady: dict[cst.CSTNode, dict[str, Kind]] = field(default_factory=dict)

    def kind(self, node: cst.CSTNode) -> Kind:
        """What an expression holds, whichever way it is reached."""
        return self.kinds.get(node, Kind.UNKNOWN)

    def program_name(self, functions: Sequence[cst.CSTNode]) -> str | None:
        """The name of the program inside some functions, outermost first."""
        hidden: set[str] = set()
        for function in reversed(functions):
            for name, kind in self._steady.get(function, {}).items():
                if kind is Kind.PROGRAM and name not in hidden:
                    return name
            hidden |= self.table.of(function).local
        return None

    # Functions

    def run(self, function: Function, first: Kind = Kind.UNKNOWN) -> None:
        """Walk a function; ``first`` is what its first parameter holds."""
        names = self.table.of(function)
        state = State({}, set())
        for number, parameter in enumerate(parameters(function)):
            kind = first if number == 0 else Kind.UNKNOWN
            if first is Kind.PROGRAM and number and parameter in function.params.kwonly_params:
                kind = Kind.CONSTANT
            if kind is Kind.UNKNOWN and parameter.annotation is not None:
                kind = self._annotated(parameter.annotation.annotation)
            if parameter.star:
                kind = Kind.HOST
            state.kinds[parameter.name.value] = kind
            state.definite.add(parameter.name.value)
        if first is Kind.PROGRAM:
            for name in _read_tensors(function):
                if names.bound[name] == 1 and state.kinds.get(name) is Kind.UNKNOWN:
                    state.kinds[name] = Kind.TENSOR
        self._scopes.append(names.local)
        self._stable.append({name: kind for name, kind in state.kinds.items() if names.bound[name] == 1})
        self._function.append(function)
        logs, self._logs = self._logs, []
        if isinstance(function, cst.Lambda):
            self.expression(function.body, state)
        else:
            live = Liveness(self.table, names.behind)
            live.before(function.body, frozenset())
            self.liveness[function] = live
            self._body(function.body, state)
        self._logs = logs
        self._function.pop()
        self._steady[function] = self._stable.pop()
        self._scopes.pop()

    def _annotated(self, annotation: cst.BaseExpression) -> Kind:
        if isinstance(annotation, cst.SimpleString):
            text = annotation.evaluated_value
            chain = tuple(text.split(".")) if isinstance(text, str) else ()
            if not all(part.isidentifier() for part in chain):
                return Kind.UNKNOWN
        else:
            chain = chain_of(annotation) or ()
        if not chain or any(chain[0] in scope for scope in self._scopes):
            return Kind.UNKNOWN
        return self.resolver.annotation(chain)

    def is_outside(self, name: str) -> bool:
        """Whether a name is bound in none of the functions around the place that the walk is at."""
        return not any(name in scope for scope in self._scopes)

    # Statements

    def _body(self, body: cst.BaseSuite, state: State) -> None:
        for statement in statements(body):
            self._statement(statement, state)

    def _statement(self, node: Any, state: State) -> None:
        match node:
            case cst.Assign():
                kind = self.expression(node.value, state)
                for target in node.targets:
                    self._assign(target.target, node.value, kind, state)
            case cst.AnnAssign():
                if node.value is not None:
                    kind = self.expression(node.value, state)
                    self._assign(node.target, node.value, kind, state)
            case cst.AugAssign():
                left = self.expression(node.target, state)
                right = self.expression(node.value, state)
                if isinstance(node.target, cst.Name):
                    self._bind(node.target.value, arithmetic(sign(node.operator), left, right), state)
            case cst.If():
                self._if(node, state)
            case cst.For():
                self._for(node, state)
            case cst.While():
                self._python_loop(node, state)
            case cst.Return() | cst.Raise() | cst.Break() | cst.Continue():
                for part in parts(node):
                    self.expression(part, state)
                state.ended = True
            case cst.FunctionDef() | cst.ClassDef():
                self._definition(node, state)
            case cst.Try() | cst.TryStar():
                self._try(node, state)
            case cst.With():
                for item in node.items:
                    self.expression(item.item, state)
                    if item.asname is not None:
                        self._assign(item.asname.name, None, Kind.UNKNOWN, state)
                self._body(node.body, state)
            case cst.Match():
                self._match(node, state)
            case cst.Import() | cst.ImportFrom():
                for name in imported(node):
                    self._bind(name, Kind.UNKNOWN, state)
            case cst.Del():
                self.expression(node.target, state)
                for name in targets(node.target):
                    state.kinds.pop(name, None)
                    state.definite.discard(name)
            case _:
                for part in parts(node):
                    self.expression(part, state)

    def _bind(self, name: str, kind: Kind, state: State) -> None:
        state.kinds[name] = kind
        state.definite.add(name)
        for log in self._logs:
            log[name] = join(log.get(name), kind)
        function = self._function[-1]
        if self.table.of(function).bound[name] == 1 and not self._logs:
            self._stable[-1][name] = kind

    def _assign(self, target: Any, value: Any, kind: Kind, state: State) -> None:
        match target:
            case cst.Name():
                self._bind(target.value, kind, state)
                self.kinds[target] = kind
            case cst.Tuple() | cst.List():
                elements = target.elements
                values: list[Any] = [None] * len(elements)
                starred = any(isinstance(each, cst.StarredElement) for each in elements)
                if isinstance(value, cst.Tuple | cst.List) and len(value.elements) == len(elements):
                    if not any(isinstance(each, cst.StarredElement) for each in value.elements):
                        values = [each.value for each in value.elements]
                for element, each in zip(elements, values, strict=True):
                    if starred:
                        self._assign(element.value, None, Kind.UNKNOWN, state)
                    elif each is not None:
                        self._assign(element.value, each, self.kind(each), state)
                    else:
                        inner = {Kind.SHAPE: Kind.INDEX, Kind.CONSTANT: Kind.CONSTANT}.get(kind, Kind.UNKNOWN)
                        self._assign(element.value, None, inner, state)
            case cst.StarredElement():
                self._assign(target.value, None, Kind.UNKNOWN, state)
            case _:
                self.expression(target, state)

    def _meet(self, node: cst.CSTNode, state: State, carried: tuple[str, ...] = ()) -> None:
        before = self.meetings.get(node)
        bound, definite = frozenset(state.kinds), frozenset(state.definite)
        if before is not None:
            bound, definite = bound | before.bound, definite & before.definite
        self.meetings[node] = Meeting(bound, definite, carried)

    def _if(self, node: cst.If, state: State) -> None:
        kind = self.expression(node.test, state)
        self._meet(node, state)
        other = state.copy()
        self._body(node.body, state)
        match node.orelse:
            case cst.If():
                self._if(node.orelse, other)
            case cst.Else():
                self._body(node.orelse.body, other)
        assigned = self.table.assigned(node)
        state.meet(other)
        if not kind.is_host:
            for name in assigned & state.kinds.keys():
                state.kinds[name] = lifted(state.kinds[name])

    def _mode(self, node: cst.For, state: State) -> Mode:
        call = node.iter
        if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "range"):
            return Mode.PYTHON
        if not self.is_outside("range") or not self.resolver.is_builtin("range"):
            return Mode.PYTHON
        if self.is_kernel or any(state.kinds.get(name) in TRACED for name in state.definite):
            return Mode.DEVICE
        return Mode.EITHER

    def _for(self, node: cst.For, state: State) -> None:
        mode = self._mode(node, state)
        if self.modes.get(node, mode) is not mode:
            mode = Mode.EITHER
        self.modes[node] = mode
        if mode is Mode.PYTHON:
            self._python_loop(node, state)
            return
        for argument in node.iter.args:  # type: ignore[attr-defined]
            self.expression(argument.value, state)
        carried = self._carried(node, state)
        self._meet(node, state, carried)
        inside = state.copy()
        for name in carried:
            inside.kinds[name] = lifted(inside.kinds.get(name, Kind.UNKNOWN))
        self._assign(node.target, None, Kind.INDEX if mode is Mode.DEVICE else Kind.UNKNOWN, inside)
        self._body(node.body, inside)
        for name in carried:
            kind = lifted(state.kinds.get(name, Kind.UNKNOWN))
            state.kinds[name] = kind if kind is inside.kinds.get(name) else join(kind, inside.kinds.get(name))
        if mode is Mode.EITHER:
            state.meet(inside)
        if node.orelse is not None:
            self._body(node.orelse.body, state)

    def _carried(self, node: cst.For, state: State) -> tuple[str, ...]:
        live = self.liveness[self._function[-1]]
        wanted = live.exposed(node.body) | live.after[node]
        loop_names = set(targets(node.target))
        carried = [name for name in self.table.assigned_in_order(node.body)
                   if name in wanted and name not in loop_names]  # fmt: skip
        after = [name for name in loop_names if name in live.after[node] and name in state.kinds]
        return tuple([name for name in (*carried, *after) if name in state.kinds])

    def _python_loop(self, node: cst.For | cst.While, state: State) -> None:
        if isinstance(node, cst.For):
            self.expression(node.iter, state)
        before = state.copy()
        for _ in range(4):
            log: dict[str, Kind] = {}
            self._logs.append(log)
            inside = state.copy()
            if isinstance(node, cst.For):
                self._assign(node.target, None, self._element(node.iter), inside)
            else:
                self.expression(node.test, inside)
            self._body(node.body, inside)
            self._logs.pop()
            known = dict(state.kinds)
            for name, kind in log.items():
                state.kinds[name] = join(state.kinds.get(name), kind)
            if known == state.kinds:
                break
        else:
            for name in log:
                state.kinds[name] = Kind.UNKNOWN
        state.definite = before.definite
        if node.orelse is not None:
            self._body(node.orelse.body, state)

    def _element(self, iterable: cst.BaseExpression) -> Kind:
        """What a loop over something gives each turn."""
        if isinstance(iterable, cst.Call) and isinstance(iterable.func, cst.Name | cst.Attribute):
            chain = chain_of(iterable.func)
            if chain and self.is_outside(chain[0]) and self.resolver.is_unroll(chain):
                constant = all(self.kind(each.value) is Kind.CONSTANT for each in iterable.args)
                return Kind.CONSTANT if constant or len(iterable.args) > 1 else Kind.UNKNOWN
            name = chain[0] if chain else ""
            if chain == ("range",) and self.is_outside(name) and self.resolver.is_builtin(name):
                return Kind.CONSTANT
        return Kind.CONSTANT if self.kind(iterable) is Kind.CONSTANT else Kind.UNKNOWN

    def _try(self, node: Any, state: State) -> None:
        log: dict[str, Kind] = {}
        self._logs.append(log)
        caught = state.copy()
        self._body(node.body, state)
        self._logs.pop()
        for name, kind in log.items():
            caught.kinds[name] = join(caught.kinds.get(name), kind)
        if node.orelse is not None:
            self._body(node.orelse.body, state)
        for handler in node.handlers:
            inside = caught.copy()
            if handler.type is not None:
                self.expression(handler.type, inside)
            if handler.name is not None:
                self._assign(handler.name.name, None, Kind.HOST, inside)
            self._body(handler.body, inside)
            state.meet(inside)
        if node.finalbody is not None:
            ended, state.ended = state.ended, False
            state.meet(caught)
            self._body(node.finalbody.body, state)
            state.ended = ended

    def _match(self, node: cst.Match, state: State) -> None:
        self.expression(node.subject, state)
        before = state.copy()
        for case in node.cases:
            inside = before.copy()
            for name in self.table.assigned(case.pattern):
                self._bind(name, Kind.UNKNOWN, inside)
            if case.guard is not None:
                self.expression(case.guard, inside)
            self._body(case.body, inside)
            state.meet(inside)

    def _definition(self, node: cst.FunctionDef | cst.ClassDef | cst.Lambda, state: State) -> None:
        for part in outer_parts(node):
            self.expression(part, state)
        if isinstance(node, cst.ClassDef):
            for each in node.body.body:
                if isinstance(each, cst.FunctionDef):
                    self._definition(each, state.copy())
        else:
            self.run(node)
        if not isinstance(node, cst.Lambda):
            self._bind(node.name.value, Kind.HOST, state)

    # Expressions

    def expression(self, node: cst.CSTNode, state: State) -> Kind:
        """What an expression holds in a state; remembered, joined with what it held before."""
        kind = self._expression(node, state)
        if node in self.kinds:
            kind = join(self.kinds[node], kind)
        self.kinds[node] = kind
        return kind

    def _expression(self, node: Any, state: State) -> Kind:
        match node:
            case cst.Name():
                return self._name(node.value, state)
            case cst.Integer() | cst.Float() | cst.Imaginary() | cst.SimpleString() | cst.ConcatenatedString():
                return Kind.CONSTANT
            case cst.FormattedString():
                return Kind.HOST
            case cst.Attribute():
                return self._attribute(node, state)
            case cst.Subscript():
                return self._subscript(node, state)
            case cst.Call():
                return self._call(node, state)
            case cst.BinaryOperation():
                left = self.expression(node.left, state)
                right = self.expression(node.right, state)
                return arithmetic(sign(node.operator), left, right)
            case cst.UnaryOperation():
                kind = self.expression(node.expression, state)
                if isinstance(node.operator, cst.Not) and kind is Kind.INDEX:
                    return Kind.UNKNOWN
                return kind if kind.is_device or kind.is_host else Kind.UNKNOWN
            case cst.BooleanOperation():
                left = self.expression(node.left, state)
                other = state.copy()
                right = self.expression(node.right, other)
                state.meet(other)
                return logic(left, right)
            case cst.Comparison():
                return self._comparison(node, state)
            case cst.IfExp():
                test = self.expression(node.test, state)
                yes, no = self.expression(node.body, state), self.expression(node.orelse, state)
                if test.is_host:
                    return join(yes, no)
                return chosen(yes, no) if test.is_tile else join(join(yes, no), chosen(yes, no))
            case cst.NamedExpr():
                kind = self.expression(node.value, state)
                self._assign(node.target, node.value, kind, state)
                return kind
            case cst.Lambda():
                self._definition(node, state)
                return Kind.HOST
            case cst.List() | cst.Set() | cst.Tuple() | cst.Dict():
                found = [self.expression(part, state) for part in parts(node)]
                constant = isinstance(node, cst.Tuple) and all(each is Kind.CONSTANT for each in found)
                return Kind.CONSTANT if constant else Kind.HOST
            case cst.Element() | cst.Index() | cst.Arg() | cst.Expr():
                return self.expression(node.value, state)
            case _ if isinstance(node, COMPREHENSIONS):
                return self._comprehension(node, state)
            case _:
                for part in parts(node):
                    self.expression(part, state)
                return Kind.UNKNOWN

    def _name(self, name: str, state: State) -> Kind:
        if name in ("True", "False", "None", "Ellipsis", "__debug__"):
            return Kind.CONSTANT
        if name in self._scopes[-1]:
            return state.kinds.get(name, Kind.UNKNOWN)
        for scope, stable in zip(reversed(self._scopes[:-1]), reversed(self._stable[:-1]), strict=False):
            if name in scope:
                return stable.get(name, Kind.UNKNOWN)
        return self.resolver.kind((name,))

    def _attribute(self, node: cst.Attribute, state: State) -> Kind:
        receiver = self.expression(node.value, state)
        name = node.attr.value
        match receiver:
            case Kind.CONSTANT:
                return Kind.CONSTANT
            case Kind.TENSOR:
                return {"shape": Kind.SHAPE, "ndim": Kind.CONSTANT, "dtype": Kind.CONSTANT}.get(name, Kind.UNKNOWN)
            case Kind.TILE | Kind.MASK | Kind.UNIFORM:
                if name == "T":
                    return receiver
                return Kind.CONSTANT if name in ("shape", "dtype") else Kind.UNKNOWN
            case Kind.IN | Kind.OUT:
                return Kind.CONSTANT if name in ("block", "dtype", "ndim") else Kind.UNKNOWN
        chain = chain_of(node)
        if chain and self.is_outside(chain[0]):
            return self.resolver.kind(chain)
        return Kind.UNKNOWN

    def _subscript(self, node: cst.Subscript, state: State) -> Kind:
        receiver = self.expression(node.value, state)
        for element in node.slice:
            self.expression(element.slice, state)
        single = len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index)
        match receiver:
            case Kind.IN:
                return Kind.TILE
            case Kind.SHAPE:
                return Kind.INDEX if single else Kind.SHAPE
            case Kind.CONSTANT:
                return Kind.CONSTANT
        return Kind.UNKNOWN

    def _call(self, node: cst.Call, state: State) -> Kind:
        receiver = Kind.UNKNOWN
        if isinstance(node.func, cst.Attribute):
            receiver = self.expression(node.func.value, state)
            self.kinds[node.func] = Kind.UNKNOWN
        elif not isinstance(node.func, cst.Name):
            self.expression(node.func, state)
        arguments = [self.expression(each.value, state) for each in node.args]
        if isinstance(node.func, cst.Attribute):
            return method(receiver, node.func.attr.value, arguments)
        if isinstance(node.func, cst.Name) and self.is_outside(node.func.value):
            return self._builtin(node.func.value, arguments)
        return Kind.UNKNOWN

    def _builtin(self, name: str, arguments: list[Kind]) -> Kind:
        if name not in _BUILTINS or not self.resolver.is_builtin(name):
            return Kind.UNKNOWN
        if name == "abs" and len(arguments) == 1:
            return arguments[0] if arguments[0].is_device or arguments[0].is_host else Kind.UNKNOWN
        if name in ("min", "max"):
            if len(arguments) < 2:
                return Kind.UNKNOWN
            kind = arguments[0]
            for other in arguments[1:]:
                kind = arithmetic("+", kind, other)
            return kind
        return Kind.HOST if name in _HOST_RESULTS else Kind.UNKNOWN

    def _comparison(self, node: cst.Comparison, state: State) -> Kind:
        left = self.expression(node.left, state)
        result: Kind | None = None
        for each in node.comparisons:
            right = self.expression(each.comparator, state)
            symbol = comparison_sign(each.operator)
            if symbol in ("is", "is not", "in", "not in") or (
                not left.is_device and not right.is_device and (is_word(each.comparator) or is_word(node.left))
            ):
                kind = Kind.HOST
            else:
                kind = comparison(left, right)
            result = kind if result is None else logic(result, kind)
            left = right
        return result or Kind.UNKNOWN

    def _comprehension(self, node: Any, state: State) -> Kind:
        inside = state.copy()
        clause = node.for_in
        first = True
        while clause is not None:
            # The first iterable is evaluated outside, the rest inside.
            self.expression(clause.iter, state if first else inside)
            if first:
                self._scopes.append(self._scopes[-1] | self.table.of(node).local)
            first = False
            for name in targets(clause.target):
                inside.kinds[name] = Kind.UNKNOWN
            if isinstance(clause.target, cst.Name):
                inside.kinds[clause.target.value] = self._element(clause.iter)
            for condition in clause.ifs:
                self.expression(condition.test, inside)
            clause = clause.inner_for_in
        if isinstance(node, cst.DictComp):
            self.expression(node.key, inside)
            self.expression(node.value, inside)
        else:
            self.expression(node.elt, inside)
        self._scopes.pop()
        return Kind.HOST


_HOST_RESULTS = frozenset(
    "len isinstance issubclass callable hasattr bool int float str repr format id hash ord chr type print "
    "list dict set tuple frozenset range enumerate zip sorted all any".split()
)
_BUILTINS = _HOST_RESULTS | {"abs", "min", "max"}


def is_word(node: cst.BaseExpression) -> bool:
    """Whether an expression is text, which no tile compares with."""
    return isinstance(node, cst.SimpleString | cst.ConcatenatedString | cst.FormattedString)


def _read_tensors(function: Function) -> set[str]:
    """The names that stand first in ``p.read(...)`` or ``p.write(...)``, where p is the first parameter."""
    first = next(iter(parameters(function)), None)
    found: set[str] = set()

    def visit(node: cst.CSTNode) -> None:
        match node:
            case cst.Call(
                func=cst.Attribute(value=cst.Name(value=program), attr=cst.Name(value="read" | "write")),
                args=[cst.Arg(value=cst.Name(value=tensor)), *_],
            ) if first is not None and program == first.name.value:
                found.add(tensor)
        for part in parts(node):
            visit(part)

    visit(function.body)
    return found
