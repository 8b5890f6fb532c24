"""Blocks that the copy engine brings for what is computed beside products, as numbers added to scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gizml_tile.lowering.planning.boxes import why_not_brought
from gizml_tile.lowering.planning.brought import block_bytes, brought_blocks
from gizml_tile.lowering.planning.classes import is_wide
from gizml_tile.lowering.planning.variants import Refusal
from gizml_tile.nodes import Node, View

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning


def blocks_beside(
    state: Planning, chained: Mapping[Node, list[Node]], together: int, room: int
) -> tuple[Node, ...]:
    """The blocks of loops with chained products that are computed on beside these, and come ahead, too.

    Each thread would else fetch a few bytes of many rows in the middle of a turn. They lie in registers as a
    product's result does, so a group of four warps has rows of its own, and takes no others.

    ``chained`` has the products of each such loop, of which so many programs are ``together``; ``room`` are
    the bytes of workgroup memory for one slot of each block.
    """
    found: list[Node] = []
    for loop, products in chained.items():
        results = {state.classes[product] for product in products}
        taken = brought_blocks(state, products)
        for node in loop.regions[0].nodes:
            if node.op == "read" and is_wide(node) and node not in taken and state.classes[node] in results:
                why = next(_refusals(state, node, loop, room // together), None)
                if why is None:
                    found.append(node)
                    room -= together * block_bytes(node)
                else:
                    state.reasons[node] = f"by each thread itself: {why}"
    return tuple(found)


def _refusals(state: Planning, node: Node, loop: Node, room: int) -> Iterator[str | Refusal]:
    """Why the copy engine does not bring a block that is computed on."""
    if isinstance(node.attr, View) and node.attr.visible:
        yield "blocks are larger inside than in the tensor"
    yield from why_not_brought(state, node, loop)
    if block_bytes(node) > room:
        yield f"a block of {block_bytes(node)} bytes is more than the {max(room, 0)} bytes left for it"
