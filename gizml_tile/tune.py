"""Tuning: of several configurations of one program, the fastest for a launch's tensors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gizml_tile import trial
from gizml_tile.build import versions
from gizml_tile.captures import freeze, read
from gizml_tile.debugging import asked
from gizml_tile.errors import TileError, TileWarning, here
from gizml_tile.grids import as_grid
from gizml_tile.helpful import called, told
from gizml_tile.launch import Traces, check, is_empty, lock
from gizml_tile.measuring import on_copies
from gizml_tile.portable import portable
from gizml_tile.program import Program
from gizml_tile.records import fields
from gizml_tile.runtime import disk_cache
from gizml_tile.runtime.host import host
from gizml_tile.runtime.tensors import TensorInfo
from gizml_tile.specialise import Prepared, Request, launch, prepare, program_of
from gizml_tile.tracing import active

TUNE_VARIABLE = "GIZML_TILE_TUNE"
OPTIONS = ("warps", "stages")
_traces = Traces()
_winners: dict[Hashable, int] = {}


@dataclass(frozen=True, slots=True)
class Candidate:
    """One configuration of a launch: how it is named to the person, and the launch with it."""

    label: str
    request: Request


@told
def tune(
    configs: Iterable[Any],
    grid: Any,
    body: Callable[[Program, Any], object],
    *,
    measure: bool = False,
) -> tuple[Any, ...]:
    """Run ``body(p, config)`` over ``grid(config)`` with the fastest configuration for these tensors.

    On a GPU that is measured once, on copies of what the body writes, and kept for its name; on the CPU
    the first is taken unless ``measure`` or GIZML_TILE_TUNE=1 asks to measure. All configurations
    must give the same results up to rounding. Returns the tensors of the ``write`` calls.
    """
    tracing = active()
    if tracing is not None:
        raise TileError(f"tune inside of {tracing.name}, which is a program itself; tune after it", here())
    if not isinstance(configs, Iterable) or not callable(body):
        raise TileError(
            "tune takes a list of configurations, a grid, and a function of the program and a configuration, "
            f"found {_kinds(configs, grid, body)}",
            here(),
        )
    known = list(configs)
    if not known:
        raise TileError("tune has no configurations; give at least one", here())
    reading = read(body)
    name = getattr(body, "__name__", "body")
    candidates = []
    for config in known:
        values = fields(config) or {}
        given = called(grid, "the grid of tune", "a configuration", config) if callable(grid) else grid
        sizes = as_grid(given)
        key = ("tune", len(sizes), freeze(config), asked(), reading.key)
        traced = _with(body, config, {option: values[option] for option in OPTIONS if option in values})
        candidates.append(Candidate(repr(config), Request(name, traced, key, reading, sizes)))
    chosen = choose(_traces, candidates, measure)
    return launch(_traces, candidates[chosen].request)[0]


def _kinds(*values: object) -> str:
    return ", ".join(type(each).__name__ for each in values)


def _with(
    body: Callable[[Program, Any], object], config: object, options: Mapping[str, Any]
) -> Callable[[Program], object]:
    def traced(p: Program) -> object:
        for option, value in options.items():
            getattr(p, option)(value)
        return called(body, "the body of tune", "the program and a configuration", p, config)

    return traced


def choose(
    traces: Traces,
    candidates: Sequence[Candidate],
    measure: bool,
    *,
    launching: bool = True,
    stream: object = None,
) -> int:
    """Which candidate to launch: the fastest where that is measured, else the first that can be traced.

    Without ``launching`` nothing is measured on a GPU: what is known already is used. ``stream`` is where
    a GPU's launches are put. On devices where launches cannot be measured it is the first as well. Raises
    TileError where no candidate can be traced, or where results differ beyond rounding.
    """
    kinds = {info.device.partition(":")[0] for info in _infos(candidates)}
    can_measure = all(map(trial.can_measure, kinds))
    on_gpu = can_measure and any(kind != "cpu" for kind in kinds)
    measure = can_measure and (measure or os.environ.get(TUNE_VARIABLE, "") == "1" or on_gpu)
    key = _key(candidates, measure)
    known = _winners.get(key)
    if known is None:
        if on_gpu and not launching:
            return _stored(_entry(candidates, key), len(candidates)) or 0
        with lock():
            known = _winners.get(key)
            if known is None:
                known = _winners[key] = _choose(traces, candidates, measure, key, stream)
    return known


def _choose(
    traces: Traces, candidates: Sequence[Candidate], measure: bool, key: Hashable, stream: object
) -> int:
    entry = _entry(candidates, key) if measure and len(candidates) > 1 else None
    stored = _stored(entry, len(candidates))
    if stored is not None:
        return stored
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
    best = None
    if len(fitting) > 1:
        best = _measured(traces, candidates, fitting, skipped, stream)
    elif fitting:
        best = next(iter(fitting))
    if best is None:
        raise next(iter(skipped.values()))
    for label, reason in skipped.items():
        _warn(f"configuration {label} is left out: {reason.message}")
    if entry:
        name = candidates[0].request.name
        disk_cache.put(entry, disk_cache.Entry({"best": best}, b""), f"the fastest configuration of {name}")
    return best


def _entry(candidates: Sequence[Candidate], key: Hashable) -> str | None:
    """What a choice is called on disk; None where it rests on something without a name."""
    digest = portable(key)
    if digest is None:
        return None
    on_gpu = [info for info in _infos(candidates) if info.device != "cpu"]
    if on_gpu:
        from gizml_tile.runtime.cuda.measuring import machine

        name = machine(on_gpu)
    else:
        name = f"{host().key} {host().threads}"
    return f"tune {digest.hex()} {name} {versions()}"


def _stored(entry: str | None, count: int) -> int | None:
    """The choice that an earlier process made."""
    stored = disk_cache.get(entry) if entry else None
    best = None if stored is None else stored.metadata.get("best")
    return best if isinstance(best, int) and best in range(count) else None


def _measured(
    traces: Traces,
    candidates: Sequence[Candidate],
    fitting: Mapping[int, Prepared],
    skipped: dict[str, TileError],
    stream: object,
) -> int | None:
    """The fastest of the candidates that fit the device; the others are added to ``skipped``."""
    times: dict[int, float] = {}
    first: tuple[str, trial.Trial] | None = None
    for number, prepared in fitting.items():
        label, request = candidates[number].label, candidates[number].request
        written = prepared.variant.written
        device = check(request.name, prepared.names, prepared.infos, written)
        if is_empty(prepared.infos, written, request.grid):
            return number
        with trial.bench(device, prepared.infos, stream) as bench:
            try:
                run, launch_once = on_copies(traces, request, prepared, bench)
            except TileError as error:
                skipped[label] = error
                continue
            launch_once()
            run.keep_results()
            if first is None:
                first = label, run
            else:
                difference = run.difference(first[1], trial.rounds(program_of(prepared.variant, request)))
                if difference:
                    raise TileError(
                        f"configurations {first[0]} and {label} of {request.name} give different results: "
                        f"{difference}",
                        here(),
                    )
            times[number] = bench.seconds(launch_once)
    return min(times, key=lambda number: times[number]) if times else None


def _warn(message: str) -> None:
    place = here()
    if place is not None:
        warnings.warn_explicit(message, TileWarning, place.filename, place.line)


def _key(candidates: Sequence[Candidate], measure: bool) -> Hashable:
    """What a choice rests on: the traces' keys and the tensors' sizes and strides."""
    shapes = tuple((info.dtype, info.shape, info.strides, info.device) for info in _infos(candidates))
    return (
        measure,
        shapes,
        tuple((each.label, each.request.key, each.request.grid) for each in candidates),
    )


def _infos(candidates: Sequence[Candidate]) -> tuple[TensorInfo, ...]:
    request = candidates[0].request
    return (*request.infos.values(), *request.reading.infos)
