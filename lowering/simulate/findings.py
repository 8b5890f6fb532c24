"""What a simulation has to tell about a kernel, at the person's lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gizml_tile.errors import Place
from gizml_tile.lowering.kernel_ir.instructions import Instruction

COSTS = frozenset({"bank conflict", "uncoalesced"})


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a kernel does wrong, or slower than it could.

    ``kind`` is "race", "unwritten", "in flight", "out of bounds", "misaligned", "divergent barrier",
    "divergent", "deadlock", "endless" (a ``while`` loop), "check" (a ``p.check`` that fails), or a cost:
    "bank conflict", "uncoalesced".
    ``count`` tells how often: of costs, how many more wavefronts or sectors than there had to be.
    """

    kind: str
    place: Place | None
    text: str
    count: int

    @property
    def file(self) -> str:
        """The person's file; empty where the kernel was not made from one."""
        return self.place.filename if self.place else ""

    @property
    def line(self) -> int:
        """The person's line, from 1; 0 where there is none."""
        return self.place.line if self.place else 0

    @property
    def is_cost(self) -> bool:
        """Whether it makes a kernel slower, but not wrong."""
        return self.kind in COSTS

    def __str__(self) -> str:
        return f"{self.place or '(no line)'}: {self.kind}: {self.text}"


@dataclass(frozen=True, slots=True)
class Findings:
    """All that a simulation found, in the order in which it was met."""

    found: tuple[Finding, ...]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __str__(self) -> str:
        return "\n".join(map(str, self.found))

    def of(self, kind: str) -> tuple[Finding, ...]:
        """The findings of one kind."""
        return tuple(finding for finding in self.found if finding.kind == kind)

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """The findings that are mistakes, not costs."""
        return tuple(finding for finding in self.found if not finding.is_cost)


@dataclass(slots=True)
class Log:
    """Collects findings: one for each kind and place, with the text of the first."""

    texts: dict[tuple[str, Place | None], str] = field(default_factory=dict)
    counts: dict[tuple[str, Place | None], int] = field(default_factory=dict)
    costs: dict[tuple[str, Place | None], list[int]] = field(default_factory=dict)

    def add(self, kind: str, at: Instruction, text: str, count: int = 1) -> None:
        """Record a mistake, ``count`` times."""
        key = (kind, at.place)
        self.texts.setdefault(key, f"{at.op}: {text}")
        self.counts[key] = self.counts.get(key, 0) + count

    def cost(self, kind: str, at: Instruction, actual: int, ideal: int) -> None:
        """Record what an instruction took and what it would take at best."""
        total = self.costs.setdefault((kind, at.place), [0, 0])
        total[0] += actual
        total[1] += ideal

    def findings(self) -> Findings:
        """What was recorded so far."""
        wrong = [
            Finding(kind, place, text, self.counts[kind, place]) for (kind, place), text in self.texts.items()
        ]
        unit = {"bank conflict": "wavefronts", "uncoalesced": "sectors"}
        slow = [
            Finding(kind, place, f"{actual} {unit[kind]} where {ideal} would do", actual - ideal)
            for (kind, place), (actual, ideal) in self.costs.items()
            if actual > ideal
        ]
        return Findings((*wrong, *slow))

    def copy(self) -> Log:
        """The same records, to go back to."""
        return Log(dict(self.texts), dict(self.counts), {key: list(each) for key, each in self.costs.items()})
