"""How many neighbours a thread should have, for the tensors that its registers come from and go to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gizml_tile.layout import Linear, vector_width
from gizml_tile.lowering.planning.signature import AccessFacts, Signature
from gizml_tile.nodes import Elements, Node, TileProgram, View

VECTOR_BYTES = 16
_SECTOR_BYTES = 32
_TURN_SECTORS = 4  # what the cache gives to a warp at a time


@dataclass(frozen=True, slots=True)
class Traffic:
    """Elements of so many ``bytes`` of which one access may move ``vector``."""

    bytes: int
    vector: int


def traffic(
    program: TileProgram, node: Node, axis: int | None, signature: Signature, facts: AccessFacts
) -> Traffic:
    """What a read or put could move at once in the best of layouts, along the axis that is contiguous."""
    view = node.attr
    assert isinstance(view, View | Elements)
    size = program.tensors[view.tensor].dtype.bytes
    if axis is None:
        return Traffic(size, 1)
    vector = min(VECTOR_BYTES, signature.alignments[view.tensor]) // size
    if isinstance(view, Elements) or view.mode == "window" or view.visible:
        vector = min(vector, facts.grain[axis - 2 + len(facts.grain)])
    return Traffic(size, max(vector, 1))


def best_vector(moves: Sequence[Traffic], lanes: int) -> int:
    """The neighbours with which all accesses of a warp together take the fewest turns of the cache.

    A tensor that cannot be moved so many at once takes several accesses, whose lanes lie apart: BF16 and
    F32 together are best with 4 neighbours, of 8 and 16 bytes.
    """
    widest = max((VECTOR_BYTES // move.bytes for move in moves), default=VECTOR_BYTES // 4)
    vectors = [1 << bit for bit in range(widest.bit_length())]
    if not moves:
        return widest

    def cost(vector: int) -> tuple[float, float]:
        """Turns and accesses for an element of each tensor."""
        accesses = sum(1 / min(move.vector, vector) for move in moves)
        return sum(_turns(move, vector, lanes) for move in moves), accesses

    return min(vectors, key=cost)


def access_cost(layout: Linear, axis: int, move: Traffic) -> float:
    """The accesses of a warp, and turns of the cache for what they touch, for an element of a tile.

    Elements that differ along the other axis count as never in the same 32 bytes.
    """
    run, _ = vector_width(layout.without_replicas(), axis)
    width = min(run, move.vector)
    places = set(layout.table("lane"))
    sectors = {(place[1 - axis], place[axis] * move.bytes // _SECTOR_BYTES) for place in places}
    return (1 + len(sectors) / _TURN_SECTORS) / (len(places) * width)


def _turns(move: Traffic, vector: int, lanes: int) -> float:
    """The turns of the cache for an element, where lanes lie ``vector`` elements apart."""
    width = min(move.vector, vector)
    sectors = min(lanes, lanes * vector * move.bytes // _SECTOR_BYTES)
    return max(sectors / _TURN_SECTORS, 1) / (width * lanes)
