"""Blocks that go to products through workgroup memory, and how many turns ahead a loop copies them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gizml_tile.errors import TileError
from gizml_tile.layout import blocked
from gizml_tile.lowering.planning import elements
from gizml_tile.lowering.planning.classes import is_wide
from gizml_tile.lowering.planning.fitted import Turning, fitted_tile, fragment_of, is_turned, turning
from gizml_tile.lowering.planning.operands import (
    depends_on_counter_only,
    used_by_products_only,
    used_by_products_too,
)
from gizml_tile.lowering.planning.plan import Stage, TileLayout
from gizml_tile.lowering.planning.residency import workgroup_share
from gizml_tile.lowering.planning.scratch import scratch_bytes
from gizml_tile.lowering.planning.shared import shared_tile
from gizml_tile.lowering.planning.signature import AccessFacts, Signature
from gizml_tile.lowering.planning.variants import Candidate, Cause, Choice, Refusal, choose
from gizml_tile.nodes import EARLY, EFFECTS, Elements, Node, View, tensor_of

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

COPY = "copy to workgroup memory"
_VECTOR_BYTES = 16
_ASYNCHRONOUS_BYTES = (4, 8, 16)
_MOST_SLOTS = 4


def fast_axis(signature: Signature, node: Node) -> int | None:
    """The axis of a view's tile that is contiguous in memory; None where neither is."""
    view = node.attr
    if isinstance(view, Elements):
        return elements.fast_axis(signature, node)
    assert isinstance(view, View)
    kinds = signature.strides[view.tensor]
    if kinds and kinds[-1] == "unit":
        return 1
    if len(view.block) == 2 and kinds[-2] == "unit":
        return 0
    return None


def plan_stages(state: Planning) -> None:
    """Decide which reads are staged, in how many slots, and how each is copied."""
    chosen = _chosen(state)
    by_loop: dict[Node | None, list[Node]] = {}
    for node in chosen:
        by_loop.setdefault(_pipelined_in(state, node), []).append(node)
    fixed = sum(_bytes(node) for node in by_loop.get(None, ()))
    for around, blocks in _computed_on(state, chosen).items():
        more = [*by_loop.get(around, ()), *blocks]
        if _has_room(state, more, fixed + scratch_bytes(state, around)):
            by_loop[around] = more
    for loop, nodes in by_loop.items():
        slots = 1
        if loop is not None:
            slots = _slots(state, nodes, fixed + scratch_bytes(state, loop))
        # One loop has one ring: where some block must go through registers, all do, in two slots.
        copies = [_copy(state, node) for node in nodes]
        if loop is not None and not all(copy.asynchronous for copy in copies):
            slots = min(slots, 2)
            copies = [
                _copy(state, node, "another block of the loop goes through registers") for node in nodes
            ]
        for node, copy in zip(nodes, copies, strict=True):
            _stage(state, node, loop if slots > 1 else None, slots, copy)


def stage_in_place(state: Planning, node: Node) -> None:
    """Copy a read's block to workgroup memory where the read stands, for others than products."""
    _stage(state, node, None, 1, _copy(state, node))


def _chosen(state: Planning) -> list[Node]:
    chosen = []
    for node in state.program.body.walk():
        if node.op == "read" and is_wide(node):
            of_fragment = state.classes[node] in state.fragments
            if of_fragment or used_by_products_only(node, state.uses):
                chosen.append(node)
    return chosen


def _computed_on(state: Planning, chosen: list[Node]) -> dict[Node, list[Node]]:
    """Blocks that products take and something else is computed of, by the loops that can copy them ahead.

    Products take them from workgroup memory, and threads what they compute on, in the layout that they want.
    """
    found: dict[Node, list[Node]] = {}
    for node in state.program.body.walk():
        if node.op == "read" and node not in chosen and used_by_products_too(node, state.uses):
            loop = _pipelined_in(state, node)
            if loop is not None and _copy(state, node).asynchronous:
                found.setdefault(loop, []).append(node)
    return found


def _has_room(state: Planning, nodes: list[Node], fixed: int) -> bool:
    """Whether a loop can have the blocks of two turns at least, or of as many as are asked for."""
    slots = state.program.stages or 2
    return slots > 1 and fixed + slots * sum(map(_bytes, nodes)) <= state.target.facts.workgroup_memory


def _pipelined_in(state: Planning, node: Node) -> Node | None:
    """The loop whose turns copy a read ahead; None for a read that is copied where it stands."""
    loop = state.uses.loops.get(state.uses.region[node])
    if loop is None or loop.op != "loop" or state.signature.may_alias:
        return None
    # What a loop copies ahead of its last turn would be copied for nothing, and has to be waited for.
    if loop.attr == EARLY:
        return None
    if loop.args[2].op != "index" or not depends_on_counter_only(node, loop, state.uses):
        return None
    assert isinstance(node.attr, View)
    written = {tensor_of(each) for each in loop.regions[0].walk() if each.op in EFFECTS}
    return None if node.attr.tensor in written else loop


def _bytes(node: Node) -> int:
    assert node.dtype is not None
    return node.shape[0] * node.shape[1] * node.dtype.bytes


