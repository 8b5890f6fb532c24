"""Linear algebra over bits: vectors are whole numbers, addition is exclusive or."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def bit_length(number: int) -> int:
    """How many bits number the values below a power of two."""
    return number.bit_length() - 1


def ones(mask: int) -> tuple[int, ...]:
    """The positions of the bits that are set, lowest first."""
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def parity(mask: int) -> int:
    return mask.bit_count() & 1


def combine(columns: Sequence[int], chosen: int) -> int:
    """The exclusive or of the columns whose bit is set in ``chosen``: a matrix times a vector."""
    total = 0
    for bit in ones(chosen):
        total ^= columns[bit]
    return total


class Span:
    """The vectors that some columns reach; it remembers which columns make each of them.

    Columns that earlier ones already reach are left out of every answer, so an answer is unique.
    ``kernel`` holds, for each such column, the set of columns (it and earlier ones) that cancel.
    """

    def __init__(self, columns: Iterable[int] = ()) -> None:
        self._rows: dict[int, tuple[int, int]] = {}  # highest bit -> (vector, the columns that make it)
        self._count = 0
        self.kernel: list[int] = []
        for column in columns:
            self.add(column)

    @property
    def rank(self) -> int:
        return len(self._rows)

    def _reduced(self, vector: int, chosen: int) -> tuple[int, int]:
        while vector and (row := self._rows.get(vector.bit_length())):
            vector, chosen = vector ^ row[0], chosen ^ row[1]
        return vector, chosen

    def add(self, column: int) -> bool:
        """Whether the column reaches anything new."""
        vector, chosen = self._reduced(column, 1 << self._count)
        self._count += 1
        if vector:
            self._rows[vector.bit_length()] = vector, chosen
        else:
            self.kernel.append(chosen)
        return vector != 0

    def solve(self, vector: int) -> int | None:
        """The set of columns whose sum is the vector, or None where they do not reach it."""
        left, chosen = self._reduced(vector, 0)
        return None if left else chosen

    def __contains__(self, vector: int) -> bool:
        return self._reduced(vector, 0)[0] == 0


def independent(start: Iterable[int], candidates: Iterable[int]) -> list[int]:
    """The candidates that are reached neither by the start nor by candidates before them."""
    span = Span(start)
    return [candidate for candidate in candidates if span.add(candidate)]


def reduced(vectors: Iterable[int]) -> list[int]:
    """The reduced basis of what the vectors reach, smallest first; equal spaces give equal lists."""
    basis: list[int] = []
    for vector in vectors:
        for other in basis:
            vector = min(vector, vector ^ other)
        if vector:
            basis = [
                min(other, other ^ vector) if other >> bit_length(vector) & 1 else other for other in basis
            ]
            basis.append(vector)
    return sorted(basis)


def intersection(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """A reduced basis of the vectors that both reach."""
    first, second = independent((), first), independent((), second)
    kernel = Span((*first, *second)).kernel
    return reduced(combine(first, chosen & (1 << len(first)) - 1) for chosen in kernel)
