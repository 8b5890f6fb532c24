"""Constructs that rewriters get wrong: each means what Python means, or is an error."""

import functools
import io
import linecache
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from explicit import explicit, ir, rewritten, same_ir, scalar, tensor, written

import gizml_tile as tile
from gizml_tile.frontend import capture, rewrite


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("GIZML_TILE_CACHE", "off")


def numbers(*shape):
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def run(source, *tensors, grid=1, **names):
    """Launch the kernel of a source text; what it wrote."""
    function = written(source, **names)
    return tile.kernel(grid=grid)(function)(*tensors)


def result(body, x=None, size=4, **names):
    """The row that a body leaves in ``out``, from the row ``x``."""
    source = (
        f"def kernel(p, x, y):\n    i = p.id(0)\n    X, Y = p.read(x, [{size}]), p.write(y, [{size}])\n"
        f"    out = X[0]\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n    Y[0] = out\n"
    )
    x = numbers(size) if x is None else x
    (y,) = run(source, x, np.zeros_like(x), **names)
    same_ir(written(source, **names), tensor("x", 1), tensor("y", 1))
    return y.tolist()


# Operands and order


def test_each_operand_of_a_chain_is_evaluated_once():
    calls = []

    def note(value, name):
        calls.append(name)
        return value

    function = written(
        """
        def kernel(p, x, y):
            a = p.read(x, [4])[0]
            mask = note(1, "low") < note(a, "middle") <= note(3, "high")
            p.write(y, [4])[0] = 1 if mask else 0
        """,
        note=note,
    )
    y = np.zeros(4, np.float32)
    tile.kernel(grid=1)(function)(numbers(4), y)
    assert calls[:3] == ["low", "middle", "high"] and len(calls) % 3 == 0
    assert y.tolist() == [0, 1, 1, 0]


def test_a_chain_on_host_values_stops_at_the_first_false_part():
    calls = []

    def note(value):
        calls.append(value)
        return value

    function = written(
        "def kernel(p, n):\n    keep(note(3) < note(2) < note(1))\n",
        note=note,
        keep=lambda value: calls.append(value),
    )
    ir(rewritten(function), 1)
    assert calls == [3, 2, False]


def test_and_and_or_stop_early_on_host_values_of_unknown_kind():
    calls = []

    def note(value):
        calls.append(value)
        return value

    function = written(
        "def kernel(p, n):\n    keep(note(n) and note(2), note(n) or note(3), not note(n))\n",
        note=note,
        keep=lambda *values: calls.append(values),
    )
    ir(rewritten(function), 0)
    assert calls == [0, 0, 3, 0, (0, 3, True)]


def test_and_evaluates_each_mask_once_and_in_order():
    calls = []

    def note(value, name):
        calls.append(name)
        return value

    body = """
    m = note(out > 1, "first") and note(out < 4, "second")
    out = 1 if m else 0
    """
    assert result(body, note=note) == [0, 1, 1, 0]
    assert calls[:2] == ["first", "second"]


def test_the_value_of_an_assignment_comes_before_its_target():
    order = []

    def note(value, name):
        order.append(name)
        return value

    body = """
    outs = [Y]
    note(outs, "view")[note(0, "index")] = note(out, "value")
    Y[note(0, "place")] = note(out, "tile")
    """
    result(body, note=note)
    assert order[:5] == ["value", "view", "index", "tile", "place"]


def test_a_made_output_is_taken_after_its_value():
    function = written(
        """
        def kernel(p, x, y):
            p.write(y, [4])[0] = p.read(x, [4])[0] + 1
        """
    )
    text = explicit(function)
    assert text.splitlines()[1:] == [
        "    value_1 = p.read(x, [4]).at([0]).add(1)",
        "    p.write(y, [4]).put(value_1, [0])",
    ]
    same_ir(function, tensor("x", 1), tensor("y", 1))


def test_each_line_runs_once_a_trace():
    calls = []
    body = """
    for k in range(3):
        seen("loop")
        if k < 2:
            seen("then")
        else:
            seen("else")
    """
    result(body, seen=calls.append)
    assert calls[:3] == ["loop", "then", "else"] and calls.count("loop") == calls.count("then")


# Names in loops and branches


