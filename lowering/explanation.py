"""What is told of a plan, as values: sections of text for a person, and for programs what they rest on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gizml_tile.errors import Place
from gizml_tile.lowering.advice import Advice
from gizml_tile.lowering.planning.variants import Choice
from gizml_tile.text import duration

# The title of the section of what `Explanation.decisions` has as data.
VARIANTS = "Variants, best first"


@dataclass(frozen=True, slots=True)
class Section:
    """Lines under a title; the text of a CPU's plan is one section without a title."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """Which variants were considered for an operation of the person's, and which was chosen."""

    place: Place | None
    operation: str
    what: str
    choice: Choice


@dataclass(frozen=True, slots=True)
class Bound:
    """The least time that a launch takes: how long each resource is busy at its full rate, in seconds."""

    programs: int
    spent: Mapping[str, float]

    @property
    def resource(self) -> str:
        """What takes longest."""
        return max(self.spent, key=lambda name: self.spent[name])

    @property
    def seconds(self) -> float:
        """How long that takes."""
        return self.spent[self.resource]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan in words. ``head`` names program and target; ``measured`` is the time of a launch in seconds."""

    head: str
    sections: tuple[Section, ...]
    decisions: tuple[Decision, ...] = ()
    costs: tuple[Advice, ...] = ()
    bound: Bound | None = None
    measured: float | None = None

    def __str__(self) -> str:
        lines = [self.head] if self.head else []
        for section in self.sections:
            if section.title:
                lines += ["", section.title, *(f"  {line}" for line in section.lines)]
            else:
                lines += section.lines
        return "\n".join(lines) + "\n"


def joined(parts: Sequence[Explanation], measured: float | None) -> Explanation:
    """What is told of a launch's programs that run one after the other, of which all were ``measured``."""
    sections: list[Section] = []
    for number, each in enumerate(parts):
        sections += [Section("", ("",) * bool(number) + (each.head,)), *each.sections]
    if measured is not None:
        sections.append(Section("", ("", f"measured: {duration(measured)} for all of them")))
    bounds = [each.bound for each in parts if each.bound is not None]
    spent: Counter[str] = Counter()
    for bound in bounds:
        spent.update(bound.spent)
    return Explanation(
        "",
        tuple(sections),
        tuple(decision for each in parts for decision in each.decisions),
        tuple(advice for each in parts for advice in each.costs),
        Bound(sum(bound.programs for bound in bounds), spent) if bounds else None,
        measured,
    )
