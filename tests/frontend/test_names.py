"""Names mean what they mean where the function stands: closures, globals, builtins."""

import numpy as np
import pytest
from explicit import explicit, ir, rewritten, scalar, tensor, written
from launched import numbers, result

import gizml_tile as tile


def relu(x):
    return x if x > 0 else 0


def test_globals_and_closures_are_read_anew():
    def make(scale):
        @tile.kernel(grid=1)
        def scaled(p, x, y):
            p.write(y, [4])[0] = (
                p.read(x, [4])[0] * scale + OFFSET if OFFSET else p.read(x, [4])[0] * scale
            )

        def change(value):
            nonlocal scale
            scale = value

        return scaled, change

    global OFFSET
    OFFSET = 0
    kernel, change = make(2)
    x, y = numbers(4), np.zeros(4, np.float32)
    assert kernel(x, y)[0].tolist() == [2, 4, 6, 8]
    change(3)
    assert kernel(x, y)[0].tolist() == [3, 6, 9, 12]
    OFFSET = 10
    assert kernel(x, y)[0].tolist() == [13, 16, 19, 22]


OFFSET = 0


def test_a_global_that_becomes_a_helper_is_rewritten():
    function = written(
        """
        def kernel(p, x, y):
            p.write(y, [4])[0] = change(p.read(x, [4])[0])
        """,
        change=abs,
    )
    kernel = tile.kernel(grid=1)(function)
    x, y = numbers(4) - 2, np.zeros(4, np.float32)
    assert kernel(x, y)[0].tolist() == [1, 0, 1, 2]
    function.__globals__["change"] = relu
    assert tile.kernel(grid=1)(function)(x, y)[0].tolist() == [0, 0, 1, 2]


def test_builtins_that_are_replaced_are_the_persons():
    body = "out = max(out, 2)"
    assert result(body) == [2, 2, 3, 4]
    assert result(body, max=lambda a, b: a + b) == [3, 4, 5, 6]
    assert result("for k in range(3):\n    out = out + k", range=lambda n: [n, n]) == [7, 8, 9, 10]


def test_defaults_and_annotations_are_not_evaluated_again():
    calls = []

    def note(value):
        calls.append(value)
        return value

    source = """
    def kernel(p: note("p"), x, y, *, SCALE: note("S") = note(2)) -> note("r"):
        p.write(y, [4])[0] = p.read(x, [4])[0] * SCALE
    """
    function = written(source, note=note)
    before = list(calls)
    (y,) = tile.kernel(grid=1)(function)(numbers(4), np.zeros(4, np.float32))
    assert y.tolist() == [2, 4, 6, 8] and calls[: len(before)] == before
    rewritten(function)
    assert len(calls) % len(before) == 0


def test_names_of_ours_avoid_the_persons():
    body = """
    loop_1 = 1
    tile = out
    carried = out * 2
    flag = helper(tile) > 0
    for k in range(2):
        out = out + loop_1
        carried = carried + out
    out = carried + tile
    """
    assert result(body, helper=relu) == [8, 13, 18, 23]


def test_the_tile_module_under_another_name():
    source = """
    import gizml_tile as gt
    def kernel(p, x, y, n):
        p.write(y, [4])[0] = p.read(x, [4])[0] if n and True else gt.cdiv(7, 2)
    """
    function = written(source)
    del function.__globals__["tile"]
    (y,) = tile.kernel(grid=1)(function)(numbers(4), np.zeros(4, np.float32), False)
    assert y.tolist() == [4, 4, 4, 4] and "tile" not in function.__globals__


def test_a_kernel_is_rewritten_anew_where_its_names_mean_something_else():
    function = written(
        """
        def kernel(p, x, y):
            t = p.read(x, [4])[0]
            t = max(t, 2)
            p.write(y, [4])[0] = change(t) if FLAG else t
        """,
        change=abs,
        FLAG=True,
    )
    kernel = tile.kernel(grid=1)(function)
    x, y = numbers(4) - 2, np.zeros(4, np.float32)
    assert kernel(x, y)[0].tolist() == [2, 2, 2, 2]
    function.__globals__["change"] = lambda t: t * 3 if t < 3 else 0
    assert kernel(x, y)[0].tolist() == [6, 6, 6, 6]
    function.__globals__["max"] = lambda a, b: a
    assert kernel(x, y)[0].tolist() == [-3, 0, 3, 6]
    function.__globals__["FLAG"] = None
    assert kernel(x, y)[0].tolist() == [-1, 0, 1, 2]


def test_a_name_without_a_value_is_not_a_global_of_that_name():
    source = """
    spare = 5

    def kernel(p, x, y, n):
        out = p.read(x, [4])[0]
        if n < 2:
            spare = out
            out = spare + 1
        else:
            out = spare
        p.write(y, [4])[0] = out
    """
    function = written(source, "kernel")
    for n in (True, 5):
        with pytest.raises((NameError, tile.TileError)):
            ir(rewritten(function), tensor("x", 1), tensor("y", 1), scalar("n") if n == 5 else 9)
    assert "    spare: object\n" in explicit(function)
