"""What the emitter hands to whoever loads and launches the text."""

from __future__ import annotations

from dataclasses import dataclass, field

from gizml_tile.lowering.emit.arguments import Argument
from gizml_tile.lowering.emit.lines import Origins


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A descriptor of 128 bytes, 64-byte aligned, that the copy engine reads boxes of a tensor by.

    ``box`` has the elements along each axis of tensor number ``tensor``, as in `Bulk`: a driver wants
    the axes the other way round, from the contiguous one on, which is the last but one if ``turned``.
    ``swizzle`` is in bytes: 0, 32, 64 or 128. F32 are ``rounded`` to TF32 on their way.
    """

    tensor: int
    box: tuple[int, ...]
    swizzle: int
    turned: bool = False
    rounded: bool = False


@dataclass(frozen=True, slots=True)
class PtxArtifact:
    """PTX text and how to launch it.

    A launch passes ``arguments`` and then ``maps``, each in order, to ``entry`` with ``threads`` threads
    and ``workgroup_memory`` bytes of dynamic workgroup memory. ``resident`` workgroups are meant to
    share a multiprocessor. A ``persistent`` kernel takes any number of workgroups, and ``cluster`` neighbours
    run each program together; and ``together`` neighbours along axis ``along`` of the grid, where they are
    several, run in one workgroup. An ``overlapping`` one may begin before the one before it in the stream has
    ended. ``origins`` tell where the text's lines come from.
    """

    text: str
    entry: str
    arch: str
    threads: int
    workgroup_memory: int
    arguments: tuple[Argument, ...]
    maps: tuple[TensorMap, ...]
    resident: int
    persistent: bool = False
    cluster: int = 1
    together: int = 1
    along: int = 0
    overlapping: bool = False
    origins: Origins = field(default=(), compare=False)