def test_a_name_assigned_in_a_branch_keeps_its_value_otherwise():
    body = """
    for k in range(4):
        if k == 2:
            out = out * 10
    """
    assert result(body) == [10, 20, 30, 40]


def test_a_loop_without_turns_keeps_the_values():
    assert result("for k in range(3, 3):\n    out = out * 2") == [1, 2, 3, 4]
    assert result("k = 7\nfor k in range(i, i):\n    out = out * 2\nout = out + k") == [
        8,
        9,
        10,
        11,
    ]


def test_negative_steps_run_as_python_runs_them():
    body = """
    total = 0
    for k in range(6, -1, -2):
        total = total * 10 + k
    out = out * 0 + total
    """
    assert result(body) == [6420] * 4


def test_a_step_that_is_known_at_run_time():
    body = """
    total = 0
    for k in range(5, 0, -(i + 2)):
        total = total * 10 + k
    out = out * 0 + total
    """
    assert result(body) == [531] * 4


def test_nested_loops_may_reuse_a_name():
    body = """
    k = 0
    for k in range(2):
        for k in range(5):
            out = out + 1
        out = out + k * 100
    """
    assert result(body) == [811, 812, 813, 814]


def test_a_loop_variable_bound_before_keeps_the_last_turn():
    body = """
    k = 9
    for k in range(3):
        out = out + 1
    out = out * k
    """
    assert result(body) == [8, 10, 12, 14]


def test_assigning_the_loop_variable_in_the_body():
    body = """
    for k in range(3):
        k = k * 2
        out = out + k
    """
    assert result(body) == [7, 8, 9, 10]


def test_else_of_a_loop_runs():
    assert result("for k in range(2):\n    out = out + 1\nelse:\n    out = out * 2") == [
        6,
        8,
        10,
        12,
    ]


def test_values_swapped_by_turns():
    body = """
    a, b = out, out * 0
    for k in range(3):
        a, b = b, a + b
    out = a
    """
    assert result(body) == [1, 2, 3, 4]


def test_a_host_number_is_lifted_when_a_loop_carries_it():
    body = """
    scale = 1.0
    for k in range(3):
        scale = scale * 2
    out = out * scale
    """
    assert result(body) == [8, 16, 24, 32]


def test_a_name_bound_only_in_the_taken_arm_of_a_host_branch():
    source = """
    def kernel(p, x, y, n):
        X, Y = p.read(x, [4]), p.write(y, [4])
        if n is None:
            extra = X[0]
        if n is None:
            Y[0] = extra + X[0]
    """
    (y,) = run(source, numbers(4), np.zeros(4, np.float32), None)
    assert y.tolist() == [2, 4, 6, 8]


def test_a_name_that_no_taken_arm_bound_is_pythons_error():
    function = written(
        """
        def kernel(p, n):
            if n:
                extra = 1
            keep(extra)
        """,
        keep=lambda value: None,
    )
    with pytest.raises(UnboundLocalError):
        ir(rewritten(function), False)
    ir(rewritten(function), True)


def test_a_branch_of_unknown_kind_is_pythons_on_host_values():
    source = """
    def kernel(p, x, y, n):
        X, Y = p.read(x, [4]), p.write(y, [4])
        out = X[0]
        if n:
            out = out + 1
        elif n is None:
            out = out + 2
        else:
            out = out + 3
        Y[0] = out
    """
    for n, added in ((True, 1), (None, 2), (False, 3)):
        (y,) = run(source, numbers(4), np.zeros(4, np.float32), n)
        assert y.tolist() == [1 + added, 2 + added, 3 + added, 4 + added]


def test_a_branch_of_unknown_kind_is_the_programs_on_a_run_time_number():
    source = """
    def kernel(p, x, y, n):
        X, Y = p.read(x, [4]), p.write(y, [4])
        out = X[0]
        if n > 2:
            out = out + 1
        Y[0] = out
    """
    kernel = tile.kernel(grid=1)(written(source))
    for n in (1, 5):
        (y,) = kernel(numbers(4), np.zeros(4, np.float32), n)
        assert y.tolist() == (numbers(4) + (n > 2)).tolist()


