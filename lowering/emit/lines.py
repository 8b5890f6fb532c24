"""Lines of a text that grows, and where in the person's program each of them comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gizml_tile.errors import Place

# From which line on (counted from 0) a text comes from which place, up to the next entry's line.
Origins = tuple[tuple[int, Place | None], ...]


class Lines(list[str]):
    """Lines that are appended while an emitter is at one place of the person's program after another.

    ``marks`` are as `Origins` for these lines alone.
    """

    def __init__(self, lines: Iterable[str] = ()) -> None:
        super().__init__(lines)
        self.place: Place | None = None
        self.marks: list[tuple[int, Place | None]] = []

    def come_from(self, place: Place | None) -> Place | None:
        """Let the lines that follow come from a place; gives the place before, to go back to."""
        before = self.place
        if place is not before:
            self.place = place
            if self.marks and self.marks[-1][0] == len(self):
                self.marks.pop()
            self.marks.append((len(self), place))
        return before

    def insert_all(self, index: int, lines: Sequence[str]) -> None:
        """Insert lines, which come from where the line before them does."""
        self[index:index] = lines
        self.marks = [(first + len(lines) if first >= index else first, place) for first, place in self.marks]


def origins(*parts: str | Sequence[str]) -> Origins:
    """Where the lines of parts, each a line or several, come from; the parts are joined by newlines.

    A string in a part may itself have several lines, but not in a part of `Lines`.
    """
    found: list[tuple[int, Place | None]] = []
    number = 0
    for part in parts:
        if isinstance(part, Lines):
            found += [(number + first, place) for first, place in part.marks]
            number += len(part)
            found.append((number, None))
        else:
            texts = [part] if isinstance(part, str) else part
            number += sum(1 + text.count("\n") for text in texts)
    return tuple(found)


def places_of(text: str, runs: Origins) -> list[Place | None]:
    """The place that each line of a text comes from."""
    count = len(text.split("\n"))
    found: list[Place | None] = [None] * count
    ends = [first for first, _ in runs[1:]] + [count]
    for (first, place), end in zip(runs, ends, strict=True):
        found[first:end] = [place] * (min(end, count) - first)
    return found
