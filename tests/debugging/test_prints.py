"""What programs print: the same text from the CPU and from every simulated GPU, and nothing unless asked."""

import os
import subprocess
import sys

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.dtypes import to_numpy

TARGETS = (("cuda", "sm_80"), ("cuda", "sm_90a"), ("hip", "gfx942"), ("hip", "gfx1100"), ("metal", "apple9"))


def lines_of(text):
    """Printed lines without the names of files, which pytest's rewriting does not change."""
    return text.replace("test_prints.py:", "").splitlines()


def printed(capsys, kernel, *args, **constants):
    """What a launch prints, which is what each simulated one prints."""
    before = [np.copy(each) for each in args]
    kernel(*args, debug=True, **constants)
    text = capsys.readouterr().out
    for kind, arch in TARGETS:
        again = [np.copy(each) for each in before]
        run = kernel.simulate(*again, debug=True, kind=kind, arch=arch, **constants)
        assert capsys.readouterr().out == text, arch
        assert run.findings == (), arch
        for one, two in zip(args, again, strict=True):
            assert one.tobytes() == two.tobytes()
    return lines_of(text)


def line_of(kernel, number):
    """The line of a kernel's source that is so far below its decorator."""
    return kernel.__wrapped__.__code__.co_firstlineno + number


@tile.kernel(grid=(2, 3))
def ids(p, x):
    p.print("here")
    p.print(p.id(0), p.id(1), "of", p.count(0), 1.5, None)
    X = p.read(x, [8])
    p.print("blocks", X.blocks(0))


def test_lines_tell_place_and_program(capsys):
    found = printed(capsys, ids, np.zeros(20, np.float32))
    one, two, three = (line_of(ids, number) for number in (2, 3, 5))
    assert found == [
        line
        for y in range(3)
        for x in range(2)
        for line in (
            f"{one}: program ({x}, {y}): here",
            f"{two}: program ({x}, {y}): {x} {y} of 2 1.5 None",
            f"{three}: program ({x}, {y}): blocks 3",
        )
    ]


@tile.kernel(grid=2)
def turns(p, x, y, *, B=8):
    i = p.id(0)
    X, Y = p.read(x, [B]), p.write(y, [B])
    total = p.zeros([1, B], tile.I32)
    for k in range(X.blocks(0)):
        total += X[k]
        if k > i:
            p.print("later", k)
            for j in range(k):
                p.print(j, total)
        else:
            p.print("early", k, "of", i)
    Y[i] = total


def test_prints_in_loops_and_branches(capsys):
    x = np.arange(24, dtype=np.int32)
    expected = []
    later, inner, early = (f"{line_of(turns, number)}: program" for number in (8, 10, 12))
    for i in range(2):
        total = np.zeros((1, 8), np.int32)
        for k in range(3):
            total = total + x[8 * k : 8 * k + 8]
            if k > i:
                expected.append(f"{later} {i}: later {k}")
                expected += [f"{inner} {i}: {j} {total}" for j in range(k)]
            else:
                expected.append(f"{early} {i}: early {k} of {i}")
    assert printed(capsys, turns, x, np.zeros(16, np.int32)) == expected


@tile.kernel(grid=1)
def whole(p, x, *, R, C):
    t = p.read(x, [R, C])[0, 0]
    p.print("x", t, t.T)


@pytest.mark.parametrize("dtype", "F32 F16 BF16 FP8 I8 U8 I16 I32 I64 MASK".split())
def test_every_type(capsys, dtype):
    dtype = tile.DType[dtype]
    values = np.array([[0, 1, 2.5, -3], [100, 7, -0.0, 5]])
    if dtype.is_float:
        x = values.astype(to_numpy(dtype))
        x[1, 0] = np.nan if dtype is tile.FP8 else np.inf
        shown = x.astype(np.float32)
    else:
        x = shown = (values > 2 if dtype is tile.MASK else abs(values)).astype(
            bool if dtype is tile.MASK else to_numpy(dtype)
        )
    lines = printed(capsys, whole, x, R=2, C=4)
    start = f"{line_of(whole, 3)}: program 0: x "
    assert "".join(lines).startswith(start)
    expected = f"{start}{shown}".replace("\n ", "\n" + " " * (len(start) + 1)).splitlines()
    assert [line.rstrip() for line in lines[:1]] == expected[:1]
    assert " ".join(" ".join(lines).split()) == " ".join(f"{start}{shown} {shown.T}".split())


def test_extreme_values(capsys):
    x = np.array([[np.nan, np.inf, -np.inf, 1e-45, 3.4e38, -0.0, 16777217, 1 / 3]], np.float32)
    lines = printed(capsys, ends, x)
    text = np.array2string(x, max_line_width=100)
    assert " ".join(" ".join(lines).split()) == f"{line_of(ends, 2)}: program 0: {' '.join(text.split())}"
    for kind in (np.int64, np.uint64):
        wide = np.array([[np.iinfo(kind).min, np.iinfo(kind).max]], kind)
        (line,) = printed(capsys, ends, wide)
        assert line.endswith(f": {wide}")


@tile.kernel(grid=1)
def ends(p, x):
    p.print(p.read(x, [1, 8] if x.dtype is tile.F32 else [1, 2])[0, 0])


