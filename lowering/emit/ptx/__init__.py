"""PTX text from a kernel: one entry for each instruction, and no decisions."""

from gizml_tile.lowering.emit.arguments import Argument
from gizml_tile.lowering.emit.ptx.artifact import PtxArtifact, TensorMap
from gizml_tile.lowering.emit.ptx.module import emit

__all__ = ["Argument", "PtxArtifact", "TensorMap", "emit"]
