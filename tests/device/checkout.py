"""Importing this first makes the package importable from a checkout, where it is not installed."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("gizml_tile.lowering") is not None
    except ImportError:
        return False


def _join() -> str:
    """A folder with the package's parts, which stand beside one another in a checkout, as one package."""
    root = Path(__file__).parents[2]
    folder = Path(tempfile.mkdtemp(prefix="gizml-tile-"), "gizml_tile")
    folder.mkdir()
    for part in [*(root / "gizml_tile").iterdir(), root / "frontend", root / "lowering"]:
        (folder / part.name).symlink_to(part)
    return str(folder.parent)


if not _is_installed():
    sys.path.insert(0, _join())
