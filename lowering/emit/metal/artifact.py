"""What the emitter hands to whoever compiles and launches the text."""

from __future__ import annotations

from dataclasses import dataclass, field

from gizml_tile.lowering.emit.arguments import Argument
from gizml_tile.lowering.emit.lines import Origins


@dataclass(frozen=True, slots=True)
class MetalArtifact:
    """A kernel in the Metal Shading Language and how to launch it.

    ``arguments`` are tensors, then integers, then floats: a launch passes a buffer for each tensor, one with
    all integers as 64-bit numbers, and one with all floats of 32 bits; an empty one is left out.
    Threadgroups have ``threads`` threads along the first axis. ``workgroup_memory`` is in bytes, and declared
    in the text. ``origins`` tell where its lines come from.
    """

    text: str
    entry: str
    arch: str
    threads: int
    workgroup_memory: int
    arguments: tuple[Argument, ...]
    origins: Origins = field(default=(), compare=False)
