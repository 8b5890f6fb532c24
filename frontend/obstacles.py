"""What a device loop or branch cannot hold, because its body is traced once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import libcst as cst

from gizml_tile.frontend.inference import Inference
from gizml_tile.frontend.kinds import Kind
from gizml_tile.frontend.rewriter import Rewriter
from gizml_tile.frontend.syntax import parts, root, stores, targets, walk

_MUTATORS = frozenset(
    "append extend insert remove pop clear sort reverse update setdefault popitem appendleft extendleft "
    "popleft discard".split()
)
_LOOPS = (cst.For, cst.While)
_TELLING = frozenset(
    {
        cst.Return,
        cst.Break,
        cst.Continue,
        cst.Yield,
        cst.Await,
        cst.Call,
        cst.Name,
        cst.Assign,
        cst.AugAssign,
        cst.AnnAssign,
        cst.Del,
        cst.For,
        cst.While,
        cst.FunctionDef,
        cst.Lambda,
    }
)


@dataclass(frozen=True)
class Obstacle:
    """A piece of source that cannot stand in a device loop or branch; ``word`` names it for the error."""

    node: cst.CSTNode
    word: str


@dataclass(frozen=True)
class _Search:
    """The search for obstacles in a body."""

    inference: Inference
    declared: frozenset[str]
    effectful: frozenset[str]

    def obstacles(self, body: cst.CSTNode, local: frozenset[str]) -> Iterator[Obstacle]:
        """Every obstacle in a body, in order; ``local`` are the names whose objects are made inside."""
        yield from self._search(body, local, in_loop=False, in_function=False)

    def _search(
        self, node: Any, local: frozenset[str], *, in_loop: bool, in_function: bool
    ) -> Iterator[Obstacle]:
        if type(node) not in _TELLING:
            for part in parts(node):
                yield from self._search(part, local, in_loop=in_loop, in_function=in_function)
            return
        match node:
            case cst.Return() if not in_function:
                yield Obstacle(node, "return")
            case cst.Break() | cst.Continue() if not in_loop and not in_function:
                yield Obstacle(node, "break" if isinstance(node, cst.Break) else "continue")
            case cst.Yield() if not in_function:
                yield Obstacle(node, "yield")
            case cst.Await() if not in_function:
                yield Obstacle(node, "await")
            case cst.Call():
                yield from self._call(node, local)
            case cst.Name() if node.value in self.effectful:
                yield Obstacle(node, f"calling {node.value}, which assigns outside itself,")
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)]):
                # An item of an unknown object may be an output's block: the store is checked when it
                # happens.
                unknown = self.inference.kind(target.value) is Kind.UNKNOWN and not in_function
                if not unknown:
                    yield from self._store(target, local)
            case cst.Assign():
                for each in node.targets:
                    yield from self._store(each.target, local)
            case cst.AugAssign() | cst.AnnAssign() | cst.For() | cst.Del():
                yield from self._store(node.target, local)
        for part in parts(node):
            inner_local, inner_function, inner_loop = local, in_function, in_loop
            if isinstance(node, cst.FunctionDef | cst.Lambda) and part is node.body:
                inner_local, inner_function = local | self.inference.table.of(node).local, True
            elif isinstance(node, _LOOPS) and part is node.body:
                inner_loop = True
            yield from self._search(
                part, inner_local, in_loop=inner_loop, in_function=inner_function
            )

    def _call(self, node: cst.Call, local: frozenset[str]) -> Iterator[Obstacle]:
        if isinstance(node.func, cst.Name) and node.func.value == "next":
            first = root(node.args[0].value) if node.args else None
            if (
                first is not None
                and first not in local
                and self.inference.resolver.is_builtin("next")
            ):
                yield Obstacle(node, "next()")
        if not isinstance(node.func, cst.Attribute):
            return
        name, receiver = node.func.attr.value, node.func.value
        kind = self.inference.kind(receiver)
        changes = name in _MUTATORS or (name == "add" and kind is Kind.HOST)
        first = root(receiver)
        if (
            changes
            and first is not None
            and first not in local
            and (kind is Kind.UNKNOWN or kind.is_host)
        ):
            yield Obstacle(node, f"{name}()")

    def _store(self, target: cst.CSTNode, local: frozenset[str]) -> Iterator[Obstacle]:
        for name in targets(target):
            if name in self.declared and name not in local:
                yield Obstacle(target, f"assigning the outer name `{name}`")
        for each in stores(target):
            if root(each) in local:
                continue
            kind = self.inference.kind(each.value)
            if isinstance(each, cst.Attribute):
                yield Obstacle(each, f"storing the attribute `{each.attr.value}`")
            elif kind not in (Kind.OUT, Kind.IN) and not kind.is_device:
                yield Obstacle(each, "storing an item")


def search(rewriter: Rewriter, body: cst.CSTNode, local: frozenset[str]) -> Obstacle | None:
    """The first piece of a body that cannot stand in a device loop or branch.

    ``local`` are names whose objects are made inside.
    """
    effectful: set[str] = set()
    for each in rewriter.functions:
        if isinstance(each, cst.FunctionDef | cst.Lambda):
            if each not in rewriter.effectful:
                rewriter.effectful[each] = effectful_functions(rewriter.inference, each)
            effectful |= rewriter.effectful[each]
    declared = rewriter.table.of(rewriter.enclosing()).declared
    rules = _Search(rewriter.inference, frozenset(declared), frozenset(effectful))
    return next(rules.obstacles(body, local - declared), None)


def closure(
    rewriter: Rewriter, node: cst.CSTNode, changed: frozenset[str], *, inside: bool = False
) -> Obstacle | None:
    """A function made outside a body (or, with ``inside``, in it) that reads a name the body assigns."""
    names = rewriter.table.of(rewriter.enclosing())
    within = {each for each, _ in rewriter.table.captures(node)}
    called = rewriter.table.reads(node)
    for name in sorted(called & names.functions.keys()):
        for function in names.functions[name]:
            if (function in within) > inside or (
                function not in within and not _made_before(rewriter, function, node)
            ):
                continue
            for read in sorted(
                (rewriter.table.of(function).free | set(names.behind[name])) & changed
            ):
                who = f"`{name}`" if isinstance(function, cst.FunctionDef) else "a function"
                return Obstacle(function, f"closure {read} {who}")
    return None


def _made_before(rewriter: Rewriter, function: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether a function may exist when a statement runs: it stands before it, or in a loop around both."""
    if rewriter.start(function) < rewriter.start(node):
        return True
    return any(rewriter.start(function) < rewriter.end(each) for each in rewriter.python_loops)


