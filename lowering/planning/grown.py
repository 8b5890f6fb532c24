"""Blocks that are larger inside than in their tensors, as operands of products by groups of four warps.

The copy engine brings what the tensor holds beyond a block, too. Along rows and columns of a product that
makes only results which are not visible either. Along k the product leaves it out: of blocks of 96, which lie
in 128, it multiplies the first 96 elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gizml_tile.lowering.planning.boxes import tensor_name
from gizml_tile.lowering.planning.group_products import parts_of
from gizml_tile.lowering.planning.operands import operand, used_by_products_only
from gizml_tile.lowering.planning.prologues import prologue_of
from gizml_tile.nodes import Node, View

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

_STEP_BYTES = 32  # of k in one instruction


def depth_of(product: Node) -> int:
    """The elements of k that a product multiplies: those that belong to the blocks."""
    depths = [product.args[0].shape[1]]
    for side, arg in enumerate(product.args[:2]):
        found = operand(arg)
        if isinstance(found.node.attr, View) and found.node.attr.visible:
            own = (1, *found.node.attr.own)[-2:]
            depths.append(own[(1 - side) ^ found.transposed])
    return min(depths)


def why_not_grown(state: Planning, product: Node, block: Node) -> Iterator[str]:
    """Why a product cannot take a block of a tensor that is larger inside, if it is."""
    view = block.attr
    assert isinstance(view, View) and block.dtype is not None
    if not view.visible:
        return
    told = f"blocks of {tensor_name(state, block)} are larger inside than in the tensor"
    depth = depth_of(product)
    if not used_by_products_only(block, state.uses):
        yield f"{told}, and computed with"
    if depth < product.args[0].shape[1]:
        if parts_of(state, product) is not None:
            yield f"{told} along k, of which sums are made in parts"
        if prologue_of(state, product) is not None:
            yield f"{told} along k, and another operand is computed"
        if depth * block.dtype.bytes % _STEP_BYTES:
            yield f"{told}, and {depth} elements of k no multiple of {_STEP_BYTES // block.dtype.bytes}"
