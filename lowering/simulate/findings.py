"""What a simulation has to tell about a kernel, at the person's lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gizml_tile.errors import Place
from gizml_tile.lowering.kernel_ir.instructions import Instruction

COSTS = frozenset({"bank conflict", "uncoalesced"})

# What to do about a finding; of the others no program is to blame.
_FIXES = {
    "uncoalesced": (
        "let blocks go along the axis of the tensor that is contiguous in memory, by 32 bytes at least, or "
        "copy the tensor first"
    ),
    "bank conflict": (
        "give tensors that meet the same order of axes in memory, or use smaller blocks, which registers hold"
    ),
    "endless": "let the condition of the while loop become false, or bound it by a number of turns",
    "check": "",  # whoever wrote it knows
}
ADDED = "add up more in each program first, in a tile, so that fewer programs add to the tensor"
ENDS = (
    "only blocks that reach past an end of the tensor go so, and larger tensors have fewer of them; where "
    "blocks do not divide its size, choose some that do"
)
BETWEEN_PROGRAMS = (
    "the programs of a launch run in any order: write to another tensor than is read, or let each program "
    "read what it writes alone"
)
BOTH_WRITE = (
    "the programs of a launch run in any order: let each write elements of its own, or add with scatter_add"
)
_OURS = "this is a mistake of the compiler and not of the program; please report it with the kernel"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a kernel does wrong, or slower than it could.

    ``kind`` is "race", "unwritten", "in flight", "out of bounds", "misaligned", "divergent barrier",
    "divergent", "deadlock", "endless" (a ``while`` loop), "check" (a ``p.check`` that fails), or a cost:
    "bank conflict", "uncoalesced" (where a fifth of what memory moves is for nothing).
    ``text`` says what happened, ``fix`` what to do about it where its kind does not tell.
    ``count`` tells how often: of costs, how many more wavefronts or sectors than there had to be.
    """

    kind: str
    place: Place | None
    text: str
    count: int
    fix: str = ""

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

    @property
    def told(self) -> str:
        """What happened, and what to do about it."""
        fix = self.fix or _FIXES.get(self.kind, _OURS)
        return f"{self.text}; {fix}" if fix else self.text

    def __str__(self) -> str:
        return f"{self.place or '(no line)'}: {self.kind}: {self.told}"


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


# What costs are counted in: turns of the banks, and what memory moves at least.
_UNITS = {"bank conflict": "turns of the banks", "uncoalesced": "pieces of 32 bytes"}
# How many times what had to be is worth a word: of pieces that are moved a fifth is for nothing.
_NOTABLE = {"bank conflict": 1.0, "uncoalesced": 1.25}


@dataclass(slots=True)
class Log:
    """Collects findings: one for each kind and place, with the text of the first."""

    texts: dict[tuple[str, Place | None], str] = field(default_factory=dict)
    counts: dict[tuple[str, Place | None], int] = field(default_factory=dict)
    fixes: dict[tuple[str, Place | None], str] = field(default_factory=dict)
    costs: dict[tuple[str, Place | None], list[int]] = field(default_factory=dict)
    seen: dict[tuple[str, Place | None], str] = field(default_factory=dict)

    def add(self, kind: str, at: Instruction, text: str, count: int = 1, fix: str = "") -> None:
        """Record a mistake, ``count`` times, with what to do where its kind does not tell."""
        key = (kind, at.place)
        self.texts.setdefault(key, f"{at.op}: {text}")
        self.fixes.setdefault(key, fix)
        self.counts[key] = self.counts.get(key, 0) + count

    def cost(self, kind: str, at: Instruction, actual: int, ideal: int) -> bool:
        """Record what an instruction took and what it would take at best; whether to say how with `show`."""
        key = (kind, at.place)
        total = self.costs.setdefault(key, [0, 0])
        total[0] += actual
        total[1] += ideal
        return actual > ideal and key not in self.seen

    def show(self, kind: str, at: Instruction, text: str, fix: str = "") -> None:
        """Say what an instruction does that costs more than it need, and as for mistakes what to do."""
        self.seen.setdefault((kind, at.place), text)
        self.fixes.setdefault((kind, at.place), fix)

    def findings(self) -> Findings:
        """What was recorded so far."""
        wrong = [
            Finding(kind, place, text, self.counts[kind, place], self.fixes[kind, place])
            for (kind, place), text in self.texts.items()
        ]
        slow = [
            self._cost(kind, place, actual, ideal)
            for (kind, place), (actual, ideal) in self.costs.items()
            if actual > _NOTABLE[kind] * ideal
        ]
        return Findings((*wrong, *slow))

    def _cost(self, kind: str, place: Place | None, actual: int, ideal: int) -> Finding:
        text = f"{self.seen[kind, place]}: in all {actual} {_UNITS[kind]} where {ideal} would do"
        return Finding(kind, place, text, actual - ideal, self.fixes[kind, place])

    def copy(self) -> Log:
        """The same records, to go back to."""
        costs = {key: list(each) for key, each in self.costs.items()}
        return Log(dict(self.texts), dict(self.counts), dict(self.fixes), costs, dict(self.seen))
