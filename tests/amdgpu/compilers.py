"""LLVM in a process of its own: where it does not know how to go on, it ends the process."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("compile_worker.py")


class Compiler:
    """A worker that compiles one text after the other, started anew where it ended."""

    def __init__(self) -> None:
        self._process: Any = None

    def ask(self, **request: Any) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"LLVM ended its process with {self._process.wait()}")
        found = json.loads(answer)
        if "error" in found:
            raise RuntimeError(found["error"])
        return found


@lru_cache
def compiler() -> Compiler:
    return Compiler()


def compiled_for_host(text: str) -> bytes:
    """An object file for this computer's CPU."""
    return bytes.fromhex(compiler().ask(text=text, arch="")["object"])


def assembled(text: str, arch: str, level: int = 0) -> str:
    """AMD's assembly, after LLVM's own passes of a level: what comgr does is level 3."""
    return compiler().ask(text=text, arch=arch, level=level)["assembly"]
