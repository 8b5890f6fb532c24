"""Assembles PTX with NVIDIA's own assembler, from its wheel (the ``test`` extra), and reads its report."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")


@dataclass(frozen=True, slots=True)
class Report:
    """What ptxas says of a kernel: registers of a thread, bytes spilled and on the stack, and warnings.

    ``warnings`` also has the advisories on lost performance (C7508, C7510 to C7519).
    """

    registers: int
    spills: int
    stack: int
    warnings: tuple[str, ...]


@cache
def ptxas() -> Path:
    """The assembler's path."""
    files = metadata.files("nvidia-cuda-nvcc") or []
    (found,) = (file for file in files if file.name in ("ptxas", "ptxas.exe"))
    return Path(str(found.locate()))


def assemble(text: str, arch: str, output: Path | None = None) -> Report:
    """The report of ptxas; an AssertionError with its message and the lines it names where it refuses."""
    return _reported(text, arch) if output is None else _run(text, arch, output)


@lru_cache(maxsize=64)
def _reported(text: str, arch: str) -> Report:
    """Once for a text: other sizes of tensors often give the same one."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(text, arch, Path(folder, "kernel.cubin"))


def _run(text: str, arch: str, output: Path) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(text)
        command = [ptxas(), "-v", f"-arch={arch}", source, "-o", output]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"ptxas for {arch} says\n{said}\n{_named_lines(text, said)}"
    spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", said)
    return Report(
        registers=max(map(int, re.findall(r"Used (\d+) registers", said))),
        spills=sum(map(int, spills)),
        stack=max(map(int, re.findall(r"(\d+) bytes stack frame", said))),
        warnings=tuple(line for line in said.splitlines() if re.search(r"warning|C75\d\d|Advisory", line)),
    )


def _named_lines(text: str, said: str) -> str:
    lines = text.splitlines()
    numbers = dict.fromkeys(int(number) for number in re.findall(r"line (\d+)[;,]", said))
    return "\n".join(f"{number}: {lines[number - 1]}" for number in numbers if 0 < number <= len(lines))