def _slots(state: Planning, nodes: list[Node], fixed: int) -> int:
    """The turns whose blocks a loop has in workgroup memory beside the ``fixed`` bytes of others."""
    turn = sum(_bytes(node) for node in nodes)
    room = state.target.facts.workgroup_memory - fixed
    wanted = state.program.stages
    if wanted and wanted * turn > room:
        most = max(room // turn, 1)
        way = f"ask for {most} stage{'s' * (most != 1)} at most, or make the blocks smaller"
        raise TileError(
            f"{wanted} stages of {turn} bytes need {wanted * turn} bytes of workgroup memory and there are "
            f"{room}; {way}",
            nodes[0].place,
        )
    shared = (workgroup_share(state.target, state.warps) - fixed) // turn
    return wanted or max(1, min(_MOST_SLOTS, shared if shared > 1 else room // turn))


def _stage(state: Planning, node: Node, loop: Node | None, slots: int, copy: _Copy) -> None:
    dtype, facts, lanes = node.dtype, state.facts[node], state.target.facts.lanes
    assert dtype is not None
    fast = fast_axis(state.signature, node)
    axis = 1 if fast is None else fast
    vector = copy.vector
    order = (1, 0) if axis == 1 else (0, 1)
    shape = (node.shape[0], node.shape[1])
    name, linear = f"blocked {vector} wide", blocked(shape, order, vector, lanes, state.warps)
    tile = shared_tile(dtype, shape, axis)
    fragment = None if copy.asynchronous else fragment_of(state, node)
    if fragment is not None:
        turns = _turning(state, node, fast, vector)
        if turns is not None:
            name, linear = f"{vector} x {turns.across} turned", turns.layout
        tile = fitted_tile(dtype, linear, fragment, state.target.facts.banks)
    outside = tuple(not each for each in facts.inside)
    masked = (False, outside[0]) if len(outside) == 1 else (outside[0], outside[1])
    state.chose(node, COPY, copy.choice)
    state.stages[node] = Stage(
        tile,
        loop,
        slots,
        TileLayout(name, linear),
        axis,
        vector,
        copy.asynchronous,
        masked,
        not facts.leading,
        fitted=fragment is not None,
    )


def _turning(state: Planning, node: Node, fast: int | None, widest: int) -> Turning | None:
    """How threads turn a block on its way through their registers; None where it stays as it is."""
    fragment = fragment_of(state, node)
    if fragment is None or fast is None or not is_turned(fragment, fast):
        return None
    assert node.dtype is not None
    shape = (node.shape[0], node.shape[1])
    return turning(shape, node.dtype.bytes, fast, widest, state.target.facts.lanes, state.warps)


@dataclass(frozen=True, slots=True)
class _Copy:
    """How a block is copied: so many elements at once, asynchronously or not, and what was looked at."""

    vector: int
    asynchronous: bool
    choice: Choice


def _copy(state: Planning, node: Node, refusal: str | None = None) -> _Copy:
    """The widest copy that serves; ``refusal`` says why none may be asynchronous."""
    variants = list(_copies(state, node, refusal))
    candidates = [candidate for _, _, candidate in variants]
    chosen = choose(COPY, candidates, state.forced.get(COPY), node.place)
    number = [candidate.name for candidate in candidates].index(chosen)
    vector, asynchronous, _ = variants[number]
    return _Copy(vector, asynchronous, Choice(tuple(candidates[: number + 1]), chosen))


def _copies(state: Planning, node: Node, refusal: str | None) -> Iterator[tuple[int, bool, Candidate]]:
    view, dtype = node.attr, node.dtype
    assert isinstance(view, View) and dtype is not None
    fast, facts = fast_axis(state.signature, node), state.facts[node]
    elements = _VECTOR_BYTES // dtype.bytes
    turns: Turning | None = None
    while elements:
        size = elements * dtype.bytes
        why = _why_not(state, node, fast, facts, elements)
        if why is None and not state.target.can("copy"):
            turns = turns or _turning(state, node, fast, elements)
            if turns is not None and elements > turns.vector:
                pieces = f"{turns.vector} x {turns.across} elements"
                why = Refusal(Cause.LAYOUT, f"the block is turned in pieces of {pieces}")
        name = f"asynchronous copy of {size} bytes"
        around = why or _why_not_asynchronous(state, view, size)
        yield elements, True, Candidate.of(name, around or refusal)
        yield elements, False, Candidate.of(f"copy of {size} bytes through registers", why)
        elements //= 2


def _why_not_asynchronous(state: Planning, view: View, size: int) -> Refusal | None:
    if not state.target.can("copy"):
        return Refusal(Cause.DEVICE, f"{state.target.arch} has no asynchronous copies")
    if size not in _ASYNCHRONOUS_BYTES:
        return Refusal(Cause.DEVICE, "asynchronous copies move 4, 8 or 16 bytes")
    if not view.pads_with_zeros:
        return Refusal(Cause.PAD, f"outside the tensor they leave zeros, and pad is {view.pad!r}")
    return None


def _why_not(
    state: Planning, node: Node, fast: int | None, facts: AccessFacts, elements: int
) -> Refusal | None:
    """Why a vector of so many elements cannot be used; None where it can."""
    view = node.attr
    assert isinstance(view, View) and node.dtype is not None
    if elements == 1:
        return None
    if fast is None:
        return Refusal(Cause.STRIDES, "no axis of the block is contiguous")
    if elements > node.shape[fast]:
        text = f"the block has {node.shape[fast]} elements along the contiguous axis"
        return Refusal(Cause.EXTENT, text)
    size = elements * node.dtype.bytes
    alignment = state.signature.alignments[view.tensor]
    if alignment < size:
        text = f"address and strides are multiples of {alignment} bytes only"
        return Refusal(Cause.ALIGNMENT, text)
    grain = facts.grain[-1] if fast == 1 else facts.grain[0]
    if grain < elements:
        return Refusal(Cause.OFFSET, f"offsets and size are multiples of {grain} elements only")
    return None
