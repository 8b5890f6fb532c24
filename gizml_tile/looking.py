"""Looking inside: the rewritten program, the tile IR, the code and the plan of a launch that is not run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gizml_tile import build, gpu, measuring, simulating
from gizml_tile.dtypes import DType, as_dtype
from gizml_tile.errors import TileError, here
from gizml_tile.launch import Layout, layout, tracing
from gizml_tile.launch import check as check_launch
from gizml_tile.lifting import describe as described
from gizml_tile.nodes import TileProgram
from gizml_tile.notebooks import Text
from gizml_tile.program import Program, trace
from gizml_tile.ragged import warn_ragged
from gizml_tile.runtime.tensors import TensorInfo
from gizml_tile.simulating import Simulation
from gizml_tile.slow import warn_slow
from gizml_tile.specialise import Prepared, Request, placed, variant_of
from gizml_tile.target import Target, target
from gizml_tile.text import Layouts, text

if TYPE_CHECKING:
    from gizml_tile.frontend import Rewritten
    from gizml_tile.lowering.counts import Counts
    from gizml_tile.lowering.explanation import Bound, Explanation
    from gizml_tile.lowering.simulate import Finding


def preview(rewritten: Rewritten, *, diff: bool) -> str:
    """The explicit program a function is rewritten to, or a unified diff from its source."""
    if not diff:
        return Text(rewritten.text)
    import difflib

    lines = difflib.unified_diff(
        rewritten.original.splitlines(keepends=True),
        rewritten.text.splitlines(keepends=True),
        "written",
        "rewritten",
    )
    return Text("".join(line if line.endswith("\n") else line + "\n" for line in lines))


def ir(
    request: Request,
    kind: str | None = None,
    arch: str | None = None,
    storage: Sequence[object] = (),
) -> str:
    """The tile IR of a launch as text, one node a line; for a GPU with the layout of each tile."""
    programs = tile_ir(request, kind, arch, storage)
    return Text("\n".join(text(program, layouts=layouts) for program, layouts in programs))


def tile_ir(
    request: Request,
    kind: str | None = None,
    arch: str | None = None,
    storage: Sequence[object] = (),
) -> list[tuple[TileProgram, Layouts | None]]:
    """The tile IR of a launch, or of its programs in order, and for a GPU what names the layout of a tile."""
    seen = look_at(request, kind, arch, storage)
    if seen.target.kind == "cpu":
        return [(seen.program, None)]
    plans = [gpu.plan(each.program, each.gpu_layout()) for each in steps_of(seen)]
    return [(plan.program, plan.layout_name) for plan in plans]


def source(
    request: Request,
    kind: str | None = None,
    arch: str | None = None,
    storage: Sequence[object] = (),
) -> str:
    """The code that a launch runs, as text: LLVM IR for the CPU and HIP, PTX for CUDA, MSL for Metal."""
    return Text("\n".join(map(_source, steps_of(look_at(request, kind, arch, storage)))))


def _source(seen: Seen) -> str:
    if seen.target.kind == "cpu":
        return build.source(seen.program, seen.layout())
    return gpu.source(seen.program, seen.gpu_layout())


def explain(
    request: Request,
    kind: str | None = None,
    arch: str | None = None,
    storage: Sequence[object] = (),
    measure: bool = False,
) -> Explanation:
    """The plan of a launch with its reasons, and with ``measure`` how long the launch takes.

    It is measured where its tensors are, on copies of those that it writes. Raises TileError where another
    target is asked for, or other storage types.
    """
    seen = look_at(request, kind, arch, storage)
    measured = None
    if measure:
        _require_own(request, seen.target, storage)
        measured = measuring.seconds(request)
    return _explained(seen, measured)


def _explained(seen: Seen, measured: float | None) -> Explanation:
    """The plan of a launch, or of its programs one after the other."""
    if seen.prepared.variant.exact:
        from gizml_tile.lowering.explanation import joined

        return joined([_explained(each, None) for each in steps_of(seen)], measured)
    launch = seen.infos(), seen.prepared.grid, seen.prepared.scalars
    if seen.target.kind == "cpu":
        return build.explain(seen.program, seen.layout(), *launch, measured)
    return gpu.explain(seen.program, seen.gpu_layout(), *launch, measured)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Launches on copies: the seconds of each, what one does, and what bounds it by a GPU's data sheet."""

    target: Target
    grid: tuple[int, ...]
    seconds: tuple[float, ...]
    counts: Counts | None
    bound: Bound | None


