"""Functions that kernels call are rewritten however they are reached."""

import functools

import numpy as np
import pytest
from explicit import ir, rewritten, same_ir, scalar, tensor, written
from launched import numbers, result, run

import gizml_tile as tile


def helper_relu(x):
    return x if x > 0 else 0


def helper_total(x, n):
    total = x
    for _ in range(n):
        total = total + helper_relu(x)
    return total


class Base:
    def shift(self, x):
        return x + 1 if x > 2 else x


class Layer(Base):
    def __init__(self, scale):
        self.scale = scale

    def apply(self, x):
        return self.max(x * self.scale, x) if x < 3 else self.update(x)

    def max(self, a, b):
        return a if a > b else b

    def update(self, x):
        return x if x > 0 else -x

    def __call__(self, x):
        return self.apply(x)

    def shift(self, x):
        return super().shift(x) if x > 3 else super().shift(x) * 2

    @staticmethod
    def clip(x):
        return min(x, 2)


@functools.lru_cache
def cached(x):
    return max(x, 2)


@functools.singledispatch
def generic(x):
    return x if x > 2 else 2


@generic.register
def _(x: int):
    return x if x > 100 else 100


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **keywords):
        return function(*args, **keywords)

    return wrapper


@logged
def wrapped(x):
    return x if not x < 2 else 0


def sizes(n):
    found = []
    for k in range(10):
        if k == n:
            break
        found.append(2**k)
    return found


def test_undecorated_helpers_are_rewritten():
    names = {"helper_total": helper_total, "helper_relu": helper_relu}
    assert result("out = helper_total(out - 2, 2)", **names) == [-1, 0, 3, 6]
    assert (
        helper_relu.__code__.co_filename == __file__
        and helper_relu(3) == 3
        and helper_relu(-1) == 0
    )


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("layer.apply(out)", [2, 4, 3, 4]),
        ("layer(out)", [2, 4, 3, 4]),
        ("Layer.clip(out)", [1, 2, 2, 2]),
        ("layer.shift(out)", [2, 4, 8, 5]),
        ("part(out)", [2, 4, 3, 4]),
        ("cached(out)", [2, 2, 3, 4]),
        ("wrapped(out)", [0, 2, 3, 4]),
        ("generic(out) + generic(3)", [102, 102, 103, 104]),
        ("reduce(step, [out, out])", [2, 4, 6, 8]),
        ("list(map(helper_relu, [out - 2]))[0]", [0, 0, 1, 2]),
        ("[layer.apply][0](out)", [2, 4, 3, 4]),
        ("out + sum(sizes(3))", [8, 9, 10, 11]),
    ],
)
def test_helpers_reached_in_other_ways(call, expected):
    layer = Layer(2)
    names = {
        "layer": layer,
        "Layer": Layer,
        "part": functools.partial(Layer.apply, layer),
        "cached": cached,
        "wrapped": wrapped,
        "generic": generic,
        "reduce": functools.reduce,
        "step": lambda a, b: a + b if a > 0 else b,
        "helper_relu": helper_relu,
        "sizes": sizes,
    }
    assert result(f"out = {call}", **names) == expected


def test_a_nested_helper():
    body = """
    def relu(t):
        return t if t > 0 else 0

    @tile.function
    def twice(t):
        for _ in range(2):
            t = relu(t) + 1
        return t

    out = twice(out - 2)
    """
    assert result(body) == [2, 2, 3, 4]


def test_a_loop_in_a_nested_function_that_holds_no_traced_value_is_pythons():
    body = """
    def sizes(n):
        found = []
        for k in range(n):
            found.append(2**k)
        return found

    def add(t):
        for k in range(2):
            t = t + X[k]
        return t

    for n in sizes(3):
        out = out + n
    out = add(out)
    """
    assert result(body) == [9, 11, 13, 15]


def test_a_loop_in_a_helper_that_holds_no_traced_value_is_pythons():
    body = "for n in sizes(3):\n    out = out + n"
    assert result(body, sizes=sizes) == [8, 9, 10, 11]


def test_a_loop_in_a_helper_that_holds_a_traced_value_is_the_programs():
    source = """
    def total(x, n):
        for k in range(n):
            x = x + k
        return x

    def kernel(p, x, y):
        p.write(y, [4])[0] = total(p.read(x, [4])[0], 3)
    """
    assert "loop" in ir(rewritten(written(source, "kernel")), tensor("x", 1), tensor("y", 1))


def test_a_helper_that_stores_in_what_it_is_given():
    source = """
    def save(out, x, n, flag=True):
        for k in range(n):
            if flag:
                out[k] = x + k

    def squares(n):
        found = [0] * n
        for k in range(n):
            found[k] = k * k
            if k > 1:
                found[0] = 5
        return found

    def kernel(p, x, y):
        X, Y = p.read(x, [4]), p.write(y, [4])
        outs = [Y]
        save(Y, X[0], 2)
        save(Y, X[0], squares(3)[2], False)
        for k in range(2, 4):
            outs[0][k] = X[0] * 2 + squares(3)[0]
        if p.id(0) < 1:
            outs[0][4] = X[0]
    """
    x, y = numbers(4), np.zeros(20, np.float32)
    run(source, x, y)
    assert y.reshape(5, 4).tolist() == [
        x.tolist(),
        (x + 1).tolist(),
        *[(x * 2 + 5).tolist()] * 2,
        x.tolist(),
    ]
    same_ir(written(source, "kernel"), tensor("x", 1), tensor("y", 1))


def test_a_recursive_helper():
    source = """
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    def kernel(p, x, y):
        p.write(y, [4])[0] = power(p.read(x, [4])[0], 3)
    """
    (y,) = run(source, numbers(4), np.zeros(4, np.float32))
    assert y.tolist() == [1, 8, 27, 64]


def test_a_helper_without_source_is_an_error_only_where_it_needs_rewriting():
    names = {}
    exec(
        "def straight(x):\n    return x + 1\ndef branches(x):\n    return x if x > 0 else 0\n",
        names,
    )
    assert result("out = straight(out)", straight=names["straight"]) == [2, 3, 4, 5]
    assert result("out = out + branches(2)", branches=names["branches"]) == [3, 4, 5, 6]
    with pytest.raises(
        tile.TileError,
        match=r"branches holds loops or branches.* but the source of branches cannot be found",
    ):
        result("out = branches(out)", branches=names["branches"])


def test_helpers_run_on_host_values_and_on_tiles():
    source = """
    def total(x, y, n):
        for k in range(n):
            x, y = y, x + k
        for k in range(3, 0, -2):
            x = x * 2 + k
        return x + y

    def kernel(p, x, y, n):
        assert total(1, 2, 3) == total_by_hand
        X = p.read(x, [4])
        p.write(y, [4])[0] = total(X[0], X[0] * 2, n) + total(X[0], X[0], 2)
    """
    by_hand = eval("t(1, 2, 3)", {"t": written(source, "total")})
    function = written(source, "kernel", total_by_hand=by_hand)
    x, y = np.array([1, 2, 3, 4], np.float32), np.zeros(4, np.float32)
    tile.kernel(grid=1)(function)(x, y, 3)
    plain = written(source, "total")
    assert y.tolist() == (plain(x, x * 2, 3) + plain(x, x, 2)).tolist()
    same_ir(function, tensor("x", 1), tensor("y", 1), scalar("n"))


def test_a_program_used_outside_a_trace():
    function = rewritten(
        written(
            "def helper(x: tile.Tile):\n    for k in range(2):\n        x += k\n    return x\n"
        ),
        "helper",
    )
    with pytest.raises(tile.TileError, match="this is part of a program"):
        function(1.0)
