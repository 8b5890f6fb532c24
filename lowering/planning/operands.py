"""The operands of products: blocks of tensors that go through workgroup memory, or computed tiles."""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.lowering.planning.classes import Uses
from gizml_tile.nodes import ALONG, EFFECTS, READS, Node, tensor_of

_WIDENING = {
    ("f16", "f32"),
    ("bf16", "f32"),
    *((narrow, wide) for narrow in ("fp8", "e5m2") for wide in ("f32", "f16", "bf16")),
}


@dataclass(frozen=True, slots=True)
class Operand:
    """Where an operand of a product comes from: ``node``, transposed or not.

    ``to`` between types that hold every value of the first is left out: products are exact anyway.
    """

    node: Node
    transposed: bool

    @property
    def is_block(self) -> bool:
        """Whether it is a block of a tensor as it is."""
        return self.node.op == "read"


def operand(node: Node) -> Operand:
    """The tile behind transposes and exact conversions."""
    transposed = False
    while True:
        if node.op == "transpose":
            transposed = not transposed
        elif not (node.op == "to" and _is_widening(node)):
            return Operand(node, transposed)
        node = node.args[0]


def _is_widening(node: Node) -> bool:
    source, target = node.args[0].dtype, node.dtype
    assert source is not None and target is not None
    return source is target or (source.text, target.text) in _WIDENING


def used_by_products_too(node: Node, uses: Uses) -> bool:
    """Whether some use of a tile is as an operand of a product, maybe transposed or converted exactly."""
    return any(
        (user.op == "dot" and number in (0, 1))
        or (
            (user.op == "transpose" or (user.op == "to" and _is_widening(user)))
            and used_by_products_too(user, uses)
        )
        for user, number in uses.of(node)
    )


def used_by_products_only(node: Node, uses: Uses) -> bool:
    """Whether every use of a tile is as an operand of a product, maybe transposed or converted exactly."""
    users = uses.of(node)
    return bool(users) and all(
        (user.op == "dot" and number in (0, 1))
        or (
            (user.op == "transpose" or (user.op == "to" and _is_widening(user)))
            and used_by_products_only(user, uses)
        )
        for user, number in users
    )


def depends_on_counter_only(read: Node, loop: Node, uses: Uses) -> bool:
    """Whether a read's coordinates in a loop follow from its counter and from what is known before it.

    Numbers out of tensors that the loop does not write are known before it.
    """
    region = loop.regions[0]
    written = {tensor_of(node) for node in region.walk() if node.op in EFFECTS}
    seen: set[Node] = set()

    def follows(node: Node) -> bool:
        if node in seen or node is region.params[0]:
            return True
        seen.add(node)
        if uses.region.get(node) is not region:
            return True
        if node.op == "element":
            return tensor_of(node) not in written and all(follows(arg) for arg in node.args)
        if node.op in ("param", "result", "part", *READS, *ALONG):
            return False
        return all(follows(arg) for arg in node.args)

    return all(follows(arg) for arg in read.args)
