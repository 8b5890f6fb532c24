"""What is known at one point of a function, and where loops and branches were met."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gizml_tile.frontend.kinds import Kind, join


class Mode(Enum):
    """How a loop over ``range`` runs: on the device, as Python's, or told when it is met."""

    DEVICE = "device"
    PYTHON = "python"
    EITHER = "either"


@dataclass
class State:
    """What names may hold at one point; ``definite`` are those bound on every way here."""

    kinds: dict[str, Kind]
    definite: set[str]
    ended: bool = False

    def copy(self) -> State:
        """The same state, to be changed by itself."""
        return State(dict(self.kinds), set(self.definite), self.ended)

    def meet(self, other: State) -> None:
        """Become what holds where this way and another meet."""
        if other.ended:
            return
        if self.ended:
            self.kinds, self.definite, self.ended = other.kinds, other.definite, False
            return
        for name in self.kinds.keys() | other.kinds.keys():
            self.kinds[name] = join(self.kinds.get(name), other.kinds.get(name))
        self.definite &= other.definite


@dataclass(frozen=True)
class Meeting:
    """A loop or branch as the walk met it: the names that may be, and those that are, bound before it.

    ``given`` are names that every arm of a branch binds.
    """

    bound: frozenset[str]
    definite: frozenset[str]
    carried: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()
