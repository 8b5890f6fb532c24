"""The warning about products and sums that count what a block reads past a tensor's end."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from gizml_tile.errors import TileWarning
from gizml_tile.nodes import TileProgram


def warn_ragged(program: TileProgram, shapes: Sequence[tuple[int, ...]]) -> None:
    """Warn at the person's lines where tensors of these shapes end inside a block whose rest counts."""
    from gizml_tile.lowering.tile_passes.edges import find_ragged

    for finding in find_ragged(program):
        if finding.place is not None and finding.holds(tuple(shapes)):
            warnings.warn_explicit(finding.message, TileWarning, finding.place.filename, finding.place.line)
