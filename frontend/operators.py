"""Operators: method calls where kinds are known, dispatching calls for what Python cannot overload."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from gizml_tile.frontend import advice
from gizml_tile.frontend.kinds import (
    ARITHMETIC,
    BITS,
    COMPARISONS,
    METHODS,
    MIRRORED,
    TRACED,
    Kind,
)
from gizml_tile.frontend.rewriter import Rewriter
from gizml_tile.frontend.spelling import comparison_sign, is_plain, sign
from gizml_tile.frontend.syntax import walk

_EXTRA_SIGNS = {"**": "pow", "<<": "shl", ">>": "shr"}
_LAZY_LIMITS = (cst.NamedExpr, cst.Await, cst.Yield)


def binary(rewriter: Rewriter, node: cst.BinaryOperation) -> cst.BaseExpression:
    """``a + b`` as ``a.add(b)`` where a is known to be a tile or an index."""
    left, right = rewriter.expr(node.left), rewriter.expr(node.right)
    name = operator_method(sign(node.operator), rewriter.kind(node.left), rewriter.kind(node.right))
    if name is None:
        rebuilt: cst.BaseExpression = rewriter.rebuilt(node, left=left, right=right)
        return rebuilt
    return rewriter.keep_parens(node, rewriter.method(node, left, name, [right]))


def operator_method(symbol: str, left: Kind, right: Kind) -> str | None:
    """The method that an operator means, where the left operand is known to have it."""
    if left.is_tile:
        if symbol == "^" and left is Kind.TILE:
            return "xor"
        return ARITHMETIC.get(symbol) or BITS.get(symbol) or _EXTRA_SIGNS.get(symbol)
    if left is Kind.INDEX and symbol in ("+", "-", "*", "//", "%"):
        return ARITHMETIC[symbol]
    return "pow" if left is Kind.INDEX and symbol == "**" and right.is_host else None


def unary(rewriter: Rewriter, node: cst.UnaryOperation) -> cst.BaseExpression:
    """``-a``, ``~m`` and ``not m``."""
    inner = rewriter.expr(node.expression)
    kind = rewriter.kind(node.expression)
    match node.operator:
        case cst.Minus() if kind.is_device:
            return rewriter.keep_parens(node, rewriter.method(node, inner, "neg", []))
        case cst.BitInvert() | cst.Not() if kind.is_tile:
            return rewriter.keep_parens(node, rewriter.method(node, inner, "not_", []))
        case cst.Not() if not kind.is_host:
            return rewriter.dispatched(node, "not_", [rewriter.argument(inner)])
    rebuilt: cst.BaseExpression = rewriter.rebuilt(node, expression=inner)
    return rebuilt


def comparison(rewriter: Rewriter, node: cst.Comparison) -> cst.BaseExpression:
    """``a < b`` as ``a.lt(b)``, and chains as the ``and_`` of their parts."""
    operands = [node.left, *(each.comparator for each in node.comparisons)]
    signs = [comparison_sign(each.operator) for each in node.comparisons]
    for left, symbol, right in zip(operands, signs, operands[1:], strict=False):
        _check_pair(rewriter, left, symbol, right)
    new = [rewriter.expr(each) for each in operands]
    methods = [
        _comparison_method(rewriter, left, symbol, right)
        for left, symbol, right in zip(operands, signs, operands[1:], strict=False)
    ]
    middle_plain = all(is_plain(each) for each in operands[1:-1])
    if all(methods) and middle_plain:
        return rewriter.keep_parens(node, _joined(rewriter, node, operands, new, methods))
    if (
        len(signs) == 1
        and signs[0] in ("in", "not in")
        and _searches_values(rewriter, node.left, operands[1])
    ):
        name = "contains" if signs[0] == "in" else "not_contains"
        return rewriter.dispatched(node, name, [rewriter.argument(each) for each in new])
    if len(signs) > 1 and not all(rewriter.kind(each).is_host for each in operands[:-1]):
        return _chain(rewriter, node, new, signs)
    comparisons = [
        rewriter.rebuilt(old, comparator=each)
        for old, each in zip(node.comparisons, new[1:], strict=True)
    ]
    changed = any(a is not b for a, b in zip(comparisons, node.comparisons, strict=True))
    rebuilt: cst.BaseExpression = rewriter.rebuilt(
        node, left=new[0], comparisons=comparisons if changed else node.comparisons
    )
    return rebuilt


def _check_pair(
    rewriter: Rewriter, left: cst.BaseExpression, symbol: str, right: cst.BaseExpression
) -> None:
    kinds = rewriter.kind(left), rewriter.kind(right)
    what = "an index" if Kind.INDEX in kinds else "a tile"
    if symbol in ("in", "not in") and kinds[0].is_device:
        rewriter.fail(
            left, f"`{symbol}` on {what}: compare with == and combine the masks with `or`"
        )
    for value, other in ((left, right), (right, left)):
        if symbol in ("==", "!=") and rewriter.kind(value).is_device and _is_none(other):
            word = "is" if symbol == "==" else "is not"
            rewriter.fail(value, f"`{symbol} None` on {what}: write `{word} None`")
        # Python compares a method with anything, and never finds it equal; other operators refuse it.
        if symbol in ("==", "!=") and _is_method(rewriter, value):
            text = cst.Module([]).code_for_node(value)
            rewriter.fail(value, f"{text} is a method, found without its call; write {text}(...)")


def _is_method(rewriter: Rewriter, value: cst.BaseExpression) -> bool:
    """Whether an expression is a method of what a program holds, and not a call of it."""
    return (
        isinstance(value, cst.Attribute)
        and value.attr.value in METHODS
        and rewriter.kind(value.value) in TRACED
    )


def _comparison_method(
    rewriter: Rewriter, left: cst.BaseExpression, symbol: str, right: cst.BaseExpression
) -> str | None:
    name = COMPARISONS.get(symbol)
    if name is None or rewriter.kind(left).is_device:
        return name
    if rewriter.kind(right).is_device and rewriter.kind(left).is_host and is_plain(left):
        return f"mirrored {MIRRORED[name]}"
    return None


def _joined(
    rewriter: Rewriter,
    node: cst.Comparison,
    operands: Sequence[cst.BaseExpression],
    new: Sequence[cst.BaseExpression],
    methods: Sequence[str | None],
) -> cst.BaseExpression:
    result: cst.BaseExpression | None = None
    for number, name in enumerate(methods):
        assert name is not None
        left, right = new[number], new[number + 1]
        if number:  # the middle operand stands in two comparisons
            left = rewriter.again(left)
        if name.startswith("mirrored "):
            part = rewriter.method(node, right, name.removeprefix("mirrored "), [left])
        else:
            part = rewriter.method(node, left, name, [right])
        result = part if result is None else rewriter.method(node, result, "and_", [part])
    assert result is not None
    return result


def _searches_values(
    rewriter: Rewriter, left: cst.BaseExpression, right: cst.BaseExpression
) -> bool:
    """Whether ``in`` may compare tiles by ==: not where either side is known to be the host's."""
    literal = isinstance(right, cst.Tuple | cst.List | cst.Set) and all(
        isinstance(each.value, cst.SimpleString) for each in right.elements
    )
    return not (rewriter.kind(left).is_host or rewriter.kind(right) is Kind.CONSTANT or literal)


