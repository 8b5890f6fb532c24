"""From a call to a launch: find or make the trace, find or make its code, put the arguments in place."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gizml_tile import build, gpu
from gizml_tile.arguments import ScalarArgument, TensorArgument
from gizml_tile.captures import Reading
from gizml_tile.errors import TileError, here
from gizml_tile.gpu import GpuLayout
from gizml_tile.grids import Grid
from gizml_tile.launch import (
    Layout,
    Source,
    Traces,
    Variant,
    check,
    is_empty,
    layout,
    lock,
    tables,
    tracing,
)
from gizml_tile.nodes import TileProgram, has_exact_sums
from gizml_tile.portable import portable
from gizml_tile.program import Program, Traced, trace
from gizml_tile.ragged import Ragged, warn_ragged
from gizml_tile.recording import sites
from gizml_tile.reporting import Records, records
from gizml_tile.runtime.tensors import TensorInfo, describe, on_devices
from gizml_tile.slow import warn_slow
from gizml_tile.target import Target, target
from gizml_tile.text import text


@dataclass(slots=True)
class Request:
    """A launch that is being prepared: what the body is, what it was given and what it captured.

    ``key`` is everything that a trace rests on; ``leaves`` are the arguments' tensors and numbers, ``frame``
    has the positional arguments with places for the leaves, and ``infos`` describes the tensors. ``call`` is
    how errors name the launch: ``add()``, or nothing for a body.
    """

    name: str
    body: Callable[[Program], object]
    key: Hashable
    reading: Reading
    grid: Grid
    names: Sequence[str] = ()
    leaves: Sequence[Any] = ()
    frame: Sequence[object] = ()
    infos: dict[int, TensorInfo] = field(default_factory=dict)
    call: str = ""


@dataclass(slots=True)
class Prepared:
    """A request with its trace: the tensors and numbers in the order of the program's own."""

    variant: Variant
    objects: list[object]
    infos: list[TensorInfo]
    names: list[str]
    scalars: list[int | float]
    grid: Grid
    records: Records | None = None

    @property
    def is_empty(self) -> bool:
        """Whether a launch has nothing to do: no program, or nothing that it could write or tell."""
        if self.records is not None:
            return 0 in self.grid
        return is_empty(self.infos, self.variant.written, self.grid)

    def results(self) -> tuple[object, ...]:
        """What a launch returns: the tensor of each ``write`` call, as it was passed."""
        return tuple(self.objects[number] for number in self.variant.writes)


@dataclass(slots=True)
class Launched:
    """A launch that was made, with the code that ran it."""

    request: Request
    prepared: Prepared
    layout: Layout | GpuLayout
    executable: Any

    @property
    def may_alias(self) -> bool:
        """Whether a written tensor's memory meets another tensor's."""
        layout = self.layout
        return layout.may_alias if isinstance(layout, Layout) else layout.signature.may_alias


def launch(
    traces: Traces, request: Request, stream: object = None
) -> tuple[tuple[object, ...], Launched | None]:
    """Check and run a launch: the tensors of the ``write`` calls, and what ran unless it was empty.

    ``stream`` is where a GPU's launch is put, by default the stream that the tensors' library uses.
    """
    prepared = prepare(traces, request)
    infos, written = prepared.infos, prepared.variant.written
    device = check(request.name, prepared.names, infos, written)
    if stream is not None and device == "cpu":
        who = f"{request.call}: " if request.call else ""
        raise TileError(f"{who}stream is for tensors on a GPU; leave it out", here())
    if prepared.is_empty:
        return prepared.results(), None
    wanted = layout_on(device, request, prepared)
    executable = code(traces, request, prepared, wanted)
    on_stream = () if device == "cpu" else (stream,)
    executable(infos, prepared.scalars, request.grid, *on_stream)
    if prepared.records is not None:
        prepared.records.tell()
    if isinstance(wanted, Target):  # several programs, which nothing repeats natively
        return prepared.results(), None
    return prepared.results(), Launched(request, prepared, wanted, executable)


