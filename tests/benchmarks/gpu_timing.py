"""Times on a GPU that its power limits: every candidate starts after a pause, in turns.

A burst is a pause, two launches that warm up and some that are timed one by one with events. A rate in TB/s
is of the median launch, a rate in TFLOP/s of the best. Small kernels are timed in a graph of many launches,
where the host takes no part.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch

Call = Callable[[], object]
ROUNDS, WARM, TIMED, IN_GRAPH = 2, 2, 6, 50
# Without a pause before each the first of several sizes is the fastest, as power runs short later.
PAUSE_TO_CHOOSE = 0.1
PAUSES = {"TB/s": 0.05, "TFLOP/s": 0.25}


@dataclass(frozen=True)
class Ours:
    """A kernel of ours with the sizes chosen for it, and its error, found and allowed.

    An error is relative to the larger of an element and the root mean square of its row.
    """

    call: Call
    choice: str
    error: tuple[float, float]


@dataclass(frozen=True)
class Case:
    """What is done, how much of it, by which kernels of ours and by whom else.

    ``scales`` tells what times of peers that do another amount of work are multiplied by.
    """

    name: str
    work: float
    unit: str
    ours: Mapping[str, Ours]
    peers: Mapping[str, Call]
    graph: bool = False
    scales: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """A measured row: the seconds of each candidate; the first is ours."""

    name: str
    work: float
    unit: str
    error: tuple[float, float] | None = None
    choice: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)

    def shown(self, name: str) -> str:
        """A candidate's rate, or its time where the work has no amount."""
        seconds = self.seconds[name]
        if self.work:
            return f"{self.work / seconds / 1e12:.4g}"
        return f"{seconds * {'us': 1e6, 'ms': 1e3}[self.unit]:.3g}"

    def row(self) -> str:
        """The row as text: ratios above 1 say that ours is faster."""
        ours, *peers = self.seconds
        choice = f" ({self.choice})" if self.choice else ""
        shown = ", ".join(f"{peer} {self.shown(peer)}" for peer in peers)
        ratios = ", ".join(f"{self.seconds[peer] / self.seconds[ours]:.3f}" for peer in peers)
        error = "{:.2g} of {:.2g}".format(*self.error) if self.error else ""
        return f"| {self.name}{choice} | {self.shown(ours)} {self.unit} | {shown} | {ratios} | {error} |"


def launches(call: Call, timed: int) -> list[float]:
    """Seconds of launches one by one, on a GPU that has nothing else to do."""
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(timed)]
    for before, after in events:
        before.record()
        call()
        after.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1e3 for before, after in events]


def burst(call: Call, pause: float) -> list[float]:
    """Seconds of timed launches after a pause and warm ones."""
    torch.cuda.synchronize()
    time.sleep(pause)
    for _ in range(WARM):
        call()
    return launches(call, TIMED)


def graph_of(call: Call) -> Call:
    """Many launches as one graph."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(IN_GRAPH):
            call()
    return graph.replay


def fastest(options: Iterable[tuple[str, Call]], graph: bool = False) -> tuple[str, Call]:
    """The fastest of several by a few launches each, or in graphs; those that do not fit are left out."""
    best: tuple[float, str, Call] | None = None
    reasons = []
    for name, call in options:
        try:
            call()
            timed = graph_of(call) if graph else call
            torch.cuda.synchronize()
            time.sleep(PAUSE_TO_CHOOSE)
            seconds = min(launches(timed, 3))
        except Exception as error:  # a library's own kind: out of resources
            reasons.append(f"{name}: {str(error).splitlines()[0]}")
            continue
        if best is None or seconds < best[0]:
            best = seconds, name, call
    if best is None:
        raise RuntimeError("; ".join(reasons))
    return best[1:]


def measure(case: Case) -> list[Line]:
    """Refuse a wrong result, then time the candidates in turns: a line for each kernel of ours."""
    for name, ours in case.ours.items():
        found, allowed = ours.error
        if not found <= allowed:
            raise RuntimeError(f"{case.name}{name}: off by {found:.3g} where {allowed:.3g} is allowed")
    calls = {("ours", name): ours.call for name, ours in case.ours.items()}
    calls |= {(name, ""): call for name, call in case.peers.items()}
    parts = 1
    if case.graph:
        calls, parts = {who: graph_of(call) for who, call in calls.items()}, IN_GRAPH
    times: dict[tuple[str, str], list[float]] = {who: [] for who in calls}
    for _ in range(ROUNDS):
        for who, call in calls.items():
            times[who] += burst(call, PAUSES[case.unit])
    middle = statistics.median if case.unit == "TB/s" else min
    seconds = {who: middle(found) / parts for who, found in times.items()}
    peers = {name: seconds[name, ""] * case.scales.get(name, 1) for name in case.peers}
    return [
        Line(
            case.name + name,
            case.work,
            case.unit,
            ours.error,
            ours.choice,
            {"ours": seconds["ours", name], **peers},
        )
        for name, ours in case.ours.items()
    ]


def error_of(call: Call, out: torch.Tensor, truth: Callable[[], torch.Tensor]) -> float:
    """How far two launches into poisoned memory are from float64; infinite where they differ in a bit.

    The error of an element is relative to its size or the root mean square of its row, along the last axis,
    which is larger: rows that are sums of few terms are larger than those of many.
    """
    results = []
    for _ in range(2):
        out.fill_(float("nan") if out.is_floating_point() else -1)
        call()
        results.append(out.clone())
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[out.element_size()]
    if not torch.equal(*(each.view(kind) for each in results)):
        return float("inf")
    del results
    want = truth()
    got, want = (each.reshape(-1, each.shape[-1]) for each in (out, want))
    rows = max(1, (1 << 26) // want.shape[1])
    worst = 0.0
    for part, right in zip(got.split(rows), want.split(rows), strict=True):
        scale = right.square().mean(1, keepdim=True).sqrt()
        off = (part.double() - right).abs_()
        # Rows of zeros have no size to compare with, and may be right.
        off = torch.where(off == 0, off, off / torch.maximum(right.abs(), scale))
        worst = max(worst, float(off.max())) if not bool(off.isnan().any()) else float("nan")
        if worst != worst:
            return worst
    return worst
