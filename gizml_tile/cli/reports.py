"""What ``--json`` prints: each record is an object with its fields, in their order, and a tuple is an array.

``preview --json`` prints an object of texts by kernel. Fields may be added; those that are here keep their
names and meanings. Times are in seconds, sizes in bytes, lines and columns count from 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.errors import Place


@dataclass(frozen=True, slots=True)
class Line:
    """A place in the person's source."""

    file: str
    line: int
    column: int

    @staticmethod
    def of(place: Place | None) -> Line | None:
        """The place as a report has it."""
        return None if place is None else Line(place.filename, place.line, place.column)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Text:
    """``source``: a launch's text for a target, and what it is written in."""

    kernel: str
    kind: str
    arch: str
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class IrTensor:
    """``ir``: a tensor of the program, by its number in the array, or one of its numbers (of rank 0)."""

    name: str
    dtype: str
    rank: int
    written: bool


@dataclass(frozen=True, slots=True)
class IrNode:
    """``ir``: a node, as the table of `gizml_tile.nodes` describes it.

    ``operands`` are numbers of nodes, and so are ``results``, what each region of a loop or branch gives.
    ``shape`` is empty and ``dtype`` i64 for an index, and both are empty for a node without a value.
    ``parent`` is the node in whose region it stands, null at the top.
    """

    number: int
    op: str
    attribute: str
    operands: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str
    layout: str
    parent: int | None
    results: tuple[tuple[int, ...], ...]
    place: Line | None


@dataclass(frozen=True, slots=True)
class IrProgram:
    """``ir``: a program, as text too."""

    name: str
    tensors: tuple[IrTensor, ...]
    nodes: tuple[IrNode, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Ir:
    """``ir``: the tile IR of a launch for a target: mostly one program, or several that run in order."""

    kernel: str
    kind: str
    arch: str
    programs: tuple[IrProgram, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """``explain``: what a person is told under a title, line by line."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """``explain``: a way to make an operation, whether it would do, and why or why not."""

    name: str
    accepted: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Variants:
    """``explain``: how ``what`` of an operation of the person's may be made, best first, and is made."""

    place: Line | None
    operation: str
    what: str
    chosen: str
    candidates: tuple[Variant, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """``explain``: a line that takes a notable share of the launch and need not, and what to do about it."""

    place: Line | None
    kind: str
    text: str
    fix: str
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class Resource:
    """``explain``: how long a launch keeps something busy, at its full rate."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Explained:
    """``explain``. ``spent`` is empty for the CPU, and where it is not known; its longest bounds the launch.

    ``measured_seconds`` is null unless ``--measure`` asked for it.
    """

    kernel: str
    kind: str
    arch: str
    sections: tuple[Section, ...]
    variants: tuple[Variants, ...]
    costs: tuple[Cost, ...]
    spent: tuple[Resource, ...]
    measured_seconds: float | None


@dataclass(frozen=True, slots=True)
class Found:
    """Something that ``check`` found: ``kind`` is ``error``, ``warning``, or that of a simulator's finding.

    ``severity`` is ``wrong``, ``warning`` or ``cost``; ``excerpt`` has the line of the source with a caret,
    where there is more to it than the place; ``count`` says how often it was met.
    """

    kind: str
    severity: str
    place: Line | None
    text: str
    excerpt: str
    count: int


@dataclass(frozen=True, slots=True)
class Checked:
    """``check`` of one target. ``ran`` is ``simulated``, ``run`` (the CPU) or ``no``, and ``why`` not.

    ``printed`` is what ``p.print`` said.
    """

    kind: str
    arch: str
    ran: str
    why: str
    found: tuple[Found, ...]
    printed: str

    def count(self, severity: str) -> int:
        """How many findings have a severity."""
        return sum(each.severity == severity for each in self.found)


@dataclass(frozen=True, slots=True)
class Check:
    """``check``: all targets, in the order in which they were asked for, and the exit status."""

    kernel: str
    seed: int
    strict: bool
    status: int
    targets: tuple[Checked, ...]


@dataclass(frozen=True, slots=True)
class Cpu:
    """``devices``: this computer's CPU, what code for it may use, and how many threads a launch has."""

    name: str
    arch: str
    features: tuple[str, ...]
    vector_bits: int
    threads: int
    cache_bytes: tuple[int, int, int]
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """``devices``: a GPU. Where launches cannot use it, ``arch`` may be empty and ``problem`` says why."""

    device: str
    name: str
    arch: str
    units: int
    memory_bytes: int | None
    driver: str
    problem: str


@dataclass(frozen=True, slots=True)
class Missing:
    """``devices``: why there is no device of a kind, or what is wanting, and what to do."""

    kind: str
    problem: str


@dataclass(frozen=True, slots=True)
class Devices:
    """``devices``: what is here. ``assembler`` is the path of ``ptxas``, null where the driver assembles."""

    cpu: Cpu | None
    gpus: tuple[Gpu, ...]
    missing: tuple[Missing, ...]
    assembler: str | None


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """``cache list``: a file of the cache, what it holds, and when it was used, in seconds since 1970."""

    file: str
    holds: str
    bytes: int
    used: float


@dataclass(frozen=True, slots=True)
class Cache:
    """``cache``: where entries are kept (null: turned off), what they take and may take, how many went.

    ``entries`` is null where only sizes were asked for.
    """

    folder: str | None
    count: int
    bytes: int
    limit_bytes: int
    removed: int
    entries: tuple[CacheEntry, ...] | None


# What a ceiling and a rate measured a moment later may differ by.
_CLEARLY = 1.1


@dataclass(frozen=True, slots=True)
class Rate:
    """``bench``: what a launch does of one thing, and how fast, beside the device's measured ceiling.

    ``name`` is ``memory`` (the amount is bytes), a type whose matrix products are counted, or ``others``
    (operations on elements, beside the ceiling of F32). ``ceiling_per_second`` is null where not measured.
    """

    name: str
    amount: float
    per_second: float
    ceiling_per_second: float | None

    @property
    def is_above(self) -> bool:
        """Whether it is clearly faster than the ceiling, as memory is that caches hold."""
        return self.ceiling_per_second is not None and self.per_second > _CLEARLY * self.ceiling_per_second

    @property
    def least_seconds(self) -> float:
        """How long the amount takes at the ceiling; 0 where that is not known or does not hold."""
        if not self.ceiling_per_second or self.is_above:
            return 0
        return self.amount / max(self.ceiling_per_second, self.per_second)


@dataclass(frozen=True, slots=True)
class Bench:
    """``bench``: launches on random tensors. Rates are of the median, and empty where amounts are not known.

    ``ceiling_bound`` is the longest that one of the rates takes at its ceiling, but for rates above theirs;
    ``explained_bound`` is what ``explain`` tells for a GPU, by its data sheet. Either may be null.
    """

    kernel: str
    device: str
    name: str
    arch: str
    grid: tuple[int, ...]
    runs: int
    median_seconds: float
    quartile_seconds: tuple[float, float]
    fastest_seconds: float
    slowest_seconds: float
    rates: tuple[Rate, ...]
    ceiling_bound_seconds: float | None
    explained_bound_seconds: float | None