def test_a_name_that_every_arm_of_a_branch_binds():
    source = """
    def kernel(p, x, y, n):
        X, Y = p.read(x, [4]), p.write(y, [4])
        if n > 2:
            out = X[0]
        elif n == 2:
            out, more = X[0] * 2, 1
        else:
            if n == 1:
                out = X[0] * 3
            else:
                out = X[0] * 4
        Y[0] = out
    """
    kernel = tile.kernel(grid=1)(written(source))
    for n, factor in ((3, 1), (2, 2), (1, 3), (0, 4)):
        (y,) = kernel(numbers(4), np.zeros(4, np.float32), n)
        assert y.tolist() == (numbers(4) * factor).tolist()
    (y,) = kernel(numbers(4), np.zeros(4, np.float32), True)
    assert y.tolist() == (numbers(4) * 3).tolist()


def test_early_returns_on_host_values():
    source = """
    def pick(x, kind, scale=None):
        if kind == "relu":
            return x.relu()
        if scale:
            return x * scale
        return x

    def kernel(p, x, y, *, KIND, SCALE=None):
        Y = p.write(y, [4])
        if KIND is None:
            return
        Y[0] = pick(p.read(x, [4])[0], KIND, SCALE)
    """
    kernel = tile.kernel(grid=1)(written(source, "kernel"))
    x = numbers(4) - 2
    assert kernel(x, np.zeros_like(x), KIND="relu")[0].tolist() == [0, 0, 1, 2]
    assert kernel(x, np.zeros_like(x), KIND="x", SCALE=2)[0].tolist() == [-2, 0, 2, 4]
    assert kernel(x, np.zeros_like(x), KIND="x")[0].tolist() == [-1, 0, 1, 2]
    assert kernel(x, np.full_like(x, 7), KIND=None)[0].tolist() == [7, 7, 7, 7]


def test_breaks_and_continues_of_python_loops():
    body = """
    for k in tile.unroll(5):
        if k == 1:
            continue
        if k == 3:
            break
        out = out + 10 ** k
    """
    assert result(body) == [102, 103, 104, 105]


def test_a_while_loop_on_host_values():
    body = """
    size = 8
    while size > 1:
        out = out + size
        size //= 2
    """
    assert result(body) == [15, 16, 17, 18]


def test_a_function_sees_the_value_that_a_loop_gave():
    body = """
    def doubled():
        return out * 2
    late = lambda: out + 1
    out = out + 1
    out = doubled() + late()
    """
    assert result(body) == [7, 10, 13, 16]


def test_comprehensions_and_lambdas_are_rewritten():
    body = """
    parts = [out if out > n else 0 for n in (1, 2)]
    clip = lambda t, high: high if t > high else t
    out = clip(parts[0] + parts[1], 5)
    """
    assert result(body) == [0, 2, 5, 5]


def test_a_walrus_binds_in_the_function():
    body = """
    if (n := 3) > 2:
        out = (double := out * 2) + n
    out = out + double
    """
    assert result(body) == [7, 11, 15, 19]


def test_a_loop_inside_try_and_with():
    body = """
    import contextlib
    with contextlib.nullcontext(2) as two:
        try:
            for k in range(two):
                out = out + 1
        finally:
            out = out * two
    """
    assert result(body) == [6, 8, 10, 12]


def test_unpacking_with_a_star():
    assert result("first, *rest = [out, out * 2, out * 3]\nout = first + rest[1]") == [4, 8, 12, 16]


def test_global_counts_are_not_lost():
    source = """
    count = 0

    def kernel(p, x, y):
        global count
        count += 1
        p.write(y, [4])[0] = p.read(x, [4])[0] + count
    """
    function = written(source)
    ir(rewritten(function), tensor("x", 1), tensor("y", 1))
    assert function.__globals__["count"] == 1


# Helpers


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


# Closures and globals


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
    function.__globals__["change"] = helper_relu
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


# Where kernels stand


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
    assert result(body, helper=helper_relu) == [8, 13, 18, 23]


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


