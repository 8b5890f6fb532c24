"""Blocks in workgroup memory whose fragments are read by vectors: laid out for those who write and who read.

A lane's neighbours in a fragment have to be neighbours in memory. Where they are not so in the tensor,
threads turn the block: each loads several vectors along the one axis and stores vectors along the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from gizml_tile.dtypes import DType
from gizml_tile.layout import Linear, vector_width
from gizml_tile.layout.bits import bit_length
from gizml_tile.layout.exchange import exchange_along
from gizml_tile.lowering.planning.plan import SharedTile
from gizml_tile.nodes import Node

if TYPE_CHECKING:
    from gizml_tile.lowering.planning.planner import Planning

_VECTOR_BYTES = 16
_SECTOR_BYTES = 32
_TURN_BYTES = 128  # what the cache, or all banks, give at a time
# What an instruction costs beside its turns of the cache or of the banks.
_ISSUE = 2


def fragment_of(state: Planning, node: Node) -> Linear | None:
    """The layout in which a product takes a block from workgroup memory by vectors; None for other blocks."""
    return None if state.target.can("matrix_load") else next(_fragments(state, node, turned=False), None)


def _fragments(state: Planning, node: Node, *, turned: bool) -> Iterator[Linear]:
    """The fragments that products, maybe behind transposes and conversions, take of a tile."""
    if state.classes.get(node) in state.fragments:
        linear = state.layouts[state.classes[node]].linear
        yield linear.transposed() if turned else linear
    for user, number in state.uses.of(node):
        if user.op == "dot" and number < 2:
            dot = state.dots[user]
            if dot.atom is not None:
                linear = (dot.a, dot.b)[number].linear
                yield linear.transposed() if turned else linear
        elif user.op in ("transpose", "to"):
            yield from _fragments(state, user, turned=turned != (user.op == "transpose"))


def is_turned(fragment: Linear, axis: int) -> bool:
    """Whether a lane's neighbours in a fragment lie along the other axis than ``axis``."""
    return vector_width(fragment, 1 - axis)[0] > vector_width(fragment, axis)[0]


@lru_cache(maxsize=1024)
def fitted_tile(dtype: DType, written: Linear, read: Linear, banks: int) -> SharedTile:
    """The form of memory in which two layouts both have wide accesses and few bank conflicts."""
    runs = [vector_width(read, axis)[0] for axis in (0, 1)]
    axis = runs.index(max(runs))
    memory = exchange_along(written, read, dtype.bytes, axis, runs[axis], banks).memory
    rows, columns = ([offset for _, offset in memory.bases(name)] for name in ("row", "column"))
    shape = written.shape
    return SharedTile(dtype, shape, tuple(rows), tuple(columns), f"{shape[0]} x {shape[1]} as fragments want")


@dataclass(frozen=True, slots=True)
class Turning:
    """How threads turn a block: ``across`` vectors of ``vector`` elements along the tensor's axis at once.

    2 ** ``beside`` neighbouring lanes go on along the other axis.
    """

    vector: int
    across: int
    beside: int
    layout: Linear

    def gap(self, element_bytes: int) -> int:
        """How far what neighbouring lanes store together is from the widest vector that others load."""
        return abs((self.across * element_bytes << self.beside) - _VECTOR_BYTES)


@lru_cache(maxsize=1024)
def turning(
    shape: tuple[int, int], element_bytes: int, axis: int, widest: int, lanes: int, warps: int
) -> Turning:
    """The way that takes the fewest turns of the cache, and the fewest instructions.

    ``axis`` is contiguous in the tensor; a vector has at most ``widest`` elements.
    """
    share = max(shape[0] * shape[1] // (lanes * warps), 1)
    options = [
        _turning(shape, axis, 1 << vector, 1 << across, beside, lanes, warps)
        for vector in range(bit_length(widest) + 1)
        for across in range(bit_length(_VECTOR_BYTES // element_bytes) + 1)
        for beside in range(bit_length(lanes) + 1)
        if 1 << vector + across <= share
    ]
    return min(options, key=lambda each: (_cost(each, shape, element_bytes, axis), each.gap(element_bytes)))


def _turning(
    shape: tuple[int, int], axis: int, vector: int, across: int, beside: int, lanes: int, warps: int
) -> Turning:
    """``beside`` of the lanes' bits go along the other axis first."""
    left = [shape[0], shape[1]]

    def take(along: int) -> tuple[int, int] | None:
        if left[along] == 1:
            return None
        step = shape[along] // left[along]
        left[along] //= 2
        return (step, 0) if along == 0 else (0, step)

    def spread(bits: int, *order: int) -> list[tuple[int, int]]:
        found = (next((basis for along in order if (basis := take(along))), (0, 0)) for _ in range(bits))
        return list(found)

    register = spread(min(bit_length(vector), bit_length(left[axis])), axis)
    register += spread(min(bit_length(across), bit_length(left[1 - axis])), 1 - axis)
    lane = spread(beside, 1 - axis, axis) + spread(bit_length(lanes) - beside, axis, 1 - axis)
    warp = spread(bit_length(warps), axis, 1 - axis)
    register += spread(bit_length(left[0] * left[1]), axis, 1 - axis)
    return Turning(vector, across, beside, Linear.of(shape, register=register, lane=lane, warp=warp))


def _cost(turning: Turning, shape: tuple[int, int], element_bytes: int, axis: int) -> float:
    """Turns for one warp's part of the block, and what its instructions cost."""
    places = turning.layout.table("lane")
    vector, across = min(turning.vector, shape[axis]), min(turning.across, shape[1 - axis])
    sectors = len({(place[1 - axis], place[axis] * element_bytes // _SECTOR_BYTES) for place in places})
    moved = max(sectors * _SECTOR_BYTES, len(set(places)) * vector * element_bytes)
    stored = len(set(places)) * across * element_bytes
    registers = turning.layout.size("register")
    loads = registers // vector * (max(moved / _TURN_BYTES, 1) + _ISSUE)
    return loads + registers // across * (max(stored / _TURN_BYTES, 1) + _ISSUE)
