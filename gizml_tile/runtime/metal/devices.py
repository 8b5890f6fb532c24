"""Apple's GPU, of which a computer has one."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...errors import TileError, here
from .shaders import compiler

_GENERATION = re.compile(r"Apple M(\d+)")
# Metal feature set tables: the GPU family of each generation. Later ones have all that apple9 has.
_ARCHS = {1: "apple7", 2: "apple8"}
_LATER = "apple9"


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU: what it calls itself, and the architecture that code is for."""

    name: str
    arch: str


def ordinal_of(name: str, pointer: int) -> int:
    """The number of the device that memory is on. Raises TileError where there is none."""
    compiler()
    return 0


def device(ordinal: int) -> Device:
    """The computer's GPU. Raises TileError for one that no code is written for."""
    name = _name()
    found = _GENERATION.match(name)
    if found is None:
        raise TileError(
            f"the GPU {name!r} is not one that Metal code is written for: Apple M1 and later", here()
        )
    return Device(name, _ARCHS.get(int(found.group(1)), _LATER))


@lru_cache(maxsize=1)
def _name() -> str:
    torch: Any = sys.modules["torch"]
    if hasattr(torch.backends.mps, "get_name"):
        return str(torch.backends.mps.get_name())
    # Before PyTorch says it itself: the processor of Apple's chips has the GPU's name.
    asked = ["sysctl", "-n", "machdep.cpu.brand_string"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
