"""The person's lines on a page: their numbers, which of them belong together, and their text."""

from __future__ import annotations

import ast
import linecache
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gizml_tile import errors
from gizml_tile.page.data import Pane, Place

_Line = tuple[str, int]  # file and line


@dataclass
class Places:
    """Numbers for lines of the person's, and for the sets of them that other lines come from."""

    numbers: dict[_Line, int] = field(default_factory=dict)
    links: dict[tuple[int, ...], int] = field(default_factory=dict)

    def number(self, filename: str, line: int) -> int:
        """The number of a line."""
        return self.numbers.setdefault((filename, line), len(self.numbers))

    def link(self, place: errors.Place | None) -> int:
        """The link of what comes from a place: its lines, and the calls that led there; -1 for none."""
        if place is None:
            return -1
        lines = [
            (each.filename, line)
            for each in (place, *place.callers())
            for line in range(each.line, max(each.line, each.end_line) + 1)
        ]
        return self.link_of(lines)

    def link_of(self, lines: Iterable[_Line]) -> int:
        """The link of some lines; -1 for none."""
        found = tuple(sorted({self.number(*line) for line in lines}))
        return self.links.setdefault(found, len(self.links)) if found else -1

    def files(self) -> tuple[str, ...]:
        """The files that lines are of, in the order of their first numbers."""
        return tuple(dict.fromkeys(filename for filename, _ in self.numbers))

    def all(self) -> tuple[Place, ...]:
        """All lines by their numbers."""
        files = {filename: number for number, filename in enumerate(self.files())}
        return tuple(Place(files[filename], line) for filename, line in self.numbers)

    def source(self, known: dict[_Line, str]) -> Pane:
        """The person's lines: the functions that hold them; of ``known`` ones the text is as given."""
        wanted = [*known, *self.numbers]
        texts: list[str] = []
        links: list[int] = []
        for filename in dict.fromkeys(filename for filename, _ in wanted):
            others = [line for name, line in self.numbers if name == filename and (name, line) not in known]
            lines = sorted(
                {*(line for name, line in known if name == filename), *_functions(filename, others)}
            )
            if len({name for name, _ in wanted}) > 1:
                texts.append(f"# {os.path.basename(filename)}")
                links.append(-1)
            before = lines[0] - 1
            for line in lines:
                if line > before + 1:
                    texts.append("")
                    links.append(-1)
                before = line
                written = known.get((filename, line), linecache.getline(filename, line))
                texts.append(written.rstrip("\r\n").expandtabs(4))
                links.append(self.link_of([(filename, line)]))
        return Pane("source", "Python, as written", "python", tuple(texts), tuple(links))


def _functions(filename: str, lines: Iterable[int]) -> Iterator[int]:
    """Some lines of a file, and all of the innermost functions that hold them."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        tree = ast.Module([], [])
    spans = [
        (min([node.lineno, *(each.lineno for each in node.decorator_list)]), node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    for line in lines:
        yield line
        # The innermost one: what is around a kernel that a function makes is not part of it.
        around = [span for span in spans if span[0] <= line <= span[1]]
        if around:
            first, last = max(around)
            yield from range(first, last + 1)
