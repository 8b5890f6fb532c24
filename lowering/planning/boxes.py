"""Which blocks of tensors the copy engine can move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gizml_tile.nodes import Node, View

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

_CHUNK_BYTES = 16


def has_boxes(state: Planning, tensor: int) -> bool:
    """Whether the launch knows that boxes of a tensor can be moved."""
    boxes = state.signature.boxes
    return tensor < len(boxes) and boxes[tensor]


def starts_at_chunks(state: Planning, node: Node, axis: int) -> bool:
    """Whether blocks start at multiples of 16 bytes along an axis: the copy engine fails at others."""
    view = node.attr
    assert isinstance(view, View)
    size = state.program.tensors[view.tensor].dtype.bytes
    along = (view.block if view.mode == "at" else state.facts[node].grain)[axis - 2]
    return along * size % _CHUNK_BYTES == 0


def is_once(state: Planning, node: Node) -> bool:
    """Whether a block is read outside of loops and branches."""
    return state.uses.region.get(node) is state.program.body
