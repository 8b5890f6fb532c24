"""Launches: which trace a launch uses, what code that needs, and where the arguments go in it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gizml_tile.captures import Reading
from gizml_tile.errors import TileError, here
from gizml_tile.grids import Grid
from gizml_tile.nodes import TileProgram
from gizml_tile.ragged import Ragged
from gizml_tile.recording import Site
from gizml_tile.runtime.tensors import TensorInfo, check_output, may_overlap
from gizml_tile.target import require_launches

# A launch that finds more traces than this of one body forgets the oldest.
_TRACES = 1024
# A host table that the body may read is compared by content up to this many bytes.
_TABLE_BYTES = 1 << 16

_lock = threading.RLock()


def lock() -> threading.RLock:
    """Held while a body is traced and compiled, so that threads that race compile once."""
    return _lock


class State:
    """Whether some thread is tracing: then launches take the long way, which refuses those in a trace."""

    tracing = False


@contextmanager
def tracing() -> Iterator[None]:
    """Hold the lock while a body is traced."""
    with _lock:
        outer, State.tracing = State.tracing, True
        try:
            yield
        finally:
            State.tracing = outer


def _after_fork() -> None:
    # Another thread of the parent may have held the lock, and does not exist in the child.
    global _lock
    _lock = threading.RLock()
    State.tracing = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class CacheInfo(NamedTuple):
    """How often a launch found its compiled code in memory, how often not, and how much there is."""

    hits: int
    misses: int
    size: int


@dataclass(frozen=True, slots=True)
class Layout:
    """What code is compiled for beside the program: strides of its tensors, the grid's rank, aliasing.

    Each stride is ``"unit"``, ``"zero"`` or ``"any"``; ``may_alias`` says that a written tensor's memory
    meets another tensor's.
    """

    strides: tuple[tuple[str, ...], ...]
    grid_rank: int
    may_alias: bool


@dataclass(frozen=True, slots=True)
class Source:
    """Where a trace's tensor or number comes from at a launch: a leaf of the arguments, or captured."""

    captured: bool
    number: int


@dataclass(slots=True)
class Variant:
    """One trace of a body: its tensors and numbers by source, and the code compiled for each layout.

    A tensor without a source (the body made it) stands for itself. The program is None while only
    another process has traced it; ``digest`` names it on disk. ``simplified`` has the program after the
    passes, by whether tensors may share memory. ``tables`` are the captured host arrays
    that the body may have looked into, by content. The launch brings tensor number ``records``, which has no
    source, for what the ``sites`` print and check. ``told`` are the warnings about slow lines
    that were given. ``exact`` tells that it has sums which several programs make (gizml_tile/exact.py).
    """

    name: str
    tensors: tuple[Any, ...]
    scalars: tuple[Source | int | float, ...]
    writes: tuple[int, ...]
    program: TileProgram | None
    digest: str
    tables: tuple[tuple[int, bytes], ...] = ()
    ragged: tuple[Ragged, ...] = ()
    records: int | None = None
    sites: tuple[Site, ...] = ()
    told: set[tuple[str, str, int]] = field(default_factory=set)
    untold: set[Hashable] = field(default_factory=set)
    exact: bool = False
    built: dict[Hashable, Callable[..., None]] = field(default_factory=dict)
    simplified: dict[bool, TileProgram] = field(default_factory=dict)

    @property
    def written(self) -> frozenset[int]:
        """The numbers of the tensors that are written."""
        return frozenset(self.writes)


class Traces:
    """The traces of one body, by what they rest on, with the counts that ``cache_info`` gives."""

    __slots__ = ("hits", "misses", "variants")

    def __init__(self) -> None:
        self.variants: dict[Hashable, list[Variant]] = {}
        self.hits = 0
        self.misses = 0

    def find(self, key: Hashable, reading: Reading) -> Variant | None:
        """The trace that a launch with this key and these captured values may reuse."""
        for variant in self.variants.get(key, ()):
            if all(_table(reading, number) == content for number, content in variant.tables):
                return variant
        return None

    def keep(self, key: Hashable, variant: Variant) -> None:
        """Remember a trace for later launches."""
        while len(self.variants) >= _TRACES:
            self.variants.pop(next(iter(self.variants)))
        self.variants.setdefault(key, []).insert(0, variant)

    def info(self) -> CacheInfo:
        """Hits, misses and how many pieces of code are kept."""
        kept = [variant for variants in self.variants.values() for variant in variants]
        return CacheInfo(self.hits, self.misses, sum(len(variant.built) for variant in kept))


def tables(
    reading: Reading, written: frozenset[int], used: frozenset[int]
) -> tuple[tuple[int, bytes], ...] | None:
    """The captured arrays that the body may have looked into; None where they are too large to compare.

    ``written`` and ``used`` are the numbers of captured tensors that the trace writes, and reads or writes.
    """
    found: list[tuple[int, bytes]] = []
    for number in sorted(reading.whole - written):
        content = _table(reading, number)
        if content is not None:
            found.append((number, content))
        elif number not in used:
            return None
    return tuple(found)


def _table(reading: Reading, number: int) -> bytes | None:
    tensor: Any = reading.tensors[number]
    if isinstance(tensor, np.ndarray) and tensor.nbytes <= _TABLE_BYTES:
        return tensor.tobytes()
    return None


def layout(infos: Sequence[TensorInfo], writes: frozenset[int], grid: Grid) -> Layout:
    """The layout that a launch's tensors have."""
    may_alias = any(
        may_overlap(infos[number], other)
        for number in writes
        for place, other in enumerate(infos)
        if place != number
    )
    return Layout(tuple(strides(info.shape, info.strides) for info in infos), len(grid), may_alias)


def strides(shape: tuple[int, ...], steps: tuple[int, ...]) -> tuple[str, ...]:
    """Each dimension's kind of stride; a dimension of size 1 has no step, so it may be of any kind."""
    kinds = ["zero" if step == 0 and size > 1 else "any" for size, step in zip(shape, steps, strict=True)]
    last = len(shape) - 1
    order = [last, *range(last)] if shape else []
    for axis in order:
        if (steps[axis] == 1 and shape[axis] > 1) or (axis == last and shape[axis] <= 1):
            kinds[axis] = "unit"
            break
    return tuple(kinds)


def check(name: str, names: Sequence[str], infos: Sequence[TensorInfo], writes: frozenset[int]) -> str:
    """The device of a launch's tensors. Raises TileError where they cannot be launched together."""
    for number in sorted(writes):
        check_output(infos[number], f"{names[number]} of {name}")
    if not infos:
        return "cpu"
    device = infos[0].device
    for number, info in enumerate(infos):
        if info.device != device:
            raise TileError(
                f"{name}: {names[0]} is on {device} and {names[number]} on {info.device}; all tensors of a "
                "launch are on one device, so move one of them",
                here(),
            )
    require_launches(device.partition(":")[0])
    return device


def is_empty(infos: Sequence[TensorInfo], writes: frozenset[int], grid: Grid) -> bool:
    """Whether a launch has nothing to do: no program, or nothing that it could write."""
    return 0 in grid or all(0 in infos[number].shape for number in writes)
