"""Text in the Metal Shading Language from a kernel: one entry for each instruction, and no decisions."""

from gizml_tile.lowering.emit.metal.artifact import MetalArtifact
from gizml_tile.lowering.emit.metal.module import emit

__all__ = ["MetalArtifact", "emit"]