def bench(request: Request, seconds: float, most: int) -> Benchmark:
    """Measure launches where their tensors are: for so many seconds, and so many of them at most.

    Raises TileError where launches cannot be measured.
    """
    from gizml_tile.lowering.counts import count

    seen = look_at(request, None, None, ())
    prepared = seen.prepared
    shapes = [info.shape for info in prepared.infos]
    memory = [gpu.memory_of(info) for info in prepared.infos]
    counts = count(seen.written, shapes, memory, request.grid, prepared.scalars)
    runs = measuring.samples(request, seconds, most) or ()
    bound = _explained(seen, None).bound if seen.target.kind != "cpu" else None
    return Benchmark(seen.target, tuple(request.grid), tuple(runs), counts, bound)


def _require_own(request: Request, chosen: Target, storage: Sequence[object]) -> None:
    """Raise TileError where what is looked at is not what a launch would run."""
    own = _target(request)
    if chosen != own:
        raise TileError(
            f"a launch is measured where its tensors are, for {own}, and not for {chosen}; leave out kind "
            "and arch, or pass tensors that are there",
            here(),
        )
    if storage:
        raise TileError("a launch is measured with its tensors' own types; leave out storage", here())


def check(
    request: Request,
    kind: str | None = None,
    arch: str | None = None,
    storage: Sequence[object] = (),
) -> None:
    """Do all of a launch but running it, with its errors and warnings."""
    seen = look_at(request, kind, arch, storage)
    variant = seen.prepared.variant
    check_launch(request.name, seen.prepared.names, seen.prepared.infos, variant.written)
    warn_ragged(variant.ragged, [info.shape for info in seen.prepared.infos])
    for each in steps_of(seen):
        _source(each)
        if seen.target.kind != "cpu":
            prepared, wanted = each.prepared, each.gpu_layout()
            warn_slow(gpu.slow(each.program, wanted, each.infos(), prepared.grid, prepared.scalars), set())


def simulate(
    request: Request,
    kind: str | None = None,
    arch: str | None = None,
    storage: Sequence[object] = (),
) -> Simulation:
    """Run a launch on a simulated GPU, in place on host tensors.

    Raises TileError for the CPU, whose code runs as it is, and for tensors that are not the host's.
    """
    seen = look_at(request, kind or "cuda", arch, storage)
    if seen.target.kind == "cpu":
        raise TileError("simulate is for GPUs; a launch runs on the CPU itself", here())
    prepared = seen.prepared
    written = prepared.variant.written
    simulating.require_host(prepared.infos)
    check_launch(request.name, prepared.names, prepared.infos, written)
    warn_ragged(prepared.variant.ragged, [info.shape for info in prepared.infos])
    findings: tuple[Finding, ...] = ()
    if not prepared.is_empty:
        dtypes = [tensor.dtype for tensor in seen.program.tensors]
        infos = [
            simulating.converted(info, dtype) for info, dtype in zip(prepared.infos, dtypes, strict=True)
        ]
        for each in steps_of(seen, infos):
            findings += _simulated(each)
        if prepared.records is not None:
            findings = simulating.told(findings, prepared.records)
        for number in written:
            if infos[number] is not prepared.infos[number]:
                result = simulating.view(prepared.infos[number])
                result[...] = simulating.view(infos[number]).astype(result.dtype)
    return Simulation(prepared.results(), findings)


def _simulated(seen: Seen) -> tuple[Finding, ...]:
    infos, layout = seen.prepared.infos, seen.gpu_layout(seen.prepared.infos)
    copies = layout.signature.copied
    given = [simulating.aligned(info) if number in copies else info for number, info in enumerate(infos)]
    kernel = gpu.kernel(seen.program, layout)
    return simulating.run(kernel, given, seen.stored(), seen.prepared.scalars, seen.prepared.grid)


