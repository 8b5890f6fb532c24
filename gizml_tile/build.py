"""From a tile program to code that runs it, and back from the disk without tracing or compiling again."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gizml_tile import stored
from gizml_tile.grids import Grid
from gizml_tile.launch import Layout
from gizml_tile.nodes import TileProgram
from gizml_tile.ragged import Ragged
from gizml_tile.runtime import compiler, disk_cache
from gizml_tile.runtime.host import Host, host
from gizml_tile.runtime.tensors import TensorInfo
from gizml_tile.text import duration

if TYPE_CHECKING:
    from gizml_tile.lowering.emit.cpu import CpuArtifact
    from gizml_tile.lowering.explanation import Explanation

Executable = Callable[[Sequence[TensorInfo], Sequence[int | float], Grid], None]

# A body that makes tensors is traced at each launch; its code is found here again.
_KNOWN = 256
_known: dict[str, Executable] = {}


def simplified(program: TileProgram, layout: Layout) -> TileProgram:
    """The program after the passes that all devices share."""
    from gizml_tile.lowering.tile_passes.pipeline import simplify

    return simplify(program, may_alias=layout.may_alias)


def stored_simplified(program: Callable[[], TileProgram], may_alias: bool, digest: str) -> TileProgram:
    """The simplified program of the trace that ``digest`` stands for, kept on disk."""
    key = f"program {digest} {may_alias} {versions()}"
    entry = disk_cache.get(key)
    if entry is not None:
        return stored.restore(entry.data)
    from gizml_tile.lowering.tile_passes.pipeline import simplify

    made = simplify(program(), may_alias=may_alias)
    disk_cache.put(key, disk_cache.Entry({}, stored.store(made)), f"program of {made.name}")
    return made


def stored_program(digest: str) -> TileProgram | None:
    """The program that `store_program` kept for a trace."""
    entry = disk_cache.get(f"traced {digest} {versions()}")
    return None if entry is None else stored.restore(entry.data)


def store_program(digest: str, program: TileProgram) -> None:
    """Keep a program as it was traced, for what is made of that and not of the simplified one."""
    key = f"traced {digest} {versions()}"
    disk_cache.put(key, disk_cache.Entry({}, stored.store(program)), f"trace of {program.name}")


def ragged(program: TileProgram) -> tuple[Ragged, ...]:
    """The lines of a program that count what blocks read past the end of tensors."""
    from gizml_tile.lowering.tile_passes.edges import find_ragged

    return tuple(
        Ragged(
            each.message,
            each.place.filename,
            each.place.line,
            tuple(sorted((end.tensor, end.axis, end.block) for end in each.sources)),
        )
        for each in find_ragged(program)
        if each.place is not None
    )


def source(program: TileProgram, layout: Layout) -> str:
    """The LLVM IR of a program for this computer's CPU."""
    return emitted(program, layout).text


def emitted(program: TileProgram, layout: Layout) -> CpuArtifact:
    """The LLVM IR of a program for this computer's CPU, and where its lines come from."""
    return _emit(simplified(program, layout), layout, host())


def explain(
    program: TileProgram,
    layout: Layout,
    infos: Sequence[TensorInfo],
    grid: Sequence[int],
    scalars: Sequence[int | float],
    measured: float | None,
) -> Explanation:
    """How the CPU's code for a program is laid out, and why; and the seconds that a launch took."""
    from gizml_tile.lowering.emit import cpu
    from gizml_tile.lowering.explanation import Explanation, Section
    from gizml_tile.lowering.planning.reach import unreached

    signature = cpu.CpuSignature(layout.strides, layout.grid_rank, layout.may_alias)
    simple, shapes = simplified(program, layout), [info.shape for info in infos]
    lines = (*cpu.explain(simple, signature, host()), *unreached(simple, shapes, grid, scalars))
    if measured is not None:
        lines = (*lines, f"measured: {duration(measured)}")
    return Explanation("", (Section("", lines),), measured=measured)


def executable(program: Callable[[], TileProgram], layout: Layout, digest: str) -> Executable:
    """Code for a layout of the program that ``digest`` stands for: known, from the disk, or compiled.

    ``program`` is called only where it is compiled.
    """
    from gizml_tile.runtime import cpu

    machine = host()
    key = f"code {digest} {layout} {machine.key} {versions()}"
    if key in _known:
        return _known[key]
    entry = disk_cache.get(key)
    if entry is None:
        simple = simplified(program(), layout)
        artifact = _emit(simple, layout, machine)
        code = compiler.compile_text(artifact.text, machine)
        entry = disk_cache.Entry(cpu.describe_artifact(artifact), code)
        disk_cache.put(key, entry, f"code of {simple.name} for the CPU")
    if len(_known) >= _KNOWN:
        _known.pop(next(iter(_known)))
    _known[key] = cpu.load(entry.metadata, entry.data)
    return _known[key]


def _emit(program: TileProgram, layout: Layout, machine: Host) -> CpuArtifact:
    from gizml_tile.lowering.emit.cpu import CpuSignature, emit

    signature = CpuSignature(layout.strides, layout.grid_rank, layout.may_alias)
    return emit(program, signature, machine)


def stored_trace(digest: str) -> dict[str, Any] | None:
    """What `store_trace` kept for a trace."""
    entry = disk_cache.get(f"trace {digest} {versions()}")
    return None if entry is None else entry.metadata


def store_trace(digest: str, name: str, facts: dict[str, Any]) -> None:
    """Keep the facts of a trace that a launch needs, so that the next process does not trace."""
    disk_cache.put(f"trace {digest} {versions()}", disk_cache.Entry(facts, b""), f"trace of {name}")


def digest_of(text: str) -> str:
    """A short name for a text, equal in every process."""
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache
def versions() -> str:
    """Everything beside program, layout and CPU that compiled code depends on."""
    python = f"{sys.implementation.cache_tag} {sys.hexversion:x}"
    return f"{python} numpy {np.__version__} {_llvmlite()} {disk_cache.package_fingerprint()}"


def _llvmlite() -> str:
    """llvmlite's version, read from its file: importing it takes longer than a launch from the disk."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return ""
    file = Path(spec.origin).with_name("_version.py")
    return digest_of(file.read_text())[:16] if file.exists() else ""
