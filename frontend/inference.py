"""What each name and expression of a function holds, found by one walk in the order of execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import libcst as cst

from gizml_tile.frontend.expressions import element_kind, expression_kind
from gizml_tile.frontend.kinds import (
    TRACED,
    Kind,
    arithmetic,
    join,
    lifted,
)
from gizml_tile.frontend.liveness import Liveness
from gizml_tile.frontend.resolve import Resolver
from gizml_tile.frontend.scopes import NameTable
from gizml_tile.frontend.spelling import chain_of, sign
from gizml_tile.frontend.states import Meeting, Mode, State
from gizml_tile.frontend.syntax import (
    Function,
    imported,
    outer_parts,
    parameters,
    parts,
    statements,
    targets,
)


@dataclass
class Inference:
    """Kinds of expressions, modes of loops, and what was bound at each loop and branch."""

    resolver: Resolver
    table: NameTable
    is_kernel: bool
    kinds: dict[cst.CSTNode, Kind] = field(default_factory=dict)
    # How `while` loops run where that is known before.
    known: Mapping[cst.CSTNode, Mode] = field(default_factory=dict)
    modes: dict[cst.For | cst.While, Mode] = field(default_factory=dict)
    meetings: dict[cst.CSTNode, Meeting] = field(default_factory=dict)
    liveness: dict[cst.CSTNode, Liveness] = field(default_factory=dict)
    # Names bound in the functions around, innermost last; what they hold where that never changes.
    scopes: list[frozenset[str]] = field(default_factory=list)
    stable: list[dict[str, Kind]] = field(default_factory=list)
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
            elif number == 0 and parameter.name.value in ("self", "cls"):
                kind = Kind.OBJECT
            state.kinds[parameter.name.value] = kind
            state.definite.add(parameter.name.value)
        if first is Kind.PROGRAM:
            for name in _read_tensors(function):
                if names.bound[name] == 1 and state.kinds.get(name) is Kind.UNKNOWN:
                    state.kinds[name] = Kind.TENSOR
        self.scopes.append(names.local)
        self.stable.append(
            {name: kind for name, kind in state.kinds.items() if names.bound[name] == 1}
        )
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
        self._steady[function] = self.stable.pop()
        self.scopes.pop()

    def _annotated(self, annotation: cst.BaseExpression) -> Kind:
        if isinstance(annotation, cst.SimpleString):
            text = annotation.evaluated_value
            chain = tuple(text.split(".")) if isinstance(text, str) else ()
            if not all(part.isidentifier() for part in chain):
                return Kind.UNKNOWN
        else:
            chain = chain_of(annotation) or ()
        if not chain or any(chain[0] in scope for scope in self.scopes):
            return Kind.UNKNOWN
        return self.resolver.annotation(chain)

    def is_outside(self, name: str) -> bool:
        """Whether a name is bound in none of the functions around the place that the walk is at."""
        return not any(name in scope for scope in self.scopes)

    # Statements

    def _body(self, body: cst.BaseSuite, state: State) -> None:
        for statement in statements(body):
            self._statement(statement, state)

    def _statement(self, node: Any, state: State) -> None:
        match node:
            case cst.Assign():
                kind = self.expression(node.value, state)
                for target in node.targets:
                    self.assign(target.target, node.value, kind, state)
            case cst.AnnAssign():
                if node.value is not None:
                    kind = self.expression(node.value, state)
                    self.assign(node.target, node.value, kind, state)
            case cst.AugAssign():
                left = self.expression(node.target, state)
                right = self.expression(node.value, state)
                if isinstance(node.target, cst.Name):
                    self._bind(
                        node.target.value, arithmetic(sign(node.operator), left, right), state
                    )
            case cst.If():
                self._if(node, state)
            case cst.For():
                self._for(node, state)
            case cst.While():
                self._while(node, state)
            case cst.Return() | cst.Raise() | cst.Break() | cst.Continue():
                for part in parts(node):
                    self.expression(part, state)
                state.ended = True
            case cst.FunctionDef() | cst.ClassDef():
                self.definition(node, state)
            case cst.Try() | cst.TryStar():
                self._try(node, state)
            case cst.With():
                for item in node.items:
                    self.expression(item.item, state)
                    if item.asname is not None:
                        self.assign(item.asname.name, None, Kind.UNKNOWN, state)
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
            self.stable[-1][name] = kind

    def assign(self, target: Any, value: Any, kind: Kind, state: State) -> None:
        """Bind the names of a target to what a value holds."""
        match target:
            case cst.Name():
                self._bind(target.value, kind, state)
                self.kinds[target] = kind
            case cst.Tuple() | cst.List():
                elements = target.elements
                values: list[Any] = [None] * len(elements)
                starred = any(isinstance(each, cst.StarredElement) for each in elements)
                if _matches(value, elements):
                    values = [each.value for each in value.elements]
                for element, each in zip(elements, values, strict=True):
                    if starred:
                        self.assign(element.value, None, Kind.UNKNOWN, state)
                    elif each is not None:
                        self.assign(element.value, each, self.kind(each), state)
                    else:
                        inner = {Kind.SHAPE: Kind.INDEX, Kind.CONSTANT: Kind.CONSTANT}.get(
                            kind, Kind.UNKNOWN
                        )
                        self.assign(element.value, None, inner, state)
            case cst.StarredElement():
                self.assign(target.value, None, Kind.UNKNOWN, state)
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
        met = self.meetings[node]
        given = frozenset(state.definite)
        self.meetings[node] = replace(met, given=given & met.given if met.given else given)
        if not kind.is_host:
            for name in assigned & state.kinds.keys():
                state.kinds[name] = lifted(state.kinds[name])

    def _mode(self, node: cst.For, state: State) -> Mode:
        call = node.iter
        if not (
            isinstance(call, cst.Call)
            and isinstance(call.func, cst.Name)
            and call.func.value == "range"
        ):
            return Mode.PYTHON
        if not self.is_outside("range") or not self.resolver.is_builtin("range"):
            return Mode.PYTHON
        if self.is_kernel and len(self._function) == 1:
            return Mode.DEVICE
        held = [state.kinds.get(name) for name in state.definite]
        # A function inside a function holds what it reads from outside.
        for name in self.table.of(self._function[-1]).free:
            held.extend(steady[name] for steady in self.stable[:-1] if name in steady)
        return Mode.DEVICE if any(kind in TRACED for kind in held) else Mode.EITHER

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
        self.assign(node.target, None, Kind.INDEX if mode is Mode.DEVICE else Kind.UNKNOWN, inside)
        self._body(node.body, inside)
        _turned(carried, inside, state)
        if mode is Mode.EITHER:
            state.meet(inside)
        if node.orelse is not None:
            self._body(node.orelse.body, state)

    def _while(self, node: cst.While, state: State) -> None:
        mode = self.known.get(node) or _mode_of(expression_kind(self, node.test, state))
        if self.modes.get(node, mode) is not mode:
            mode = Mode.EITHER
        self.modes[node] = mode
        if mode is Mode.PYTHON:
            self._python_loop(node, state)
            return
        carried = self._carried(node, state)
        self._meet(node, state, carried)
        inside = state.copy()
        for name in carried:
            inside.kinds[name] = lifted(inside.kinds.get(name, Kind.UNKNOWN))
        self.expression(node.test, inside)
        self._body(node.body, inside)
        _turned(carried, inside, state)
        if mode is Mode.EITHER:
            state.meet(inside)
        if node.orelse is not None:
            self._body(node.orelse.body, state)

    def _carried(self, node: cst.For | cst.While, state: State) -> tuple[str, ...]:
        live = self.liveness[self._function[-1]]
        wanted = live.exposed(node.body) | live.after[node] | frozenset(self.table.flags.get(node, ()))
        if isinstance(node, cst.While):
            wanted |= live.reads(node.test)
        loop_names = set(targets(node.target)) if isinstance(node, cst.For) else set()
        carried = [
            name
            for name in self.table.assigned_in_order(node.body)
            if name in wanted and name not in loop_names
        ]
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
                self.assign(node.target, None, element_kind(self, node.iter), inside)
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
                self.assign(handler.name.name, None, Kind.HOST, inside)
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

    def definition(self, node: cst.FunctionDef | cst.ClassDef | cst.Lambda, state: State) -> None:
        """Walk a function or class that stands inside a function."""
        for part in outer_parts(node):
            self.expression(part, state)
        if isinstance(node, cst.ClassDef):
            for each in node.body.body:
                if isinstance(each, cst.FunctionDef):
                    self.definition(each, state.copy())
        else:
            self.run(node)
        if not isinstance(node, cst.Lambda):
            self._bind(node.name.value, Kind.HOST, state)

    def expression(self, node: cst.CSTNode, state: State) -> Kind:
        """What an expression holds in a state; remembered, joined with what it held before."""
        kind = expression_kind(self, node, state)
        if node in self.kinds:
            kind = join(self.kinds[node], kind)
        self.kinds[node] = kind
        return kind


def _mode_of(test: Kind) -> Mode:
    """How a ``while`` loop runs by what its condition holds."""
    if test is Kind.UNIFORM:
        return Mode.DEVICE
    return Mode.EITHER if test is Kind.UNKNOWN else Mode.PYTHON


def _turned(carried: tuple[str, ...], inside: State, state: State) -> None:
    """What carried names hold after a loop: what they held before it, or after a turn."""
    for name in carried:
        kind, other = lifted(state.kinds.get(name, Kind.UNKNOWN)), inside.kinds.get(name)
        state.kinds[name] = kind if kind is other else join(kind, other)


def _matches(value: Any, elements: Sequence[cst.BaseElement]) -> bool:
    """Whether a value is a row of as many values as there are targets."""
    return (
        isinstance(value, cst.Tuple | cst.List)
        and len(value.elements) == len(elements)
        and not any(isinstance(each, cst.StarredElement) for each in value.elements)
    )


def _read_tensors(function: Function) -> set[str]:
    """The names that stand first in ``p.read(...)`` or ``p.write(...)``, where p is the first parameter."""
    first = next(iter(parameters(function)), None)
    found: set[str] = set()

    def visit(node: cst.CSTNode) -> None:
        match node:
            case cst.Call(
                func=cst.Attribute(
                    value=cst.Name(value=program), attr=cst.Name(value="read" | "write")
                ),
                args=[cst.Arg(value=cst.Name(value=tensor)), *_],
            ) if first is not None and program == first.name.value:
                found.add(tensor)
        for part in parts(node):
            visit(part)

    visit(function.body)
    return found
