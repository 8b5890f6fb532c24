"""Every example runs as a person runs it, in its quick form, and its own checks pass."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name != "measure.py")


@pytest.mark.parametrize("program", PROGRAMS)
def test_example(program):
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / program), "--quick"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    name = program.removesuffix(".py")
    lines = result.stdout.splitlines()
    assert lines[0].startswith(name) and "right" in lines[0], lines
    assert any("gizml_tile" in line and "NumPy" in line for line in lines), lines
    assert result.stderr == ""


def test_every_example_is_in_the_reading_order():
    readme = (EXAMPLES / "README.md").read_text()
    assert [program for program in PROGRAMS if f"({program})" not in readme] == []


def test_a_wrong_result_is_noticed(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    measure = importlib.import_module("measure")
    measure.check("right", np.float32([1, 2]), np.array([1, 2.0]), 0)
    with pytest.raises(SystemExit, match=r"WRONG, off by 0\.5"):
        measure.check("wrong", np.float32([1, 2.5]), np.array([1, 2.0]), [0.1, 0.4])
    with pytest.raises(SystemExit, match="WRONG"):
        measure.check("lost", np.float32([np.nan]), np.array([1.0]), 10)
    with pytest.raises(SystemExit, match="differ"):
        measure.same_bits("zeros", np.float32([0.0]), np.float32([-0.0]))
