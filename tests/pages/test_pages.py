"""Every command and every program of the pages, run as it is printed, and what the pages say is printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
import warnings
from pathlib import Path

import pages
import pytest
from pages import PAGES, ROOT, blocks, check_output, run_programs, write_files

from gizml_tile import target

CI = (ROOT / ".ci" / "run").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Steps that a test cannot take in the environment it runs in; .ci/run takes them, see below.
IN_CI = ("python3 -m venv .venv", '.venv/bin/pip install -e ".[test]"', ".venv/bin/pytest")
# Tests run where this is done.
DONE = "source .venv/bin/activate"
# What tests/examples runs of every example, so that it need not run twice.
QUICK = re.compile(r"python examples/\w+\.py --quick")
COMMANDS = [block for page in PAGES for block in blocks(page) if block.language == "sh"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to be in, whose compiled kernels are its own."""
    monkeypatch.setenv("GIZML_TILE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "reader").mkdir()
    monkeypatch.chdir(tmp_path / "reader")
    return tmp_path / "reader"


@pytest.mark.parametrize("page", PAGES)
def test_programs(page, folder):
    write_files(page, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a reader would see a warning that the page does not show
        for block, printed in run_programs(page, folder):
            check_output(block, printed, folder)


@pytest.mark.parametrize("block", COMMANDS, ids=str)
def test_commands(block, folder):
    write_files(block.page, folder)
    steps = [step for line in block.text.splitlines() if (step := runnable(line))]
    if not steps:
        assert block.output is None
        return
    scripts = sysconfig.get_path("scripts")
    path = os.pathsep.join([scripts, str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(steps).replace(".venv/bin/", "")],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout and not done.stderr, done.stderr
    check_output(block, done.stdout, folder)


def runnable(line: str) -> str:
    """The steps of a line that are to be taken here."""
    steps = line.split(" && ")
    left_out = (*IN_CI, DONE)
    return " && ".join(
        step for step in steps if not (step in left_out or " install " in step or QUICK.fullmatch(step))
    )


def test_every_block_is_run():
    """No page has a block of another kind, which nothing would check."""
    for page in PAGES:
        for block in blocks(page):
            assert block.language in ("python", "sh"), block


def test_what_installs_is_what_ci_does():
    """No test installs the package into the environment that it runs in.

    ``.ci/run`` makes an environment from nothing and installs what the pages install for development;
    tests/architecture builds the wheel that ``pip install .`` installs, and runs a kernel from it. Here it is
    checked that those are the same steps, and that what else is installed is this project with extras it has.
    """
    assert '-m venv "$work/venv"' in CI and '"$bin/pytest"' in CI
    assert re.search(r'"\$bin/pip" install .*-e "\.\[test\]"', CI)
    lines = [line for block in COMMANDS for line in block.text.splitlines()]
    assert " && ".join(IN_CI) in lines
    installs = [step for line in lines for step in line.split(" && ") if " install " in step]
    assert len(installs) >= 2
    for step in installs:
        *_, wanted = shlex.split(step)
        name, extra = re.fullmatch(r"([\w.-]+?)(?:\[(\w+)\])?", wanted).groups()
        assert name in (".", PROJECT["name"]) and (extra or "test") in PROJECT["optional-dependencies"], step


def test_two_commands_do_all_the_set_up():
    set_up = [block for block in blocks("README.md") if " install " in block.text]
    assert [block.text.count("\n") for block in set_up[:2]] == [1, 1]
    assert "examples/matmul.py" in set_up[0].text


def test_architectures_are_those_that_code_is_made_for():
    named = set(re.findall(r"\bsm_\w+", (ROOT / "README.md").read_text()))
    assert named == set(target._ARCHS["cuda"])


@pytest.mark.parametrize("page", [*PAGES, "tests/benchmarks/README.md"])
def test_files_that_it_names_are_there(page):
    text = re.sub(r"```.*?```|`.*?`", "", (ROOT / page).read_text(), flags=re.DOTALL)
    for name in re.findall(r"\]\(([\w/.]+)(?:#[\w-]+)?\)", text):
        assert ((ROOT / page).parent / name).exists(), name


def test_another_output_is_noticed(tmp_path):
    block = pages.Block("page", ("python",), "", 1, "one ... three\n")
    check_output(block, "one two three\n", tmp_path)
    with pytest.raises(AssertionError, match="the page shows"):
        check_output(block, "one two\n", tmp_path)


SHOWN = {"examples/coming_from.md": "patterns", "examples/README.md": "column_sums"}


@pytest.mark.parametrize("page", SHOWN)
def test_kernels_of_the_examples_are_shown_as_they_are(page):
    """The pages and the tests of the examples speak of the same kernels."""
    text, name = (ROOT / page).read_text(), SHOWN[page]
    source = (ROOT / "examples" / f"{name}.py").read_text()
    kernels = re.findall(r"^@tile\.kernel.*?(?=\n\n\n)", source, re.DOTALL | re.MULTILINE)
    assert len(kernels) >= 3
    for kernel in kernels:
        assert kernel in text, kernel
