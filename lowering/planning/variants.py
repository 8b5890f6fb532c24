"""Which of an operation's variants is taken: the first that serves, or the one that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from gizml_tile.errors import Place, TileError
from gizml_tile.nodes import Node


class Cause(Enum):
    """What forbids a wider access, for those who tell a person what to do."""

    STRIDES = auto()  # no axis of the block is contiguous in memory
    EXTENT = auto()  # the block is too small
    LAYOUT = auto()  # threads have too few neighbours of the tile
    ALIGNMENT = auto()  # address and strides
    OFFSET = auto()  # where the block begins, or the size
    PAD = auto()  # what is read outside the tensor
    BRANCH = auto()  # it is only done where a branch is taken
    OVERLAP = auto()  # what is written shares memory with something else
    DEVICE = auto()  # what the device lacks


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a variant cannot serve, and for which access."""

    cause: Cause
    text: str
    node: Node | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant that was considered: accepted, or why not."""

    name: str
    accepted: bool
    reason: str
    refusal: Refusal | None = None

    @staticmethod
    def of(name: str, refusal: str | Refusal | None, told: str = "") -> Candidate:
        """One that serves if nothing refuses it, with what is ``told`` of it then."""
        if refusal is None:
            return Candidate(name, True, told)
        if isinstance(refusal, str):
            return Candidate(name, False, refusal)
        return Candidate(name, False, refusal.text, refusal)


@dataclass(frozen=True, slots=True)
class Choice:
    """The variants of one operation, best first, and the one that was chosen."""

    candidates: tuple[Candidate, ...]
    chosen: str

    def verdict(self, candidate: Candidate) -> str:
        """What became of a candidate: it was chosen, it would do, or no."""
        if candidate.name == self.chosen:
            return "chosen"
        return "would do" if candidate.accepted else "no"


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
