"""Which puts go through the copy engine, and what is computed for a panel at a time on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gizml_tile.dtypes import MASK
from gizml_tile.lowering.planning.bounds import nonnegative
from gizml_tile.lowering.planning.boxes import has_boxes, starts_at_chunks
from gizml_tile.lowering.planning.classes import is_wide
from gizml_tile.lowering.planning.panels import SPANS, panel_tile, span_of
from gizml_tile.lowering.planning.plan import BulkStore
from gizml_tile.lowering.planning.stages import fast_axis
from gizml_tile.lowering.planning.variants import Candidate, Choice
from gizml_tile.nodes import ACCESSES, EFFECTS, ELEMENTWISE, Node, View, tensor_of

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

_ROWS = 64  # of a product by four warps
STORE_BUFFERS = 2


def plan_stores(state: Planning) -> None:
    """Which puts go through the copy engine: those of whole tiles in the layout of products."""
    assert state.specialised is not None
    stores: dict[Node, BulkStore] = {}
    for node in state.program.body.nodes:
        if node.op == "put":
            why = _why_no_store(state, node) or _why_not_beside(state, node, stores)
            name = "boxes by the copy engine"
            if why is None:
                stores[node] = _store(state, node)
                told = f"{stores[node].buffers} pieces of workgroup memory in turn"
                state.chose(node, "put", Choice((Candidate(name, True, told),), name))
            else:
                state.reasons[node] = f"not stored by the copy engine: {why}"
    state.specialised = replace(state.specialised, stores=stores, deferred=_deferred(state, stores))


def _deferred(state: Planning, stores: Mapping[Node, BulkStore]) -> frozenset[Node]:
    """The reads and elementwise operations after all loops that serve one such put alone.

    They have its tile's shape, or one row that all its rows share. A read of what the program writes stays
    where it is.
    """
    written = {tensor_of(each) for each in state.program.body.walk() if each.op in EFFECTS}
    serves: dict[Node, Node] = {}
    for node in reversed(state.program.body.nodes):
        if node in stores:
            serves[node] = node
            continue
        puts = [serves.get(user) for user, _ in state.uses.of(node)]
        if not puts or puts[0] is None or puts.count(puts[0]) < len(puts) or not is_wide(node):
            continue
        rows, columns = puts[0].args[0].shape
        moves = node.op in ELEMENTWISE or (node.op == "read" and node.attr.tensor not in written)  # type: ignore[union-attr]
        if moves and node.shape in ((rows, columns), (1, columns)):
            serves[node] = puts[0]
    return frozenset(serves) - frozenset(stores)


def _why_no_store(state: Planning, node: Node) -> str | None:
    view, tile = node.attr, node.args[0]
    assert isinstance(view, View)
    tensor = state.program.tensors[view.tensor]
    accesses = [each for each in state.program.body.walk() if each.op in ACCESSES]
    if sum(tensor_of(each) == view.tensor for each in accesses) > 1:
        return f"other accesses of {tensor.name} must come in order"
    made = [dot for dot in state.dots.values() if state.layouts.get(state.classes.get(tile)) is dot.c]  # type: ignore[arg-type]
    if not made:
        return "the tile is not in the layout of a product"
    if len(view.block) != 2 or tile.shape != view.shape or view.visible:
        return "the block is no box"
    if not has_boxes(state, view.tensor) or fast_axis(state.signature, node) != 1:
        return f"an address or step of {tensor.name} is no multiple of 16 bytes"
    if not starts_at_chunks(state, node, 1):
        return f"windows of {tensor.name} may start at no multiple of 16 bytes"
    if not nonnegative(state.program).issuperset(node.args[1:]):
        return "a coordinate may be negative, where the copy engine fails instead of storing less"
    if tensor.dtype is MASK or view.block[1] * tensor.dtype.bytes < SPANS[-1]:
        return f"rows of {view.block[1]} {tensor.dtype} are short, or no numbers"
    return None


def _why_not_beside(state: Planning, node: Node, stores: Mapping[Node, BulkStore]) -> str | None:
    """Why a put cannot share the pieces of memory of others: its groups' parts would lie elsewhere."""
    tile = _store(state, node).tile
    for other in stores.values():
        if other.tile.dtype is tile.dtype and other.tile.shape != tile.shape:
            return f"panels of {other.tile.shape[1]} columns are stored, too"
    return None


def _store(state: Planning, node: Node) -> BulkStore:
    view = node.attr
    assert isinstance(view, View)
    assert state.specialised is not None
    groups, layout = state.specialised.groups, state.layouts[state.classes[node.args[0]]]
    dtype = state.program.tensors[view.tensor].dtype
    turned = any(dot.turned for dot in state.dots.values() if dot.c is layout)
    if turned:
        # The four warps of a group have 64 columns, maybe of more bytes than a row of a panel.
        span = span_of(dtype, _ROWS)
        rows, width = min(_ROWS * SPANS[0] // (_ROWS * dtype.bytes), _ROWS, view.block[0]), _ROWS
    else:
        span = span_of(dtype, view.block[1])
        rows, width = _ROWS, span // dtype.bytes
    tile = panel_tile(dtype, (rows * groups, width))
    store = BulkStore(layout, tile, span, STORE_BUFFERS, rows, turned)
    down, across = store.own(groups)
    return replace(store, buffers=min(STORE_BUFFERS, down // rows * across // width))
