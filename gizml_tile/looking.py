"""Looking inside: the rewritten program, the tile IR, the code and the plan of a launch that is not run."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from gizml_tile import build
from gizml_tile.dtypes import DType, as_dtype
from gizml_tile.errors import TileError, here
from gizml_tile.launch import check as check_launch
from gizml_tile.launch import layout, tracing
from gizml_tile.nodes import TileProgram
from gizml_tile.program import Program, trace
from gizml_tile.ragged import warn_ragged
from gizml_tile.runtime.tensors import TensorInfo
from gizml_tile.specialise import Prepared, Request, placed, variant_of
from gizml_tile.target import target
from gizml_tile.text import text

if TYPE_CHECKING:
    from gizml_tile.frontend import Rewritten


def preview(rewritten: Rewritten, *, diff: bool) -> str:
    """The explicit program a function is rewritten to, or a unified diff from its source."""
    if not diff:
        return rewritten.text
    lines = difflib.unified_diff(
        rewritten.original.splitlines(keepends=True),
        rewritten.text.splitlines(keepends=True),
        "written",
        "rewritten",
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def ir(
    request: Request,
    kind: str | None = None,
    arch: str | None = None,
    storage: Sequence[object] = (),
) -> str:
    """The tile IR of a launch as text, one node a line."""
    program, _ = _program(request, kind, arch, storage)
    return text(program)


def source(
    request: Request,
    kind: str | None = None,
    arch: str | None = None,
    storage: Sequence[object] = (),
) -> str:
    """The code that a launch runs, as text: LLVM IR for the CPU."""
    program, prepared = _program(request, kind, arch, storage)
    return build.source(program, _layout(prepared))


def explain(
    request: Request,
    kind: str | None = None,
    arch: str | None = None,
    storage: Sequence[object] = (),
) -> str:
    """The plan of a launch with its reasons."""
    program, prepared = _program(request, kind, arch, storage)
    return build.explain(program, _layout(prepared))


def check(
    request: Request,
    kind: str | None = None,
    arch: str | None = None,
    storage: Sequence[object] = (),
) -> None:
    """Do all of a launch but running it, with its errors and warnings."""
    program, prepared = _program(request, kind, arch, storage)
    variant = prepared.variant
    check_launch(request.name, prepared.names, prepared.infos, variant.written)
    warn_ragged(variant.ragged, [info.shape for info in prepared.infos])
    build.source(program, _layout(prepared))


def simulate(
    request: Request,
    kind: str | None = None,
    arch: str | None = None,
    storage: Sequence[object] = (),
) -> NoReturn:
    """The simulator runs code for GPUs, which this version does not make: always a TileError."""
    chosen = target(kind, arch, _devices(request))
    raise TileError(
        f"simulate is not built yet for kind {chosen.kind!r}: it is for the GPU kinds; "
        "launch on the CPU instead",
        here(),
    )


def _program(
    request: Request, kind: str | None, arch: str | None, storage: Sequence[object]
) -> tuple[TileProgram, Prepared]:
    target(kind, arch, _devices(request))
    types = [_storage_type(item) for item in storage]
    body = request.body if not types else _Stored(request.body, types).run
    with tracing():
        traced = trace(request.name, body, grid_rank=len(request.grid))
    prepared = placed(variant_of(request, traced), request)
    return build.simplified(traced.program, _layout(prepared)), prepared


def _layout(prepared: Prepared) -> Any:
    return layout(prepared.infos, prepared.variant.written, prepared.grid)


def _devices(request: Request) -> tuple[str, ...]:
    known: list[TensorInfo] = [*request.infos.values(), *request.reading.infos]
    return tuple(info.device for info in known)


def _storage_type(item: object) -> DType:
    found = as_dtype(item)
    if found is None:
        raise TileError(f"storage takes storage types such as tile.BF16, found {item!r}", here())
    return found


class _Stored:
    """A body whose tensors have other storage types, one for each ``read`` or ``write`` call in order."""

    def __init__(self, body: Callable[[Program], object], types: list[DType]) -> None:
        self._body = body
        self._types = types

    def run(self, p: Program) -> object:
        program = _StoredProgram(p._trace, self._types)
        result = self._body(program)
        if program.calls < len(self._types):
            raise TileError(
                f"storage has {len(self._types)} types, and the program {program.calls} read and write calls",
                here(),
            )
        return result


class _StoredProgram(Program):
    __slots__ = ("calls", "types")

    def __init__(self, trace: Any, types: list[DType]) -> None:
        super().__init__(trace)
        self.types = types
        self.calls = 0

    def _view(self, tensor: object, block: object, what: str) -> tuple[int, tuple[int, ...]]:
        number, found = super()._view(tensor, block, what)
        if self.calls < len(self.types):
            tensors = self._trace.tensors
            tensors[number] = replace(tensors[number], dtype=self.types[self.calls])
        self.calls += 1
        return number, found
