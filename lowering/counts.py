"""What a launch does by its tile IR alone, the same on every device: bytes that move, and operations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gizml_tile.lowering.planning.turns import turns
from gizml_tile.nodes import (
    ALONG,
    ARITHMETIC,
    COMBINING,
    EFFECTS,
    READS,
    UNARY_FLOAT,
    Combining,
    Elements,
    Node,
    Region,
    TileProgram,
    View,
)

# What counts as one operation for each element; conversions, comparisons and moves count as none.
_ONE = ARITHMETIC | UNARY_FLOAT | frozenset("neg abs pow mulhi".split())


@dataclass(frozen=True, slots=True)
class Counts:
    """Bytes that are read and written at least, and operations.

    ``products`` are those of matrix products by the operands' type, a multiply-add as two and the addition
    to a sum with them; ``others`` are all others on tiles, a function such as ``exp`` as one.
    """

    read: int
    written: int
    products: Mapping[str, float]
    others: float


def count(
    program: TileProgram,
    shapes: Sequence[Sequence[int]],
    bytes: Sequence[int],
    grid: Sequence[int],
    scalars: Sequence[float],
) -> Counts | None:
    """The counts of a launch on tensors of such shapes and so many bytes of memory.

    None where it is not known how many turns loops take. What programs read of a tensor, or write, counts
    once. Of a branch the way with more operations counts.
    """
    programs = math.prod(grid)
    found = turns(program, shapes, grid, scalars)
    moved: tuple[dict[int, float], dict[int, float]] = ({}, {})
    products: dict[str, float] = {}
    others = 0.0
    for node, loop in _with_loops(program.body, None):
        if loop is not None and loop not in found:
            return None
        times = programs if loop is None else found[loop]
        if node.op in READS | EFFECTS:
            assert isinstance(node.attr, View | Elements)
            tensors, tensor = moved[node.op in EFFECTS], node.attr.tensor
            size = _elements(node) * program.tensors[tensor].dtype.bytes
            tensors[tensor] = min(tensors.get(tensor, 0) + times * size, bytes[tensor])
        elif node.op == "dot":
            name, each = _product(node)
            products[name] = products.get(name, 0) + times * each
        elif node.is_tile:
            others += times * _operations(node)
    read, written = (int(sum(each.values())) for each in moved)
    return Counts(read, written, products, others)


def _with_loops(region: Region, loop: Node | None) -> list[tuple[Node, Node | None]]:
    """Every node that runs, with the innermost loop around it."""
    found: list[tuple[Node, Node | None]] = []
    for node in region.nodes:
        found.append((node, loop))
        ways = [_with_loops(inner, node if node.op == "loop" else loop) for inner in node.regions]
        longest = max(ways, key=len, default=[])
        found += longest
    return found


def _elements(node: Node) -> int:
    """How many elements of a tensor an access takes."""
    if isinstance(node.attr, View):
        return math.prod(node.attr.own)
    return 1 if node.op == "element" else math.prod(node.attr.shape)  # type: ignore[union-attr]


def _product(node: Node) -> tuple[str, float]:
    """The type of a product's operands, the wider of two, and its operations."""
    a, b = node.args[:2]
    kinds = [each.dtype for each in (a, b) if each.dtype is not None]
    wider = max(kinds, key=lambda kind: kind.bits)
    name = str(node.attr) if node.attr not in (None, "f32") else wider.text
    return name, 2.0 * a.shape[0] * a.shape[1] * b.shape[1]


def _operations(node: Node) -> int:
    """How many operations a node is, each time that it runs."""
    if node.op == "fma":
        return 2 * math.prod(node.shape)
    if node.op in COMBINING:
        assert isinstance(node.attr, Combining)
        each = sum(inner.op in _ONE for inner in node.attr.function.nodes)
        return each * math.prod(node.args[0].shape)
    if node.op in ALONG:
        return math.prod(node.args[0].shape) if node.op in ("sum", "max", "min") else 0
    if node.op == "add" and any(arg.op == "dot" for arg in node.args):
        return 0
    return math.prod(node.shape) if node.op in _ONE else 0
