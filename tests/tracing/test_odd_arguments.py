"""Whatever a method is given, it works or raises a TileError at the person's line."""

from __future__ import annotations

import re

import numpy as np

import gizml_tile as tile
from gizml_tile.errors import TileError
from gizml_tile.program import trace

DATA = np.zeros((8, 8), np.float32)
ODD = [
    *(None, True, 0, -1, 2.5, float("nan"), 10**30, "x", b"y", [], [1], [1, 2], (None,), {}, {1: 2}),
    *(slice(1), Ellipsis, np.zeros(3), np.float32(1), np.complex64(1), object(), int, tile.F32, range(3)),
    np.datetime64("2020-01-01"),
]
OPERATORS = "add radd sub mul truediv floordiv mod pow rpow matmul and xor lshift eq lt neg invert".split()
PROTOCOLS = "getitem setitem len iter bool contains float int index round".split()
ARITY = re.compile("positional argument|unexpected keyword|expected 1 argument")


def attempt(function, *arguments):
    """What goes wrong other than a TileError at this file, as text; None where all is well."""
    try:
        function(*arguments)
    except TileError as error:
        return None if error.filename == __file__ and "gizml_tile" not in error.message else str(error)
    except TypeError as error:
        return None if ARITY.search(str(error)) else repr(error)
    except Exception as error:
        return repr(error)
    return None


def methods(value):
    special = [f"__{name}__" for name in [*OPERATORS, *PROTOCOLS]]
    names = [name for name in dir(type(value)) if not name.startswith("_")]
    found = [getattr(value, name) for name in [*names, *special] if hasattr(value, name)]
    return [each for each in found if callable(each)]


def test_methods_and_operators():
    wrong = []

    def body(p):
        x, i = p.zeros([8, 8]), p.id(0)
        values = [x, x < 1, p.zeros([8, 8], np.int32), i, p.read(DATA, [8, 8]), p.write(DATA, [8, 8]), p]
        odd = [*ODD, *values]
        for value in values:
            for method in methods(value):
                cases = [
                    (),
                    *((each,) for each in odd),
                    *((a, b) for a in odd[::3] for b in (None, x, i, [0, 0])),
                ]
                wrong.extend((method, case, w) for case in cases if (w := attempt(method, *case)) is not None)

    trace("odd", body)
    assert wrong == []


def test_loops_and_branches():
    wrong = []

    def body(p):
        x, i = p.zeros([8, 8]), p.id(0)
        odd = [*ODD, x, x < 1, i, p]
        for a in odd:
            for b in (None, 2, 0.5, "x", x, i):
                cases = [
                    (p.fold, 0, a, b, lambda k, carried: carried),
                    (p.fold, 0, 3, b, lambda k, carried, a=a: a),
                    (p.loop, 0, 3, [a, b], lambda k, carried, a=a: a),
                    (p.cond, i < 3, lambda a=a: a, lambda b=b: b),
                    (p.cond, a, b, lambda: None),
                    (p.full, [8], a, b),
                    (p.iota, a, 0, b),
                    ((x < 1).select, a, b),
                    ((i < 1).select, a, b),
                    (p.read, DATA, a, b),
                ]
                wrong.extend((case, w) for case in cases if (w := attempt(*case)) is not None)

    trace("odd", body)
    assert wrong == []
