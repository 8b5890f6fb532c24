"""The blocks that the copy engine brings: how they lie in workgroup memory, and in how many slots."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gizml_tile.dtypes import MASK, U8
from gizml_tile.lowering.planning.boxes import is_once, loop_of
from gizml_tile.lowering.planning.bulk_stores import STORE_BUFFERS
from gizml_tile.lowering.planning.chained import in_streams
from gizml_tile.lowering.planning.computed_on import blocks_computed_on
from gizml_tile.lowering.planning.group_products import is_turned
from gizml_tile.lowering.planning.operands import operand, used_by_products_only
from gizml_tile.lowering.planning.panels import SPANS, panel_tile, span_of
from gizml_tile.lowering.planning.plan import UNIFORM, Stage, Stream
from gizml_tile.lowering.planning.prologues import blocks_of
from gizml_tile.lowering.planning.residency import half_memory
from gizml_tile.lowering.planning.stages import COPY, fast_axis
from gizml_tile.lowering.planning.variants import Candidate, Choice
from gizml_tile.nodes import ALONG, EFFECTS, Node

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

# Measured on an H200: more slots than this bring nothing.
FEWEST_SLOTS, _MOST_SLOTS = 2, 8
_ROWS = 64  # of a product by four warps
# Workgroup memory for what moves between layouts, where something does.
_SCRATCH_BYTES = 32 * 1024
# What is left for alignment where nothing moves.
_SPARE_BYTES = 1024


def turn_bytes(state: Planning, products: list[Node]) -> int:
    """The workgroup memory of one turn's blocks, of all loops."""
    return sum(block_bytes(node) for node in brought_blocks(state, products) if not is_once(state, node))


def fixed_bytes(state: Planning, products: list[Node], teams: int, groups: int) -> int:
    """At most so much workgroup memory is for other things than blocks of loops."""
    scratch = _SCRATCH_BYTES if _moves(state) else _SPARE_BYTES
    once = [node for node in brought_blocks(state, products) if is_once(state, node)]
    stays = sum(block_bytes(node) for node in [*once, *kept_operands(state, products)])
    return teams * (STORE_BUFFERS * _ROWS * groups * SPANS[0] + scratch) + stays


def brought_blocks(state: Planning, products: list[Node]) -> list[Node]:
    """The reads that products take, or compute operands of, each once."""
    return list(dict.fromkeys(block for node in products for block in blocks_of(state, node)))


def kept_operands(state: Planning, products: list[Node]) -> list[Node]:
    """The operands that are computed outside of loops, each once: they stay in workgroup memory."""
    found = dict.fromkeys(operand(arg).node for node in products for arg in node.args[:2])
    return [node for node in found if node.op != "read" and is_once(state, node)]


def block_bytes(node: Node) -> int:
    """The workgroup memory of a block."""
    assert node.dtype is not None
    return node.shape[0] * node.shape[1] * node.dtype.bytes


def plan_brought_stages(state: Planning) -> None:
    """How blocks lie in workgroup memory, and in how many slots."""
    assert state.specialised is not None
    products = list(state.dots)
    blocks = brought_blocks(state, products)
    once = [node for node in blocks if is_once(state, node)]
    kept = kept_operands(state, products)
    slots, slots_of_others = _slots(state)
    streams = [Stream(None, (node,), 1) for node in once]
    for loop in state.specialised.loops:
        inside = [node for node in blocks if state.uses.region[node] is loop.regions[0]]
        groups = [tuple(inside)]
        if loop in state.specialised.chained:
            groups = in_streams(inside, [node for node in products if loop_of(state, node) is loop])
        found = [Stream(loop, group, slots) for group in groups if group]
        found += [
            Stream(loop, (node,), slots_of_others, _shares(state, node))
            for node in state.specialised.beside
            if state.uses.region[node] is loop.regions[0]
        ]
        # The one thread that brings waits for slots in the order in which they are given back.
        streams += sorted(found, key=lambda stream: _first_use(state, stream))
    state.specialised = replace(state.specialised, streams=tuple(streams), kept=tuple(kept))
    for stream in streams:
        for node in stream.nodes:
            state.stages[node] = _stage(state, node, stream.loop, stream.slots)


