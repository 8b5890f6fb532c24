"""Layouts as plain values: which thread holds which element of a tile, and where memory keeps it.

``Linear`` is the form that the compiler uses. Nothing here needs a device.
"""

from gizml_tile.layout.banks import Staged, ideal_wavefronts, staged, wavefronts
from gizml_tile.layout.conversion import Conversion, Renaming, Unchanged, conversion
from gizml_tile.layout.exchange import Access, Exchange
from gizml_tile.layout.linear import Inverse, Linear
from gizml_tile.layout.shuffle import Round, Shuffle
from gizml_tile.layout.spread import blocked, reorder_registers, vector_width

__all__ = [
    "Access",
    "Conversion",
    "Exchange",
    "Inverse",
    "Linear",
    "Renaming",
    "Round",
    "Shuffle",
    "Staged",
    "Unchanged",
    "blocked",
    "conversion",
    "ideal_wavefronts",
    "reorder_registers",
    "staged",
    "vector_width",
    "wavefronts",
]