def test_comments_and_formatting_stay():
    source = """
    def kernel(p, x, y):
        \"\"\"What it is for.\"\"\"
        # before
        X = p.read(x, [4])   # odd   spacing

        out = ( X[0]
                + 1 )  # kept
        text = f"{X!r:>10} {'a' if True else 'b'}"
        print( x.dtype , text, file = sink )
        p.write(y, [4])[0] = out
    """
    function = written(source, sink=io.StringIO())
    assert explicit(function) == textwrap.dedent(
        """
        def kernel(p, x, y):
            \"\"\"What it is for.\"\"\"
            # before
            X = p.read(x, [4])   # odd   spacing

            out = ( X.at([0]).add(1) )  # kept
            text = f"{X!r:>10} {'a' if True else 'b'}"
            print( x.dtype , text, file = sink )
            p.write(y, [4]).put(out, [0])
        """
    ).lstrip("\n")


# Places


def test_tracebacks_point_at_the_persons_expression():
    source = """
    def kernel(p, x, y, n):
        X = p.read(x, [4])
        out = X[0]
        for k in range(4):
            out = out + (boom(k) if n else 1)
        p.write(y, [4])[0] = out
    """

    def boom(k):
        raise ZeroDivisionError

    function = written(source, boom=boom, filename="<places>")
    with pytest.raises(ZeroDivisionError) as caught:
        ir(rewritten(function), tensor("x", 1), tensor("y", 1), True)
    frames = [
        frame for frame in _frames(caught.tb) if frame.tb_frame.f_code.co_filename == "<places>"
    ]
    lines = [frame.tb_lineno for frame in frames]
    assert lines == [4, 5, 5]
    names = [frame.tb_frame.f_code.co_name for frame in frames]
    assert names[:2] == ["kernel", "kernel"]


def _frames(tb):
    while tb is not None:
        yield tb
        tb = tb.tb_next


def test_every_line_of_the_rewritten_code_is_the_persons():
    source = """
    def kernel(p, x, y, n):
        out = p.read(x, [4])[0]

        for k in range(n):
            if k < 2:
                out = out + 1
            else:
                out = out * 2
        p.write(y, [4])[0] = out if n > 1 else 0
    """

    def lines(code):
        found = {line for _, _, line in code.co_lines() if line is not None}
        for each in code.co_consts:
            if hasattr(each, "co_lines"):
                found |= lines(each)
        return found

    function = written(source)
    assert lines(rewritten(function).__code__) == {1, 2, 4, 5, 6, 7, 8, 9}
    assert rewritten(function).__code__.co_filename == function.__code__.co_filename


def test_columns_count_characters_beyond_ascii():
    source = "def kernel(p, x, y):\n    é = p.read(x, [4])[0]; ü = é + 'ß'\n"
    function = written(source)
    with pytest.raises(tile.TileError) as caught:
        ir(rewritten(function), tensor("x", 1), tensor("y", 1))
    assert (caught.value.lineno, caught.value.column) == (2, 32)


def test_same_ir_with_scalars():
    function = written(
        "def kernel(p, x, y, n):\n    p.write(y, [4])[0] = p.read(x, [4])[n % 2] * (n < 3)\n"
    )
    with pytest.raises(tile.TileError, match="mul does not take masks"):
        same_ir(function, tensor("x", 1), tensor("y", 1), scalar("n"))


def test_a_preview_needs_only_the_originals_globals():
    size, kind = (2, 4), type("Kind", (), {})

    @tile.kernel(grid=1)
    def run(p, x: kind, n=size, *rest: kind, S: int = size[1], K=4, **more: kind) -> kind:
        p.write(x, [S])[0] = n[0]

    assert run.preview().splitlines()[0] == (
        "def run(p, x: 'kind', n=(2, 4), *rest: 'kind', S: int = 4, K=4, **more: 'kind') -> 'kind':"
    )


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


def test_the_original_is_written_like_the_explicit_text():
    source = (
        "class Holder:\n    # before\n    @mark\n    # between\n    def run(p, x):\n"
        '        text = """\n  odd\n"""\n        p.write(x, [4])[0] = 1  # one\n'
    )
    function = written(f"{source}run = Holder.run\n", "run", mark=lambda function: function)
    original = rewrite(capture(function), "kernel").original
    assert original == (
        'def run(p, x):\n    text = """\n  odd\n"""\n    p.write(x, [4])[0] = 1  # one\n'
    )
    assert explicit(function) == original.replace("[0] = 1", ".put(1, [0])")


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
