"""Where a thread's elements are: linear maps of lane and warp as integer arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.dtypes import I32
from gizml_tile.layout import Linear
from gizml_tile.lowering.kernel_ir.builder import Builder, Value


def thread_part(build: Builder, lane: Sequence[int], warp: Sequence[int]) -> Value:
    """The XOR of a number per set bit of the lane and of the warp, as an I32.

    The lane's bits are the low ones of the thread's number and the warp's the others. Bits that move by
    the same distance move together: the bases 4, 8, 16, 32, 64 of a lane and 128 of a warp are one shift.
    """
    moving: dict[int, int] = {}  # distance that bits move -> the bits that do
    for bit, basis in enumerate((*lane, *warp)):
        for target in range(basis.bit_length()):
            if basis >> target & 1:
                moving[target - bit] = moving.get(target - bit, 0) | 1 << bit
    everything = (1 << (len(lane) + len(warp))) - 1
    result = build.constant(0, I32)
    for distance, mask in sorted(moving.items()):
        piece = build.thread()
        if mask != everything:
            piece = build.map("and", piece, build.constant(mask, I32))
        if distance >= 0:
            piece = build.map("shl", piece, build.constant(distance, I32))
        else:
            piece = build.map("ushr", piece, build.constant(-distance, I32))
        result = build.map("xor", result, piece)
    return result


def crossed(
    build: Builder, lane: Sequence[int], warp: Sequence[int], starts: Sequence[int], base: Value | None
) -> tuple[Value, tuple[tuple[int, int], ...]]:
    """Offsets in workgroup memory of accesses, with a part of each lane and warp: a register and a constant.

    The thread's part t and an access's start c meet under XOR. Where t has no bits, c's bits add; so t ^ c
    is (t ^ (c & moved)) + (c & ~moved), and few different c & moved need a register. ``base`` is added.
    """
    moved = 0
    for basis in (*lane, *warp):
        moved |= basis
    distinct = list(dict.fromkeys(start & moved for start in starts))
    offsets = build.map("xor", thread_part(build, lane, warp), build.constant(distinct, I32))
    if base is not None:
        offsets = build.add(offsets, base)
    return offsets, tuple((distinct.index(start & moved), start & ~moved) for start in starts)


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
