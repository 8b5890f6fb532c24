"""Where a thread's elements are: linear maps of lane and warp as integer arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.dtypes import I32
from gizml_tile.layout import Linear
from gizml_tile.lowering.kernel_ir.builder import Builder, Value


def thread_part(build: Builder, lane: Sequence[int], warp: Sequence[int]) -> Value:
    """The XOR of a number per set bit of the lane and of the warp, as an I32.

    Neighbouring bits that go to neighbouring bits move together: lane bases 1, 2, 4 are one AND.
    """
    result = build.constant(0, I32)
    for source, bases in ((build.lane, lane), (build.warp, warp)):
        if any(bases):
            for piece in _pieces(build, source(), bases):
                result = build.map("xor", result, piece)
    return result


def _pieces(build: Builder, source: Value, bases: Sequence[int]) -> list[Value]:
    """The parts of a linear map of a number's bits, to be joined by XOR."""
    pieces: list[Value] = []
    single: dict[int, int] = {}  # distance that bits move -> the bits that do
    for bit, basis in enumerate(bases):
        for target in range(basis.bit_length()):
            if basis >> target & 1:
                single[target - bit] = single.get(target - bit, 0) | 1 << bit
    for distance, mask in sorted(single.items()):
        masked = build.map("and", source, build.constant(mask, I32))
        if distance >= 0:
            pieces.append(build.map("shl", masked, build.constant(distance, I32)))
        else:
            pieces.append(build.map("ushr", masked, build.constant(-distance, I32)))
    return pieces


def coordinate(build: Builder, layout: Linear, axis: int) -> tuple[Value, tuple[int, ...]]:
    """A tile coordinate of a thread's registers: the thread's own part, and each register's constant.

    The coordinate is their XOR, which is their sum where ``layout.splits(axis)``, as all layouts that a
    plan makes do.
    """
    assert layout.splits(axis), layout
    thread = thread_part(
        build,
        [basis[axis] for basis in layout.bases("lane")],
        [basis[axis] for basis in layout.bases("warp")],
    )
    return thread, tuple(place[axis] for place in layout.table("register"))


def holder(build: Builder, lane_mask: int, warp_mask: int) -> Value | None:
    """Whether a thread has none of some bits of its lane and warp set; None where there are none.

    With the free bits of a layout it picks one of the threads that hold the same elements.
    """

    def clear(number: Value, mask: int) -> Value:
        return build.map("eq", build.map("and", number, build.constant(mask, I32)), build.constant(0, I32))

    return build.both(
        clear(build.lane(), lane_mask) if lane_mask else None,
        clear(build.warp(), warp_mask) if warp_mask else None,
    )


def with_bits(number: int, bits: Sequence[int]) -> int:
    """The number whose bit ``bits[i]`` is bit i of another."""
    return sum((number >> place & 1) << bit for place, bit in enumerate(bits))
