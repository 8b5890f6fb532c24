"""What the emitter hands to whoever compiles and launches the text."""

from __future__ import annotations

from dataclasses import dataclass, field

from gizml_tile.lowering.emit.arguments import Argument
from gizml_tile.lowering.emit.lines import Origins


@dataclass(frozen=True, slots=True)
class AmdgpuArtifact:
    """LLVM IR of one kernel for one architecture, and how to launch it.

    A launch passes ``arguments`` in order, 8 bytes each, to ``entry`` with ``threads`` threads.
    The ``workgroup_memory`` bytes are the code's own: a launch asks for none. ``resident`` workgroups are
    meant to share a compute unit. A ``persistent`` kernel takes any number of workgroups.
    ``origins`` tell where the text's lines come from.
    """

    text: str
    entry: str
    arch: str
    threads: int
    workgroup_memory: int
    arguments: tuple[Argument, ...]
    resident: int
    persistent: bool = False
    origins: Origins = field(default=(), compare=False)
