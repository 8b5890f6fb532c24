"""What a piece of source binds and reads: local names, free names, names read before assignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import libcst as cst

from gizml_tile.frontend.syntax import (
    HOLDERS,
    Function,
    imported,
    outer_parts,
    parameters,
    parts,
    root,
    stores,
    targets,
    walk,
)


@dataclass
class Names:
    """The names of one function: how often each is bound, which are read from outside, and where."""

    bound: Counter[str] = field(default_factory=Counter)
    reads: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)
    captured: list[tuple[cst.CSTNode, frozenset[str]]] = field(default_factory=list)
    # How often each name is bound by an undecorated `def` or `class`, or to a lambda.
    made: Counter[str] = field(default_factory=Counter)
    # The names that calling a function under a name may read here.
    behind: dict[str, set[str]] = field(default_factory=dict)
    # Pairs of a name and another that it was given the value of.
    aliases: list[tuple[str, str]] = field(default_factory=list)
    # The functions that a name may stand for.
    functions: dict[str, set[cst.CSTNode]] = field(default_factory=dict)

    @property
    def free(self) -> frozenset[str]:
        """Names read here or in functions inside that are not bound here."""
        return frozenset(self.reads - self.local) | self.declared

    @property
    def local(self) -> frozenset[str]:
        """The names that belong to the function."""
        return frozenset(self.bound) - self.declared


class NameTable:
    """The names of every function in a piece of source, found once."""

    def __init__(self, flags: Mapping[cst.CSTNode, tuple[str, ...]] | None = None) -> None:
        """``flags`` are those that device loops ask before each turn, with all that are left by exits."""
        self._names: dict[cst.CSTNode, Names] = {}
        self.flags = flags or {}
        self._assigned: dict[cst.CSTNode, tuple[str, ...]] = {}

    def of(self, function: cst.CSTNode) -> Names:
        """The names of a function, lambda, comprehension or class body."""
        names = self._names.get(function)
        if names is None:
            names = self._names[function] = Names()
            if isinstance(function, cst.FunctionDef | cst.Lambda):
                for parameter in parameters(function):
                    names.bound[parameter.name.value] += 1
                self._collect(function.body, names)
            elif isinstance(function, cst.ClassDef):
                self._collect(function.body, names)
            else:
                self._comprehension(function, names)
            _close(names)
        return names

    def assigned_in_order(self, body: cst.CSTNode) -> tuple[str, ...]:
        """The names that running a piece of a function binds in the function, in the order of the text."""
        found = self._assigned.get(body)
        if found is None:
            names = Names()
            self._collect(body, names)
            found = self._assigned[body] = tuple(names.bound)
        return found

    def assigned(self, body: cst.CSTNode) -> frozenset[str]:
        """The names that running a piece of a function binds in the function."""
        return frozenset(self.assigned_in_order(body))

    def reads(self, body: cst.CSTNode) -> frozenset[str]:
        """The names that a piece of source reads, in functions inside as well."""
        names = Names()
        self._collect(body, names)
        return frozenset(names.reads)

    def captures(self, body: cst.CSTNode) -> list[tuple[cst.CSTNode, frozenset[str]]]:
        """The functions that a piece of source makes, each with the names it reads from outside."""
        names = Names()
        self._collect(body, names)
        return names.captured

    def _comprehension(self, node: Any, names: Names) -> None:
        clause = node.for_in
        while clause is not None:
            for name in targets(clause.target):
                names.bound[name] += 1
            clause = clause.inner_for_in
        inner = Names()
        for part in parts(node):
            self._collect(part, inner)
        names.reads |= inner.reads
        names.captured = inner.captured

    def _collect(self, node: cst.CSTNode, names: Names) -> None:
        if type(node) in HOLDERS:
            for part in parts(node):
                self._collect(part, names)
            return
        match node:
            case cst.Name():
                names.reads.add(node.value)
            case cst.FunctionDef() | cst.Lambda() | cst.ClassDef():
                self._definition(node, names)
            case cst.ListComp() | cst.SetComp() | cst.DictComp() | cst.GeneratorExp():
                inner = self.of(node)
                names.reads |= inner.free
                names.captured.extend(inner.captured)
                if isinstance(node, cst.GeneratorExp):
                    names.captured.append((node, inner.free))
                for each in walk(node):
                    if isinstance(each, cst.NamedExpr):
                        self._bind(each.target, names)
            case cst.NamedExpr():
                self._collect(node.value, names)
                self._bind(node.target, names)
                self._alias(node.target, node.value, names)
            case cst.Assign():
                self._collect(node.value, names)
                for target in node.targets:
                    self._target(target.target, names)
                    if isinstance(node.value, cst.Lambda) and isinstance(target.target, cst.Name):
                        names.made[target.target.value] += 1
                    self._alias(target.target, node.value, names)
            case cst.AugAssign():
                self._collect(node.value, names)
                self._collect(node.target, names)
                self._target(node.target, names)
                self._alias(node.target, node.value, names)
            case cst.AnnAssign():
                if node.value is not None:
                    self._collect(node.value, names)
                    self._alias(node.target, node.value, names)
                self._target(node.target, names)
            case cst.For():
                self._collect(node.iter, names)
                self._target(node.target, names)
                self._alias(node.target, node.iter, names)
                self._collect(node.body, names)
                if node.orelse is not None:
                    self._collect(node.orelse, names)
            case cst.AsName():
                self._target(node.name, names)
            case cst.WithItem():
                self._collect(node.item, names)
                if node.asname is not None:
                    self._target(node.asname.name, names)
            case cst.ExceptHandler() | cst.ExceptStarHandler():
                if node.type is not None:
                    self._collect(node.type, names)
                if node.name is not None:
                    self._target(node.name.name, names)
                self._collect(node.body, names)
            case cst.Import() | cst.ImportFrom():
                for name in imported(node):
                    names.bound[name] += 1
            case cst.Global() | cst.Nonlocal():
                names.declared.update(item.name.value for item in node.names)
            case cst.Del():
                self._collect(node.target, names)
                self._target(node.target, names)
            case cst.MatchAs() | cst.MatchStar():
                if isinstance(node, cst.MatchAs) and node.pattern is not None:
                    self._collect(node.pattern, names)
                if node.name is not None:
                    names.bound[node.name.value] += 1
            case cst.MatchMapping() if node.rest is not None:
                names.bound[node.rest.value] += 1
                for element in node.elements:
                    self._collect(element, names)
            case _:
                for part in parts(node):
                    self._collect(part, names)

    def _definition(self, node: cst.FunctionDef | cst.Lambda | cst.ClassDef, names: Names) -> None:
        for each in outer_parts(node):
            self._collect(each, names)
        inner = self.of(node)
        names.reads |= inner.free
        names.captured.append((node, inner.free))
        names.captured.extend((each, free - inner.local) for each, free in inner.captured)
        if not isinstance(node, cst.Lambda):
            names.bound[node.name.value] += 1
            names.made[node.name.value] += not node.decorators
            names.behind.setdefault(node.name.value, set()).update(inner.free)
            names.functions.setdefault(node.name.value, set()).add(node)

    def _alias(self, target: cst.CSTNode, value: cst.CSTNode, names: Names) -> None:
        """Remember the functions that a value may hold under the names it is given."""
        bound = {*targets(target), *(name for each in stores(target) if (name := root(each)))}
        for function in held_functions(value):
            for name in sorted(bound):
                if isinstance(function, cst.Name):
                    names.aliases.append((name, function.value))
                else:
                    names.behind.setdefault(name, set()).update(self.of(function).free)
                    names.functions.setdefault(name, set()).add(function)

    def _bind(self, target: cst.CSTNode, names: Names) -> None:
        for name in targets(target):
            names.bound[name] += 1

    def _target(self, target: cst.CSTNode, names: Names) -> None:
        self._bind(target, names)
        for each in stores(target):
            for part in parts(each):
                self._collect(part, names)


def _close(names: Names) -> None:
    """Let a name stand for what the functions that its own functions call read, too."""
    changed = True
    while changed:
        changed = False
        calls = [(name, each) for name, read in names.behind.items() for each in read]
        for name, other in (*names.aliases, *calls):
            if other not in names.behind or name == other:
                continue
            read = names.behind.setdefault(name, set())
            functions = names.functions.setdefault(name, set())
            before = len(read) + len(functions)
            read |= names.behind[other]
            functions |= names.functions.get(other, set())
            changed = changed or len(read) + len(functions) > before


# Calls whose result holds the functions they are given.
_HOLDING = frozenset(
    "partial map filter enumerate zip reversed unroll list tuple dict sorted iter".split()
)


def held_functions(value: cst.CSTNode) -> Iterator[Function | cst.GeneratorExp | cst.Name]:
    """The functions, and the names that may be functions, that a value may hold after it is computed."""
    match value:
        case cst.Lambda() | cst.GeneratorExp() | cst.Name():
            yield value
        case cst.Call():
            callee = value.func.attr if isinstance(value.func, cst.Attribute) else value.func
            if isinstance(callee, cst.Name) and callee.value in _HOLDING:
                for argument in value.args:
                    yield from held_functions(argument.value)
        case cst.BinaryOperation() | cst.Comparison() | cst.Subscript() | cst.Attribute():
            return
        case _:
            for part in parts(value):
                yield from held_functions(part)
