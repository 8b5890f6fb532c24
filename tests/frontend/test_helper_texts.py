"""What functions that kernels call are rewritten to, by what is known of their arguments."""

import math
import textwrap

import pytest
from explicit import explicit, written

import gizml_tile as tile

HELPERS = {
    "annotated": (
        """
        def helper(p: tile.Program, x: "tile.Tile", i: Index, view: tile.In, out: gt.Out, n):
            for k in range(3):
                x = x * 2 + view[i + k]
            out[i] = x
            return x
        """,
        """
        def helper(p: tile.Program, x: "tile.Tile", i: Index, view: tile.In, out: gt.Out, n):
            def loop_1(k, x):
                x = x.mul(2).add(view.at([i.add(k)]))
                return x
            x = p.fold(0, 3, x, loop_1)
            out.put(x, [i])
            return x
        """,
    ),
    "annotated without a program": (
        """
        def helper(x: tile.Tile, n):
            for k in range(n):
                x += k
            if n < 3:
                x = -x
            return x
        """,
        """
        def helper(x: tile.Tile, n):
            def loop_1(k, x):
                x = x.add(k)
                return x
            x = tile.dispatch.program().fold(0, n, x, loop_1)
            def then_1(x=x):
                x = x.neg()
                return x
            x = tile.dispatch.cond(n < 3, then_1, lambda: x)
            return x
        """,
    ),
    "of unknown arguments": (
        """
        def helper(x, y, n):
            for k in range(n):
                x, y = y, x + k
            for k in range(1, n, 2):
                x = x * y
            if x is None:
                return y
            return x.relu() if n else module.scale(x).transform(y).relu()
        """,
        """
        def helper(x, y, n):
            def loop_1(k, carried):
                x, y = carried
                x, y = y, x + k
                return x, y
            x, y = tile.dispatch.loop(locals(), 0, n, [x, y], loop_1)
            def loop_2(k, x):
                x = x * y
                return x
            x = tile.dispatch.fold(locals(), 1, n, x, loop_2, step=2)
            if x is None:
                return y
            return tile.dispatch.select(n, lambda: x.relu(), lambda: tile.dispatch.helper(tile.dispatch.helper(module.scale)(x).transform)(y).relu())
        """,
    ),
    "that only Python can run": (
        """
        def helper(n, *items):
            found = []
            for k in range(n):
                found.append(k)
            for k in range(n):
                last = k
            else:
                found = found[:]
            for a, b in range(*items):
                pass
            return found, last
        """,
        """
        def helper(n, *items):
            found = []
            for k in tile.dispatch.host_range(locals(), "append()", n):
                found.append(k)
            for k in tile.dispatch.host_range(locals(), "name last", n):
                last = k
            else:
                found = found[:]
            for a, b in tile.dispatch.host_range(locals(), "an unpacked range", *items):
                pass
            return found, last
        """,
    ),
}


@pytest.mark.parametrize("source, expected", HELPERS.values(), ids=HELPERS)
def test_helper(source, expected):
    function = written(source, Index=tile.Index, gt=tile, module=math)
    assert explicit(function, "helper") == textwrap.dedent(expected).lstrip("\n")
