"""``break``, ``continue`` and ``return`` of device loops and kernels, as flags and branches.

What follows a branch that leaves goes to its other arm, so that both ways are one nest of branches::

    for k in range(n):                      going_1 = p.int(1)
        if k > m:                           for k in range(n):        # while going_1 != 0
            break                               if k > m:
        x = x + k                                   going_1 = p.int(0)
                                                else:
                                                    x = x + k

A branch that only may leave, because a branch inside of it does, sets a flag that what follows asks. Flags
that a loop over ``range`` asks before each turn are told apart; those of ``while`` are in its condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeVar

import libcst as cst

from gizml_tile.frontend.inference import Inference
from gizml_tile.frontend.kinds import Kind
from gizml_tile.frontend.positions import Span
from gizml_tile.frontend.spelling import assign, dotted, line
from gizml_tile.frontend.states import Mode
from gizml_tile.frontend.syntax import parts

_Node = TypeVar("_Node", bound=cst.CSTNode)

_NESTED = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
_LOOPS = (cst.For, cst.While)


class _Falls(Enum):
    """Whether what follows some statements runs after them."""

    ALWAYS = "always"
    NEVER = "never"
    MAYBE = "maybe"


class _FlagNeeded(Exception):
    """What follows a branch that may leave must ask, so that leaving has to set a flag."""


@dataclass(frozen=True)
class _Flag:
    """A name that is 1 until something is left: an index, or a Python number where no loop is certain."""

    name: str
    is_index: bool


@dataclass(frozen=True)
class _Around:
    """What is around some statements: the loop that ``break`` ends, the flags that leaving sets.

    ``going`` is the loop's, ``turn`` one turn's and ``running`` the program's flag.
    """

    in_loop: bool = False
    returns: bool = False
    going: _Flag | None = None
    turn: _Flag | None = None
    running: _Flag | None = None

    @property
    def asked(self) -> _Flag:
        """The flag that tells whether the statements were left."""
        flag = self.turn if self.in_loop else self.running
        if flag is None:
            raise _FlagNeeded
        return flag


@dataclass
class Exits:
    """The rewriting of one function's exits.

    ``flags`` has those that loops over ``range`` ask, ``modes`` how ``while`` loops with exits run.
    """

    inference: Inference
    positions: dict[cst.CSTNode, Span]
    fresh: Callable[[str], str]
    program: str | None
    flags: dict[cst.CSTNode, tuple[str, ...]] = field(default_factory=dict)
    modes: dict[cst.CSTNode, Mode] = field(default_factory=dict)

    def function(self, node: cst.FunctionDef, *, is_kernel: bool = False) -> cst.FunctionDef:
        """A function whose device loops have no exits, and which has none itself if it is a kernel."""
        if not isinstance(node.body, cst.IndentedBlock):
            return node
        around = _Around(returns=is_kernel and self._returns(node.body))
        loops = [each for each in _own(node.body) if isinstance(each, _LOOPS) and _has_return(each)]
        modes = [self._mode(each) for each in loops]
        certain = Mode.DEVICE in modes
        if around.returns and (certain or Mode.EITHER in modes):
            around = replace(around, running=self._flag("running", certain))
        try:
            new = self._statements(node.body.body, around)[0]
        except _FlagNeeded:
            around = replace(around, running=self._flag("running", certain))
            new = self._statements(node.body.body, around)[0]
        if around.running is not None:
            first = 1 if node.get_docstring() is not None else 0
            new = [*new[:first], self._set(around.running, 1, node), *new[first:]]
        if _same(new, node.body.body):
            return node
        return self._placed(node.with_changes(body=node.body.with_changes(body=new)), node)

    def _returns(self, body: cst.BaseSuite) -> bool:
        """Whether a branch or loop that may be the device's returns without a value."""
        return any(
            _has_return(each) and (self._may_branch(each) or self._mode(each) is not Mode.PYTHON)
            for each in _own(body)
        )

    def _may_branch(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.If) and self.inference.kind(node.test) in (Kind.UNIFORM, Kind.UNKNOWN)

    def _mode(self, node: cst.CSTNode) -> Mode:
        """How a loop runs: ``while True`` as its exits do.

        One over ``range`` that may be Python's stays as it is, as the counter after an exit would be another.
        """
        if isinstance(node, cst.For):
            certain = self.inference.modes.get(node) is Mode.DEVICE
            return Mode.DEVICE if certain else Mode.PYTHON
        if not isinstance(node, cst.While):
            return Mode.PYTHON
        if not _is_true(node.test):
            return self.inference.modes.get(node, Mode.PYTHON)
        kinds = [
            self.inference.kind(each.test)
            for each in _own(node.body)
            if isinstance(each, cst.If) and (_leaves(each, cst.Break, cst.Continue) or _has_return(each))
        ]
        if Kind.UNIFORM in kinds:
            return Mode.DEVICE
        return Mode.EITHER if Kind.UNKNOWN in kinds else Mode.PYTHON

    def _flag(self, stem: str, certain: bool) -> _Flag:
        return _Flag(self.fresh(stem), certain and self.program is not None)

    # Statements

    def _statements(self, nodes: Sequence[Any], around: _Around) -> tuple[list[Any], _Falls]:
        """Statements without exits, and whether what stood after them still runs."""
        new: list[Any] = []
        for number, node in enumerate(nodes):
            match node:
                case cst.SimpleStatementLine():
                    made, falls = self._line(node, around)
                case cst.If() if self._exits(node, around):
                    rest = nodes[number + 1 :]
                    made, falls = self._branch(node, rest, around)
                    return [*new, *made], falls
                case cst.If():
                    made, falls = [self._inside(node, around)], _Falls.ALWAYS
                case cst.For() | cst.While():
                    made, falls = self._loop(node, around)
                    if falls is _Falls.MAYBE and around.turn is not None and around.running is not None:
                        running = cst.Name(around.running.name)
                        made.append(self._made(assign([around.turn.name], running), node))
                case cst.FunctionDef():
                    made, falls = [self.function(node)], _Falls.ALWAYS
                case _:
                    made, falls = [node], _Falls.ALWAYS
            new += made
            if falls is _Falls.NEVER:
                return new, falls
            if falls is _Falls.MAYBE:
                rest, after = self._statements(nodes[number + 1 :], around)
                if rest:
                    new.append(self._asking(around.running or around.asked, rest, node))
                return new, _Falls.MAYBE if after is not _Falls.NEVER else after
        return new, _Falls.ALWAYS

    def _line(self, node: cst.SimpleStatementLine, around: _Around) -> tuple[list[Any], _Falls]:
        for number, each in enumerate(node.body):
            if self._is_exit(each, around):
                before = list(node.body[:number])
                if before:
                    before[-1] = before[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
                    self._placed(before[-1], node.body[number - 1])
                kept = [self._placed(node.with_changes(body=before), node)] if before else []
                flags = self._left(each, around)
                if not kept and flags:
                    flags[0] = self._placed(flags[0].with_changes(leading_lines=node.leading_lines), each)
                return [*kept, *flags], _Falls.NEVER
        return [node], _Falls.ALWAYS

    def _is_exit(self, node: cst.CSTNode, around: _Around) -> bool:
        if isinstance(node, cst.Return):
            return around.returns and node.value is None
        return around.in_loop and isinstance(node, cst.Break | cst.Continue)

    def _left(self, node: cst.CSTNode, around: _Around) -> list[cst.SimpleStatementLine]:
        """What leaving sets."""
        flags = [around.turn]
        if isinstance(node, cst.Break):
            flags.insert(0, around.going)
        elif isinstance(node, cst.Return):
            flags.insert(0, around.running)
        return [self._set(flag, 0, node) for flag in flags if flag is not None]

    def _exits(self, node: cst.CSTNode, around: _Around) -> bool:
        """Whether a statement may leave the ones around it."""
        if around.returns and _has_return(node):
            return True
        return around.in_loop and _leaves(node, cst.Break, cst.Continue)

    def _branch(self, node: cst.If, rest: Sequence[Any], around: _Around) -> tuple[list[Any], _Falls]:
        """A branch that may leave, with what follows in the arms that do not."""
        then, first = self._statements(_lines(node.body), around)
        match node.orelse:
            case cst.If():
                other, second = self._statements([node.orelse], around)
            case cst.Else():
                other, second = self._statements(_lines(node.orelse.body), around)
            case _:
                other, second = [], _Falls.ALWAYS
        after: list[Any] = []
        falls = _Falls.NEVER
        if rest and (first is not _Falls.NEVER or second is not _Falls.NEVER):
            after, falls = self._statements(rest, around)
        if not after:
            made = self._if(node, then, other)
            both = {first, second}
            return [made], both.pop() if len(both) == 1 else _Falls.MAYBE
        if first is _Falls.NEVER and second is _Falls.ALWAYS:
            return [self._if(node, then, [*other, *after])], _after(falls)
        if second is _Falls.NEVER and first is _Falls.ALWAYS:
            return [self._if(node, [*then, *after], other)], _after(falls)
        made = self._if(node, then, other)
        return [made, self._asking(around.asked, after, node)], _after(falls)

    def _if(self, node: cst.If, then: list[Any], other: list[Any]) -> cst.If:
        orelse: cst.If | cst.Else | None = None
        if len(other) == 1 and isinstance(other[0], cst.If) and isinstance(node.orelse, cst.If):
            orelse = other[0]
        elif other:
            old = node.orelse if isinstance(node.orelse, cst.Else) else None
            body = self._block(old.body if old else None, other, node)
            orelse = cst.Else(body) if old is None else old.with_changes(body=body)
            self._placed(orelse, old or node)
        return self._placed(node.with_changes(body=self._block(node.body, then, node), orelse=orelse), node)

    def _asking(self, flag: _Flag, body: list[Any], origin: cst.CSTNode) -> cst.If:
        """``if flag != 0:`` before some statements."""
        return self._made(cst.If(_is_set(flag), cst.IndentedBlock(body)), origin)

    def _inside(self, node: cst.If, around: _Around) -> cst.If:
        """A branch that leaves nothing, whose loops may have exits of their own."""
        orelse = node.orelse
        if isinstance(orelse, cst.If):
            orelse = self._inside(orelse, around)
        elif isinstance(orelse, cst.Else):
            orelse = self._with_body(orelse, around)
        changed: cst.If = self._with_body(node, around)
        if orelse is node.orelse:
            return changed
        return self._placed(changed.with_changes(orelse=orelse), node)

    def _with_body(self, node: Any, around: _Around) -> Any:
        new, _ = self._statements(_lines(node.body), around)
        if _same(new, node.body.body) or isinstance(node.body, cst.SimpleStatementSuite):
            return node
        return self._placed(node.with_changes(body=self._block(node.body, new, node)), node)

    # Loops

    def _loop(self, node: cst.For | cst.While, around: _Around) -> tuple[list[Any], _Falls]:
        mode = self._mode(node)
        if mode is Mode.PYTHON:
            return [self._with_body(node, _Around())], _Falls.ALWAYS
        returns = around.returns and _has_return(node)
        certain = mode is Mode.DEVICE
        going = self._flag("going", certain) if _leaves(node.body, cst.Break) else None
        inner = _Around(True, around.returns, going, None, around.running)
        try:
            body = self._statements(_lines(node.body), inner)[0]
        except _FlagNeeded:
            turn = self._flag("turn", certain)
            body = self._statements(_lines(node.body), replace(inner, turn=turn))[0]
            body.insert(0, self._set(turn, 1, node))
        flags = [each for each in (going, around.running if returns else None) if each is not None]
        new: Any = node
        if not _same(body, node.body.body):
            new = self._placed(node.with_changes(body=self._block(node.body, body, node)), node)
        after: list[Any] = []
        if flags and node.orelse is not None:
            after = self._statements(_lines(node.orelse.body), around)[0]
            for flag in reversed(flags):
                after = [self._asking(flag, after, node.orelse)]
            new = self._placed(new.with_changes(orelse=None), node)
        if isinstance(new, cst.While):
            new = self._placed(new.with_changes(test=self._test(node, flags)), node)
            self.modes[new] = mode
        elif flags:
            self.flags[new] = tuple(each.name for each in flags)
        before = [] if going is None else [self._set(going, 1, node)]
        return [*before, new, *after], _Falls.MAYBE if returns else _Falls.ALWAYS

    def _test(self, node: Any, flags: Sequence[_Flag]) -> cst.BaseExpression:
        """The condition of a ``while`` loop with its flags."""
        tests: list[cst.BaseExpression] = [_is_set(flag) for flag in flags]
        if not flags or not _is_true(node.test):
            tests.append(node.test)
        test = tests[0]
        for each in tests[1:]:
            test = cst.BooleanOperation(test, cst.And(), each)
        return test if test is node.test else self._made(test, node.test)

    # Pieces

    def _set(self, flag: _Flag, value: int, origin: cst.CSTNode) -> cst.SimpleStatementLine:
        number: cst.BaseExpression = cst.Integer(str(value))
        if flag.is_index:
            number = cst.Call(dotted(f"{self.program}.int"), [cst.Arg(number)])
        return self._made(assign([flag.name], number), origin)

    def _block(self, old: cst.BaseSuite | None, body: list[Any], origin: cst.CSTNode) -> cst.IndentedBlock:
        lines = body or [self._made(line(cst.Pass()), origin)]
        if isinstance(old, cst.IndentedBlock):
            return self._placed(old.with_changes(body=lines), old)
        return self._placed(cst.IndentedBlock(lines), origin)

    def _placed(self, new: _Node, old: cst.CSTNode) -> _Node:
        """A node that stands for another, at its place."""
        if old in self.positions:
            self.positions.setdefault(new, self.positions[old])
        return new

    def _made(self, new: _Node, origin: cst.CSTNode) -> _Node:
        """A node of ours, with all that has no place yet, at the place of a piece of the person's."""
        self._placed(new, origin)
        for part in parts(new):
            if part not in self.positions:
                self._made(part, origin)
        return new


def _own(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes of a piece of source that are not those of a function inside."""
    found = [node]
    for part in parts(node):
        if not isinstance(part, _NESTED):
            found += _own(part)
    return found


def _has_return(node: cst.CSTNode) -> bool:
    return any(isinstance(each, cst.Return) and each.value is None for each in _own(node))


def _leaves(node: cst.CSTNode, *kinds: type[cst.CSTNode]) -> bool:
    """Whether a piece of a loop's body has such an exit of that loop."""
    if isinstance(node, kinds):
        return True
    return any(_leaves(part, *kinds) for part in parts(node) if not isinstance(part, (*_LOOPS, *_NESTED)))


def _is_true(node: cst.BaseExpression) -> bool:
    return (isinstance(node, cst.Name) and node.value == "True") or (
        isinstance(node, cst.Integer) and node.value == "1"
    )


def _is_set(flag: _Flag) -> cst.Comparison:
    """``flag != 0``."""
    return cst.Comparison(cst.Name(flag.name), [cst.ComparisonTarget(cst.NotEqual(), cst.Integer("0"))])


def _lines(body: cst.BaseSuite) -> Sequence[Any]:
    """The lines of a body; what stands on the line of its ``if`` as one of its own."""
    if isinstance(body, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine(body.body)]
    return body.body


def _same(new: Sequence[Any], old: Sequence[Any]) -> bool:
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))


def _after(falls: _Falls) -> _Falls:
    return _Falls.NEVER if falls is _Falls.NEVER else _Falls.MAYBE
