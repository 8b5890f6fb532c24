"""LLVM IR for AMD GPUs from a kernel: one entry for each instruction, and no decisions."""

from gizml_tile.lowering.emit.amdgpu.artifact import AmdgpuArtifact
from gizml_tile.lowering.emit.amdgpu.module import emit

__all__ = ["AmdgpuArtifact", "emit"]