def _slots(state: Planning) -> tuple[int, int]:
    """The slots of blocks that products take, and of those that are computed on beside them."""
    found = state.specialised
    assert found is not None
    turn, beside = turn_bytes(state, list(state.dots)), sum(map(block_bytes, found.beside)) * found.together
    room = _room(state)
    slots = state.program.stages or max(FEWEST_SLOTS, min(_MOST_SLOTS, room // max(turn + beside, 1)))
    return slots, max(1, min(slots, (room - slots * turn) // max(beside, 1)))


def _first_use(state: Planning, stream: Stream) -> int:
    """Where in the loop's body a stream's blocks are first taken."""
    assert stream.loop is not None and state.specialised is not None
    nodes = stream.loop.regions[0].nodes
    takers = [node for node in state.dots if set(blocks_of(state, node)) & set(stream.nodes)]
    return min(nodes.index(node) for node in takers or stream.nodes if node in nodes)


def _shares(state: Planning, node: Node) -> int:
    """The groups of warps that have their own part of a block: whole rows, or whole panels of columns."""
    found, axis = state.specialised, fast_axis(state.signature, node)
    assert found is not None and node.dtype is not None
    own = node.shape[0] // found.groups * node.dtype.bytes
    whole = axis == 1 or own % span_of(node.dtype, node.shape[0]) == 0
    return found.all_groups if whole else found.together


def slots_beside(state: Planning, sums: int = 0) -> int:
    """The turns' blocks for which there is workgroup memory beside all else, and so many bytes of sums."""
    return _room(state, sums) // max(turn_bytes(state, list(state.dots)), 1)


def _room(state: Planning, sums: int = 0) -> int:
    """The workgroup memory for blocks of loops beside all else, and so many bytes of sums."""
    found, products = state.specialised, list(state.dots)
    assert found is not None
    direct = any(node.op in EFFECTS and node not in found.stores for node in state.program.body.walk())
    fixed = sum(elements * dtype.bytes for dtype, elements in found.pieces().items())
    fixed += found.teams * found.together * _SCRATCH_BYTES if direct or _moves(state) else _SPARE_BYTES
    if found.cluster is not None:
        fixed += found.cluster.received_bytes(state.warps * state.target.facts.lanes)
    once = [node for node in brought_blocks(state, products) if is_once(state, node)]
    stay = sum(block_bytes(node) for node in [*once, *kept_operands(state, products)])
    memory = state.target.facts.workgroup_memory
    if found.resident > 1:
        memory = half_memory(state.target)
    return memory - fixed - found.together * stay - sums


def _moves(state: Planning) -> bool:
    """Whether something may go between layouts through workgroup memory."""
    return any(
        (node.op in ALONG and not _is_in_warps(state, node))
        or (node.op == "transpose" and not used_by_products_only(node, state.uses))
        for node in state.program.body.walk()
    )


def _is_in_warps(state: Planning, node: Node) -> bool:
    """Whether a reduction goes along the rows of a product's result or operand, which warps have whole."""
    reduced = node.args[0]
    if reduced not in state.classes:
        return False
    nodes = state.classes[reduced].nodes
    blocks = blocks_computed_on(state, (each for each in state.program.body.walk() if each.op == "dot"))
    return any(
        (each.op == "dot" and node.attr == (0 if is_turned(state, each) else 1))
        or (each in blocks and blocks[each][1] == node.attr)
        for each in nodes
    )


def _stage(state: Planning, node: Node, loop: Node | None, slots: int) -> Stage:
    axis = fast_axis(state.signature, node)
    assert node.dtype is not None and axis is not None
    dtype = U8 if node.dtype is MASK else node.dtype
    span = span_of(dtype, node.shape[axis])
    tile = panel_tile(dtype, (node.shape[0], node.shape[1]), axis)
    what = "rows" if axis == 1 else "columns"
    name = f"boxes of {node.shape[1 - axis]} {what} by the copy engine"
    told = "once" if loop is None else f"{slots} turns ahead"
    state.chose(node, COPY, Choice((Candidate(name, True, told),), name))
    return Stage(tile, loop, slots, UNIFORM, axis, 1, True, (False, False), False, span)
