"""Which names are read later: the values that a loop carries and a branch gives."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import libcst as cst

from gizml_tile.frontend.scopes import NameTable
from gizml_tile.frontend.syntax import (
    COMPREHENSIONS,
    HOLDERS,
    outer_parts,
    parts,
    statements,
    stores,
    targets,
)

Live = frozenset[str]
_NONE: Live = frozenset()


@dataclass
class Liveness:
    """For one function: the names read after each loop and branch (without another assignment between)."""

    table: NameTable
    # The names of the function that calling a function under a name reads.
    behind: Mapping[str, Collection[str]]
    after: dict[cst.CSTNode, Live] = field(default_factory=dict)
    # Where `break` and `continue` go: the names live there, innermost last.
    _exits: list[tuple[Live, Live]] = field(default_factory=list)

    def exposed(self, body: cst.BaseSuite) -> Live:
        """The names that a body reads before it assigns them, on some way through it."""
        return self.wanted(body, _NONE)

    def wanted(self, body: cst.BaseSuite, after: Live) -> Live:
        """The names live before a body, of those live after it, without remembering what is inside."""
        return Liveness(self.table, self.behind).before(body, after)

    def before(self, body: cst.BaseSuite, after: Live) -> Live:
        """The names live before a body, of those live after it."""
        if isinstance(body, cst.BaseSuite):
            for statement in reversed(statements(body)):
                after = self._statement(statement, after)
        return after

    def _remember(self, node: cst.CSTNode, after: Live) -> None:
        self.after[node] = self.after.get(node, _NONE) | after

    def _statement(self, node: cst.CSTNode, after: Live) -> Live:
        match node:
            case cst.If():
                return self._if(node, after)
            case cst.For() | cst.While():
                return self._loop(node, after)
            case cst.Return():
                return self.reads(node.value) if node.value is not None else _NONE
            case cst.Raise():
                return frozenset().union(*(self.reads(each) for each in parts(node)))
            case cst.Break() | cst.Continue():
                ends = self._exits[-1] if self._exits else (after, after)
                return ends[0] if isinstance(node, cst.Break) else ends[1]
            case cst.Try() | cst.TryStar():
                return self._try(node, after)
            case cst.With():
                live = self.before(node.body, after)
                for item in reversed(node.items):
                    bound = set(targets(item.asname.name)) if item.asname else set()
                    live = (live - bound) | self.reads(item.item)
                return live
            case cst.Match():
                live = after
                for case in node.cases:
                    inside = self.before(case.body, after)
                    if case.guard is not None:
                        inside |= self.reads(case.guard)
                    live |= (inside - self.table.assigned(case.pattern)) | self.reads(case.pattern)
                return live | self.reads(node.subject)
            case _:
                return self._simple(node, after)

    def _simple(self, node: cst.CSTNode, after: Live) -> Live:
        exposed: set[str] = set()
        killed: set[str] = set()
        _evaluate(self, node, killed, exposed)
        return (after - killed) | exposed

    def _if(self, node: cst.If, after: Live) -> Live:
        self._remember(node, after)
        live = self.before(node.body, after)
        match node.orelse:
            case cst.If():
                live |= self._if(node.orelse, after)
            case cst.Else():
                live |= self.before(node.orelse.body, after)
            case None:
                live |= after
        return live | self.reads(node.test)

    def _loop(self, node: cst.For | cst.While, after: Live) -> Live:
        ends = self.before(node.orelse.body, after) if node.orelse is not None else after
        self._remember(node, ends)
        bound = set(targets(node.target)) if isinstance(node, cst.For) else set()
        ends |= frozenset(self.table.flags.get(node, ()))
        if isinstance(node, cst.While):
            ends |= self.reads(node.test)
        head = ends
        for _ in range(2):  # what one turn leaves may be read in the next: twice is enough for sets
            self._exits.append((after, head))
            head = ends | (self.before(node.body, head) - bound)
            self._exits.pop()
        if isinstance(node, cst.For):
            return head | self.reads(node.iter)
        return head | self.reads(node.test)

    def _try(self, node: cst.Try | cst.TryStar, after: Live) -> Live:
        live = self.before(node.finalbody.body, after) if node.finalbody is not None else after
        caught: Live = _NONE
        for handler in node.handlers:
            inside = self.before(handler.body, live)
            if handler.name is not None:
                inside -= set(targets(handler.name.name))
            caught |= inside | (self.reads(handler.type) if handler.type is not None else _NONE)
        rest = self.before(node.orelse.body, live) if node.orelse is not None else live
        # The body may end anywhere, so what the handlers read is live all through it.
        return self.before(node.body, rest | caught | live) | caught | live

    def reads(self, node: cst.CSTNode) -> Live:
        """The names that an expression reads before binding them itself."""
        exposed: set[str] = set()
        _evaluate(self, node, set(), exposed)
        return frozenset(exposed)


def _evaluate(live: Liveness, node: cst.CSTNode, killed: set[str], exposed: set[str]) -> None:
    """Follow Python's order of evaluation: names read that are not yet bound, names bound."""

    table = live.table

    def read(names: Collection[str]) -> None:
        for name in names:
            if name not in killed:
                exposed.add(name)
            exposed.update(each for each in live.behind.get(name, ()) if each not in killed)

    def visit(each: cst.CSTNode) -> None:
        _evaluate(live, each, killed, exposed)

    def store(target: cst.CSTNode) -> None:
        for each in stores(target):
            for part in parts(each):
                visit(part)
        killed.update(targets(target))

    if type(node) in HOLDERS:
        for part in parts(node):
            visit(part)
        return
    match node:
        case cst.Name():
            read((node.value,))
        case cst.NamedExpr():
            visit(node.value)
            store(node.target)
        case cst.FunctionDef() | cst.Lambda() | cst.ClassDef():
            for part in outer_parts(node):
                visit(part)
            read(table.of(node).free)
            if not isinstance(node, cst.Lambda):
                killed.add(node.name.value)
        case _ if isinstance(node, COMPREHENSIONS):
            read(table.of(node).free)
        case cst.IfExp():
            visit(node.test)
            for arm in (node.body, node.orelse):
                _evaluate(live, arm, set(killed), exposed)
        case cst.BooleanOperation():
            visit(node.left)
            _evaluate(live, node.right, set(killed), exposed)
        case cst.Assign():
            visit(node.value)
            for each in node.targets:
                store(each.target)
        case cst.AugAssign():
            visit(node.target)
            visit(node.value)
            killed.update(targets(node.target))
        case cst.AnnAssign():
            if node.value is not None:
                visit(node.value)
                store(node.target)
        case cst.Import() | cst.ImportFrom():
            killed.update(table.assigned(node))
        case cst.Del():
            visit(node.target)
            killed.update(targets(node.target))
        case _:
            for part in parts(node):
                visit(part)
