"""Operands of products that are computed once, outside of loops, and stay in workgroup memory."""

from __future__ import annotations

from gizml_tile.dtypes import I32
from gizml_tile.layout.banks import CHUNK_BYTES
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.shared import store_shared
from gizml_tile.lowering.expand.sources import Shared
from gizml_tile.lowering.planning.panels import panel_tile
from gizml_tile.lowering.planning.plan import SharedTile
from gizml_tile.nodes import Node

# What the longest swizzle repeats in.
_WHOLE_BYTES = 1024


def open_kept(x: Expansion) -> None:
    """The memory of all such operands."""
    assert x.plan.specialised is not None
    for node in x.plan.specialised.kept:
        tile = _tile(node)
        elements = x.plan.specialised.together * tile.elements
        x.kept[node] = x.memory.allocate("operand that stays", tile.dtype, elements, _WHOLE_BYTES)


def keep(x: Expansion, node: Node) -> None:
    """Store such an operand where the products of four warps find it."""
    tile, buffer, home = _tile(node), x.kept[node], x.home(node)
    assert home is not None
    x.memory.before_write(buffer)
    base = chunk = x.build.constant(0, I32)
    if x.neighbour is not None:
        base = x.build.mul(x.neighbour, x.build.constant(tile.elements, I32))
        chunks = tile.elements * tile.dtype.bytes // CHUNK_BYTES
        chunk = x.build.mul(x.neighbour, x.build.constant(chunks, I32))
    store_shared(x, buffer, tile, None if x.neighbour is None else base, x.registers(node, home), home)
    x.build.emit("fence_async")
    x.memory.before_read(buffer)
    x.define_shared(node, Shared(buffer, tile, base, chunk))


def _tile(node: Node) -> SharedTile:
    assert node.dtype is not None
    return panel_tile(node.dtype, (node.shape[0], node.shape[1]))
