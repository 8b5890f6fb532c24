"""Spreads of a tile over threads, and how wide their accesses to memory can be."""

from __future__ import annotations

from collections.abc import Sequence

from gizml_tile.layout.bits import bit_length, is_power_of_two
from gizml_tile.layout.linear import Basis, Linear, check_axis


def blocked(
    shape: tuple[int, int],
    order: tuple[int, int] = (1, 0),
    vector: int = 1,
    lanes: int = 32,
    warps: int = 1,
    across: int = 1,
    warps_first: int | None = None,
) -> Linear:
    """The spread that makes accesses to memory coalesced.

    ``order`` names the axis that is contiguous in memory first. A thread has ``vector`` neighbours
    along it; the lanes go on along it and then along the other axis; the warps go along the axis
    ``warps_first`` (the slow one) and then along the other; the registers take what is left. Where the
    tile is smaller than the threads, the bits left over are replicas. ``across`` gives a thread as many
    neighbours along the slow axis too, for a tile that is transposed next.
    """
    for what, number in (("vector", vector), ("lanes", lanes), ("warps", warps), ("across", across)):
        if not is_power_of_two(number):
            raise ValueError(f"{what} must be a power of two, found {number}")
    if sorted(order) != [0, 1]:
        raise ValueError(f"order names both axes, (1, 0) for row-major, found {order}")
    fast, slow = order
    used = [1, 1]

    def take(axis: int) -> Basis | None:
        if used[axis] == shape[axis]:
            return None
        basis = (used[0], 0) if axis == 0 else (0, used[1])
        used[axis] *= 2
        return basis

    def next_basis(axes: tuple[int, ...]) -> Basis:
        return next((basis for axis in axes if (basis := take(axis)) is not None), (0, 0))

    def spread(count: int, *axes: int) -> list[Basis]:
        return [next_basis(axes) for _ in range(bit_length(count))]

    Linear.of(shape)  # a wrong shape is told here
    registers = spread(min(vector, shape[fast]), fast) + spread(min(across, shape[slow]), slow)
    lane = spread(lanes, fast, slow)
    first = slow if warps_first is None else warps_first
    warp = spread(warps, first, 1 - first)
    rest = (shape[0] // used[0]) * (shape[1] // used[1])
    registers += spread(rest, fast, slow)
    return Linear.of(shape, register=registers, lane=lane, warp=warp)


def reorder_registers(layout: Linear, order: Sequence[int]) -> Linear:
    """The layout whose register bit i is the old register bit ``order[i]``; nothing moves."""
    bases = layout.bases("register")
    if sorted(order) != list(range(len(bases))):
        raise ValueError(f"order must name each of the {len(bases)} register bits once, found {tuple(order)}")
    return layout.with_bases("register", [bases[bit] for bit in order])


def vector_width(layout: Linear, axis: int) -> tuple[int, tuple[int, ...]]:
    """How many neighbours along an axis a thread has, and the register bits that reach them first.

    The second value is an order for ``reorder_registers`` after which registers 0, 1, 2, .. up to the
    width are neighbours; the other bits keep their order.
    """
    check_axis(axis)
    bases = layout.bases("register")
    run: list[int] = []
    while (basis := (0, 1 << len(run)) if axis == 1 else (1 << len(run), 0)) in bases:
        run.append(bases.index(basis))
    return 1 << len(run), (*run, *(bit for bit in range(len(bases)) if bit not in run))
