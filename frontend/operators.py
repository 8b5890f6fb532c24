"""Rewriting expressions: method calls where the kinds are known, a dispatching call where Python needs one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import libcst as cst

from gizml_tile.frontend import advice
from gizml_tile.frontend.inference import Inference
from gizml_tile.frontend.kinds import ARITHMETIC, BITS, COMPARISONS, METHODS, MIRRORED, Kind
from gizml_tile.frontend.scopes import COMPREHENSIONS, Function, parameters, part_names, walk
from gizml_tile.frontend.spelling import (
    bare,
    call,
    chain_of,
    comparison_sign,
    dotted,
    is_plain,
    is_primary,
    parenthesized,
    sign,
)

# Methods of Python's own containers and strings, which need no rewriting.
_HOST_METHODS = frozenset(
    "append extend insert remove pop clear sort reverse update setdefault popitem discard keys values items "
    "get index count copy format join split strip lower upper startswith endswith replace encode decode "
    "bit_length is_integer".split()
)
_TAKES_FUNCTIONS = frozenset({"map", "filter", "reduce", "partial", "fold", "loop", "cond"})
_EXTRA_SIGNS = {"**": "pow", "<<": "shl", ">>": "shr"}
_LAZY_LIMITS = (cst.NamedExpr, cst.Await, cst.Yield)
_KEPT = frozenset({cst.Name, cst.FormattedString, cst.SimpleString, cst.Integer, cst.Float})
_GENERIC = frozenset({cst.Element, cst.Index, cst.List, cst.SubscriptElement, cst.Tuple})


class Expressions:
    """Rewrites the expressions of one function; statements are the subclass's."""

    def __init__(
        self,
        inference: Inference,
        identifiers: frozenset[str],
        fail: Callable[[cst.CSTNode, str], NoReturn],
        positions: Mapping[cst.CSTNode, tuple[int, int, int, int]],
    ) -> None:
        self.inference = inference
        self.table = inference.table
        self.resolver = inference.resolver
        self.fail = fail
        self._positions = positions
        # The device loops and branches around, innermost last: the names whose objects are made inside.
        self.regions: list[frozenset[str]] = []
        self.python_loops: list[cst.For | cst.While] = []
        self.origins: dict[cst.CSTNode, cst.CSTNode] = {}
        self.generated: set[str] = set()
        self.uses_dispatch = False
        self.tile_name = "tile"
        self._identifiers = set(identifiers)
        # The functions around the place that is being rewritten, outermost first, with their local names.
        self.functions: list[Function] = []
        self.scopes: list[frozenset[str]] = []

    # Places

    def start(self, node: cst.CSTNode) -> tuple[int, int]:
        """Where a piece of the person's source starts."""
        return self._positions[node][:2]

    def end(self, node: cst.CSTNode) -> tuple[int, int]:
        """Where a piece of the person's source ends."""
        return self._positions[node][2:]

    def one_line(self, node: cst.CSTNode) -> bool:
        """Whether a piece of the person's source is on one line."""
        return self.start(node)[0] == self.end(node)[0]

    # Names

    def fresh(self, stem: str) -> str:
        """A name of ours that the person's source does not use: ``loop_1``."""
        number = 1
        while f"{stem}_{number}" in self._identifiers:
            number += 1
        name = f"{stem}_{number}"
        self._identifiers.add(name)
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

    # Building

    def made(self, new: Any, origin: cst.CSTNode) -> Any:
        """Remember which piece of the person's source a new node stands for."""
        self.origins[new] = origin
        return new

    def method(self, origin: cst.CSTNode, receiver: cst.BaseExpression, name: str,
               arguments: Sequence[cst.BaseExpression]) -> cst.Call:  # fmt: skip
        """``receiver.name(arguments)``."""
        function = self.made(cst.Attribute(self._receiver(receiver), cst.Name(name)), origin)
        made: cst.Call = self.made(call(function, [self._argument(each) for each in arguments]), origin)
        return made

    def dispatched(self, origin: cst.CSTNode, name: str, arguments: Sequence[cst.BaseExpression]) -> cst.Call:
        """``tile.dispatch.name(arguments)``."""
        made: cst.Call = self.made(call(self.dispatch(name), arguments), origin)
        return made

    def lazily(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """``lambda: node``."""
        made: cst.BaseExpression = self.made(
            cst.Lambda(cst.Parameters(), node, whitespace_after_lambda=cst.SimpleWhitespace("")), node
        )
        return made

    def _receiver(self, node: cst.BaseExpression) -> cst.BaseExpression:
        if not is_primary(node):
            return self._same(node, parenthesized(node))
        if node.lpar and is_primary(bare(node)) and self.one_line(self.origins.get(node, node)):
            return self._same(node, bare(node))
        return node

    def _argument(self, node: cst.BaseExpression) -> cst.BaseExpression:
        if isinstance(node, cst.Tuple | cst.GeneratorExp | cst.NamedExpr | cst.Yield):
            return node
        return self._same(node, bare(node))

    def _same(self, old: cst.BaseExpression, new: cst.BaseExpression) -> cst.BaseExpression:
        if new is not old:
            self.origins[new] = self.origins.get(old, old)
        return new

    def again(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """A second copy of a name or constant."""
        made: cst.BaseExpression = self.made(node.deep_clone(), self.origins.get(node, node))
        return made

    def rebuilt(self, node: Any, **changes: Any) -> Any:
        """A node with some parts replaced, standing for the same source."""
        changes = {name: value for name, value in changes.items() if value is not getattr(node, name)}
        if not changes:
            return node
        new = node.with_changes(**changes)
        self.origins[new] = node
        return new

    # Expressions

    def expr(self, node: Any) -> Any:
        """An expression, or a part of one, rewritten."""
        kind = type(node)
        if kind in _KEPT:
            return node
        if kind in _GENERIC:
            return self.generic(node)
        match node:
            case cst.BinaryOperation():
                return self._binary(node)
            case cst.UnaryOperation():
                return self._unary(node)
            case cst.Comparison():
                return self._comparison(node)
            case cst.BooleanOperation():
                return self._boolean(node)
            case cst.IfExp():
                return self._choice(node)
            case cst.Call():
                return self._call(node)
            case cst.Subscript():
                return self._subscript(node)
            case cst.Attribute():
                value = self.expr(node.value)
                if node.attr.value == "T" and self.kind(node.value).is_tile:
                    return self._keep_parens(node, self.method(node, value, "transpose", []))
                return self.rebuilt(node, value=value)
            case cst.Lambda():
                return self._lambda(node)
            case _ if isinstance(node, COMPREHENSIONS):
                return self._comprehension(node)
            case _:
                return self.generic(node)

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

    def _keep_parens(self, node: cst.BaseExpression, new: cst.BaseExpression) -> cst.BaseExpression:
        """Parentheses around an expression that spans lines stay, so that the result does too."""
        if not node.lpar or self.one_line(node):
            return new
        return self._same(new, new.with_changes(lpar=node.lpar, rpar=node.rpar))

    def _binary(self, node: cst.BinaryOperation) -> cst.BaseExpression:
        left, right = self.expr(node.left), self.expr(node.right)
        name = self.operator_method(sign(node.operator), self.kind(node.left), self.kind(node.right))
        if name is None:
            rebuilt: cst.BaseExpression = self.rebuilt(node, left=left, right=right)
            return rebuilt
        return self._keep_parens(node, self.method(node, left, name, [right]))

    def operator_method(self, symbol: str, left: Kind, right: Kind) -> str | None:
        """The method that an operator means, where the left operand is known to have it."""
        if left.is_tile:
            if symbol == "^" and left is Kind.TILE:
                return "xor"
            return ARITHMETIC.get(symbol) or BITS.get(symbol) or _EXTRA_SIGNS.get(symbol)
        if left is Kind.INDEX and symbol in ("+", "-", "*", "//", "%"):
            return ARITHMETIC[symbol]
        return "pow" if left is Kind.INDEX and symbol == "**" and right.is_host else None

    def _unary(self, node: cst.UnaryOperation) -> cst.BaseExpression:
        inner = self.expr(node.expression)
        kind = self.kind(node.expression)
        match node.operator:
            case cst.Minus() if kind.is_device:
                return self._keep_parens(node, self.method(node, inner, "neg", []))
            case cst.BitInvert() | cst.Not() if kind.is_tile:
                return self._keep_parens(node, self.method(node, inner, "not_", []))
            case cst.Not() if not kind.is_host:
                return self.dispatched(node, "not_", [self._argument(inner)])
        rebuilt: cst.BaseExpression = self.rebuilt(node, expression=inner)
        return rebuilt

    def _comparison(self, node: cst.Comparison) -> cst.BaseExpression:
        operands = [node.left, *(each.comparator for each in node.comparisons)]
        signs = [comparison_sign(each.operator) for each in node.comparisons]
        for left, symbol, right in zip(operands, signs, operands[1:], strict=False):
            self._check_pair(left, symbol, right)
        new = [self.expr(each) for each in operands]
        methods = [
            self._comparison_method(left, symbol, right)
            for left, symbol, right in zip(operands, signs, operands[1:], strict=False)
        ]
        middle_plain = all(is_plain(each) for each in operands[1:-1])
        if all(methods) and middle_plain:
            return self._keep_parens(node, self._joined(node, operands, new, methods))
        if len(signs) == 1 and signs[0] in ("in", "not in") and self._searches_values(node.left, operands[1]):
            name = "contains" if signs[0] == "in" else "not_contains"
            return self.dispatched(node, name, [self._argument(each) for each in new])
        if len(signs) > 1 and not all(self.kind(each).is_host for each in operands[:-1]):
            return self._chain(node, new, signs)
        comparisons = [
            self.rebuilt(old, comparator=each) for old, each in zip(node.comparisons, new[1:], strict=True)
        ]
        changed = any(a is not b for a, b in zip(comparisons, node.comparisons, strict=True))
        rebuilt: cst.BaseExpression = self.rebuilt(
            node, left=new[0], comparisons=comparisons if changed else node.comparisons
        )
        return rebuilt

    def _check_pair(self, left: cst.BaseExpression, symbol: str, right: cst.BaseExpression) -> None:
        kinds = self.kind(left), self.kind(right)
        what = "an index" if Kind.INDEX in kinds else "a tile"
        if symbol in ("in", "not in") and kinds[0].is_device:
            self.fail(left, f"`{symbol}` on {what}: compare with == and combine the masks with `or`")
        for value, other in ((left, right), (right, left)):
            if symbol in ("==", "!=") and self.kind(value).is_device and _is_none(other):
                word = "is" if symbol == "==" else "is not"
                self.fail(value, f"`{symbol} None` on {what}: write `{word} None`")

    def _comparison_method(self, left: cst.BaseExpression, symbol: str, right: cst.BaseExpression) -> str | None:
        name = COMPARISONS.get(symbol)
        if name is None or self.kind(left).is_device:
            return name
        if self.kind(right).is_device and self.kind(left).is_host and is_plain(left):
            return f"mirrored {MIRRORED[name]}"
        return None

    def _joined(self, node: cst.Comparison, operands: Sequence[cst.BaseExpression],
                new: Sequence[cst.BaseExpression], methods: Sequence[str | None]) -> cst.BaseExpression:  # fmt: skip
        result: cst.BaseExpression | None = None
        for number, name in enumerate(methods):
            assert name is not None
            left, right = new[number], new[number + 1]
            if number:  # the middle operand stands in two comparisons
                left = self.again(left)
            if name.startswith("mirrored "):
                part = self.method(node, right, name.removeprefix("mirrored "), [left])
            else:
                part = self.method(node, left, name, [right])
            result = part if result is None else self.method(node, result, "and_", [part])
        assert result is not None
        return result

    def _searches_values(self, left: cst.BaseExpression, right: cst.BaseExpression) -> bool:
        """Whether ``in`` may compare tiles by ==: not where either side is known to be the host's."""
        literal = isinstance(right, cst.Tuple | cst.List | cst.Set) and all(
            isinstance(each.value, cst.SimpleString) for each in right.elements
        )
        return not (self.kind(left).is_host or self.kind(right) is Kind.CONSTANT or literal)

    def _chain(self, node: cst.Comparison, new: Sequence[cst.BaseExpression], signs: Sequence[str]) -> Any:
        arguments: list[cst.BaseExpression] = [self._argument(new[0])]
        for number, (symbol, right) in enumerate(zip(signs, new[1:], strict=True)):
            arguments.append(cst.SimpleString(f'"{symbol}"'))
            if number:
                self._check_lazy(right, "and")
                right = self.lazily(right)
            arguments.append(right)
        return self.dispatched(node, "chain", arguments)

    def _check_lazy(self, node: cst.CSTNode, word: str) -> None:
        for each in walk(node):
            if isinstance(each, _LAZY_LIMITS):
                self.fail(each, f"an assignment inside a chain of comparisons: {_name_first(word)}")

    def _boolean(self, node: cst.BooleanOperation) -> cst.BaseExpression:
        word = "and" if isinstance(node.operator, cst.And) else "or"
        operands = _flat(node)
        kinds = [self.kind(each) for each in operands]
        if all(kind.is_host for kind in kinds[:-1]):
            rebuilt: cst.BaseExpression = self.rebuilt(
                node, left=self.expr(node.left), right=self.expr(node.right)
            )
            return rebuilt
        new = [self.expr(each) for each in operands]
        if kinds[0].is_tile:
            result = new[0]
            for each in new[1:]:
                result = self.method(node, result, f"{word}_", [each])
            return self._keep_parens(node, result)
        if any(isinstance(each, _LAZY_LIMITS) for right in operands[1:] for each in walk(right)):
            return self._guarded_boolean(node, word)
        return self.dispatched(
            node, f"{word}_", [self._argument(new[0]), *(self.lazily(each) for each in new[1:])]
        )

    def _guarded_boolean(self, node: cst.BooleanOperation, word: str) -> cst.BaseExpression:
        left = self.expr(node.left)
        if not self.kind(node.left).is_host:
            left = self.guard(node.left, left, word)
        rebuilt: cst.BaseExpression = self.rebuilt(node, left=left, right=self.expr(node.right))
        return rebuilt

    def guard(self, origin: cst.CSTNode, value: cst.BaseExpression, word: str) -> cst.Call:
        """``tile.dispatch.host(value, word)``: the value, or an error where it is the device's."""
        return self.dispatched(origin, "host", [self._argument(value), cst.SimpleString(f'"{word}"')])

    def _choice(self, node: cst.IfExp) -> cst.BaseExpression:
        kind = self.kind(node.test)
        if kind is Kind.INDEX:
            self.fail(node.test, advice.IF_INDEX)
        test, yes, no = self.expr(node.test), self.expr(node.body), self.expr(node.orelse)
        if kind.is_tile:
            return self._keep_parens(node, self.method(node, test, "select", [yes, no]))
        arms_bind = any(isinstance(each, _LAZY_LIMITS) for arm in (node.body, node.orelse) for each in walk(arm))
        if kind.is_host or arms_bind:
            if not kind.is_host:
                test = self.guard(node.test, test, "if")
            rebuilt: cst.BaseExpression = self.rebuilt(node, test=test, body=yes, orelse=no)
            return rebuilt
        return self.dispatched(node, "select", [self._argument(test), self.lazily(yes), self.lazily(no)])

    # Calls, items

    def _call(self, node: cst.Call) -> cst.BaseExpression:
        if isinstance(node.func, cst.Name) and self.is_outside(node.func.value):
            extreme = self._extreme(node, node.func.value)
            if extreme is not None:
                return extreme
        arguments = [self._call_argument(node, each) for each in node.args]
        changed = any(a is not b for a, b in zip(arguments, node.args, strict=True))
        function = self._callee(node)
        rebuilt: cst.BaseExpression = self.rebuilt(
            node, func=function, args=arguments if changed else node.args
        )
        return rebuilt

    def _call_argument(self, node: cst.Call, argument: cst.Arg) -> cst.Arg:
        """An argument; a function of the person's given to one that calls it is the rewritten one."""
        value = self.expr(argument.value)
        name = node.func.attr.value if isinstance(node.func, cst.Attribute) else getattr(node.func, "value", "")
        chain = chain_of(argument.value)
        if name in _TAKES_FUNCTIONS and chain and self.is_outside(chain[0]) and self._is_function(chain):
            value = self.dispatched(argument.value, "helper", [value])
        rebuilt: cst.Arg = self.rebuilt(argument, value=value)
        return rebuilt

    def _is_function(self, chain: tuple[str, ...]) -> bool:
        return self.resolver.is_helper(chain)

    def _extreme(self, node: cst.Call, name: str) -> cst.BaseExpression | None:
        """``min``, ``max`` and ``abs``, where the name is Python's own function."""
        count = len(node.args)
        simple = all(each.keyword is None and not each.star for each in node.args)
        wanted = count == 1 if name == "abs" else name in ("min", "max") and count > 1
        if not wanted or not simple or not self.resolver.is_builtin(name):
            return None
        kinds = [self.kind(each.value) for each in node.args]
        if all(kind.is_host for kind in kinds):
            return None
        values = [self.expr(each.value) for each in node.args]
        method = {"min": "minimum", "max": "maximum"}.get(name, name)
        if not kinds[0].is_device:
            rebuilt: cst.BaseExpression = self.rebuilt(
                node,
                func=self.made(self.dispatch(method), node.func),
                args=[self.rebuilt(old, value=new) for old, new in zip(node.args, values, strict=True)],
            )
            return rebuilt
        result: cst.BaseExpression = values[0]
        for each in values[1:] or [None]:
            result = self.method(node, result, method, [] if each is None else [each])
        return result

    def _callee(self, node: cst.Call) -> cst.BaseExpression:
        function: cst.BaseExpression = self.expr(node.func)
        if self._is_plain_callee(node.func):
            return function
        return self.dispatched(node.func, "helper", [self._argument(function)])

    def _is_plain_callee(self, function: cst.BaseExpression) -> bool:
        """Whether a call needs no look at what it calls."""
        match function:
            case cst.Name():
                for scope, around in zip(reversed(self.scopes), reversed(self.functions), strict=True):
                    if function.value in scope:
                        names = self.table.of(around)
                        return names.bound[function.value] == names.made[function.value]
                return self.resolver.call_is_plain((function.value,))
            case cst.Attribute():
                name, receiver = function.attr.value, self.kind(function.value)
                if receiver.is_device or receiver in (Kind.PROGRAM, Kind.IN, Kind.OUT, Kind.TENSOR):
                    return True
                chain = chain_of(function)
                if chain and self.is_outside(chain[0]):
                    if self.resolver.call_is_plain(chain):
                        return True
                    return not self.resolver.is_helper(chain) and name in _HOST_METHODS
                if name in _HOST_METHODS:
                    return True
                return name in METHODS and receiver is Kind.UNKNOWN
            case cst.Lambda():
                return True
        return False

    def coordinates(self, node: cst.Subscript) -> cst.List | None:
        """``[i, k]`` of ``A[i, k]``; None where one item may be a tuple of them."""
        elements: list[cst.BaseElement] = []
        for each in node.slice:
            item = each.slice
            if isinstance(item, cst.Slice):
                self.fail(item if item.lower or item.upper else node,
                          "a slice of blocks: A[i, k] takes one block; its sizes are given to p.read and p.write, "
                          "and .window(offsets) takes one at any element")  # fmt: skip
            if isinstance(item.value, cst.Ellipsis):
                self.fail(item.value, "`...` among block coordinates: write every coordinate")
            value = self.expr(item.value)
            elements.append(cst.StarredElement(value) if item.star else cst.Element(value))
        if len(elements) == 1:
            only = node.slice[0].slice
            assert isinstance(only, cst.Index)
            if only.star is None and self.kind(only.value) is not Kind.INDEX:
                if not isinstance(only.value, cst.Integer) and not is_negative_number(only.value):
                    return None
        return cst.List(elements)

    def _subscript(self, node: cst.Subscript) -> cst.BaseExpression:
        if self.kind(node.value) is Kind.IN:
            coordinates = self.coordinates(node)
            if coordinates is not None:
                return self._keep_parens(node, self.method(node, self.expr(node.value), "at", [coordinates]))
        rebuilt: cst.BaseExpression = self.generic(node)
        return rebuilt

    # Functions inside expressions

    def _lambda(self, node: cst.Lambda) -> cst.BaseExpression:
        params = self.defaults(node)
        self.functions.append(node)
        self.scopes.append(self.table.of(node).local)
        body = self.expr(node.body)
        self.scopes.pop()
        self.functions.pop()
        rebuilt: cst.BaseExpression = self.rebuilt(node, params=params, body=body)
        return rebuilt

    def defaults(self, node: Function) -> cst.Parameters:
        """A function's parameters with their defaults rewritten."""
        params = node.params
        if all(each.default is None for each in parameters(node)):
            return params
        changes: dict[str, Any] = {}
        for name in ("posonly_params", "params", "kwonly_params"):
            old = getattr(params, name)
            changes[name] = [
                each if each.default is None else self.rebuilt(each, default=self.expr(each.default))
                for each in old
            ]
        return params.with_changes(**changes)

    def _comprehension(self, node: Any) -> cst.BaseExpression:
        self.functions.append(node)
        self.scopes.append(self.table.of(node).local)
        rebuilt: cst.BaseExpression = self.generic(node)
        self.scopes.pop()
        self.functions.pop()
        return rebuilt


def _flat(node: cst.BooleanOperation) -> list[cst.BaseExpression]:
    """The operands of ``a and b and c``."""
    left: list[cst.BaseExpression] = [node.left]
    if isinstance(node.left, cst.BooleanOperation) and type(node.left.operator) is type(node.operator):
        left = _flat(node.left)
    return [*left, node.right]


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def is_negative_number(node: cst.BaseExpression) -> bool:
    """Whether an expression is a number with a minus sign."""
    return isinstance(node, cst.UnaryOperation) and is_plain(node)


def _name_first(word: str) -> str:
    return f"name the value on a line before, then compare with `{word}`"

