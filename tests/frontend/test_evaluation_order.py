"""Operands are evaluated once, in Python's order, and only where Python would."""

import numpy as np
import pytest
from explicit import explicit, ir, rewritten, same_ir, scalar, tensor, written
from launched import numbers, result

import gizml_tile as tile


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


def test_same_ir_with_scalars():
    function = written(
        "def kernel(p, x, y, n):\n    p.write(y, [4])[0] = p.read(x, [4])[n % 2] * (n < 3)\n"
    )
    with pytest.raises(tile.TileError, match="mul does not take masks"):
        same_ir(function, tensor("x", 1), tensor("y", 1), scalar("n"))
