"""A kernel behaves the same under every way to define a Python function."""

import functools
import linecache
import subprocess
import sys

import numpy as np
import pytest
from explicit import explicit
from launched import numbers, run

import gizml_tile as tile


def test_a_kernel_in_a_class_with_private_names():
    class Holder:
        __scale = 3

        @staticmethod
        def __twice(x):
            return x + x if x > 0 else x

        @tile.kernel(grid=1)
        def run(p, x, y):
            p.write(y, [4])[0] = Holder.__twice(p.read(x, [4])[0]) * Holder.__scale

    (y,) = Holder.run(numbers(4), np.zeros(4, np.float32))
    assert y.tolist() == [6, 12, 18, 24]


def test_a_kernel_under_other_decorators():
    seen = []

    def note(function):
        seen.append(function)
        return function

    @note
    @tile.kernel(grid=1)
    @note
    def run(p, x, y):
        p.write(y, [4])[0] = p.read(x, [4])[0] if p.id(0) == 0 else 0

    (y,) = run(numbers(4), np.zeros(4, np.float32))
    assert y.tolist() == [1, 2, 3, 4] and len(seen) == 2


def test_a_kernel_behind_a_wrapper():
    calls = []

    def counted(function):
        @functools.wraps(function)
        def wrapper(*args, **keywords):
            calls.append(function.__name__)
            return function(*args, **keywords)

        return wrapper

    @tile.kernel(grid=1)
    @counted
    def run(p, x, y, *, TIMES=2):
        for k in range(TIMES):
            p.write(y, [4])[0] = p.read(x, [4])[0] * k if k > 0 else 0

    (y,) = run(numbers(4), np.zeros(4, np.float32))
    assert y.tolist() == [1, 2, 3, 4] and set(calls) == {"run"}
    assert run.preview().startswith("def run(*args, **keywords):")


def test_a_lambda_kernel():
    clip = tile.kernel(lambda p, x, y: p.write(y, [4]).put(max(p.read(x, [4])[0], 2), [0]), grid=1)
    (y,) = clip(numbers(4), np.zeros(4, np.float32))
    assert y.tolist() == [2, 2, 3, 4]
    assert clip.preview().splitlines()[1] == (
        "    return p.write(y, [4]).put(p.read(x, [4]).at([0]).maximum(2), [0])"
    )


def test_two_lambdas_on_a_line():
    a, b = (
        lambda p, x, y: p.write(y, [4]).put(-p.read(x, [4])[0], [0]),
        lambda p, x, y: p.write(y, [4]).put(abs(p.read(x, [4])[0]), [0]),
    )
    assert ".neg()" in explicit(a) and ".abs()" in explicit(b)


def test_a_kernel_defined_by_exec():
    source = "def kernel(p, x, y):\n    p.write(y, [4])[0] = min(p.read(x, [4])[0], 2)\n"
    names = {}
    exec(compile(source, "<no such text>", "exec"), names)
    with pytest.raises(tile.TileError, match=r"source of kernel cannot be found.*tile\.run"):
        tile.kernel(names["kernel"], grid=1)
    (y,) = run(source, numbers(4), np.zeros(4, np.float32))
    assert y.tolist() == [1, 2, 2, 2]


def test_a_kernel_in_a_repl_with_source():
    text = (
        "import gizml_tile as tile\n@tile.kernel(grid=1)\n"
        "def kernel(p, x, y):\n    p.write(y, [4])[0] = abs(p.read(x, [4])[0])\n"
    )
    filename = "<python-input-0>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    names = {"__name__": "__main__"}
    exec(compile(text, filename, "exec"), names)
    (y,) = names["kernel"](-numbers(4), np.zeros(4, np.float32))
    assert y.tolist() == [1, 2, 3, 4]


def test_a_kernel_typed_at_the_prompt():
    program = (
        "import gizml_tile as tile\n@tile.kernel(grid=1)\ndef kernel(p, x):\n"
        "    p.write(x, [4])[0] = 1\n\nprint(kernel.preview())\n"
    )
    done = subprocess.run(
        [sys.executable, "-i", "-q"], input=program, capture_output=True, text=True, timeout=60
    )
    if sys.version_info >= (3, 13):  # the prompt keeps what was typed
        assert "p.write(x, [4]).put(1, [0])" in done.stdout
    else:
        assert "the source of kernel cannot be found" in done.stderr
        assert "tile.run(grid, body)" in done.stderr


def test_a_file_edited_after_import(tmp_path):
    path = tmp_path / "edited.py"
    path.write_text("def kernel(p, x, y):\n    p.write(y, [4])[0] = p.read(x, [4])[0] + 1\n")
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    kernel = tile.kernel(names["kernel"], grid=1)
    path.write_text("def kernel(p, x, y):\n    p.write(y, [4])[0] = p.read(x, [4])[0] - 1\n")
    (y,) = kernel(numbers(4), np.zeros(4, np.float32))
    assert y.tolist() == [2, 3, 4, 5]
    for text in (path.read_text(), path.read_text().replace("- 1", "+ 2"), "\n" * 9, "x = 1\n"):
        path.write_text(text)
        with pytest.raises(tile.TileError, match="the file has changed since it was loaded"):
            tile.kernel(names["kernel"], grid=1)


def test_a_kernel_whose_asserts_a_test_runner_rewrites():
    @tile.kernel(grid=1)
    def run(p, x, y, *, SIZE=4):
        assert SIZE == 4, "sizes"
        p.write(y, [SIZE])[0] = p.read(x, [SIZE])[0]
        assert x.ndim == 1

    (y,) = run(numbers(4), np.zeros(4, np.float32))
    assert y.tolist() == [1, 2, 3, 4]


def test_code_that_a_tool_instruments():
    import ast

    source = "def kernel(p, x, y, *, N=2):\n    t = p.read(x, [4])[0]\n    t = t * N\n    p.write(y, [4])[0] = t\n"
    filename = "<instrumented>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)

    def instrumented(text):
        tree = ast.parse(text)
        body = tree.body[0].body
        for place in range(len(body), 0, -1):
            probe = ast.parse("probe('line')").body[0]
            for node in ast.walk(probe):
                if hasattr(node, "lineno"):
                    node.lineno = node.end_lineno = body[place - 1].lineno
            body.insert(place - 1, probe)
        names = {"probe": lambda text: None}
        exec(compile(tree, filename, "exec"), names)
        return names["kernel"]

    assert "t.mul(N)" in explicit(instrumented(source))
    for other in (
        source.replace("* N", "+ N"),
        source.replace("[0]", "[1]"),
        source.replace("t * N", "t * x"),
    ):
        with pytest.raises(tile.TileError, match="the file has changed"):
            explicit(instrumented(other))