def first_read(rewriter: Rewriter, body: cst.CSTNode, name: str) -> cst.CSTNode | None:
    """The first place of a name in a body, where it is a read."""
    for each in walk(body):
        if isinstance(each, cst.Name) and each.value == name:
            return (
                None
                if each in rewriter.inference.kinds and _is_target(rewriter, body, each)
                else each
            )
    return None


def _is_target(rewriter: Rewriter, body: cst.CSTNode, name: cst.Name) -> bool:
    for each in walk(body):
        if isinstance(each, cst.Assign) and any(
            _holds(target.target, name) for target in each.targets
        ):
            return True
        if isinstance(each, cst.For | cst.AnnAssign) and _holds(each.target, name):
            return True
    return False


def read_after(rewriter: Rewriter, node: cst.CSTNode, name: str) -> cst.CSTNode:
    """Where a name is read after a statement; the statement itself where it is read before it in the text."""
    passed = False
    inside = set(walk(node))
    for each in walk(rewriter.enclosing().body):
        if each is node:
            passed = True
        if passed and each not in inside and isinstance(each, cst.Name) and each.value == name:
            return each
    return node


def effectful_functions(
    inference: Inference, function: cst.FunctionDef | cst.Lambda
) -> frozenset[str]:
    """The functions made inside a function that assign or change something outside themselves."""
    table = inference.table
    found: set[str] = set()
    for node, _ in table.of(function).captured:
        if isinstance(node, cst.FunctionDef):
            names = table.of(node)
            rules = _Search(inference, frozenset(names.declared), frozenset())
            ignored = ("return", "break", "continue", "yield", "await")
            if any(each.word not in ignored for each in rules.obstacles(node.body, names.local)):
                found.add(node.name.value)
    return frozenset(found)


def _holds(target: cst.CSTNode, name: cst.Name) -> bool:
    if target is name:
        return True
    if isinstance(target, cst.Tuple | cst.List):
        return any(_holds(each.value, name) for each in target.elements)
    return False
