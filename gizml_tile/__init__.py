"""GPU and CPU kernels as ordinary Python over tiles: see ``tile.kernel`` and ``tile.run``."""

import os
import sys
from typing import Any

if not os.path.isdir(os.path.join(__path__[0], "frontend")):
    # A checkout, where these parts stand beside this folder. Python finds it first for someone who is in
    # the checkout, also where the package is installed.
    __path__.append(os.path.dirname(__path__[0]))

from gizml_tile import dispatch as dispatch
from gizml_tile import layout as layout
from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    F64,
    FP8,
    I8,
    I16,
    I32,
    I64,
    MASK,
    U8,
    U16,
    U32,
    U64,
    DType,
)
from gizml_tile.errors import TileError
from gizml_tile.grids import cdiv
from gizml_tile.helpful import missing_name
from gizml_tile.index import Index
from gizml_tile.kernel import function, kernel
from gizml_tile.program import Program
from gizml_tile.running import explain, ir, run, simulate, source
from gizml_tile.tile import Tile
from gizml_tile.tune import tune
from gizml_tile.unrolling import unroll
from gizml_tile.views import In, Out


def __getattr__(name: str) -> Any:
    """No name of the package: what other systems or a slip call otherwise is said in the error."""
    asking = sys._getframe(1).f_code.co_filename
    if name.startswith("_") or asking.startswith("<frozen importlib"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise missing_name((*__all__, "cli"), name, "MODULE")


__all__ = [
    "BF16",
    "E5M2",
    "F16",
    "F32",
    "F64",
    "FP8",
    "I8",
    "I16",
    "I32",
    "I64",
    "MASK",
    "U8",
    "U16",
    "U32",
    "U64",
    "DType",
    "In",
    "Index",
    "Out",
    "Program",
    "Tile",
    "TileError",
    "cdiv",
    "explain",
    "function",
    "ir",
    "kernel",
    "layout",
    "run",
    "simulate",
    "source",
    "tune",
    "unroll",
]
