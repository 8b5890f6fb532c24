"""How long a launch takes at full rates, of which each piece of advice names a share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gizml_tile.errors import Place
from gizml_tile.lowering.kernel_ir.instructions import Kernel
from gizml_tile.lowering.planning.plan import Plan
from gizml_tile.lowering.planning.turns import turns
from gizml_tile.lowering.work import (
    Launch,
    Lines,
    busy_units,
    launch_lines,
    launch_seconds,
    launch_work,
)
from gizml_tile.nodes import Node, Region
from gizml_tile.text import line_of

WRITE_APART = "write to a tensor that has memory of its own"
# So many lines are named as those that take most, of at least such a share.
_MOST_LINES, _LEAST_SHARE = 3, 0.1


@dataclass(frozen=True, slots=True)
class Advice:
    """Something slow of a plan: what it is and why, at a line, and what the person can do about it.

    ``kind`` names it: "scalar copy", "slow loop", "conversion", "bank conflict", "replicated work", "spill",
    "few stages" or "few programs". It takes so many ``seconds`` of a launch, by the rates of the device,
    which is so large a ``share`` of the time that it takes. These are ``beyond`` the bound of the launch
    where that does not count them.
    """

    kind: str
    place: Place | None
    text: str
    fix: str
    seconds: float
    beyond: bool = False
    share: float = 0


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a launch does by the lines of its program, and the ``seconds`` of each resource for that."""

    plan: Plan
    kernel: Kernel
    launch: Launch
    lines: Lines
    seconds: Mapping[str, float]
    loops: Mapping[Node, Node | None]
    turns: Mapping[Node, int]

    @property
    def busy(self) -> int:
        """The multiprocessors that have programs."""
        return busy_units(self.plan, self.launch)

    @property
    def bound(self) -> float:
        """The seconds of the resource that takes longest."""
        return max(self.seconds.values(), default=0)

    def runs(self, node: Node) -> float:
        """How often all programs together run a node."""
        loop = self.loops.get(node)
        return self.launch.programs if loop is None else self.turns_of(loop)

    def turns_of(self, loop: Node) -> int:
        """The turns of a loop in all programs together."""
        return self.turns.get(loop, 0)

    def cycles(self, node: Node, each: float) -> float:
        """The seconds of so many cycles of a multiprocessor, each time that a node runs."""
        return each * self.runs(node) / self.busy / self.plan.target.facts.clock

    def moved(self, node: Node, bytes: float) -> float:
        """The seconds of so many bytes of the device's memory, each time that a node runs."""
        return bytes * self.runs(node) / self.plan.target.facts.memory_rate

    def issued(self, place: Place | None) -> float:
        """The seconds in which the instructions of an expression are issued."""
        work = self.lines.get(place)
        facts = self.plan.target.facts
        cycles = 0 if work is None else work.instructions * facts.lanes / facts.multiply_adds
        return cycles / facts.clock / self.busy

    def most_of(self, resource: str) -> list[tuple[str, float]]:
        """The lines that take most of a resource, with their shares of it, but for small ones."""
        spent: dict[str, float] = {}
        for place, work in self.lines.items():
            line = line_of(place)
            spent[line] = spent.get(line, 0) + work.seconds(self.plan.target).get(resource, 0)
        whole = sum(spent.values())
        shares = [(line, time / whole) for line, time in spent.items() if line and whole]
        most = sorted(shares, key=lambda each: -each[1])[:_MOST_LINES]
        return [(line, share) for line, share in most if share >= _LEAST_SHARE]


def predict(plan: Plan, kernel: Kernel, launch: Launch) -> Prediction | None:
    """The prediction for a launch; None where it does nothing, or nobody knows how many turns loops take."""
    lines = launch_lines(plan, kernel, launch) if launch.programs else None
    if lines is None:
        return None
    seconds = launch_seconds(plan, launch_work(lines, launch), launch)
    found = turns(plan.program, launch.shapes, launch.grid, launch.scalars)
    return Prediction(plan, kernel, launch, lines, seconds, enclosing(plan.program.body), found)


def enclosing(region: Region) -> dict[Node, Node | None]:
    """The innermost loop around each node of a region."""
    found: dict[Node, Node | None] = {}

    def visit(region: Region, loop: Node | None) -> None:
        for node in region.nodes:
            found[node] = loop
            for inner in node.regions:
                visit(inner, node if node.op == "loop" else loop)

    visit(region, None)
    return found
