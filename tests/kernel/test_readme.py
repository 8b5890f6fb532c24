"""What the README says can be done as it stands there."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gizml_tile import cli, target

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_two_commands_do_all_the_set_up():
    set_up = [block for block in blocks("sh") if "pip install" in block]
    assert [block.count("\n") for block in set_up] == [1, 1]
    assert "examples/matmul.py" in set_up[0]
    assert set_up[1].rstrip().endswith("pytest")


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_programs_run(number, tmp_path):
    """Each after those before it."""
    file = tmp_path / "program.py"
    check = "\nassert np.abs(c - np.maximum(a.astype(np.float64) @ b, 0)).max() < 1e-3\n"
    file.write_text("\n".join(blocks("python")[: number + 1]) + check)
    subprocess.run([sys.executable, file], check=True)


def test_architectures_are_those_that_code_is_made_for():
    named = set(re.findall(r"\bsm_\w+", TEXT))
    assert named == set(target._ARCHS["cuda"])


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("gizml-tile ")]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_run(line, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert cli.main(shlex.split(line)[1:]) == 0
    assert capsys.readouterr().out


def test_files_that_it_names_are_there():
    for name in re.findall(r"\]\(([\w/.]+)\)", TEXT):
        assert (ROOT / name).exists()
