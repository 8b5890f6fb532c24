"""Launches that are mistakes: for each the message and where it points. Nothing is changed by any."""

import linecache
from pathlib import Path

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile import specialise

TRACE = specialise._trace


@pytest.fixture(autouse=True)
def without_previews(monkeypatch):
    """Without what all tests trace beside each kernel, which would stand among the callers of an error."""
    monkeypatch.setattr(specialise, "_trace", TRACE)


@tile.kernel(grid=lambda x, BM, **_: tile.cdiv(x.shape[0], BM))
def add(p, x, y, out, *, BM=8):
    X, Y, Z = p.read(x, [BM]), p.read(y, [BM]), p.write(out, [BM])
    Z[p.id(0)] = X[p.id(0)] + Y[p.id(0)]


@tile.kernel
def gridless(p, x, n, out):
    p.write(out, [8])[p.id(0)] = p.read(x, [8])[p.id(0) + n]


@tile.kernel(grid=1)
def scale(p, x, /, factor=1.0, *rest, mode, **more):
    X = p.write(x, [8])
    X[0] = p.zeros([1, 8])


@tile.kernel(grid=1)
def first(p, x, /):
    p.write(x, [8])[0] = p.zeros([1, 8])


@tile.kernel(grid=lambda rows: rows)
def misnamed(p, x):
    p.write(x, [8])[0] = p.zeros([1, 8])


@tile.kernel(grid=1, configs=[{"BM": 8}, {"BM": 16}])
def tuned(p, x, *, BM):
    p.write(x, [BM])[0] = p.zeros([1, BM])


def fresh():
    """Arrays and names for one case."""
    x, y, out = (np.arange(32, dtype=np.float32) for _ in range(3))
    fixed = out.copy()
    fixed.flags.writeable = False
    record = np.zeros(4, [("a", np.int32)])
    unaligned = np.zeros(129, np.uint8)[1:].view(np.float32)
    return globals() | {
        "x": x,
        "y": y,
        "out": out,
        "fixed": fixed,
        "record": record,
        "unaligned": unaligned,
        "np": np,
        "body": lambda p: p.write(out, [8]).put(p.read(x, [8]).at([0]), [0]),
    }


def cases():
    """The launches of the text beside this file, each with its message."""
    lines = Path(__file__).with_name("wrong_launches.txt").read_text().splitlines()[1:]
    return list(zip(lines[::2], [line.strip() for line in lines[1::2]], strict=True))


CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_wrong_launch(case):
    marked, message = case
    text = marked.replace("«", "").replace("»", "")
    filename = f"<wrong launch {text}>"
    linecache.cache[filename] = (len(text), None, [text + "\n"], filename)
    names = fresh()
    with pytest.raises(tile.TileError) as caught:
        exec(compile(text, filename, "exec"), names)
    error = caught.value
    assert error.message == message
    assert (error.filename, error.lineno, error.column) == (filename, 1, marked.index("«") + 1)
    assert error.place.end_column == marked.index("»")
    first, source, caret = str(error).splitlines()[:3]
    assert first == f"{filename}:1:{error.column}: {message}"
    assert source.strip() == text
    assert caret.strip() == "^" * (marked.index("»") - marked.index("«") - 1)
    assert "gizml_tile" not in str(error).replace(filename, "")
    for name in ("x", "y", "out"):
        assert np.array_equal(names[name], np.arange(32, dtype=np.float32))
