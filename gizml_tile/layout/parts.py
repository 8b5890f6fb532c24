"""Layouts of parts of a tile and of tiles joined, where every holder keeps what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gizml_tile.layout.bits import Span, bit_length, is_power_of_two, ones
from gizml_tile.layout.linear import Basis, Linear

# What is taken of an axis: the first element, the step to the next one, and how many.
Stride = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a tile in the registers that hold it: register r of it is ``registers[r]`` of the tile.

    Along axes that are taken backwards its elements stand in their order in the tile.
    """

    linear: Linear
    registers: tuple[int, ...]


def part(whole: Linear, rows: Stride, columns: Stride) -> Part | None:
    """Where a part of a tile is, if its own registers hold it in every thread; else None.

    The steps are powers of two, and the bits of an axis that the part leaves fixed each a register's alone.
    Places count modulo the size of the axis. In a tile of 8 columns with the register bases (0, 4) and
    (0, 1), columns 4 to 7 are the registers with the first bit set.
    """
    gone: dict[int, bool] = {}
    shifts: list[int] = []
    for axis, (start, step, count) in enumerate((rows, columns)):
        lowest = start + min(step * (count - 1), 0)
        if not is_power_of_two(abs(step)) or not is_power_of_two(count):
            return None
        if abs(step) * count > whole.shape[axis]:
            return None  # some elements are there several times
        shift = bit_length(abs(step))
        if lowest >> shift & count - 1:
            return None  # the elements do not differ from the first in single bits
        shifts.append(shift)
        for bit in ones(whole.shape[axis] - 1):
            if shift <= bit < shift + bit_length(count):
                continue
            register = alone(whole, axis, 1 << bit)
            if register is None:
                return None
            gone[register] = bool(lowest >> bit & 1)
    kept = [bit for bit in range(whole.bits("register")) if bit not in gone]
    shape = (rows[2], columns[2])

    def inside(bases: Sequence[Basis]) -> list[Basis]:
        return [(row >> shifts[0], column >> shifts[1]) for row, column in bases]

    bases = {name: inside(whole.bases(name)) for name in whole.names}
    bases["register"] = [bases["register"][bit] for bit in kept]
    first = sum(1 << bit for bit, is_set in gone.items() if is_set)
    registers = [
        first + sum((number >> at & 1) << bit for at, bit in enumerate(kept))
        for number in range(1 << len(kept))
    ]
    return Part(Linear.of(shape, **bases), tuple(registers))


def around(inner: Linear, shape: tuple[int, int], rows: Stride, columns: Stride) -> Linear | None:
    """A layout of a tile in which a part with layout ``inner`` moves nothing; None where `part` finds none.

    Each thread holds beside its elements of the part all that differ from them in the other bits.
    """
    further: list[Basis] = []
    scales: list[int] = []
    for axis, (_, step, count) in enumerate((rows, columns)):
        if not is_power_of_two(abs(step)) or abs(step) * count > shape[axis]:
            return None
        scales.append(abs(step))
        bits = [1 << bit for bit in ones(shape[axis] - 1) if not abs(step) <= 1 << bit < abs(step) * count]
        further += [(bit, 0) if axis == 0 else (0, bit) for bit in bits]
    bases = {
        name: [(row * scales[0], column * scales[1]) for row, column in inner.bases(name)]
        for name in inner.names
    }
    whole = Linear.of(shape, **bases).extended("register", further)
    return whole if part(whole, rows, columns) else None


@dataclass(frozen=True, slots=True)
class Line:
    """One row or column of a tile, in the threads whose own part of the coordinate is ``thread``.

    Register r of it is ``registers[r]`` of the tile.
    """

    linear: Linear
    registers: tuple[int, ...]
    thread: int


def line(whole: Linear, axis: int, place: int) -> Line | None:
    """Who holds a row (axis 0) or a column (axis 1) of a tile; None where registers do not tell it apart.

    In a tile of 8 columns with the register basis (0, 1) and the lane bases (0, 2) and (0, 4), column 5 is
    register 1 of the threads whose part of the column is 4. Places count modulo the size of the axis.
    """
    place %= whole.shape[axis]
    bases = whole.bases("register")
    moving = {basis[axis]: bit for bit, basis in enumerate(bases) if basis[axis]}
    kept = [bit for bit, basis in enumerate(bases) if not basis[axis]]
    straight = all(is_power_of_two(along) and not bases[bit][1 - axis] for along, bit in moving.items())
    if not whole.splits(axis) or not straight or len(moving) + len(kept) < len(bases):
        return None
    first = sum(1 << bit for along, bit in moving.items() if place & along)
    registers = [
        first + sum((number >> at & 1) << bit for at, bit in enumerate(kept))
        for number in range(1 << len(kept))
    ]

    def beside(bases: Sequence[Basis]) -> list[Basis]:
        return [(0, column) if axis == 0 else (row, 0) for row, column in bases]

    shape = (1, whole.shape[1]) if axis == 0 else (whole.shape[0], 1)
    found = {name: beside(whole.bases(name)) for name in whole.names}
    found["register"] = [found["register"][bit] for bit in kept]
    return Line(Linear.of(shape, **found), tuple(registers), place & ~sum(moving))


def joined(half: Linear, axis: int, in_turn: bool) -> Linear:
    """The layout of two tiles as one: the top bit of the register tells them apart.

    They follow one another along the axis, or take turns.
    """
    size = half.shape[axis]
    shape = (2 * size, half.shape[1]) if axis == 0 else (half.shape[0], 2 * size)
    scale = 2 if in_turn else 1

    def moved(bases: Sequence[Basis]) -> list[Basis]:
        return [(row * scale, column) if axis == 0 else (row, column * scale) for row, column in bases]

    bit = 1 if in_turn else size
    whole = Linear.of(shape, **{name: moved(half.bases(name)) for name in half.names})
    return whole.extended("register", [(bit, 0) if axis == 0 else (0, bit)])


def halves(whole: Linear, axis: int, in_turn: bool) -> tuple[Linear, int] | None:
    """The layout that both tiles have, and the bit of the register that tells them apart; None where a
    register does not do that alone."""
    bit = 1 if in_turn else whole.shape[axis] // 2
    register = alone(whole, axis, bit)
    if register is None:
        return None
    size = whole.shape[axis] // 2
    shape = (size, whole.shape[1]) if axis == 0 else (whole.shape[0], size)
    scale = 2 if in_turn else 1

    def moved(bases: Sequence[Basis]) -> list[Basis]:
        return [(row // scale, column) if axis == 0 else (row, column // scale) for row, column in bases]

    bases = {name: moved(whole.bases(name)) for name in whole.names}
    del bases["register"][register]
    return Linear.of(shape, **bases), register


def alone(layout: Linear, axis: int, bit: int) -> int | None:
    """The bit of the register that moves one bit of an axis and nothing else, if no other moves that bit."""
    wanted = (bit, 0) if axis == 0 else (0, bit)
    moving = [(name, basis) for name in layout.names for basis in layout.bases(name) if basis[axis] & bit]
    if moving != [("register", wanted)]:
        return None
    return layout.bases("register").index(wanted)


def turned(layout: Linear, mask: Basis) -> tuple[int, int] | None:
    """The register and lane that differ from any other's by ``mask`` in their place; None where warps do."""
    span = Span(layout.packed("register", "lane"))
    found = span.solve(mask[0] * layout.shape[1] + mask[1])
    if found is None:
        return None
    registers = layout.bits("register")
    return found & (1 << registers) - 1, found >> registers