def _chain(
    rewriter: Rewriter,
    node: cst.Comparison,
    new: Sequence[cst.BaseExpression],
    signs: Sequence[str],
) -> cst.BaseExpression:
    arguments: list[cst.BaseExpression] = [rewriter.argument(new[0])]
    for number, (symbol, right) in enumerate(zip(signs, new[1:], strict=True)):
        arguments.append(cst.SimpleString(f'"{symbol}"'))
        if number:
            _check_lazy(rewriter, right, "and")
            right = rewriter.lazily(right)
        arguments.append(right)
    return rewriter.dispatched(node, "chain", arguments)


def _check_lazy(rewriter: Rewriter, node: cst.CSTNode, word: str) -> None:
    for each in walk(node):
        if isinstance(each, _LAZY_LIMITS):
            rewriter.fail(each, f"an assignment inside a chain of comparisons: {_name_first(word)}")


def boolean(rewriter: Rewriter, node: cst.BooleanOperation) -> cst.BaseExpression:
    """``m and n``: of masks, of host values, or told when it runs."""
    word = "and" if isinstance(node.operator, cst.And) else "or"
    operands = _flat(node)
    kinds = [rewriter.kind(each) for each in operands]
    if all(kind.is_host for kind in kinds[:-1]):
        rebuilt: cst.BaseExpression = rewriter.rebuilt(
            node, left=rewriter.expr(node.left), right=rewriter.expr(node.right)
        )
        return rebuilt
    new = [rewriter.expr(each) for each in operands]
    if kinds[0].is_tile:
        result = new[0]
        for each in new[1:]:
            result = rewriter.method(node, result, f"{word}_", [each])
        return rewriter.keep_parens(node, result)
    if any(isinstance(each, _LAZY_LIMITS) for right in operands[1:] for each in walk(right)):
        return _guarded_boolean(rewriter, node, word)
    return rewriter.dispatched(
        node, f"{word}_", [rewriter.argument(new[0]), *(rewriter.lazily(each) for each in new[1:])]
    )


def _guarded_boolean(
    rewriter: Rewriter, node: cst.BooleanOperation, word: str
) -> cst.BaseExpression:
    left = rewriter.expr(node.left)
    if not rewriter.kind(node.left).is_host:
        left = rewriter.guard(node.left, left, word)
    rebuilt: cst.BaseExpression = rewriter.rebuilt(node, left=left, right=rewriter.expr(node.right))
    return rebuilt


def choice(rewriter: Rewriter, node: cst.IfExp) -> cst.BaseExpression:
    """``x if m else y`` as ``m.select(x, y)``."""
    kind = rewriter.kind(node.test)
    if kind is Kind.INDEX:
        rewriter.fail(node.test, advice.IF_INDEX)
    test, yes, no = rewriter.expr(node.test), rewriter.expr(node.body), rewriter.expr(node.orelse)
    if kind.is_tile:
        return rewriter.keep_parens(node, rewriter.method(node, test, "select", [yes, no]))
    arms_bind = any(
        isinstance(each, _LAZY_LIMITS) for arm in (node.body, node.orelse) for each in walk(arm)
    )
    if kind.is_host or arms_bind:
        if not kind.is_host:
            test = rewriter.guard(node.test, test, "if")
        rebuilt: cst.BaseExpression = rewriter.rebuilt(node, test=test, body=yes, orelse=no)
        return rebuilt
    return rewriter.dispatched(
        node, "select", [rewriter.argument(test), rewriter.lazily(yes), rewriter.lazily(no)]
    )


def _flat(node: cst.BooleanOperation) -> list[cst.BaseExpression]:
    """The operands of ``a and b and c``."""
    left: list[cst.BaseExpression] = [node.left]
    if isinstance(node.left, cst.BooleanOperation) and type(node.left.operator) is type(
        node.operator
    ):
        left = _flat(node.left)
    return [*left, node.right]


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _name_first(word: str) -> str:
    return f"name the value on a line before, then compare with `{word}`"
