"""Which of an operation's variants is taken: the first that serves, or the one that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gizml_tile.errors import Place, TileError


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant that was considered: accepted, or why not."""

    name: str
    accepted: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The variants of one operation, best first, and the one that was chosen."""

    candidates: tuple[Candidate, ...]
    chosen: str


def choose(
    operation: str, candidates: Sequence[Candidate], forced: str | None, place: Place | None = None
) -> str:
    """The name of the variant to take of those of an operation, best first.

    Raises TileError where the ``forced`` one cannot serve, naming those that can.
    """
    serving = [each.name for each in candidates if each.accepted]
    if forced is None or forced in serving:
        return forced or serving[0]
    reasons = [each.reason for each in candidates if each.name == forced]
    why = reasons[0] if reasons else "there is no such variant"
    others = f"variants that can: {', '.join(serving)}" if serving else "no variant can; use smaller blocks"
    raise TileError(f"{operation} cannot be made by {forced!r}: {why}; {others}", place)
