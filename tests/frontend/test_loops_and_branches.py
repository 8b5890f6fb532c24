"""Names in loops and branches have the values that they have in Python."""

import numpy as np
import pytest
from explicit import ir, rewritten, tensor, written
from launched import numbers, result, run

import gizml_tile as tile


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


def test_a_kernel_that_returns_early_on_a_constant():
    source = """
    def kernel(p, x, y, *, SKIP=False):
        if SKIP:
            return
            for k in range(2):
                pass
            if p.id(0) < 1:
                x = y
        p.write(y, [4])[0] = p.read(x, [4])[0]
    """
    function = written(source)
    assert "put" in ir(rewritten(function), tensor("x", 1), tensor("y", 1))
    assert "put" not in ir(rewritten(function), tensor("x", 1), tensor("y", 1), SKIP=True)
