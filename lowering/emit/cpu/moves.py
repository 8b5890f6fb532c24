"""Values of operations that move elements: slices, tiles joined, other shapes.

A vector of the result comes from neighbours of the operands in one or two vectors, turned or mixed by a
shuffle. What lies along the lanes is a *line*: taken by a place and a number of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gizml_tile.lowering.emit.cpu.builder import Function, Value, vector
from gizml_tile.nodes import Node, Reflow, Steps, slices

# So many neighbours from a place on.
Neighbours = Callable[[Value, int], str]
# A line of a tile: the row, counted in the tile and in the current block of rows.
Row = Callable[[Node, Value, Value], Neighbours]
Column = Callable[[Node], Neighbours]


def moves_rows(node: Node) -> bool:
    """Whether a row of the result needs another row of an operand, so that these must all be there."""
    match node.op:
        case "slice":
            return slices(node.attr)[0] != Steps.whole(node.args[0].shape[0])
        case "concat" | "interleave":
            return node.attr == 0
    return node.op == "reshape"


def straddles(node: Node) -> bool:
    """Whether vectors of a slice begin anywhere in the operand, not at multiples of their size."""
    if node.op != "slice":
        return False
    return any(
        abs(steps.step) > 2 or _first(steps, steps.size) % (steps.size * abs(steps.step))
        for steps in slices(node.attr)
    )


def row_value(
    function: Function, kind: str, node: Node, place: tuple[Value, Value, Value], width: int, row_of: Row
) -> str:
    """``width`` neighbouring columns of a row, at (row, row in the block, column)."""
    row, local, column = place
    match node.op:
        case "slice":
            (operand,), (rows, columns) = node.args, slices(node.attr)
            if moves_rows(node):
                row = local = function.add(function.mul(row, rows.step), rows.start)
            return _sliced(function, kind, row_of(operand, row, local), columns, column, width)
        case "reshape":
            length = node.attr.after if isinstance(node.attr, Reflow) else node.shape[1]
            first = function.add(function.mul(row, length), column)
            return _flat(function, kind, node, first, width, row_of)
        case "concat" if node.attr == 0:
            size = node.args[0].shape[0]
            lines = [(node.args[0], row), (node.args[1], function.sub(row, size))]
            first_has_it = function.compare("slt", row, size)
        case "interleave" if node.attr == 0:
            half = function.divide(row, 2)
            lines = [(node.args[0], half), (node.args[1], half)]
            first_has_it = function.compare("eq", function.remainder(row, 2), 0)
        case _:
            a, b = (row_of(arg, row, local) for arg in node.args)
            return _joined(function, kind, node, (a, b), column, width)
    one, other = (partial(row_of, each, at, at) for each, at in lines)
    return function.when(
        first_has_it,
        lambda: [one()(column, width)],
        lambda: [other()(column, width)],
        [vector(kind, width)],
    )[0]


def column_value(
    function: Function,
    kind: str,
    node: Node,
    place: tuple[Value, Value],
    width: int,
    row_of: Row,
    column_of: Column,
) -> str:
    """``width`` neighbouring rows of a tile with one column, at (row, row in the block)."""
    row, local = place
    operand = node.args[0]
    match node.op:
        case "slice":
            rows, columns = slices(node.attr)
            if operand.shape[1] == 1:
                return _sliced(function, kind, column_of(operand), rows, row, width)
            elements = []
            for lane in range(width):
                there, near = function.add(row, lane), function.add(local, lane)
                if moves_rows(node):
                    there = near = function.add(function.mul(there, rows.step), rows.start)
                elements.append(row_of(operand, there, near)(columns.start, 1))
            return _beside(function, kind, elements, 1)
        case "reshape":
            return _flat(function, kind, node, row, width, row_of)
    one, other = (column_of(arg) for arg in node.args)
    return _joined(function, kind, node, (one, other), row, width)


def _first(steps: Steps, width: int) -> int:
    """Where the neighbours begin of ``width`` elements from place 0 on, in steps of at most 2 either way."""
    first = steps.start if steps.step > 0 else steps.start + steps.step * (width - 1)
    return first - first % abs(steps.step)


def _sliced(function: Function, kind: str, line: Neighbours, steps: Steps, place: Value, width: int) -> str:
    """Elements of a line in steps."""
    start, step = steps.start, steps.step
    if step == 1 or width == 1:
        return line(function.add(function.mul(place, step), start), width)
    if abs(step) > 2:
        places = [function.add(function.mul(function.add(place, lane), step), start) for lane in range(width)]
        return _beside(function, kind, [line(each, 1) for each in places], 1)
    first = _first(steps, width)
    neighbours = width * abs(step)
    value = line(function.add(function.mul(place, step), first), neighbours)
    lanes = [start + step * lane - first for lane in range(width)]
    return _shuffle(function, kind, value, value, neighbours, lanes)


def _joined(
    function: Function, kind: str, node: Node, lines: tuple[Neighbours, Neighbours], place: Value, width: int
) -> str:
    """Elements of two lines, one after the other or in turn."""
    one, other = lines
    if node.op == "interleave":
        half = function.divide(place, 2)
        if width == 1:
            first = function.compare("eq", function.remainder(place, 2), 0)
            return function.emit(f"select i1 {first}, {kind} {one(half, 1)}, {kind} {other(half, 1)}")
        count = width // 2
        lanes = [lane // 2 + lane % 2 * count for lane in range(width)]
        return _shuffle(function, kind, one(half, count), other(half, count), count, lanes)
    axis = node.attr
    assert isinstance(axis, int)
    size = node.args[0].shape[axis]
    if width > size:
        return _beside(function, kind, [one(0, size), other(0, size)], size)
    return function.when(
        function.compare("slt", place, size),
        lambda: [one(place, width)],
        lambda: [other(function.sub(place, size), width)],
        [vector(kind, width)],
    )[0]


def _flat(function: Function, kind: str, node: Node, first: Value, width: int, row_of: Row) -> str:
    """Elements of a reshape's operand, counted row by row, from one that is a multiple of the width on."""
    (operand,), flow = node.args, node.attr
    columns = flow.before if isinstance(flow, Reflow) else operand.shape[1]
    piece = min(width, flow.run if isinstance(flow, Reflow) else columns)
    pieces = []
    for start in range(0, width, piece):
        place = function.add(first, start)
        row = function.divide(place, columns)
        if isinstance(flow, Reflow):
            row = function.remainder(row, operand.shape[0])
        pieces.append(row_of(operand, row, row)(function.remainder(place, columns), piece))
    return _beside(function, kind, pieces, piece)


def _beside(function: Function, kind: str, pieces: Sequence[str], width: int) -> str:
    """Vectors of one width as one vector, the first in the lowest lanes."""
    pieces = list(pieces)
    while len(pieces) > 1:
        pairs = zip(pieces[::2], pieces[1::2], strict=True)
        pieces = [_shuffle(function, kind, *pair, width, range(2 * width)) for pair in pairs]
        width *= 2
    return pieces[0]


def _shuffle(function: Function, kind: str, one: str, other: str, width: int, lanes: Sequence[int]) -> str:
    """Lanes of two vectors of ``width`` each, counted through both."""
    of = vector(kind, width)
    if width == 1:
        # Single elements are no vectors: they are put in their places.
        of, total = vector(kind, len(lanes)), "poison"
        for lane, which in enumerate(lanes):
            total = function.emit(f"insertelement {of} {total}, {kind} {(one, other)[which]}, i64 {lane}")
        return total
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return function.emit(f"shufflevector {of} {one}, {of} {other}, <{len(lanes)} x i32> <{mask}>")
