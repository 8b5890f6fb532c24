"""Operands that groups of four warps compute in registers, from blocks that the copy engine brings.

In ``acc += (A[i, k] * rows).to(BF16) @ B[k, j]`` the block of a is brought as it is stored. A group reads its
rows from workgroup memory as a product takes its left operand from registers, computes there, and multiplies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gizml_tile.dtypes import BF16, E5M2, F16, FP8, DType
from gizml_tile.lowering.planning.operands import operand
from gizml_tile.nodes import ALONG, MOVES, Node

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

# What a unit takes from registers, with the types of blocks that it holds exactly.
_TAKEN: dict[DType, frozenset[DType]] = dict.fromkeys((F16, BF16), frozenset({FP8, E5M2}))
# Elements of k of one instruction, and of a piece that is computed while others are multiplied.
_STEP, _PIECE = 16, 32


@dataclass(frozen=True, slots=True)
class Prologue:
    """The operand of a product that is computed: its ``side`` (0 is the left) and its tile.

    ``made`` is what the loop's turn computes of it: tiles of its shape, of which the ``blocks`` are read.
    """

    side: int
    node: Node
    transposed: bool
    made: frozenset[Node]
    blocks: tuple[Node, ...]


def prologues_of(state: Planning, product: Node) -> list[Prologue]:
    """The operands of a product that are computed in its loop, of no other product's result."""
    found = [operand(arg) for arg in product.args[:2]]
    prologues = []
    for side, each in enumerate(found):
        other = found[1 - side].node.dtype
        widened = each.is_block and other in _TAKEN and each.node.dtype in _TAKEN[other]
        if not _is_inside(state, each.node, product) or (each.is_block and not widened):
            continue
        rests = _rests_on(state, each.node, product)
        if each.node in state.classes and not any(node.op == "dot" for node in rests):
            made = [node for node in rests if node.shape == each.node.shape and node in state.classes]
            blocks = tuple(node for node in made if node.op == "read")
            prologues.append(Prologue(side, each.node, each.transposed, frozenset(made), blocks))
    return prologues


def prologue_of(state: Planning, product: Node) -> Prologue | None:
    """The operand of a product that is computed in registers."""
    return next(iter(prologues_of(state, product)), None)


def blocks_of(state: Planning, product: Node) -> list[Node]:
    """The reads whose blocks a product takes, or of which its operands are computed."""
    computed = {prologue.side: prologue for prologue in prologues_of(state, product)}
    found: list[Node] = []
    for side, arg in enumerate(product.args[:2]):
        node = operand(arg).node
        if side in computed:
            found += computed[side].blocks
        elif node.op == "read":
            found.append(node)
    return found


def unit_dtypes(state: Planning, product: Node) -> tuple[DType, DType]:
    """The types in which a unit takes a product's operands, if it takes them."""
    found = [operand(arg).node.dtype for arg in product.args[:2]]
    prologue = prologue_of(state, product)
    if prologue is not None and prologue.node.op == "read":
        found[prologue.side] = found[1 - prologue.side]
    left, right = found
    assert left is not None and right is not None
    return left, right


def piece_of(depth: int) -> int:
    """How much of k is computed at once: half of a turn's, as the unit multiplies one piece meanwhile."""
    return max(_STEP, min(_PIECE, depth // 2))


def commits_of(state: Planning, product: Node) -> int:
    """The groups in which a product's asynchronous operations are committed."""
    depth = product.args[0].shape[1]
    return 1 if prologue_of(state, product) is None else depth // piece_of(depth)


def why_not_computed(state: Planning, product: Node) -> Iterator[str]:
    """Why a product's computed operand cannot be made in registers."""
    prologues = prologues_of(state, product)
    if len(prologues) > 1:
        yield "both operands of a product are computed in the loop"
    for each in prologues:
        dtype = unit_dtypes(state, product)[each.side]
        if dtype not in _TAKEN:
            yield f"a computed operand is {dtype}, not F16 or BF16"
        inside = _rests_on(state, each.node, product)
        if any(node.op == "gather" for node in inside):
            yield "elements of an operand are gathered, which are no boxes of the copy engine"
        if any(node.op == "transpose" for node in inside):
            yield "blocks are transposed before an operand is computed of them"
        if any(node.op in MOVES for node in inside):
            yield "elements of an operand are moved to other rows or columns"
        if any(node.op in ALONG for node in inside):
            yield "an operand rests on sums of blocks of its loop"
        if any(node.regions or (node.op in ("param", "result") and node.is_tile) for node in inside):
            yield "an operand rests on what a loop carries, or on a branch"


def _is_inside(state: Planning, node: Node, product: Node) -> bool:
    """Whether a node is made in the turns of a product's loop."""
    region = state.uses.region[product]
    return region is not state.program.body and state.uses.region.get(node) is region


def _rests_on(state: Planning, node: Node, product: Node) -> list[Node]:
    """What of a product's loop a tile rests on, itself first."""
    found: dict[Node, None] = {}
    open_ = [node]
    while open_:
        each = open_.pop()
        if each not in found and _is_inside(state, each, product):
            found[each] = None
            # Where a block lies is told by indices.
            open_ += [] if each.op == "read" else each.args
    return list(found)
