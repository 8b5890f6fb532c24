"""Wrong programs: for each the message, and the file, line, column and width of what it points at."""

import linecache
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from explicit import ir, rewritten, scalar, tensor, written

import gizml_tile as tile

HEAD = """
def kernel(p, x, y, n, *, DEBUG=False):
    i, j = p.id(0), p.id(1)
    A, C = p.read(x, [8, 8]), p.write(y, [8, 8])
    a, b = A[0, 0], A[0, 1]
"""


def helper_break(x):
    for _ in range(4):
        if x is None:
            break
        x = x + 1
    return x


def helper_collect(x):
    found = []
    for k in range(4):
        found.append(x + k)
    return found[0]


def helper_while(x):
    k = 4
    while x.sum(1) > k:
        x = x - 1
    return x


def helper_return(x, n):
    if n > 3:
        return x
    return x + 1


def helper_items(x, items, n):
    if n < 2:
        items[0] = x
    return x


def programs():
    """Each program, its marked body and its message."""
    text = Path(__file__).with_name("wrong_programs.txt").read_text()
    for entry in text.partition("\n")[2].split("---\n"):
        body, _, message = entry.rpartition("\n> ")
        yield body, message.strip()


def place(lines):
    """Line, column, end line and end column of the marks in a text, and the text without them."""
    text = "\n".join(lines)
    before, _, rest = text.partition("«")
    inside, _, after = rest.partition("»")
    clean = before + inside + after
    start = (before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
    through = before + inside
    end = (through.count("\n") + 1, len(through) - (through.rfind("\n") + 1) + 1)
    return clean, start, end


PROGRAMS = list(programs())


def run(body):
    """The error of a program's body, and where its marks are: file, start and end."""
    lines = [
        *HEAD.strip("\n").splitlines(),
        *("    " + line for line in body.splitlines()),
        "    C[7, 7] = a",
    ]
    clean, start, end = place(lines)
    names = {
        "box": SimpleNamespace(value=1),
        "COUNT": 0,
        "items": [1, 2],
        "k": 0,
        "helper_items": helper_items,
        "helper_break": helper_break,
        "helper_collect": helper_collect,
        "helper_while": helper_while,
        "helper_return": helper_return,
    }
    function = written(clean, "kernel", **names)
    with pytest.raises(tile.TileError) as caught:
        ir(rewritten(function), tensor("x"), tensor("y"), scalar("n"))
    return caught.value, (function.__code__.co_filename, start, end)


@pytest.mark.parametrize(
    ("body", "message"), PROGRAMS, ids=[re.sub(r"\s+", " ", body) for body, _ in PROGRAMS]
)
def test_wrong_program(body, message):
    error, (filename, start, end) = run(body)
    message, _, helper = message.partition("\n@ ")
    assert error.message == message
    assert not re.search(r"loop_\d|then_\d|else_\d|dispatch|_operate|Value", str(error))
    line = linecache.getline(error.filename, error.lineno).rstrip("\n")
    assert line.strip() and line in str(error)
    if helper:
        # The mistake is in a helper above, at this piece of its text.
        assert error.filename == __file__
        assert line[error.column - 1 : error.place.end_column - 1] == helper
        return
    assert error.filename == filename
    assert (error.lineno, error.column) == start
    assert (error.place.end_line, error.place.end_column) == end


@pytest.mark.parametrize(
    ("source", "message", "line", "column"),
    [
        (
            "async def kernel(p, x):\n    pass\n",
            "`async` on a kernel: its body runs once, to record it, and awaits nothing",
            1,
            1,
        ),
        (
            "def kernel(p, x):\n    async def f():\n        pass\n    async with x:\n        pass\n",
            None,
            None,
            None,
        ),
    ],
)
def test_async(source, message, line, column):
    if message is None:
        with pytest.raises(SyntaxError):
            compile(source, "<text>", "exec")
        return
    with pytest.raises(tile.TileError, match=re.escape(message)) as caught:
        rewritten(written(source))
    assert (caught.value.lineno, caught.value.column) == (line, column)
