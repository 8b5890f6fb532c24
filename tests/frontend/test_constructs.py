"""The rest of Python around tiles: every statement and way of writing that a kernel may hold."""

import math
import sys
import textwrap
import types

import numpy as np
import pytest
from explicit import same_ir, tensor, written

import gizml_tile as tile

PROGRAMS = {
    "match on a host value": (
        """
        match KIND:
            case "a" | "b":
                out = out + 1
            case [first, *rest, {"key": value, **others}] if first:
                out = out + first + value
            case str() as text if text:
                out = out + len(text)
            case _:
                out = out - 1
        """,
        lambda x: x + 5,
    ),
    "try and except": (
        """
        try:
            found = out if KIND == "hello" else 1 / 0
        except ZeroDivisionError as error:
            found = out * 2
        else:
            found = found + 1
        finally:
            out = found + 1
        try:
            raise KeyError(KIND)
        except (KeyError, ValueError):
            out = out * 2
        """,
        lambda x: (x + 2) * 2,
    ),
    "a class inside": (
        """
        class Pair:
            size = 2

            def __init__(self, left, right):
                self.left, self.right = left, right

            def larger(self):
                return self.left if self.left > self.right else self.right

        out = Pair(out, 3).larger() + Pair.size
        """,
        lambda x: np.maximum(x, 3) + 2,
    ),
    "bodies on the line of their statement": (
        """
        if KIND: out = out + 1
        else: out = out - 1
        if i == 0: out = out * 2; out = out + 1
        else: pass
        for k in range(2): out += k; out *= 2
        while False: pass
        for n in tile.unroll(2): out += n
        """,
        lambda x: (((x + 1) * 2 + 1) * 2 + 1) * 2 + 1,
    ),
    "annotated assignments": (
        """
        total: tile.Tile = out + 1
        later: int
        later = 2
        out = total * later
        """,
        lambda x: (x + 1) * 2,
    ),
    "starred coordinates": (
        """
        where = (0,)
        out = X[where] + X[*where] + X[-1 + 1]
        Y[*where] = out
        Y[where] = out
        """,
        lambda x: x * 3,
    ),
    "a carried mask and index": (
        """
        seen, last = out > 1, i
        for k in range(4):
            seen = seen and out > k
            last = last + k
        out = (1 if seen else 0) + last
        """,
        lambda x: (x > 3) + 6,
    ),
    "a mask chosen by a mask": (
        """
        m = (out > 1 if out < 4 else out < 9) and not out == 2
        out = 1 if m else 0
        """,
        lambda x: (np.where(x < 4, x > 1, x < 9)) & (x != 2),
    ),
    "dictionaries and sets of tiles": (
        """
        named = {"a": out, **{"b": out * 2}}
        named["a"] += 1
        sizes = {len(named), 2}
        squares = {n: n * n for n in range(3)}
        out = named["a"] + named["b"] + len(sizes) + squares[2] + sum({n for n in (1, 2) if n > 1})
        """,
        lambda x: x + 1 + 2 * x + 1 + 4 + 2,
    ),
    "generator expressions": (
        """
        out = sum((out * n for n in (1, 2)), out)
        parts = (part for row in [[out], [out, out]] for part in row if len(row) > 1)
        first, second = parts
        out = first + second
        """,
        lambda x: x * 8,
    ),
    "lines that go on": (
        """
        out = (out
               + 1) * (
            2  # twice
        )
        out = max(
            out,
            3,  # at least
        ) \\
            + 1
        """,
        lambda x: np.maximum((x + 1) * 2, 3) + 1,
    ),
    "global numbers and attributes": (
        """
        out = out * math.pi + math.floor(2.5) + sys.maxsize % 2
        """,
        lambda x: (x * np.float32(math.pi) + 2) + 1,
    ),
    "an index that becomes a tile": (
        """
        out = out + i * 2 + (X.blocks(0) - 1) // 2 + -i + abs(i) + i ** 2 + i.value() + (i << 1 if False else 0)
        """,
        lambda x: x,
    ),
    "bits of an integer tile": (
        """
        n = p.iota([1, 4], 1, tile.I32)
        n = ((n & 3) | 4) ^ 1
        n = (n << 2) >> 1
        out = out + (~n).to(tile.F32)
        """,
        lambda x: x + ~((((np.arange(4) & 3) | 4) ^ 1) << 2 >> 1),
    ),
    "powers": (
        """
        out = out ** 2 + out ** -1 + out ** 0.5
        out **= 2
        """,
        lambda x: (x**2 + 1 / x + np.sqrt(x)) ** 2,
    ),
    "if expressions that bind": (
        """
        flag = KIND
        out = (big := out * 2) if flag else out
        size = flag and (text := flag * 2) and len(text)
        out = out + size + big + len(text)
        """,
        lambda x: 2 * x + 10 + 2 * x + 10,
    ),
    "functions with all kinds of parameters": (
        """
        def mix(a, /, b=out, *rest, c=2, **more):
            for each in (*rest, *more.values()):
                a = a + each if a < 100 else a
            return a * c + b

        out = mix(out) + mix(out, 1, out, c=1, d=out)
        """,
        lambda x: 3 * x + (3 * x + 1),
    ),
    "nested functions that read each other": (
        """
        def one(t):
            return two(t) + shift

        def two(t):
            return t * 2

        shift = 1
        out = one(out)
        """,
        lambda x: x * 2 + 1,
    ),
    "a function that reads a name assigned later in a branch": (
        """
        def late():
            return shift + out

        shift = out
        if i == 0:
            shift = out * 2
        out = late()
        """,
        lambda x: x * 3,
    ),
    "a function given another name": (
        """
        def twice(t):
            return t + base

        base = out * 1
        again = twice
        base = base + 1
        out = again(out)
        """,
        lambda x: x + x + 1,
    ),
    "loops in python's loops": (
        """
        for n in tile.unroll(2):
            for k in range(2):
                if k == n:
                    out = out + 10
            else:
                out = out + 1
        """,
        lambda x: x + 22,
    ),
    "a host branch that binds in python's loop": (
        """
        for n in tile.unroll(3):
            if n == 0:
                first = out
            elif n == 1:
                second = first + 1
            else:
                out = first + second
        """,
        lambda x: 2 * x + 1,
    ),
    "while with else and break": (
        """
        n = 0
        while n < 5:
            n += 1
            if n == 3:
                break
        else:
            n = 100
        while n < 5:
            n += 1
        else:
            n = n * 2
        out = out + n
        """,
        lambda x: x + 10,
    ),
    "for with else and break": (
        """
        for n in tile.unroll(5):
            if n == 3:
                break
        else:
            out = out * 100
        for n in tile.unroll(2):
            continue
        else:
            out = out + n
        """,
        lambda x: x + 1,
    ),
    "with a name": (
        """
        with managed(out) as (first, second), managed(2):
            out = first + second
        """,
        lambda x: x + 2 * x,
    ),
    "deleting host values": (
        """
        values = [1, 2]
        extra = values
        del values[0], extra
        out = out + values[0]
        """,
        lambda x: x + 2,
    ),
    "an attribute assigned in a branch": (
        """
        box = types.SimpleNamespace(value=out)
        if KIND:
            box.value = box.value * 2
        for n in tile.unroll(2):
            box.value += n
        out = box.value
        """,
        lambda x: x * 2 + 1,
    ),
    "an object made in the body of a loop": (
        """
        for k in range(3):
            box = types.SimpleNamespace(value=out)
            parts = [out]
            box.value = box.value + k
            parts.append(box.value)
            parts[0] = parts[0] * 0
            if i == 0:
                more = []
                more.append(sum(parts))
                out = more[0]
        """,
        lambda x: x + 3,
    ),
    "an arm that only reads a name": (
        """
        spare = out * 2
        if i == 0:
            taken = spare
        else:
            taken = out
        out = taken
        """,
        lambda x: x * 2,
    ),
    "an elif of unknown kind": (
        """
        n = unknown(i)
        if KIND == "no":
            out = out * 100
        elif n == 0:
            out = out + 1  # taken
        # between
        elif n == 1:
            out = out + 2
        else:
            out = out + 3
        """,
        lambda x: x + 1,
    ),
    "python's own comparisons": (
        """
        if KIND is not None and "hell" in KIND and KIND not in ("a", "b") and unknown(3) in [1, 3]:
            out = out + 1
        if unknown(3) not in [1, 2] and 1 < unknown(3) < len(KIND) is not KIND:
            out = out + 1
        """,
        lambda x: x + 2,
    ),
    "constants on the left": (
        """
        out = (1 if 2 <= out else 0) + (1 if 3 == out else 0) + (1 if 3 != out else 0) + (2 - out)
        """,
        lambda x: (x >= 2) + 1.0 + (2 - x),
    ),
    "texts": (
        """
        text = f"{out.shape} {'x' if KIND else 'y'} {max(1, 2)!r:>{3}}" "more" + 'end'
        assert "more" in text, f"{text}"
        out = out + len("a" "b")
        """,
        lambda x: x + 2,
    ),
}


def managed(value):
    import contextlib

    return contextlib.nullcontext((value, value * 2))


def names():
    return {
        "math": math,
        "sys": sys,
        "managed": managed,
        "types": types,
        "unknown": lambda value: value,
    }


@pytest.mark.parametrize("body, expected", PROGRAMS.values(), ids=PROGRAMS)
def test_program(body, expected):
    source = (
        'def kernel(p, x, y, *, KIND="hello"):\n    i = p.id(0)\n'
        "    X, Y = p.read(x, [4]), p.write(y, [4])\n    out = X[0]\n"
        + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
        + "\n    Y[0] = out\n"
    )
    function = written(source, "kernel", **names())
    x, y = np.array([1, 2, 3, 4], np.float32), np.zeros(4, np.float32)
    tile.kernel(grid=1)(function)(x, y)
    np.testing.assert_allclose(y, np.asarray(expected(x), np.float32), rtol=1e-6)
    same_ir(function, tensor("x", 1), tensor("y", 1))
