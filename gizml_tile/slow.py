"""The warnings about what takes a notable share of a launch's time on a GPU and need not.

They are told where code is compiled, once for each line, and whenever a launch is checked. As all warnings of
this library they are `TileWarning`, which Python's own filters silence: ``warnings.filterwarnings("ignore",
category=...)`` with the category ``gizml_tile.errors.TileWarning``, or from a shell ``python -W
ignore::gizml_tile.errors.TileWarning``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from gizml_tile.errors import TileWarning


@dataclass(frozen=True, slots=True)
class Slow:
    """A line that is slow in a way, with the warning about it."""

    kind: str
    filename: str
    line: int
    message: str

    @property
    def key(self) -> tuple[str, str, int]:
        """What is told once."""
        return self.kind, self.filename, self.line


def warn_slow(found: Iterable[Slow], told: set[tuple[str, str, int]]) -> None:
    """Warn at the person's lines, but for what was ``told`` before."""
    for each in found:
        if each.key not in told:
            told.add(each.key)
            warnings.warn_explicit(each.message, TileWarning, each.filename, each.line)
