"""No program reads or writes a byte outside its tensors."""

import os
import signal
import subprocess
import sys
from pathlib import Path


def run(*arguments):
    environment = dict(os.environ, GIZML_TILE_CACHE="off")
    command = [sys.executable, str(Path(__file__).with_name("fences.py")), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_nothing_beyond_a_tensor_is_touched():
    if sys.platform == "win32":
        return
    assert run("beyond").returncode in (-signal.SIGSEGV, -signal.SIGBUS)
    done = run()
    assert done.returncode == 0, done.stderr
