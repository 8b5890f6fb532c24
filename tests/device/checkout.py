"""Importing this first makes the package importable from a checkout, where it is not installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("gizml_tile") is None:
    sys.path.append(str(Path(__file__).parents[2]))
