"""Runs kernels of any GPU target with NumPy, and tells what they do wrong and what they waste."""

from gizml_tile.lowering.simulate.findings import Finding, Findings
from gizml_tile.lowering.simulate.simulation import simulate
from gizml_tile.lowering.simulate.tensors import Memory

__all__ = ["Finding", "Findings", "Memory", "simulate"]
