"""Wrong explicit programs as text: the expression that is wrong stands between « and »."""

from __future__ import annotations

import itertools
import linecache
import math
import textwrap

import ml_dtypes
import numpy as np

import gizml_tile
import gizml_tile.dtypes as dtypes
from gizml_tile.errors import TileError
from gizml_tile.program import trace

_numbers = itertools.count()


def names():
    """What the programs may use: tensors a b c (F32 rank 2), v (rank 1), i8, i32, half, flags."""
    return {
        "np": np,
        **{each.name: each for each in dtypes.DType},
        "a": np.zeros((100, 70), np.float32),
        "b": np.zeros((70, 50), np.float32),
        "c": np.zeros((100, 50), np.float32),
        "v": np.zeros(100, np.float32),
        "i8": np.zeros((64, 64), np.int8),
        "i32": np.zeros((64, 64), np.int32),
        "half": np.zeros((64, 64), ml_dtypes.bfloat16),
        "flags": np.zeros((64, 64), np.bool_),
        "deep": np.zeros((2, 3, 64, 64), np.float32),
        "trace": trace,
        "math": math,
        "tile": gizml_tile,
    }


def run(source):
    """The error that a program's text raises, and the position of what is marked in it."""
    text = "def body(p):\n" + textwrap.indent(textwrap.dedent(source).strip("\n"), "    ") + "\n"
    before, marked, after = text.partition("«")
    inside, end, rest = after.partition("»")
    assert marked and end, "a wrong program marks its wrong expression"
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    filename = f"<wrong program {next(_numbers)}>"
    text = before + inside + rest
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scope = names()
    exec(compile(text, filename, "exec"), scope)
    try:
        trace("wrong", scope["body"])
    except TileError as error:
        return error, (filename, line, column, inside)
    raise AssertionError("the program is not wrong")


def check(source, message):
    """Assert that a program's text raises this message at the marked expression."""
    error, (filename, line, column, inside) = run(source)
    assert error.message == message.replace("<file>", filename)
    assert (error.filename, error.lineno, error.column) == (filename, line, column)
    first, _, more = inside.partition("\n")
    if not more and error.place.end_line == line:
        assert error.place.end_column <= column + len(inside)
    lines = str(error).split("\n")
    assert lines[0] == f"{filename}:{line}:{column}: {error.message}"
    source_line = linecache.getline(filename, line).rstrip("\n")
    assert lines[1] == f"    {source_line}"
    carets = lines[2][4:]
    assert carets.strip("^ ") == "" and carets.index("^") == column - 1
    assert first.startswith(source_line[column - 1 : len(carets)])


def cases(path):
    """The (program, message) pairs of a file: programs apart by empty lines, ``! `` before a message."""
    for part in path.read_text().strip("\n").split("\n\n"):
        source, _, message = part.rpartition("\n! ")
        yield source, message
