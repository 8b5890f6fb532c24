"""Checks that fail: raised after the launch at their line, and found by the simulator."""

import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.cli import main

TARGETS = (("cuda", "sm_80"), ("cuda", "sm_90a"), ("hip", "gfx942"), ("hip", "gfx1100"), ("metal", "apple9"))


@tile.kernel(grid=(2, 2))
def bounded(p, x, y, *, limit):
    i, j = p.id(0), p.id(1)
    t = p.read(x, [4, 8])[i, j]
    p.check(t < limit, "x is below the limit", t)
    p.write(y, [4, 8])[i, j] = t


def failure(launch):
    with pytest.raises(tile.TileError) as caught:
        launch()
    return caught.value


def numbers():
    x = np.zeros((8, 16), np.int32)
    x[5, 3], x[6, 1], x[7, 7] = 9, 12, 8
    x[1, 15] = 30
    return x


def test_a_check_that_holds():
    x, y = numbers(), np.ones((8, 16), np.int32)
    assert bounded(x, y, limit=31, debug=True) == (y,)
    np.testing.assert_array_equal(x, y)
    # Not debugged, nothing is checked.
    bounded(x, y, limit=0)


def test_a_check_that_fails():
    x, y = numbers(), np.ones((8, 16), np.int32)
    error = failure(lambda: bounded(x, y, limit=9, debug=True))
    assert error.message == (
        "check failed: x is below the limit: in program (1, 0) 2 of 4 x 8 elements, the first at [1, 3] "
        "where the value is 9; it fails 1 more time"
    )
    assert error.lineno == bounded.__wrapped__.__code__.co_firstlineno + 4
    assert error.filename == __file__
    # The launch ran to its end.
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(("kind", "arch"), TARGETS)
def test_the_simulator_finds_them(kind, arch):
    x, y = numbers(), np.ones((8, 16), np.int32)
    message = failure(lambda: bounded(x, y, limit=9, debug=True)).message
    y[:] = 1
    (finding,) = bounded.simulate(x, y, limit=9, debug=True, kind=kind, arch=arch).findings
    assert (finding.kind, finding.text, finding.count) == ("check", message, 2)
    assert finding.line == bounded.__wrapped__.__code__.co_firstlineno + 4
    np.testing.assert_array_equal(x, y)
    assert bounded.simulate(x, y, limit=31, debug=True, kind=kind, arch=arch).findings == ()


@tile.kernel(grid=3)
def several(p, x, y):
    i = p.id(0)
    p.check(i < 2, "few programs")
    for k in range(4):
        t = p.read(x, [8])[k]
        p.check(t != 5, "no five", k)
        if k == 3:
            p.check(False, "never here")
    p.write(y, [8])[i] = p.zeros([8])


def test_several_checks():
    x, y = np.zeros(32, np.float32), np.zeros(24, np.float32)
    x[17] = 5
    error = failure(lambda: several(x, y, debug=True))
    assert error.message == (
        "check failed: no five: in program 0 1 of 1 x 8 elements, the first at [0, 1] where the value is 2; "
        "it fails 2 more times; 2 other checks fail"
    )
    findings = several.simulate(x, y, debug=True, kind="cuda", arch="sm_80").findings
    assert [(each.line - error.lineno, each.count) for each in findings] == [(0, 3), (2, 3), (-3, 1)]
    assert findings[2].text == "check failed: few programs: in program 2"


@pytest.mark.parametrize("size", [1, 2, 64, 1024, 8192])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.int64])
def test_the_first_element_and_its_value(size, dtype):
    rng = np.random.default_rng(size)
    for columns in {size, max(size // 32, 1)}:
        x = rng.integers(0, 50, (size // columns, columns)).astype(dtype)
        wrong = np.flatnonzero(x >= 40)
        if not len(wrong):
            x.flat[-1], wrong = 40, np.array([size - 1])

        def body(p, x=x):
            t = p.read(x, x.shape).at([0, 0])
            p.check(t.lt(40), "small", t.mul(2))

        error = failure(lambda body=body: tile.run(1, body, debug=True))
        at = list(map(int, divmod(wrong[0], columns)))
        value = x.flat[wrong[0]].astype(np.float32 if np.dtype(dtype).kind == "f" else np.int64) * 2
        of = f" {len(wrong)} of {size // columns} x {columns} elements, the first at {at}" if size > 1 else ""
        assert error.message == f"check failed: small: in program 0{of} where the value is {value}"


def test_values_that_are_no_numbers():
    x = np.array([[1, np.nan, np.inf, -np.inf]], np.float32)

    def body(p):
        t = p.read(x, [1, 4]).at([0, 0])
        p.check(t.eq(t), "no NaN", t)
        p.check(t.abs().lt(1e30).or_(t.ne(t)), "finite", t)
        p.check(t.ge(-1e30).or_(t.ne(t)), "not below", t)

    error = failure(lambda: tile.run(1, body, debug=True))
    assert "the first at [0, 1] where the value is nan; 2 other checks fail" in error.message


def test_the_command_line(capsys, tmp_path, monkeypatch):
    file = tmp_path / "checked.py"
    file.write_text(
        "import gizml_tile as tile\n"
        "@tile.kernel(grid=1)\n"
        "def checked(p, x):\n"
        "    t = p.read(x, [8])[0]\n"
        '    p.check(t != t, "another")\n'
    )
    arguments = ["check", str(file), "-a", "x=i32[8]", "-k", "cuda", "--arch", "sm_80"]
    assert main(arguments) == 1
    found = capsys.readouterr().out
    assert f"{file}:5:5: check: check failed: another: in program 0 8 of 1 x 8 elements" in found
    assert "1 error, no warnings, no costs; simulated" in found
