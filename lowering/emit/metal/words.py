"""Registers as text: names, elements of arrays, and one expression for the elements of a run of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Array:
    """A variable with ``count`` registers: an array, or vectors of ``width`` each, or an array of those.

    A vector may consist of 32-bit words with small elements: ``part`` is the type that each word holds, and
    ``per`` how many elements are in it.
    """

    name: str
    count: int
    width: int = 1
    part: str = ""
    per: int = 1

    def run(self, indices: Sequence[int]) -> str | None:
        """The registers with these numbers, as an expression of the turn ``r``; None where there is none."""
        if self.width == 1:
            return _subscripted(self.name, indices)
        whole = self.whole([index // self.width for index in indices])
        if whole is None:
            return None
        place = [index % self.width for index in indices]
        if not self.part:
            return _subscripted(whole, place)
        word = _subscripted(whole, [each // self.per for each in place])
        inside = [each % self.per for each in place]
        return None if word is None else _subscripted(f"as_type<{self.part}>({word})", inside)

    def whole(self, vectors: Sequence[int]) -> str | None:
        """Whole vectors, likewise."""
        return self.name if self.count == self.width else _subscripted(self.name, vectors)


def _subscripted(text: str, indices: Sequence[int]) -> str | None:
    index = turn_text(indices)
    return None if index is None else f"{text}[{index}]"


# A text that stands for itself, or a register of an array.
Word = str | tuple[Array, int]
Words = tuple[Word, ...]


def spelled(word: Word) -> str:
    """A register as an expression."""
    if isinstance(word, str):
        return word
    text = word[0].run([word[1]])
    assert text is not None
    return text


def registers(array: Array) -> Words:
    """All registers of an array, in order."""
    return tuple([(array, index) for index in range(array.count)])


def without_brackets(text: str) -> str:
    """An expression without brackets around the whole of it."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth and place < len(text) - 1:
            return text
    return text[1:-1] if text[:1] == "(" else text


def run_text(column: Sequence[Word | int]) -> str | None:
    """Registers or numbers as an expression of the turn ``r``; None where there is none."""
    first = column[0]
    if isinstance(first, int):
        return turn_text(column)  # type: ignore[arg-type]
    if all(each == first for each in column):
        return spelled(first)
    if isinstance(first, str) or any(isinstance(each, str) or each[0] != first[0] for each in column):  # type: ignore[index]
        return None
    return first[0].run([each[1] for each in column])  # type: ignore[index, misc]


def turn_text(numbers: Sequence[int]) -> str | None:
    """Numbers as an expression of their place ``r``: in equal steps, or each bit of r another bit of them."""
    first = numbers[0]
    step = numbers[1] - first if len(numbers) > 1 else 0
    if all(number == first + step * place for place, number in enumerate(numbers)):
        if step < 0:
            return f"{first} - {_scaled('r', -step)}"
        return _sum(_scaled("r", step), first) if step else str(first)
    if len(numbers) & (len(numbers) - 1) or min(numbers) < 0:
        return None
    bits = [numbers[1 << bit] ^ first for bit in range(len(numbers).bit_length() - 1)]
    if any(bit & (bit - 1) for bit in bits) or not _is_linear(numbers, bits):
        return None
    terms = _terms(bits)
    if terms is None:
        return None
    if not any(first & bit for bit in bits):
        return _sum(" + ".join(terms), first)
    return f"({' + '.join(terms)} ^ {first})"


def _is_linear(numbers: Sequence[int], bits: Sequence[int]) -> bool:
    known = [numbers[0]]
    for bit in bits:
        known += [each ^ bit for each in known]
    return known == list(numbers)


def _terms(bits: Sequence[int]) -> list[str] | None:
    """Bits of r that stay neighbours, as a quotient's remainder times a power of two; they must not meet."""
    kept = [bit for bit in bits if bit]
    if len(set(kept)) < len(kept):
        return None
    terms, start = [], 0
    while start < len(bits):
        stop = start + 1
        while bits[start] and stop < len(bits) and bits[stop] == bits[start] << stop - start:
            stop += 1
        if bits[start]:
            text = f"r / {1 << start}" if start else "r"
            text = f"{text} % {1 << stop - start}" if stop < len(bits) else text
            terms.append(_scaled(text, bits[start]))
        start = stop
    return terms


def _scaled(text: str, factor: int) -> str:
    return text if factor == 1 else f"{text} * {factor}"


def _sum(text: str, constant: int) -> str:
    return f"{text} {'+' if constant > 0 else '-'} {abs(constant)}" if constant else text
