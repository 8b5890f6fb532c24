"""From PTX to machine code without a device: NVIDIA's ``ptxas``, where it is installed.

Machine code by ``ptxas`` is kept in the package's own cache: it loads in 0.1 ms, also where the driver's
cache of compiled PTX is off, full or not writable. Without ``ptxas`` the PTX itself is kept and the driver
assembles it, which it remembers by itself; both give the same instructions. The driver's linker is never
used: it assembles for relocation, and then ignores ``setmaxnreg``.
"""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

PTXAS_VARIABLE = "GIZML_TILE_PTXAS"
_NAME = "ptxas.exe" if os.name == "nt" else "ptxas"


@dataclass(frozen=True, slots=True)
class Report:
    """What an assembler says of a kernel: registers of a thread, bytes that it spills, and warnings."""

    registers: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    warnings: tuple[str, ...] = ()


def report_of(log: str) -> Report:
    """The report in an assembler's log, of ``ptxas -v`` or of the driver."""

    def number(pattern: str) -> int:
        return max((int(found) for found in re.findall(pattern, log)), default=0)

    warnings = [
        line.strip()
        for line in log.splitlines()
        if re.search(r"\bwarning\b|\bC7\d{3}\b|Potential Performance Loss", line)
    ]
    return Report(
        number(r"Used (\d+) registers"),
        number(r"(\d+) bytes spill stores"),
        number(r"(\d+) bytes spill loads"),
        tuple(dict.fromkeys(warnings)),
    )


def assemble(text: str, arch: str) -> tuple[bytes, str] | None:
    """Machine code and the log of ``ptxas``; None where it is not installed or refuses the text.

    A refusal is the driver's to explain: it may be newer than what is installed.
    """
    ptxas = path()
    if ptxas is None:
        return None
    # Loaded here: a launch of known machine code needs neither.
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory(prefix="gizml-tile-") as folder:
        source, code = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(text)
        command = [str(ptxas), "-v", "--generate-line-info", f"-arch={arch}", "-o"]
        command += [str(code), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return (code.read_bytes(), done.stderr) if done.returncode == 0 else None
        except OSError:
            return None


def path() -> Path | None:
    """``ptxas`` as GIZML_TILE_PTXAS says, else of NVIDIA's package, else on the PATH; None where off."""
    return _path(os.environ.get(PTXAS_VARIABLE, ""), os.environ.get("PATH", ""))


@lru_cache
def _path(setting: str, search: str) -> Path | None:
    if setting.lower() in ("0", "off"):
        return None
    if setting:
        return Path(setting)
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for found in sorted(Path(folder).glob(f"*/bin/{_NAME}"), reverse=True):
            return found
    import shutil

    found_by_path = shutil.which(_NAME, path=search)
    return Path(found_by_path) if found_by_path else None


def key() -> str:
    """What assembled code depends on beside the text: which assembler it is."""
    found = path()
    if found is None:
        return "driver"
    try:
        status = found.stat()
    except OSError:
        return "driver"
    return f"{found} {status.st_size} {status.st_mtime_ns}"
