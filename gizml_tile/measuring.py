"""How long launches take: on copies of what they write, by the clock of the device that they run on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from gizml_tile import trial
from gizml_tile.launch import Traces, check
from gizml_tile.specialise import Prepared, Request, code, layout_on, prepare

_Found = TypeVar("_Found")
_Launch = Callable[[], object]


def seconds(request: Request) -> float | None:
    """How long a launch takes, which nobody sees the results of; None for one that has nothing to do.

    Raises TileError where it cannot be launched, or its device cannot measure.
    """
    return _measured(request, lambda bench, launch: bench.seconds(launch))


def samples(request: Request, seconds: float, most: int) -> list[float] | None:
    """How long each of several launches takes, as `seconds`: for that long, and so many of them at most."""
    return _measured(request, lambda bench, launch: bench.samples(launch, seconds, most))


def _measured(request: Request, measure: Callable[[trial.Bench, _Launch], _Found]) -> _Found | None:
    traces = Traces()
    prepared = prepare(traces, request)
    device = check(request.name, prepared.names, prepared.infos, prepared.variant.written)
    trial.require_measures(device)
    if prepared.is_empty:
        return None
    with trial.bench(device, prepared.infos) as bench:
        _, launch = on_copies(traces, request, prepared, bench)
        return measure(bench, launch)


def on_copies(
    traces: Traces, request: Request, prepared: Prepared, bench: trial.Bench
) -> tuple[trial.Trial, Callable[[], object]]:
    """A launch that can be repeated, on copies. Raises TileError where it does not fit the device."""
    device = check(request.name, prepared.names, prepared.infos, prepared.variant.written)
    executable = code(traces, request, prepared, layout_on(device, request, prepared), tell=False)
    bench.ready(executable, request.grid)
    run = trial.Trial(prepared.infos, prepared.variant.written, bench)
    return run, partial(bench.launch, executable, run.infos, prepared.scalars, request.grid)