def layout_on(device: str, request: Request, prepared: Prepared) -> Layout | GpuLayout | Target:
    """What code for a launch on a device is made for: of several programs each has a layout of its own."""
    infos = prepared.infos
    if prepared.variant.exact:
        return target("cpu", None) if device == "cpu" else gpu.target_of(device, infos[0].pointer)
    wanted = layout(infos, prepared.variant.written, request.grid)
    if device == "cpu":
        return wanted
    return gpu.gpu_layout(
        simplified_of(prepared.variant, request, wanted.may_alias),
        gpu.target_of(device, infos[0].pointer),
        infos,
        request.grid,
        prepared.scalars,
        may_alias=wanted.may_alias,
    )


def prepare(traces: Traces, request: Request) -> Prepared:
    """The trace that a request may use, made where there is none, with everything in its place."""
    variant = traces.find(request.key, request.reading)
    if variant is None:
        with lock():
            variant = traces.find(request.key, request.reading)
            if variant is None:
                variant = _stored(traces, request) or _traced(traces, request)
    prepared = placed(variant, request)
    if variant.ragged:
        warn_ragged(variant.ragged, [info.shape for info in prepared.infos])
    return prepared


def code(
    traces: Traces,
    request: Request,
    prepared: Prepared,
    wanted: Layout | GpuLayout | Target,
    *,
    tell: bool = True,
) -> Callable[..., None]:
    """The code of a trace for a layout, compiled where there is none.

    What of it is slow is told once, unless ``tell`` says not yet, as of code that is only tried.
    """
    variant = prepared.variant
    built = variant.built.get(wanted)
    if built is not None and not (variant.untold and tell):
        traces.hits += 1
        return built
    with lock():
        if wanted not in variant.built:
            traces.misses += 1
            if isinstance(wanted, Target):
                from gizml_tile.exact import ExactKernel

                variant.built[wanted] = ExactKernel(program_of(variant, request), wanted)
            elif isinstance(wanted, Layout):
                program = functools.partial(program_of, variant, request)
                variant.built[wanted] = build.executable(program, wanted, variant.digest)
            else:
                may_alias = wanted.signature.may_alias
                simple = functools.partial(simplified_of, variant, request, may_alias)
                made = functools.partial(variant.untold.add, wanted)
                variant.built[wanted] = gpu.executable(simple, wanted, variant.digest, made)
        if tell and wanted in variant.untold and isinstance(wanted, GpuLayout):
            variant.untold.discard(wanted)
            program_made = simplified_of(variant, request, wanted.signature.may_alias)
            infos, grid, scalars = prepared.infos, prepared.grid, prepared.scalars
            warn_slow(gpu.slow(program_made, wanted, infos, grid, scalars), variant.told)
        return variant.built[wanted]


def program_of(variant: Variant, request: Request) -> TileProgram:
    """The tile program of a trace, which is traced now if that was done in another process."""
    if variant.program is None:
        found = build.stored_program(variant.digest) if variant.exact else None
        variant.program = _trace(request).program if found is None else found
    return variant.program


def simplified_of(variant: Variant, request: Request, may_alias: bool) -> TileProgram:
    """The program of a trace after the passes that all devices share, which a GPU's launch looks into."""
    known = variant.simplified.get(may_alias)
    if known is None:
        with lock():
            known = variant.simplified.get(may_alias)
            if known is None:
                program = functools.partial(program_of, variant, request)
                known = build.stored_simplified(program, may_alias, variant.digest)
                variant.simplified[may_alias] = known
    return known


