"""What the emitter hands to whoever compiles and launches the text."""

from __future__ import annotations

from dataclasses import dataclass

from gizml_tile.lowering.kernel_ir.instructions import Parameter


@dataclass(frozen=True, slots=True)
class MetalArtifact:
    """A kernel in the Metal Shading Language and how to launch it.

    A launch passes the buffers of ``tensors``, by their numbers, then ``integers`` as 64-bit numbers one
    after the other in a buffer, and ``floats`` as 32-bit ones in another; an empty one is left out.
    Threadgroups have ``threads`` threads along the first axis. A ``persistent`` kernel takes any number of
    threadgroups. ``workgroup_memory`` is in bytes, and declared in the text.
    """

    text: str
    entry: str
    arch: str
    threads: int
    workgroup_memory: int
    tensors: tuple[int, ...]
    integers: tuple[Parameter, ...]
    floats: tuple[Parameter, ...]
    persistent: bool = False
