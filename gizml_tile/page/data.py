"""What a page shows, as plain values: each becomes an object of JSON with the same names.

Lines of the person's program have numbers of their own on a page, their *places*; each line of every text has
the number of its *link*: the places that it comes from. So lines belong together that have a place in common.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pane:
    """A text with the link of each of its lines, -1 for those that come from nowhere in the program.

    ``drawings`` are the numbers of the page's drawings that are of a line, by the line's number.
    """

    name: str
    title: str
    language: str
    lines: tuple[str, ...]
    links: tuple[int, ...]
    drawings: dict[int, tuple[int, ...]] = field(default_factory=dict)


Bases = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Registers:
    """A tile in registers: the (row, column) of each bit of register, lane and warp, combined by XOR."""

    register: Bases
    lane: Bases
    warp: Bases


@dataclass(frozen=True, slots=True)
class Memory:
    """A tile in workgroup memory: the offset in elements of each bit of row and column, combined by XOR."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    element_bytes: int
    banks: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """A layout of tiles of one shape and type: what it is called, what it is for, and the lines it is of."""

    title: str
    uses: tuple[str, ...]
    shape: tuple[int, int]
    dtype: str
    links: tuple[int, ...]
    layout: Registers | Memory


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to carry out an operation: whether it was ``chosen``, ``would do``, or ``no``, and why."""

    name: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about an operation: its variants, best first, or a remark."""

    title: str
    link: int
    variants: tuple[Variant, ...]
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """What takes a ``share`` of a launch's time and need not, and what to do about it."""

    text: str
    fix: str
    share: float
    link: int


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the plan in words."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that threads do in a turn of a loop; its kind is fill, wait, meet, read, multiply or free.

    Neighbours with the same number of ``times`` above 1 are done in turn, so often.
    """

    kind: str
    text: str
    link: int
    times: int


@dataclass(frozen=True, slots=True)
class Track:
    """What the threads of one role do in each turn, in order."""

    title: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """How a loop's blocks come to workgroup memory: in ``slots``, begun ``ahead`` turns before they are read.

    The first ones are begun ``before`` the loop. A slot is free ``kept`` turns after its block was read.
    """

    title: str
    link: int
    blocks: tuple[str, ...]
    slots: int
    ahead: int
    before: int
    kept: int
    tracks: tuple[Track, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the person's: the number of its file in the page, and of the line."""

    file: int
    line: int


@dataclass(frozen=True, slots=True)
class Page:
    """All of a page."""

    title: str
    target: str
    facts: tuple[str, ...]
    files: tuple[str, ...]
    places: tuple[Place, ...]
    links: tuple[tuple[int, ...], ...]
    panes: tuple[Pane, ...]
    drawings: tuple[Drawing, ...] = ()
    costs: tuple[Cost, ...] = ()
    decisions: tuple[Decision, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    plan: tuple[Section, ...] = ()
