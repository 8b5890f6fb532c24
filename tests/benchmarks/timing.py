"""Candidates take turns; a turn starts after a pause and a call that warms its threads."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# Other libraries' threads spin for a while after a call: OpenBLAS's for 2^26 cycles.
PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class Case:
    """One line of the table: what is done, how much of it, by whom; peers may be None where missing."""

    name: str
    work: float
    unit: str
    ours: Callable[[], object]
    peers: Mapping[str, Callable[[], object]]
    error: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0)  # (found, allowed), before timing


@dataclass(frozen=True)
class Line:
    """A measured case: seconds of each candidate and, for each peer, the median ratio of the rounds."""

    name: str
    threads: int
    unit: str
    work: float
    seconds: dict[str, float]
    ratios: dict[str, float]
    error: float
    allowed: float

    def shown(self, name: str) -> str:
        """A candidate's rate, or its time where the work has no amount."""
        seconds = self.seconds[name]
        if self.work:
            return f"{self.work / seconds:.4g} {self.unit}"
        return f"{seconds * {'us': 1e6, 'ms': 1e3}[self.unit]:.3g} {self.unit}"


def measure(case: Case, threads: int, rounds: int, block_seconds: float) -> Line:
    """Check the error, then time the candidates in interleaved rounds."""
    error, allowed = case.error()
    if not error <= allowed:
        raise SystemExit(f"{case.name}: off by {error:.3g} where {allowed:.3g} is allowed")
    candidates = {"ours": case.ours, **case.peers}
    counts = {name: _calls(call, block_seconds) for name, call in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            time.sleep(PAUSE_SECONDS if threads > 1 else 0)
            call()
            start = time.perf_counter()
            for _ in range(counts[name]):
                call()
            times[name].append((time.perf_counter() - start) / counts[name])
    ratios = {
        name: statistics.median(peer / ours for peer, ours in zip(times[name], times["ours"], strict=True))
        for name in case.peers
    }
    seconds = {name: statistics.median(values) for name, values in times.items()}
    return Line(case.name, threads, case.unit, case.work, seconds, ratios, error, allowed)


def _calls(call: Callable[[], object], block_seconds: float) -> int:
    """How many calls fill a block."""
    call()
    start = time.perf_counter()
    call()
    once = max(time.perf_counter() - start, 1e-8)
    if once < block_seconds / 50:  # one short call is mostly the clock and cold caches
        count = max(1, int(block_seconds / 20 / once))
        start = time.perf_counter()
        for _ in range(count):
            call()
        once = max((time.perf_counter() - start) / count, 1e-8)
    return max(1, min(int(block_seconds / once), 200_000))
