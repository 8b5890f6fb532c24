"""Each mistake in an explicit program: its message, and the expression that it points at."""

from __future__ import annotations

from pathlib import Path

import pytest
from wrong_programs import cases, check, run

import gizml_tile.dtypes as dtypes
from gizml_tile.arguments import TensorArgument
from gizml_tile.errors import TileError
from gizml_tile.program import trace

FILES = sorted(Path(__file__).parent.glob("wrong_*.txt"))
CASES = [case for path in FILES for case in cases(path)]


@pytest.mark.parametrize(("source", "message"), CASES, ids=[source for source, _ in CASES])
def test_message_and_place(source, message):
    check(source, message)


def test_the_chain_of_calls_is_shown():
    error, _ = run("""
        def helper(x):
            return «x + p.zeros([2, 2])»
        helper(p.zeros([8, 8]))
    """)
    (caller,) = error.place.callers()
    assert caller.line == error.lineno + 1
    assert error.place.function == "body.<locals>.helper"
    assert "called from" in str(error)


def test_a_value_may_not_leave_its_program():
    kept = []
    trace("first", lambda p: kept.append((p, p.zeros([8]), p.id(0))))
    program, tile, index = kept[0]
    for use in (lambda: program.id(0), lambda: tile + 1, lambda: index + 1, lambda: index.value()):
        with pytest.raises(TileError, match="the program first has ended"):
            use()


def test_a_body_returns_nothing():
    with pytest.raises(TileError, match=r"a program returns nothing, found an F32 tile \[1, 8\]; store it"):
        trace("kernel", lambda p: p.zeros([8]))
    with pytest.raises(TileError, match="a program returns nothing"):
        trace("kernel", lambda p: (1, p.id(0)))
    trace("kernel", lambda p: [None, 3])


@pytest.mark.parametrize(
    "body",
    [
        lambda p: [].append[0],
        lambda p: "a b c".split + 1,
        lambda p: len + 1,
        lambda p: (lambda one, two: None)(*(1, 2, 3)),
        lambda p: p.zeros(*5),
        lambda p: (lambda program, more: None)(p),
        lambda p: (lambda function, more: None)(p.zeros),
        lambda p: isinstance(p, 3),
        lambda p: dict([(p.id(0), 1, 2)]),
        lambda p: int("x"),
        lambda p: [one for one, two in [(p.id(0), 1, 2)]],
    ],
)
def test_errors_of_a_persons_own_values_stay(body):
    with pytest.raises((TypeError, ValueError)) as caught:
        trace("kernel", body)
    assert not isinstance(caught.value, TileError)


def test_a_generator_is_no_body():
    def body(p):
        yield p.zeros([8])

    with pytest.raises(TileError, match="the body of kernel is a generator"):
        trace("kernel", body)


def test_a_failed_trace_leaves_nothing_behind():
    def fails(p):
        p.fold(0, 4, p.zeros([8]), lambda k, x: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        trace("kernel", fails)
    assert trace("kernel", lambda p: None).program.body.nodes == ()


def test_a_tensor_argument_is_not_indexed():
    argument = TensorArgument("a", dtypes.F32, 2, 0)

    def wrong(p, use):
        use(argument)

    uses = {
        "a is a tensor: read a block of it first": lambda a: a[0, 0],
        "a is a tensor: write a block of it": lambda a: a.__setitem__((0, 0), 1.0),
        "the size of a is known only when the kernel runs; it is a.shape": len,
    }
    for message, use in uses.items():
        with pytest.raises(TileError, match=message) as caught:
            trace("kernel", lambda p, use=use: wrong(p, use))
        assert caught.value.filename == __file__
    with pytest.raises(TileError, match="exist only in its body"):
        argument.shape