@pytest.mark.parametrize("shape", [(32, 32), (64, 32), (4, 512), (1, 2048), (1024, 2)])
def test_large_tiles_print_as_numpy_prints_them(capsys, shape):
    x = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    rows, columns = shape
    lines = printed(capsys, shown, x, R=rows, C=columns)
    expected = np.array2string(x, threshold=1000, edgeitems=3, max_line_width=100).splitlines()
    assert [line.split(": ")[-1].strip() for line in lines] == [line.strip() for line in expected]


@tile.kernel(grid=1)
def shown(p, x, *, R, C):
    p.print(p.read(x, [R, C])[0, 0])


def test_without_debug_nothing_is_there(capsys):
    @tile.kernel(grid=1)
    def silent(p, x, y):
        t = p.read(x, [8])[0]
        p.print("sum", t.sum(1), t > 3)
        p.check(t.gt(100), "never true")
        p.write(y, [8])[0] = t

    @tile.kernel(grid=1)
    def plain(p, x, y):
        t = p.read(x, [8])[0]
        p.write(y, [8])[0] = t

    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)

    def nodes(kernel):
        return [line.split()[1:3] for line in kernel.ir(x, y).splitlines()[2:]]

    assert nodes(silent) == nodes(plain)
    assert silent(x, y) == (y,) and capsys.readouterr().out == ""
    assert "scatter" not in silent.ir(x, y, debug=False) and "scatter" in silent.ir(x, y, debug=True)


def test_every_launch_prints(capsys):
    x = np.zeros(20, np.float32)
    for _ in range(4):
        ids(x)
        assert capsys.readouterr().out == ""
    first = None
    for _ in range(4):
        ids(x, debug=True)
        found = capsys.readouterr().out
        assert found and first in (None, found)
        first = found
    ids(x)
    assert capsys.readouterr().out == ""
    # What was traced and compiled for one launch serves the others; others write nothing.
    assert ids.cache_info().size == 1


def test_the_explicit_form(capsys):
    x, y = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)

    def body(p):
        t = p.read(x, [8]).at([0])
        p.print("total", t.sum(1))
        p.write(y, [8]).put(t, [0])

    assert tile.run(1, body) == (y,) and capsys.readouterr().out == ""
    assert tile.run(1, body, debug=True) == (y,)
    assert capsys.readouterr().out.endswith(": program 0: total 28\n")
    tile.simulate(1, body, debug=True, kind="cuda", arch="sm_80")
    assert capsys.readouterr().out.endswith(": program 0: total 28\n")

    def debugged(p):
        p.debug()
        body(p)

    tile.run(1, debugged)
    assert capsys.readouterr().out.endswith(": program 0: total 28\n")


def test_tuning_prints_once(capsys):
    @tile.kernel(grid=1, configs=[{"B": 8}, {"B": 16}], measure=True)
    def tuned(p, x, y, *, B):
        p.print("block", B)
        for k in range(p.read(x, [B]).blocks(0)):
            p.write(y, [B])[k] = p.read(x, [B])[k]

    x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    tuned(x, y, debug=True)
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert "measured" in tuned.explain(x, y, debug=True, measure=True)
    assert capsys.readouterr().out == ""


def test_a_grid_without_programs_prints_nothing(capsys):
    ids[0, 4](np.zeros(20, np.float32), debug=True)
    assert capsys.readouterr().out == ""


def test_printing_where_nothing_is_written(capsys):
    @tile.kernel(grid=2)
    def lonely(p, x, y):
        p.print("sum", p.read(x, [8])[p.id(0)].sum(1))
        p.write(y, [8])[0] = p.zeros([8])

    lonely(np.arange(16, dtype=np.int32), np.zeros(0, np.float32), debug=True)
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["28", "92"]
    tile.run(2, lambda p: p.print("no tensor", p.id(0)), debug=True)
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_what_there_is_no_room_for(capsys, monkeypatch):
    monkeypatch.setenv("GIZML_TILE_DEBUG_SIZE", "256")
    with pytest.warns(
        UserWarning,
        match=r"11 records of p.print and p.check are lost: each program has room "
        r"for 16 words of 8 bytes; GIZML_TILE_DEBUG_SIZE=1G",
    ):
        many(np.zeros(4, np.int32), debug=True)
    # Two words of a row are taken, and a record here is of two.
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == [
        *map(str, range(7)),
        *map(str, range(5)),
    ]
    monkeypatch.setenv("GIZML_TILE_DEBUG_SIZE", "much")
    with pytest.raises(tile.TileError, match="GIZML_TILE_DEBUG_SIZE=much is not a number of bytes"):
        many(np.zeros(4, np.int32), debug=True)


@tile.kernel(grid=2)
def many(p, y):
    for k in range(18 - p.id(0) * 13):
        p.print(k)
    p.write(y, [2])[p.id(0)] = p.zeros([2], tile.I32)


def test_the_variable(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np\n"
        "import gizml_tile as tile\n"
        "@tile.kernel(grid=1)\n"
        "def speak(p, y):\n"
        '    p.print("hello", p.id(0))\n'
        "    p.write(y, [8])[0] = p.zeros([8])\n"
        "for debug in (None, False):\n"
        "    speak(np.zeros(8, np.float32), debug=debug)\n"
    )
    cache = {"GIZML_TILE_CACHE": str(tmp_path / "cache")}
    for value, text in (("1", "program.py:5: program 0: hello 0\n"), ("0", ""), ("", "")) * 2:
        done = subprocess.run(
            [sys.executable, program],
            env=os.environ | cache | {"GIZML_TILE_DEBUG": value},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == text
