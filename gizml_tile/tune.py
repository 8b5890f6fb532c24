"""Tuning: of several configurations of one program, the fastest for a launch's tensors."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gizml_tile import trial
from gizml_tile.build import versions
from gizml_tile.captures import freeze, read
from gizml_tile.errors import TileError, TileWarning, here
from gizml_tile.grids import as_grid
from gizml_tile.launch import Layout, Traces, check, is_empty, layout, lock
from gizml_tile.portable import portable
from gizml_tile.program import Program
from gizml_tile.records import fields
from gizml_tile.runtime import disk_cache
from gizml_tile.runtime.host import host
from gizml_tile.specialise import Prepared, Request, code, launch, prepare, program_of
from gizml_tile.tracing import active

TUNE_VARIABLE = "GIZML_TILE_TUNE"
OPTIONS = ("warps", "stages")
# Each configuration is run until this much time has passed, at least three times.
_SECONDS = 0.02
_LEAST_RUNS = 3

_traces = Traces()
_winners: dict[Hashable, int] = {}


@dataclass(frozen=True, slots=True)
class Candidate:
    """One configuration of a launch: how it is named to the person, and the launch with it."""

    label: str
    request: Request


def tune(
    configs: Iterable[Any],
    grid: Any,
    body: Callable[[Program, Any], object],
    *,
    measure: bool = False,
) -> tuple[Any, ...]:
    """Run ``body(p, config)`` over ``grid(config)`` with the fastest configuration for these tensors.

    On the CPU the first configuration is taken unless ``measure`` or GIZML_TILE_TUNE=1 asks to
    measure; that is done once, on copies of what the body writes. All configurations must give the
    same results up to rounding. Returns the tensors of the ``write`` calls.
    """
    tracing = active()
    if tracing is not None:
        raise TileError(
            f"tune inside a program: {tracing.name} is being traced; tune after it", here()
        )
    known = list(configs)
    if not known:
        raise TileError("tune has no configurations; give at least one", here())
    reading = read(body)
    name = getattr(body, "__name__", "body")
    candidates = []
    for config in known:
        values = fields(config) or {}
        sizes = as_grid(grid(config) if callable(grid) else grid)
        key = ("tune", len(sizes), freeze(config), reading.key)
        traced = _with(
            body, config, {option: values[option] for option in OPTIONS if option in values}
        )
        candidates.append(Candidate(repr(config), Request(name, traced, key, reading, sizes)))
    chosen = choose(_traces, candidates, measure)
    return launch(_traces, candidates[chosen].request)[0]


def _with(
    body: Callable[[Program, Any], object], config: object, options: Mapping[str, Any]
) -> Callable[[Program], object]:
    def traced(p: Program) -> object:
        for option, value in options.items():
            getattr(p, option)(value)
        return body(p, config)

    return traced


def choose(traces: Traces, candidates: Sequence[Candidate], measure: bool) -> int:
    """Which candidate to launch: the fastest where that is measured, else the first that can be traced.

    Raises TileError where none can be, or where results differ beyond rounding.
    """
    measure = measure or os.environ.get(TUNE_VARIABLE, "") == "1"
    key = _key(candidates, measure)
    known = _winners.get(key)
    if known is None:
        with lock():
            known = _winners.get(key)
            if known is None:
                known = _winners[key] = _choose(traces, candidates, measure, key)
    return known


def _choose(traces: Traces, candidates: Sequence[Candidate], measure: bool, key: Hashable) -> int:
    entry = _entry(key) if measure and len(candidates) > 1 else None
    stored = disk_cache.get(entry) if entry else None
    if stored is not None and stored.metadata.get("best") in range(len(candidates)):
        return int(stored.metadata["best"])
    fitting: dict[int, Prepared] = {}
    skipped: dict[str, TileError] = {}
    for number, candidate in enumerate(candidates):
        try:
            fitting[number] = prepare(traces, candidate.request)
        except TileError as error:
            skipped[candidate.label] = error
            continue
        if not measure:
            break
    if not fitting:
        raise next(iter(skipped.values()))
    for label, reason in skipped.items():
        _warn(f"configuration {label} is left out: {reason.message}")
    if len(fitting) == 1:
        return next(iter(fitting))
    best = _measured(traces, candidates, fitting)
    if entry:
        disk_cache.put(entry, disk_cache.Entry({"best": best}, b""))
    return best


def _entry(key: Hashable) -> str | None:
    """What a choice is called on disk; None where it rests on something without a name."""
    digest = portable(key)
    if digest is None:
        return None
    machine = host()
    return f"tune {digest.hex()} {machine.key} {machine.threads} {versions()}"


def _measured(
    traces: Traces, candidates: Sequence[Candidate], fitting: Mapping[int, Prepared]
) -> int:
    times: dict[int, float] = {}
    first: trial.Trial | None = None
    for number, prepared in fitting.items():
        request = candidates[number].request
        written = prepared.variant.written
        check(request.name, prepared.names, prepared.infos, written)
        if is_empty(prepared.infos, written, request.grid):
            return number
        wanted: Layout = layout(prepared.infos, written, request.grid)
        executable = code(traces, request, prepared, wanted)
        run = trial.Trial(prepared.infos, written)
        executable(run.infos, prepared.scalars, request.grid)
        run.keep_results()
        if first is None:
            first, first_label = run, candidates[number].label
        else:
            program = program_of(prepared.variant, request)
            difference = run.difference(first, trial.rounds(program))
            if difference:
                raise TileError(
                    f"configurations {first_label} and {candidates[number].label} of {request.name} give "
                    f"different results: {difference}",
                    here(),
                )
        times[number] = _time(lambda: executable(run.infos, prepared.scalars, request.grid))  # noqa: B023
    return min(times, key=lambda number: times[number])


def _warn(message: str) -> None:
    place = here()
    if place is not None:
        warnings.warn_explicit(message, TileWarning, place.filename, place.line)


def _time(launch_once: Callable[[], object]) -> float:
    """Seconds of the fastest of several launches."""
    best = float("inf")
    began = time.perf_counter()
    runs = 0
    while runs < _LEAST_RUNS or time.perf_counter() - began < _SECONDS:
        start = time.perf_counter()
        launch_once()
        best = min(best, time.perf_counter() - start)
        runs += 1
    return best


def _key(candidates: Sequence[Candidate], measure: bool) -> Hashable:
    """What a choice rests on: the traces' keys and the tensors' sizes and strides."""
    request = candidates[0].request
    infos = (*request.infos.values(), *request.reading.infos)
    shapes = tuple((info.dtype, info.shape, info.strides, info.device) for info in infos)
    return (
        measure,
        shapes,
        tuple((each.label, each.request.key, each.request.grid) for each in candidates),
    )