def _stored(traces: Traces, request: Request) -> Variant | None:
    """The trace of an earlier process, which is run again only if its code is needed and not kept."""
    digest = _digest(request)
    facts = None if digest is None else build.stored_trace(digest)
    if digest is None or facts is None:
        return None
    variant = Variant(
        request.name,
        tuple(Source(*source) for source in facts["tensors"]),
        tuple(Source(*value) if isinstance(value, list) else value for value in facts["scalars"]),
        tuple(facts["writes"]),
        None,
        digest,
        exact=facts["exact"],
        ragged=tuple(
            Ragged(message, filename, line, tuple(map(tuple, ends)))
            for message, filename, line, ends in facts["ragged"]
        ),
    )
    traces.keep(request.key, variant)
    return variant


def _traced(traces: Traces, request: Request) -> Variant:
    traced = _trace(request)
    variant = variant_of(request, traced)
    sources = [source for source in variant.tensors if isinstance(source, Source)]
    if len(sources) + (variant.records is not None) < len(variant.tensors):
        return variant
    captured = {source.number for source in sources if source.captured}
    named = [variant.tensors[number] for number in variant.writes]
    written = {source.number for source in named if source.captured}
    found = tables(request.reading, frozenset(written), frozenset(captured))
    if found is None:
        return variant
    variant.tables = found
    digest = None if found or variant.records is not None else _digest(request)
    if digest:
        variant.digest = digest
        facts = {
            "tensors": [[each.captured, each.number] for each in sources],
            "scalars": [
                [each.captured, each.number] if isinstance(each, Source) else each for each in variant.scalars
            ],
            "writes": variant.writes,
            "exact": variant.exact,
            "ragged": [dataclasses.astuple(each) for each in variant.ragged],
        }
        build.store_trace(digest, request.name, facts)
        if variant.exact:  # whose steps are made of it in each process
            build.store_program(digest, traced.program)
    traces.keep(request.key, variant)
    return variant


def _trace(request: Request) -> Traced:
    with tracing():
        return trace(request.name, request.body, grid_rank=len(request.grid))


def _digest(request: Request) -> str | None:
    """What the trace is called on disk; None where its key rests on something without a name."""
    digest = None if request.reading.whole else portable(request.key)
    return None if digest is None else digest.hex()


def variant_of(request: Request, traced: Traced) -> Variant:
    """A trace with the source of each of its tensors and numbers."""
    sources: list[Any] = []
    for tensor in traced.tensors:
        if tensor is None:
            sources.append(None)
            continue
        if isinstance(tensor, TensorArgument):
            sources.append(Source(False, tensor.number))
            continue
        number = request.reading.number_of(describe(tensor))
        sources.append(tensor if number is None else Source(True, number))
    scalars = tuple(
        Source(False, value.number) if isinstance(value, ScalarArgument) else value
        for value in traced.scalars
    )
    return Variant(
        request.name,
        tuple(sources),
        scalars,
        traced.writes,
        traced.program,
        build.digest_of(text(traced.program)),
        ragged=build.ragged(traced.program),
        records=traced.program.records,
        sites=sites(traced.program),
        exact=has_exact_sums(traced.program),
    )


def placed(variant: Variant, request: Request) -> Prepared:
    """A trace with the launch's tensors and numbers in their places."""
    objects: list[object] = []
    infos: list[TensorInfo] = []
    names: list[str] = []
    for source in variant.tensors:
        if source is None:
            continue
        if not isinstance(source, Source):
            objects.append(source)
            infos.append(describe(source))
            names.append("a tensor")
        elif source.captured:
            objects.append(request.reading.tensors[source.number])
            infos.append(request.reading.infos[source.number])
            names.append("a captured tensor")
        else:
            objects.append(request.leaves[source.number])
            infos.append(request.infos[source.number])
            names.append(f"argument {request.names[source.number]!r}")
    scalars = [
        request.leaves[value.number] if isinstance(value, Source) else value for value in variant.scalars
    ]
    infos, told = on_devices(infos), None
    if variant.records is not None:
        told = records(variant.sites, infos[0].device if infos else "cpu", request.grid)
        objects.insert(variant.records, None)
        infos.insert(variant.records, told.info)
        names.insert(variant.records, "the records")
    return Prepared(variant, objects, infos, names, scalars, request.grid, told)
