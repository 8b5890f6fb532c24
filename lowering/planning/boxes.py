"""Which blocks of tensors the copy engine can move, and bring ahead of a loop's turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gizml_tile.lowering.planning.operands import depends_on_counter_only
from gizml_tile.lowering.planning.panels import SPANS
from gizml_tile.lowering.planning.stages import fast_axis
from gizml_tile.lowering.planning.variants import Cause, Refusal
from gizml_tile.nodes import ALONG, EFFECTS, READS, Node, View, tensor_of

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

_CHUNK_BYTES = 16
_LARGEST_BOX = 256
# What makes an index from what tensors hold or from earlier turns.
_OF_TENSORS = READS | ALONG | {"part", "param", "result"}


def has_boxes(state: Planning, tensor: int) -> bool:
    """Whether the launch knows that boxes of a tensor can be moved."""
    boxes = state.signature.boxes
    return tensor < len(boxes) and boxes[tensor]


def starts_at_chunks(state: Planning, node: Node, axis: int) -> bool:
    """Whether blocks start at multiples of 16 bytes along an axis: the copy engine fails at others."""
    view = node.attr
    assert isinstance(view, View)
    size = state.program.tensors[view.tensor].dtype.bytes
    along = (view.own if view.mode == "at" else state.facts[node].grain)[axis - 2]
    return along * size % _CHUNK_BYTES == 0


def is_once(state: Planning, node: Node) -> bool:
    """Whether a block is read outside of loops and branches."""
    return state.uses.region.get(node) is state.program.body


def loop_of(state: Planning, node: Node) -> Node | None:
    """The loop in whose turns a node runs, if it stands in one at the top of the program."""
    loop = state.uses.loops.get(state.uses.region[node])
    if loop is None or loop.op != "loop" or state.uses.region[loop] is not state.program.body:
        return None
    return loop


def is_known_before(state: Planning, node: Node) -> bool:
    """Whether an index follows from the program's place, sizes and numbers that the launch passes.

    Numbers out of tensors that the program does not write are known before it runs, too.
    """
    if _is_of_tensors(state, node):
        return False
    return all(is_known_before(state, arg) for arg in node.args)


def _is_of_tensors(state: Planning, node: Node) -> bool:
    """Whether an index is made of what tensors hold while the program runs, or of earlier turns."""
    if node.op == "element":
        accesses = state.program.body.walk()
        return any(each.op in EFFECTS and tensor_of(each) == tensor_of(node) for each in accesses)
    return node.op in _OF_TENSORS


def why_not_brought(state: Planning, node: Node, loop: Node) -> Iterator[str | Refusal]:
    """Why the copy engine cannot bring a block of a loop's turns, or one read before it, ahead of them."""
    once = is_once(state, node)
    if not once and state.uses.region[node] is not loop.regions[0]:
        yield "an operand is read in another loop or branch"
        return
    view = node.attr
    assert isinstance(view, View)
    name = tensor_name(state, node)
    known = all(is_known_before(state, arg) for arg in node.args)
    follows = all(_follows(state, arg, loop) for arg in node.args)
    if not known and (once or not depends_on_counter_only(node, loop, state.uses) or not follows):
        yield f"where blocks of {name} lie depends on what tensors hold or on earlier turns"
    if len(view.block) != 2 or max(view.block) > _LARGEST_BOX:
        yield f"a block of {name} is no box of at most {_LARGEST_BOX} x {_LARGEST_BOX}"
    axis = fast_axis(state.signature, node)
    if not has_boxes(state, view.tensor) or axis is None:
        text = f"the copy engine cannot move boxes of {name}: an address or step is no multiple of 16 bytes"
        yield Refusal(Cause.ALIGNMENT, text, node)
    elif not starts_at_chunks(state, node, axis):
        yield Refusal(Cause.OFFSET, f"windows of {name} may start at no multiple of 16 bytes", node)
    elif node.dtype.bytes * node.shape[axis] < SPANS[-1]:  # type: ignore[union-attr]
        yield f"rows of blocks of {name} are shorter than {SPANS[-1]} bytes"
    if not view.pads_with_zeros:
        text = f"outside {name} the copy engine gives zeros, and pad is {view.pad!r}"
        yield Refusal(Cause.PAD, text, node)
    if any(each.op in EFFECTS and tensor_of(each) == view.tensor for each in state.program.body.walk()):
        yield f"{name} is written, too"


def tensor_name(state: Planning, node: Node) -> str:
    """The tensor that a read's blocks are of."""
    assert isinstance(node.attr, View)
    return state.program.tensors[node.attr.tensor].name


def _follows(state: Planning, node: Node, loop: Node) -> bool:
    """Whether an index in a loop follows from its counter and what is known before the program runs."""
    if node is loop.regions[0].params[0]:
        return True
    if _is_of_tensors(state, node):
        return False
    return all(_follows(state, arg, loop) for arg in node.args)