@dataclass(frozen=True, slots=True)
class Seen:
    """A launch that is looked at: its program as it was written, and simplified for a target."""

    target: Target
    written: TileProgram
    program: TileProgram
    prepared: Prepared

    def layout(self) -> Layout:
        """What the CPU's code is compiled for."""
        return layout(self.prepared.infos, self.prepared.variant.written, self.prepared.grid)

    def stored(self) -> frozenset[int]:
        """The numbers of the tensors that programs store in: those written, and the records."""
        return frozenset(self.program.writes)

    def infos(self) -> list[TensorInfo]:
        """The launch's tensors, with the storage types that they are looked at with."""
        return simulating.with_dtypes(self.prepared.infos, [tensor.dtype for tensor in self.program.tensors])

    def gpu_layout(self, infos: Sequence[TensorInfo] | None = None) -> gpu.GpuLayout:
        """What a GPU's code is compiled for; ``infos`` are the tensors, by default the launch's."""
        prepared = self.prepared
        return gpu.gpu_layout(
            self.program,
            self.target,
            self.infos() if infos is None else infos,
            prepared.grid,
            prepared.scalars,
            may_alias=self.layout().may_alias,
        )


def look_at(request: Request, kind: str | None, arch: str | None, storage: Sequence[object]) -> Seen:
    """A launch traced and simplified for a target, by default for where its tensors are."""
    chosen = _target(request, kind, arch)
    if not isinstance(storage, tuple | list):
        raise TileError(
            f"storage takes a list of types, one for each read or write call, found "
            f"{described(storage)}; write "
            "storage=[tile.BF16, tile.BF16]",
            here(),
        )
    types = [_storage_type(item) for item in storage]
    body = request.body if not types else _Stored(request.body, types).run
    with tracing():
        traced = trace(request.name, body, grid_rank=len(request.grid))
    prepared = placed(variant_of(request, traced), request)
    seen = Seen(chosen, traced.program, traced.program, prepared)
    return replace(seen, program=build.simplified(traced.program, seen.layout()))


def steps_of(seen: Seen, infos: Sequence[TensorInfo] | None = None) -> list[Seen]:
    """What a launch runs: a program, or one after the other; ``infos`` are the tensors to run them on."""
    prepared = seen.prepared
    given = seen.infos() if infos is None else list(infos)
    if not prepared.variant.exact:
        return [replace(seen, prepared=replace(prepared, infos=given))] if infos is not None else [seen]
    from gizml_tile.exact import ExactSums

    # As it was traced: steps are made before passes.
    sums = ExactSums.of(seen.written)
    sums.check(given)
    rooms = [np.zeros(size, np.uint8) for size in sums.sizes(given)]
    every = [*given, *sums.further(given, [(room.ctypes.data, room) for room in rooms])]
    made = []
    for step in sums.steps:
        chosen = [every[number] for number in step.tensors]
        one = Prepared(
            replace(prepared.variant, writes=step.program.writes, exact=False),
            [],
            chosen,
            [tensor.name for tensor in step.program.tensors],
            [] if step.whole else prepared.scalars,
            step.grid(chosen, prepared.grid),
        )
        made.append(Seen(seen.target, step.program, step.program, one))
        made[-1] = replace(made[-1], program=build.simplified(step.program, made[-1].layout()))
    return made


def _target(request: Request, kind: str | None = None, arch: str | None = None) -> Target:
    """The target asked for, by default what a launch runs on: where its tensors are."""
    known = (*request.infos.values(), *request.reading.infos)
    chosen = target(kind, arch, tuple(info.device for info in known))
    if arch is None and known and known[0].device.partition(":")[0] == chosen.kind != "cpu":
        return gpu.target_of(known[0].device, known[0].pointer)
    return chosen


def _storage_type(item: object) -> DType:
    found = as_dtype(item)
    if found is None:
        raise TileError(f"storage takes storage types such as tile.BF16, found {described(item)}", here())
    return found


class _Stored:
    """A body whose tensors have other storage types, one for each ``read`` or ``write`` call in order."""

    def __init__(self, body: Callable[[Program], object], types: list[DType]) -> None:
        self._body = body
        self._types = types

    def run(self, p: Program) -> object:
        program = _StoredProgram(p._trace, self._types)
        result = self._body(program)
        if program._calls < len(self._types):
            raise TileError(
                f"storage has {len(self._types)} types, and the program {program._calls} read and write "
                "calls; give one for each, in their order",
                here(),
            )
        return result


class _StoredProgram(Program):
    __slots__ = ("_calls", "_types")

    def __init__(self, trace: Any, types: list[DType]) -> None:
        super().__init__(trace)
        self._types = types
        self._calls = 0

    def _view(self, tensor: object, block: object, what: str) -> tuple[int, tuple[int, ...]]:
        number, found = super()._view(tensor, block, what)
        if self._calls < len(self._types):
            tensors = self._trace.tensors
            tensors[number] = replace(tensors[number], dtype=self._types[self._calls])
        self._calls += 1
        return number, found
