"""Products, sums, maxima and minima that also count what a block reads past the end of a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gizml_tile.dtypes import F32
from gizml_tile.errors import Place
from gizml_tile.lowering.tile_passes.constants import compare, convert, evaluate
from gizml_tile.nodes import COMPARISONS, MOVES, Const, Node, TileProgram, View
from gizml_tile.rounding import Number


@dataclass(frozen=True, slots=True)
class Source:
    """A dimension of a tensor that is read in blocks of a size; its last block may end past it."""

    tensor: int
    axis: int
    block: int


@dataclass(frozen=True, slots=True)
class Finding:
    """An operation that counts elements past the end of dimensions, where all of these are ragged."""

    message: str
    place: Place | None
    sources: frozenset[Source]

    def holds(self, shapes: tuple[tuple[int, ...], ...]) -> bool:
        """Whether tensors of these shapes end inside a block."""
        return all(shapes[each.tensor][each.axis] % each.block for each in self.sources)


@dataclass(frozen=True, slots=True)
class _Past:
    """What every element past the end is, along one axis of a tile.

    ``centred`` where a mean along the axis was taken from it: it is then another number in each row.
    """

    value: Number
    sources: frozenset[Source] = frozenset()
    centred: bool = False


# For each axis of a tile what stands past the end; None where it is not one known value.
_Pasts = tuple[_Past | None, _Past | None]
_UNKNOWN: _Pasts = (None, None)

# What of a number that is not 0 makes another.
_KEEPS_CENTRED = frozenset("abs mul neg to".split())

_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": math.log,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "gelu": lambda x: x / (1 + math.exp(-1.5957691216057308 * (x + 0.044715 * x**3))),
    "gelu_erf": lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2)),
    "log2": math.log2,
    "log1p": math.log1p,
    "expm1": math.expm1,
    "sin": math.sin,
    "cos": math.cos,
    "erf": math.erf,
    "silu": lambda x: x / (1 + math.exp(-x)),
    "softplus": lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
}


def find_ragged(program: TileProgram) -> tuple[Finding, ...]:
    """The products and sums that add something for elements past a tensor's end, and maxima of them.

    ``(A[i, k] + 1) @ (B[k, j] + 1)`` adds 1 for each of them, ``X[i, k].exp().sum(1)`` as well, and
    ``X[i, k].max(1)`` is 0 where all elements are negative. What is not known to be one value there, as
    behind a select by position, is not reported; but a mean that is taken from all of a row's block is, as
    ``(row - mean).abs().sum(1)`` adds the mean's size for each.
    """
    known: dict[Node, _Pasts] = {}
    findings = []
    for node in program.body.walk():
        if not node.is_tile:
            continue
        known[node] = _pasts(node, [known.get(arg, _UNKNOWN) for arg in node.args], program)
        found = _finding(node, [known.get(arg, _UNKNOWN) for arg in node.args], program)
        if found is not None:
            findings.append(found)
    return tuple(findings)


def _pasts(node: Node, operands: list[_Pasts], program: TileProgram) -> _Pasts:
    match node.op:
        case "const":
            assert isinstance(node.attr, Const)
            past = _Past(node.attr.value)
            return past, past
        case "read":
            return _read(node, program)
        case "transpose":
            rows, columns = operands[0]
            return columns, rows
        case "max" | "min":
            along = operands[0][1 - int(node.attr)]  # type: ignore[arg-type]
            return (None, along) if node.attr == 0 else (along, None)
        case "random" | "dot" | "sum" | "reduce" | "scan" | "sort" | "histogram" | "part" | "select":
            return _UNKNOWN
        case "gather" | "iota" | "value" | "scalar" | "result":
            return _UNKNOWN
        case _ if node.op in MOVES:
            return _UNKNOWN
    first, second = (_combined(node, axis, [each[axis] for each in operands]) for axis in (0, 1))
    return first, second


def _read(node: Node, program: TileProgram) -> _Pasts:
    view = node.attr
    assert isinstance(view, View)
    # Windows look past the end on purpose, as a convolution does.
    if view.mode != "at":
        return _UNKNOWN
    rank = program.tensors[view.tensor].rank
    pasts: list[_Past | None] = [None] * (2 - len(view.block))
    for number, size in enumerate(view.block):
        axis = rank - len(view.block) + number
        pasts.append(_Past(view.pad, frozenset({Source(view.tensor, axis, size)})))
    return pasts[0], pasts[1]


def _combined(node: Node, axis: int, pasts: list[_Past | None]) -> _Past | None:
    """What an elementwise operation gives past the end along an axis."""
    if node.op == "sub" and pasts[0] is not None and _is_mean(node.args[1], axis):
        known = pasts[0].sources and math.isfinite(pasts[0].value)
        return _Past(math.nan, pasts[0].sources, centred=True) if known else None
    values: list[Number] = []
    sources: frozenset[Source] = frozenset()
    for past, arg in zip(pasts, node.args, strict=True):
        # An operand that stretches along the axis holds something else there than its own end.
        if past is None or (arg.shape[axis] != node.shape[axis] and past.sources):
            return None
        values.append(past.value)
        sources |= past.sources
    if any(past is not None and past.centred for past in pasts):
        if node.op not in _KEEPS_CENTRED:
            return None
        return _Past(0.0, sources) if 0 in values else _Past(math.nan, sources, centred=True)
    value = _value(node, values)
    return None if value is None else _Past(value, sources)


def _is_mean(node: Node, axis: int) -> bool:
    """Whether a tile is a multiple of a sum along an axis."""
    if node.op == "sum":
        return node.attr == axis
    return node.op in ("mul", "div", "to") and any(_is_mean(each, axis) for each in node.args)


def _value(node: Node, values: list[Number]) -> Number | None:
    source, dtype = node.args[0].dtype, node.dtype
    assert source is not None and dtype is not None
    if node.op == "to":
        return convert(values[0], source, dtype)
    if node.op in COMPARISONS:
        return compare(node.op, values[0], values[1])
    if node.op == "fma":
        return None
    function = _FUNCTIONS.get(node.op)
    if function is None:
        return evaluate(node.op, tuple(values), dtype)
    try:
        return function(float(values[0]))
    except (OverflowError, ValueError):
        return None


def _finding(node: Node, operands: list[_Pasts], program: TileProgram) -> Finding | None:
    if node.op == "sum":
        past = operands[0][int(node.attr)]  # type: ignore[arg-type]
        if past is None or not past.sources or past.value == 0:
            return None
        if past.centred:
            return Finding(
                "the sum adds what taking the mean makes of each element past the end of "
                f"{_names(past.sources, program)}: no pad is right, so choose 0 there with select, as in "
                "`x - mean if inside else 0` where inside compares iota with the size",
                node.place,
                past.sources,
            )
        adds, sources = past.value, past.sources
    elif node.op == "dot":
        left, right = operands[0][1], operands[1][0]
        if left is None or right is None or not left.sources | right.sources:
            return None
        if left.centred or right.centred:
            return None
        adds, sources = left.value * right.value, left.sources | right.sources
        if adds == 0:
            return None
    elif node.op in ("max", "min") and node.dtype is F32:
        return _extreme(node, operands[0][int(node.attr)], program)  # type: ignore[arg-type]
    else:
        return None
    what = "sum" if node.op == "sum" else "product"
    return Finding(
        f"the {what} adds {_text(adds)} for each element past the end of {_names(sources, program)}: read "
        "with another pad, or choose the elements inside with select",
        node.place,
        sources,
    )


def _extreme(node: Node, past: _Past | None, program: TileProgram) -> Finding | None:
    """A maximum that what stands past the end may be, or a minimum."""
    if past is None or not past.sources or past.centred:
        return None
    pad = -math.inf if node.op == "max" else math.inf
    harmless = node.op == "max" and past.value <= 0 and _is_nonnegative(node.args[0])
    if past.value == pad or harmless:
        return None
    return Finding(
        f"the {node.op} also takes {_text(past.value)} for each element past the end of "
        f"{_names(past.sources, program)}, which may be the {node.op} itself: read with pad={_text(pad)}, or "
        "choose the elements inside with select",
        node.place,
        past.sources,
    )


_NONNEGATIVE = frozenset("abs exp exp2 relu sigmoid sqrt softplus".split())


def _is_nonnegative(node: Node) -> bool:
    """Whether no element is negative whatever the tensors hold, as of distances and squares."""
    square = node.op == "mul" and node.args[0] is node.args[1]
    return square or node.op in _NONNEGATIVE or (node.op == "to" and _is_nonnegative(node.args[0]))


def _names(sources: frozenset[Source], program: TileProgram) -> str:
    return ", ".join(
        f"{program.tensors[each.tensor].name} axis {each.axis} (blocks of {each.block})"
        for each in sorted(sources, key=lambda each: (each.tensor, each.axis))
    )


def _text(value: Number) -> str:
    return f"{float(value):.6g}"
