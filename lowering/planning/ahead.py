"""What a result is computed with, and that can be read before or while the loop before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gizml_tile.lowering.planning.boxes import has_boxes, is_known_before, starts_at_chunks
from gizml_tile.lowering.planning.brought import slots_beside
from gizml_tile.lowering.planning.plan import BulkStore, Specialised
from gizml_tile.lowering.planning.stages import fast_axis
from gizml_tile.lowering.planning.variants import Candidate, Choice
from gizml_tile.nodes import Node, View

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

BOXES = "boxes by the copy engine"
# Panels for a whole tile must leave so many turns' blocks.
_FEWEST_SLOTS = 3


def plan_ahead(state: Planning) -> None:
    """Let the copy engine bring the block that a program's only result is computed with, if there is one.

    Its panels lie in the pieces of memory that the results' go through, each in its result's place. Rows for
    the first panel are read before the loop.
    """
    assert state.specialised is not None
    nodes = state.program.body.nodes
    last = max(nodes.index(loop) for loop in state.specialised.loops)
    if any(nodes.index(put) < last for put in state.specialised.stores):
        return  # A result that is stored before the last loop takes what it is computed with there.
    early = frozenset(node for node in state.specialised.deferred if _is_early(state, node))
    found = state.specialised = replace(state.specialised, early=early)
    if len(found.stores) != 1:
        return
    ((put, store),) = found.stores.items()
    down, across = store.own(found.groups)
    count = down // store.rows * across // store.tile.shape[1]
    for node in state.program.body.nodes:
        if node not in found.deferred or node.op != "read" or node.shape != put.args[0].shape:
            continue
        taken = replace(store, buffers=count, block=node)
        state.specialised = replace(found, stores={put: taken})
        why = next(_refusals(state, found, store, node), None)
        name, asked = BOXES, state.forced.get("read")
        if why is None and asked not in (None, name):
            why = f"reads are asked for by {asked}"
        if why is None:
            told = f"{count} panels while the loop runs, to the memory of the result's"
            state.chose(node, "read", Choice((Candidate(name, True, told),), name))
            return
        state.reasons[node] = f"not brought by the copy engine: {why}"
        state.specialised = found


def _is_early(state: Planning, node: Node) -> bool:
    """Whether a read takes a row for all rows of a result, from a place that is known before any loop."""
    return node.op == "read" and node.shape[0] == 1 and all(is_known_before(state, arg) for arg in node.args)


def _refusals(state: Planning, found: Specialised, store: BulkStore, node: Node) -> Iterator[str]:
    """Why the copy engine cannot bring a block to the pieces of memory of a result, if it cannot."""
    view = node.attr
    assert isinstance(view, View)
    tensor = state.program.tensors[view.tensor]
    if found.cluster is not None:
        yield "workgroups share each program"
    last = [node for node in state.program.body.nodes if node in found.loops][-1:]
    if not last or last[0] in found.chained:
        yield "the products before it are chained"
    if tensor.dtype is not store.tile.dtype or tensor.dtype.bytes != 2:
        yield f"a panel of {tensor.dtype} lies otherwise than one of {store.tile.dtype}"
    if store.turned:
        yield "the product is made with rows and columns exchanged"
    if len(view.block) != 2 or not view.pads_with_zeros or view.visible:
        yield "the block is no box with zeros around"
    if not has_boxes(state, view.tensor) or fast_axis(state.signature, node) != 1:
        yield f"an address or step of {tensor.name} is no multiple of 16 bytes"
    elif not starts_at_chunks(state, node, 1):
        yield f"windows of {tensor.name} may start at no multiple of 16 bytes"
    if not all(is_known_before(state, arg) for arg in node.args):
        yield "its place follows from what tensors hold"
    if slots_beside(state) < max(state.program.stages, _FEWEST_SLOTS):
        yield "its panels would leave too little workgroup memory for blocks of the loop"
