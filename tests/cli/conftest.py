"""A person's file of kernels, and the command line run on it."""

import sys

import pytest
from persons_file import TEXT

from gizml_tile import cli


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", "off")


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a file of kernels where the command is run, and gives its name; none is imported afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def write(text, name="kernels_of_a_person.py"):
        (tmp_path / name).write_text(text)
        return name

    yield write
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def file(written):
    return written(TEXT)


@pytest.fixture
def command(capsys):
    """Runs the command; its exit code, and what it printed."""

    def run(*arguments):
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        return code, out, err

    return run
