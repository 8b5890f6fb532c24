"""Blocks that products take and something else is made of, as the squares of rows beside a product."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gizml_tile.dtypes import F32
from gizml_tile.lowering.planning.boxes import is_once, tensor_name
from gizml_tile.lowering.planning.operands import operand, used_by_products_only
from gizml_tile.lowering.planning.prologues import prologues_of
from gizml_tile.nodes import Node

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning


# Elements of a right operand that every warp may compute on again.
_MOST_REPEATED = 2048


def blocks_computed_on(state: Planning, products: Iterable[Node]) -> dict[Node, tuple[int, int]]:
    """Such blocks of loops, each with the operand's number and the block's axis of k.

    They lie in registers as a product's left operand would, so a warp has whole rows of them, and a sum along
    that axis stays in it. Of a right operand, which all warps take, each has all elements. The product goes
    on taking them from workgroup memory.
    """
    return {block: (side, axis) for node in products for block, side, axis in _found(state, node)}


def why_not_computed_on(state: Planning, product: Node, turned: bool) -> Iterator[str]:
    """Why blocks that a product takes cannot be computed on beside it; ``turned`` exchanges its operands."""
    for block, side, _ in _found(state, product):
        told = f"blocks of {tensor_name(state, block)} are computed on, too"
        if is_once(state, block):
            yield f"{told}, and stay for a whole program"
        if side != int(turned) and math.prod(block.shape) > _MOST_REPEATED:
            yield f"{told}, and all {math.prod(block.shape)} elements of a right operand by each warp"
        if block.dtype is F32:
            yield f"{told}, and rounded to TF32 on the way"


def _found(state: Planning, product: Node) -> Iterator[tuple[Node, int, int]]:
    """Each such block of a product, the operand's number, and the block's axis of k."""
    computed = {prologue.side: prologue for prologue in prologues_of(state, product)}
    for side, arg in enumerate(product.args[:2]):
        found = operand(arg)
        axis = (1 - side) ^ found.transposed
        if side in computed:
            made = computed[side].made
            alone = used_by_products_only(found.node, state.uses) and all(
                user in made for node in made if node is not found.node for user, _ in state.uses.of(node)
            )
            blocks = computed[side].blocks
        else:
            alone = found.node.op != "read" or used_by_products_only(found.node, state.uses)
            blocks = (found.node,)
        if not alone:
            yield from ((block, side, axis) for block in blocks)
