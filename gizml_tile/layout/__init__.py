"""Layouts as plain values: which thread holds which element of a tile, and where memory keeps it.

``Linear`` is the form that the compiler uses. Nothing here needs a device.
"""

from gizml_tile.layout.linear import Inverse, Linear
from gizml_tile.layout.spread import blocked, reorder_registers, vector_width

__all__ = ["Inverse", "Linear", "blocked", "reorder_registers", "vector_width"]
