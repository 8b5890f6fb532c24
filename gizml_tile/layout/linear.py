"""Linear layouts: where each register of each lane of each warp keeps its element of a tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gizml_tile.layout.bits import Span, bit_length, is_power_of_two, ones

Basis = tuple[int, int]  # (row, column)
NAMES = ("register", "lane", "warp")


@dataclass(frozen=True, slots=True)
class Linear:
    """A map over bits: the place in a [rows, columns] tile is the exclusive or of one basis per set bit.

    ``inputs`` names the numbers that are mapped, each with the (row, column) of each of its bits,
    lowest bit first. A layout of a tile has the inputs register, lane and warp; a zero basis means
    a replica: a second holder of the same element. ``Linear.of`` is the shorter way to make one.
    """

    shape: tuple[int, int]
    inputs: tuple[tuple[str, tuple[Basis, ...]], ...]

    def __post_init__(self) -> None:
        rows, columns = self.shape
        if not (is_power_of_two(rows) and is_power_of_two(columns)):
            raise ValueError(f"a layout needs sides that are powers of two, found [{rows}, {columns}]")
        if len({name for name, _ in self.inputs}) != len(self.inputs):
            raise ValueError(f"each input has one name, found {', '.join(name for name, _ in self.inputs)}")
        for name, bases in self.inputs:
            for row, column in bases:
                if not (0 <= row < rows and 0 <= column < columns):
                    raise ValueError(f"the {name} basis ({row}, {column}) is outside of [{rows}, {columns}]")

    @staticmethod
    def of(shape: tuple[int, int], **bases: Sequence[Basis]) -> Linear:
        """A layout from bases by name: ``Linear.of((2, 4), register=[(0, 1), (0, 2)], lane=[(1, 0)])``."""
        return Linear(shape, tuple((name, tuple(each)) for name, each in bases.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs in order; the first varies fastest."""
        return tuple(name for name, _ in self.inputs)

    def bases(self, name: str) -> tuple[Basis, ...]:
        """The (row, column) of each bit of an input, lowest first; empty for an input that is not there."""
        return next((bases for each, bases in self.inputs if each == name), ())

    def bits(self, name: str) -> int:
        """How many bits an input has."""
        return len(self.bases(name))

    def size(self, name: str) -> int:
        """How many values an input has: 1 for an input that is not there."""
        return 1 << len(self.bases(name))

    @property
    def elements(self) -> int:
        """How many elements the tile has."""
        return self.shape[0] * self.shape[1]

    def packed(self, *names: str) -> tuple[int, ...]:
        """The bases of some inputs (all of them by default) as row-major positions in the tile."""
        columns = self.shape[1]
        chosen = [basis for name in names or self.names for basis in self.bases(name)]
        return tuple(row * columns + column for row, column in chosen)

    def apply(self, **coordinates: int) -> tuple[int, int]:
        """The (row, column) of a holder: ``apply(register=3, lane=17, warp=1)``; what is left out is 0."""
        row = column = 0
        for name, number in coordinates.items():
            bases = self.bases(name)
            if not 0 <= number < 1 << len(bases):
                raise ValueError(f"{name} {number} is outside of 0 to {(1 << len(bases)) - 1}")
            for bit in ones(number):
                row, column = row ^ bases[bit][0], column ^ bases[bit][1]
        return row, column

    def table(self, name: str = "register", **others: int) -> tuple[tuple[int, int], ...]:
        """The (row, column) for every value of one input, the others fixed (0 where left out)."""
        places = [self.apply(**others)]
        for row, column in self.bases(name):
            places += [(row ^ above, column ^ beside) for above, beside in places]
        return tuple(places)

    @property
    def is_surjective(self) -> bool:
        """Whether every element of the tile has a holder."""
        return Span(self.packed()).rank == bit_length(self.elements)

    @property
    def is_injective(self) -> bool:
        """Whether no element has two holders."""
        return not Span(self.packed()).kernel

    def free_bits(self, name: str) -> int:
        """The bits of an input that reach nothing which its lower bits and the inputs before it do not.

        Each element has exactly one holder whose free bits are all zero, which is the one to store it:
        ``lane & layout.free_bits("lane") == 0 and warp & layout.free_bits("warp") == 0``, and of the
        registers those without a free bit.
        """
        span, mask = Span(), 0
        for each, _ in self.inputs:
            for bit, basis in enumerate(self.packed(each)):
                if not span.add(basis) and each == name:
                    mask |= 1 << bit
            if each == name:
                break
        return mask

    def without_replicas(self, name: str = "register") -> Linear:
        """The layout without the free bits of an input, so a slice keeps each element once in a thread."""
        free = self.free_bits(name)
        return self.with_bases(
            name, tuple(basis for bit, basis in enumerate(self.bases(name)) if not free >> bit & 1)
        )

    def with_bases(self, name: str, bases: Sequence[Basis]) -> Linear:
        """The layout with one input's bases replaced, or that input added last."""
        if name not in self.names:
            return replace(self, inputs=(*self.inputs, (name, tuple(bases))))
        return replace(
            self, inputs=tuple((each, tuple(bases) if each == name else old) for each, old in self.inputs)
        )

    def extended(self, name: str, bases: Sequence[Basis]) -> Linear:
        """The layout with further bits above those of one input: the repeats of an atom over a tile."""
        return self.with_bases(name, (*self.bases(name), *bases))

    def with_shape(self, shape: tuple[int, int]) -> Linear:
        """The same bases in a tile of another shape; an error where a basis falls outside."""
        return replace(self, shape=shape)

    def reshaped(self, shape: tuple[int, int]) -> Linear:
        """The layout after a row-major reshape: the holders keep what they hold."""
        if shape[0] * shape[1] != self.elements:
            raise ValueError(f"cannot reshape {list(self.shape)} to {list(shape)}: not as many elements")
        inputs = [(name, tuple(divmod(each, shape[1]) for each in self.packed(name))) for name in self.names]
        return Linear(shape, tuple(inputs))

    def transposed(self) -> Linear:
        """The layout after a transpose: the holders keep what they hold, rows and columns trade places."""
        return Linear(
            (self.shape[1], self.shape[0]),
            tuple((name, tuple((column, row) for row, column in bases)) for name, bases in self.inputs),
        )

    def slice(self, axis: int) -> Linear:
        """The layout with one axis dropped: [1, columns] for axis 0, [rows, 1] for axis 1.

        It is what a reduction along the axis leaves, and what broadcasts along it for nothing.
        """
        check_axis(axis)
        rows, columns = self.shape
        return Linear(
            (1, columns) if axis == 0 else (rows, 1),
            tuple(
                (name, tuple((0, column) if axis == 0 else (row, 0) for row, column in bases))
                for name, bases in self.inputs
            ),
        )

    def rename(self, old: str, new: str) -> Linear:
        """The layout with an input under another name."""
        if old not in self.names:
            raise ValueError(f"there is no input {old}; there are {', '.join(self.names)}")
        return replace(self, inputs=tuple((new if name == old else name, each) for name, each in self.inputs))

    def compose(self, inner: Linear) -> Linear:
        """This map of (row, column) after another layout, as for the memory offset of each holder."""
        if strange := set(self.names) - {"row", "column"}:
            raise ValueError(f"only a map of row and column composes, found {', '.join(sorted(strange))}")
        if inner.shape != (self.size("row"), self.size("column")):
            raise ValueError(
                f"the inner layout has shape {list(inner.shape)}, wanted "
                f"[{self.size('row')}, {self.size('column')}]"
            )
        return Linear(
            self.shape,
            tuple(
                (name, tuple(self.apply(row=row, column=column) for row, column in bases))
                for name, bases in inner.inputs
            ),
        )

    def invert(self) -> Inverse:
        """From a place to one of its holders, with zeros wherever bits are free."""
        span = Span(self.packed())
        solved = [span.solve(1 << bit) for bit in range(bit_length(self.elements))]
        if any(each is None for each in solved):
            raise ValueError(f"some places of {list(self.shape)} have no holder, so there is no inverse")
        holders = [self._holder(each or 0) for each in solved]
        column_bits = bit_length(self.shape[1])
        outputs = [
            (
                name,
                tuple(each[name] for each in holders[column_bits:]),
                tuple(each[name] for each in holders[:column_bits]),
            )
            for name in self.names
        ]
        return Inverse(self.shape, tuple(outputs))

    def _holder(self, packed: int) -> dict[str, int]:
        """The number of each input, from all of their bits in a row."""
        numbers = {}
        for name, bases in self.inputs:
            numbers[name] = packed & (1 << len(bases)) - 1
            packed >>= len(bases)
        return numbers

    def splits(self, axis: int) -> bool:
        """Whether a coordinate is a sum of a thread's part and a register's part, with no bit in both.

        Then the place of a register is the thread's place plus a constant, which address arithmetic
        and comparisons with a bound can use; otherwise the two parts meet under exclusive or.
        """
        check_axis(axis)
        register = thread = 0
        for name, bases in self.inputs:
            for basis in bases:
                if name == "register":
                    register |= basis[axis]
                else:
                    thread |= basis[axis]
        return register & thread == 0

    @property
    def is_separable(self) -> bool:
        """Whether every basis lies along one axis, so no bit moves both the row and the column."""
        return all(row == 0 or column == 0 for _, bases in self.inputs for row, column in bases)

    def _repr_svg_(self) -> str:
        """The picture that a notebook shows."""
        from gizml_tile.layout.pictures import draw  # which builds on this module

        return draw(self, form="svg")

    def __str__(self) -> str:
        parts = [
            " ".join((name, *(f"({row},{column})" for row, column in bases))) for name, bases in self.inputs
        ]
        return f"[{self.shape[0]}, {self.shape[1]}] " + "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Inverse:
    """From a place in a tile to one holder of it, linear over bits.

    ``outputs`` gives for each name the numbers of the row's bits and of the column's bits.
    """

    shape: tuple[int, int]
    outputs: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]

    def apply(self, row: int, column: int) -> dict[str, int]:
        """The holder of an element: ``{"register": 3, "lane": 17, "warp": 0}``."""
        if not (0 <= row < self.shape[0] and 0 <= column < self.shape[1]):
            raise ValueError(f"({row}, {column}) is outside of {list(self.shape)}")
        holder = {}
        for name, of_row, of_column in self.outputs:
            number = 0
            for bit in ones(row):
                number ^= of_row[bit]
            for bit in ones(column):
                number ^= of_column[bit]
            holder[name] = number
        return holder


def check_axis(axis: int) -> None:
    if axis not in (0, 1):
        raise ValueError(f"a tile has the axes 0 (rows) and 1 (columns), found {axis}")
