"""Colour, tables and progress on a terminal, and nothing of them anywhere else."""

import io
import os
import pty
import re
import subprocess
import sys
import time

import pytest

from gizml_tile import cli
from gizml_tile.cli import output

CODES = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
COMMAND = os.path.join(os.path.dirname(sys.executable), "gizml-tile")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Runs the command on a terminal of 40 columns; its exit code, what it shows, and that plain."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments):
        shown = Terminal()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", shown)
            code = cli.main([str(argument) for argument in arguments])
        return code, shown.getvalue(), CODES.sub("", shown.getvalue())

    return run


ARGUMENTS = ["-a", "x=f16[100]", "-a", "out=f32[100]", "-a", "factor=0.5"]
COLOURED = [
    ["preview"],
    ["preview", "--diff"],
    ["ir", *ARGUMENTS],
    ["ir", *ARGUMENTS, "-k", "hip"],
    *(["source", *ARGUMENTS, "-k", kind] for kind in ("cpu", "cuda", "hip", "metal")),
    ["explain", *ARGUMENTS, "-k", "cuda"],
]


@pytest.mark.parametrize("arguments", COLOURED)
def test_texts_are_coloured_and_whole(file, command, terminal, arguments):
    arguments = [arguments[0], f"{file}:scale", *arguments[1:]]
    code, shown, bare = terminal(*arguments)
    plain = command(*arguments)[1]
    assert code == 0 and "\x1b[" in shown and "\x1b" not in plain
    assert max(map(len, plain.splitlines())) > 40
    assert list(map(str.split, bare.splitlines())) == list(map(str.split, plain.splitlines()))


def test_no_colour_where_it_is_not_wanted(file, command, terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    for arguments in (["preview", f"{file}:scale"], ["check", f"{file}:scale", *ARGUMENTS]):
        _, shown, _ = terminal(*arguments)
        assert shown == command(*arguments)[1]


def test_the_outcome_of_a_check_has_a_colour(file, terminal):
    _, shown, bare = terminal("check", f"{file}:scale", *ARGUMENTS)
    assert "\x1b[32m" in shown
    assert bare == "scale for cpu (native): no errors, no warnings, no costs; run\n"


def test_tables(terminal):
    _, shown, _ = terminal("devices")
    assert "─" in shown or "━" in shown


def test_json_stays_json(file, terminal, command):
    arguments = ["check", f"{file}:scale", *ARGUMENTS, "--json"]
    assert terminal(*arguments)[1] == command(*arguments)[1]


def test_progress_of_what_takes_long(monkeypatch):
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(output, "_PATIENCE_SECONDS", 0.05)
    monkeypatch.setenv("TERM", "xterm-256color")
    with output.steps(3) as step:
        step("the first")
        step("the second")
        time.sleep(0.3)
    text = CODES.sub("", shown.getvalue())
    assert "the second" in text and "1/3" in text


def test_no_progress_of_what_is_quick_or_piped(monkeypatch):
    for stream, seconds in ((Terminal(), 0.0), (io.StringIO(), 0.1)):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(output, "_PATIENCE_SECONDS", 0.05)
        with output.steps(1) as step:
            step("only")
            time.sleep(seconds)
        assert stream.getvalue() == ""


def test_on_a_terminal_of_the_system(file):
    """The installed command, whose output is a pseudo-terminal's."""
    here, there = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color"}
    done = subprocess.run([COMMAND, "preview", f"{file}:negated"], stdout=there, env=environment)
    os.close(there)
    shown = os.read(here, 1 << 16).decode()
    os.close(here)
    assert done.returncode == 0 and "\x1b[" in shown
    assert CODES.sub("", shown).startswith("def negated(x):")


def test_the_installed_command(file):
    result = subprocess.run([COMMAND, "preview", f"{file}:negated"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("def negated(x):")
    again = [sys.executable, "-m", "gizml_tile", "preview", f"{file}:negated"]
    assert subprocess.run(again, capture_output=True, text=True).stdout == result.stdout
    line = f"{COMMAND} preview {file} | head -n 1"
    piped = subprocess.run(line, shell=True, capture_output=True, text=True)
    assert piped.stdout == "def negated(x):\n"
    assert piped.stderr == ""
