"""Rows and columns that a turn of a loop computes with, read by each thread in the turn before."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gizml_tile.dtypes import MASK
from gizml_tile.lowering.planning.boxes import tensor_name
from gizml_tile.lowering.planning.classes import is_wide
from gizml_tile.lowering.planning.operands import depends_on_counter_only
from gizml_tile.nodes import EFFECTS, Node, tensor_of

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

# Elements of one row or column, which a thread holds for a turn beside its accumulators.
_MOST = 256


def reads_a_turn_ahead(state: Planning, loops: Iterable[Node]) -> frozenset[Node]:
    """The reads of single rows or columns in loops whose turns wait for nothing else from a tensor.

    As scales of each block of k in ``acc += a @ (b * scales[k, j]).to(BF16)``: the copy engine has brought
    the blocks before, and a read in the turn itself would hold up the product for as long as memory takes.
    """
    found = set()
    written = {tensor_of(node) for node in state.program.body.walk() if node.op in EFFECTS}
    for loop in loops:
        if loop.args[2].op != "index":
            continue
        for node in loop.regions[0].nodes:
            small = node.op == "read" and is_wide(node) and 1 in node.shape and math.prod(node.shape) <= _MOST
            if (
                small
                and node.dtype is not MASK
                and tensor_of(node) not in written
                and depends_on_counter_only(node, loop, state.uses)
            ):
                found.add(node)
                state.reasons[node] = f"{tensor_name(state, node)} is read a turn before its use"
    return frozenset(found)
