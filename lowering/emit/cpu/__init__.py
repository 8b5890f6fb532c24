"""The CPU: tile IR to LLVM IR for all cores and vector units.

``normalise`` brings rows to lie contiguous; ``plan`` decides what is kept, packed and fused (``homes``,
``packing``, ``deep``, ``schedule``); ``unit`` writes the module with ``regions``, ``steps``, ``panels`` and
``packs``, whose values come from ``evaluate``, memory from ``access``, products from ``dot``.
"""

from gizml_tile.lowering.emit.cpu.unit import CpuArtifact, CpuSignature, emit, explain

__all__ = ["CpuArtifact", "CpuSignature", "emit", "explain"]
