"""Finds loops that are one deep product: ``for k: acc += A[i, k] @ B[k, j]``.

The block size along k is the person's way of saying how the product is cut; the sum it stands for is one
product of the whole depth, which the CPU cuts as its caches like. It holds whatever elementwise work the
operands do on the way, as long as block k of an operand is the k-th stretch of one long operand.
"""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.errors import Place
from gizml_tile.lowering.emit.cpu.normalise import ELEMENTWISE
from gizml_tile.nodes import EARLY, EFFECTS, Node, View


@dataclass(frozen=True, slots=True, eq=False)
class DeepProduct:
    """``initial + left @ right`` over all turns; ``turn`` is the loop's index, ``depth`` a turn's k.

    ``place`` is where the person wrote the product.
    """

    initial: Node
    left: Node
    right: Node
    turn: Node
    start: Node
    stop: Node
    depth: int
    place: Place | None


def deep_product(loop: Node) -> tuple[DeepProduct, ...] | None:
    """The products that a loop is made of, one per carried value; None for any other loop."""
    start, stop, step, *initial = loop.args
    region = loop.regions[0]
    turn, *carried = region.params
    if step.op != "index" or step.attr != 1 or not carried or loop.attr == EARLY:
        return None
    products = []
    uses = _uses(region.nodes)
    for accumulator, value, first in zip(carried, region.results, initial, strict=True):
        if value.op != "dot" or len(value.args) != 3 or value.args[2] is not accumulator:
            return None
        if uses.get(accumulator) != 1 or uses.get(value):
            return None
        left, right, _ = value.args
        if left.shape[1] == 1:  # a block of one k cannot be told from a value that stretches along k
            return None
        if not (_lengthens(left, 1, turn, carried) and _lengthens(right, 0, turn, carried)):
            return None
        products.append(DeepProduct(first, left, right, turn, start, stop, left.shape[1], value.place))
    if any(node.op in EFFECTS or node.regions for node in region.nodes):
        return None
    return tuple(products)


def _uses(nodes: tuple[Node, ...]) -> dict[Node, int]:
    counts: dict[Node, int] = {}
    for node in nodes:
        for arg in node.args:
            counts[arg] = counts.get(arg, 0) + 1
    return counts


def _lengthens(operand: Node, axis: int, turn: Node, carried: list[Node]) -> bool:
    """Whether the operand's blocks of all turns follow one another along ``axis``."""
    known: dict[tuple[Node, int], tuple[bool, bool]] = {}

    def visit(node: Node, axis: int) -> tuple[bool, bool]:
        """(is it right for every turn, does it follow the turn)"""
        key = (node, axis)
        if key not in known:
            known[key] = decide(node, axis)
        return known[key]

    def decide(node: Node, axis: int) -> tuple[bool, bool]:
        if node in carried:
            return False, False
        if node.shape in ((), (1, 1)):
            return not depends(node), False
        if node.op == "const":
            return True, False
        if node.op == "iota":
            return node.shape[axis] == 1 or (node.attr.value != axis), False  # type: ignore[union-attr]
        if node.op == "read":
            return read(node, axis)
        if node.op == "transpose":
            return visit(node.args[0], 1 - axis)
        if node.op in ELEMENTWISE:
            parts = [visit(arg, axis) for arg in node.args]
            return all(right for right, _ in parts), any(follows for _, follows in parts)
        return False, False

    def read(node: Node, axis: int) -> tuple[bool, bool]:
        view = node.attr
        assert isinstance(view, View)
        along = len(node.args) - 1 if axis == 1 else len(node.args) - 2
        blocked = axis == 1 or len(view.block) == 2
        follows = blocked and node.args[along] is turn and view.mode == "at"
        if follows and view.own[axis - 2] < view.block[axis - 2]:
            return False, False  # between the blocks stands what does not belong to them
        others = [arg for place, arg in enumerate(node.args) if not (follows and place == along)]
        if any(depends(arg) for arg in others):
            return False, False
        if node.shape[axis] == 1:
            # one value for a whole block of k, which may be another for the next
            return not follows, False
        return follows, follows

    invariant: dict[Node, bool] = {turn: True}

    def depends(node: Node) -> bool:
        if node not in invariant:
            invariant[node] = any(depends(arg) for arg in node.args) or node in carried
        return invariant[node]

    return visit(operand, axis) == (True, True)
