"""The explicit API's launches: ``tile.run`` and its companions on a body that closes over its tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gizml_tile import looking
from gizml_tile.captures import read
from gizml_tile.debugging import asked
from gizml_tile.errors import TileError, here
from gizml_tile.grids import as_grid
from gizml_tile.helpful import Helpful, told
from gizml_tile.launch import Traces
from gizml_tile.lifting import describe
from gizml_tile.notebooks import Text
from gizml_tile.program import Program
from gizml_tile.specialise import Request, launch
from gizml_tile.tracing import active

Body = Callable[[Program], object]

_traces = Traces()


@told
def run(grid: Any, body: Body, *, stream: object = None, debug: bool | None = None) -> tuple[Any, ...]:
    """Run ``body(p)`` once for each point of a grid of one to three sizes, axis 0 fastest.

    The body closes over its tensors and is traced once for each kind of them; results are written in
    place. On a GPU the launch goes to ``stream``, by default the one that the tensors' library uses.
    ``debug`` says whether ``p.print`` and ``p.check`` speak, by default as GIZML_TILE_DEBUG says. Returns the
    tensors of the body's ``write`` calls, in their order.
    """
    return launch(_traces, request(grid, body, debug=debug), stream)[0]


@told
def ir(
    grid: Any,
    body: Body,
    *,
    storage: Sequence[object] = (),
    kind: str | None = None,
    arch: str | None = None,
    warps: int = 0,
) -> str:
    """The tile IR of a body as text, one node a line; nothing is launched.

    ``storage`` replaces the tensors' storage types, one for each ``read`` or ``write`` call in order;
    ``kind`` and ``arch`` choose the device, by default the tensors' own.
    """
    return looking.ir(request(grid, body, warps), kind, arch, storage)


@told
def source(
    grid: Any,
    body: Body,
    *,
    storage: Sequence[object] = (),
    kind: str | None = None,
    arch: str | None = None,
    warps: int = 0,
) -> str:
    """The code that a launch of a body runs (LLVM IR for ``"cpu"``); takes what ``ir`` takes."""
    return looking.source(request(grid, body, warps), kind, arch, storage)


@told
def explain(
    grid: Any,
    body: Body,
    *,
    storage: Sequence[object] = (),
    kind: str | None = None,
    arch: str | None = None,
    warps: int = 0,
    measure: bool = False,
) -> str:
    """The plan for a body with its reasons; takes what ``ir`` takes.

    ``measure`` launches it where its tensors are, on copies of those that it writes, and says how long that
    takes, beside the time that bounds it on a GPU.
    """
    return Text(looking.explain(request(grid, body, warps), kind, arch, storage, measure))


@told
def simulate(
    grid: Any,
    body: Body,
    *,
    storage: Sequence[object] = (),
    kind: str | None = None,
    arch: str | None = None,
    warps: int = 0,
    debug: bool | None = None,
) -> Any:
    """Run a body on a simulated device; takes what ``ir`` takes, and ``debug`` as ``run`` does."""
    return looking.simulate(request(grid, body, warps, debug), kind, arch, storage)


def request(grid: Any, body: Body, warps: int = 0, debug: bool | None = None) -> Request:
    """A launch of a body, described. Raises TileError at the call's line where it cannot be one."""
    tracing = active()
    if tracing is not None:
        raise TileError(
            f"a launch inside of {tracing.name}, which is a program itself; launch after it",
            here(),
        )
    if not callable(body):
        raise TileError(f"the body is a function of the program, found {describe(body)}", here())
    if isinstance(body, Helpful):
        raise TileError(
            f"the body is a function of the program, found {body._told()}; it is launched by calling it",
            here(),
        )
    sizes = as_grid(grid)
    reading = read(body)
    name = getattr(body, "__name__", type(body).__name__)
    if name == "<lambda>":
        name = "body"
    settings: dict[str, Any] = {} if not warps else {"warps": warps}
    if debug is not None:
        settings["debug"] = debug
    key = (len(sizes), warps, asked() if debug is None else debug, reading.key)
    return Request(name, _with(body, settings) if settings else body, key, reading, sizes)


def _with(body: Body, settings: dict[str, Any]) -> Body:
    def traced(p: Program) -> object:
        for name, value in settings.items():
            getattr(p, name)(value)
        return body(p)

    return traced
