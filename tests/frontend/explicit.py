"""Rewriting for tests: the explicit text of a function, and the tile IR that it and its text trace to."""

import itertools
import linecache
import textwrap
from types import FunctionType

import gizml_tile as tile
from gizml_tile.arguments import ScalarArgument, TensorArgument
from gizml_tile.dtypes import F32, I64
from gizml_tile.frontend import capture, rewrite
from gizml_tile.program import trace
from gizml_tile.text import text as ir_text

_numbers = itertools.count()


def written(source, name=None, filename=None, **names):
    """The last function that a source text defines (or the one of a name), with its text to be found."""
    source = textwrap.dedent(source).strip("\n") + "\n"
    filename = filename or f"<written {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    names = {"tile": tile, "__name__": "written", **names}
    exec(compile(source, filename, "exec"), names)
    functions = [
        value
        for value in names.values()
        if isinstance(value, FunctionType) and value.__code__.co_filename == filename
    ]
    return names[name] if name else functions[-1]


def explicit(function, kind="kernel"):
    """The text that a function is rewritten to."""
    return rewrite(capture(function), kind).text


def rewritten(function, kind="kernel"):
    """The function that is traced instead of a function."""
    return rewrite(capture(function), kind).function


def tensor(name="x", rank=2, dtype=F32):
    """A tensor argument."""
    return TensorArgument(name, dtype, rank, 0)


def scalar(name, dtype=I64):
    """A run-time number: an index, or with F32 a tile."""
    return ScalarArgument(name, dtype, 0)


def ir(function, *arguments, **constants):
    """The tile IR of a function that takes the program, without places."""

    def body(p):
        given = [p.arg(each) if isinstance(each, ScalarArgument) else each for each in arguments]
        function(p, *given, **constants)

    return ir_text(trace("program", body).program, places=False)


def preview_function(function, **cells):
    """The function that running a preview's text by itself gives."""
    text = explicit(function)
    names = {**function.__globals__, **cells, "tile": tile}
    known = set(names)
    exec(text, names)
    name = function.__name__ if function.__name__ in names else (names.keys() - known).pop()
    return names[name]


def same_ir(function, *arguments, **constants):
    """The tile IR of a kernel, which its preview traces to as well."""
    found = ir(rewritten(function), *arguments, **constants)
    contents = [cell.cell_contents for cell in function.__closure__ or ()]
    cells = dict(zip(function.__code__.co_freevars, contents, strict=True))
    defaults = function.__kwdefaults__ or {}
    assert ir(preview_function(function, **cells), *arguments, **{**defaults, **constants}) == found
    return found
