"""Which products and sums become one operation."""

from __future__ import annotations

import numpy as np
import pytest
from made_programs import operations, outputs, record
from tile_ir_interpreter import fused_multiply_add

from gizml_tile.check import check
from gizml_tile.dtypes import BF16, I32
from gizml_tile.lowering.tile_passes.dce import eliminate_dead
from gizml_tile.lowering.tile_passes.fma import fuse_products


def fused(function, source="x"):
    """The program of a function of three blocks after the pass, and its trace."""

    def body(p, x, y, n, out, ints):
        A, B = p.read({"x": x, "n": n}[source], [8, 4]), p.read(y, [8, 4])
        a, b, c = A[0, 0], A[0, 1], A[1, 0]
        result = function(a, b, c)
        p.write(out if result.dtype.is_float else ints, [8, 4])[0, 0] = result
        assert B is not A

    traced = record(body)
    after = eliminate_dead(fuse_products(traced.program))
    check(after)
    return after, traced


def arithmetic(program):
    return [
        (node.op, node.attr) if node.op == "fma" else node.op
        for node in program.body.walk()
        if node.op in ("fma", "add", "sub", "mul", "dot", "to", "neg")
    ]


CASES = {
    "a * b + c": (lambda a, b, c: a * b + c, [("fma", (False, False))]),
    "c + a * b": (lambda a, b, c: c + a * b, [("fma", (False, False))]),
    "a * b - c": (lambda a, b, c: a * b - c, [("fma", (False, True))]),
    "c - a * b": (lambda a, b, c: c - a * b, [("fma", (True, False))]),
    "a * b + a * c": (lambda a, b, c: a * b + a * c, ["mul", ("fma", (False, False))]),
    "a * b - a * c": (lambda a, b, c: a * b - a * c, ["mul", ("fma", (False, True))]),
    "chain": (lambda a, b, c: a * b + (b * c + c), [("fma", (False, False))] * 2),
    "integers": (None, ["mul", "add"]),
    "storage types": (
        lambda a, b, c: a.to(BF16) * b.to(BF16) + c,
        ["to", "to", ("fma", (False, False))],
    ),
    "negated product": (lambda a, b, c: -(a * b) + c, ["mul", "neg", "add"]),
    "quotient": (lambda a, b, c: a / b + c, ["add"]),
}


@pytest.mark.parametrize("name", CASES)
def test_forms(name):
    function, wanted = CASES[name]
    if function is None:
        after, _ = fused(lambda a, b, c: a * b + c, "n")
    else:
        after, _ = fused(function)
    assert arithmetic(after) == wanted


def test_the_left_product_is_fused():
    after, traced = fused(lambda a, b, c: a * b + b * c)
    x = traced.tensors[0]
    a, b, c = x[:8, :4], x[:8, 4:8], x[8:16, :4]
    (got,) = outputs(after, traced)
    np.testing.assert_array_equal(got[:8, :4], fused_multiply_add(a, b, b * c))
    assert not np.array_equal(got[:8, :4], fused_multiply_add(b, c, a * b))


def test_one_rounding():
    after, traced = fused(lambda a, b, c: c - a * b)
    x = traced.tensors[0]
    (got,) = outputs(after, traced)
    np.testing.assert_array_equal(got[:8, :4], fused_multiply_add(-x[:8, :4], x[:8, 4:8], x[8:16, :4]))


def test_a_product_used_twice_stays():
    def twice(a, b, c):
        product = a * b
        return (product + c).maximum(product)

    assert arithmetic(fused(twice)[0]) == ["mul", "add"]

    def itself(a, b, c):
        product = a * b
        return product + product

    assert arithmetic(fused(itself)[0]) == ["mul", "add"]


def test_a_product_of_another_block_stays():
    def body(p, x, y, n, out, ints):
        a = p.read(x, [8, 4])[0, 0]
        product = a * a
        p.write(out, [8, 4])[0, 0] = p.fold(0, 3, a, lambda k, acc: acc + product)

    after = fuse_products(record(body).program)
    check(after)
    assert "fma" not in operations(after)


def test_a_product_that_is_carried_stays():
    def body(p, x, y, n, out, ints):
        a = p.read(x, [8, 4])[0, 0]

        def turn(k, carried):
            product = a * carried[0]
            return [product, product + carried[1]]

        one, two = p.loop(0, 3, [a, a], turn)
        p.write(out, [8, 4])[0, 0] = one + two

    assert "fma" not in operations(fuse_products(record(body).program))


def products(function):
    """The arithmetic of a program over matrix products after the pass."""

    def body(p, x, y, n, out, ints):
        A, B, C = p.read(x, [8, 4]), p.read(y, [4, 8]), p.write(out, [8, 8])
        C[0, 0] = function(p, A[0, 0], B[0, 0], A[1, 0], B[1, 0])

    after = eliminate_dead(fuse_products(record(body).program))
    check(after)
    return [
        (node.op, len(node.args))
        for node in after.body.walk()
        if node.op in ("dot", "add", "sub", "fma", "to", "mul")
    ]


DOTS = {
    "c + a @ b": (lambda p, a, b, c, d: p.zeros([8, 8]) + a @ b, [("dot", 3)]),
    "a @ b + c": (lambda p, a, b, c, d: a @ b + p.zeros([8, 8]), [("dot", 3)]),
    "two": (lambda p, a, b, c, d: p.zeros([8, 8]) + a @ b + c @ d, [("dot", 3), ("dot", 3)]),
    "both": (lambda p, a, b, c, d: a @ b + c @ d, [("dot", 2), ("dot", 3)]),
    "storage type": (lambda p, a, b, c, d: p.zeros([8, 8], BF16) + a @ b, [("to", 1), ("dot", 3)]),
    "row": (lambda p, a, b, c, d: p.zeros([1, 8]) + a @ b, [("dot", 2), ("add", 2)]),
    "difference": (lambda p, a, b, c, d: p.zeros([8, 8]) - a @ b, [("dot", 2), ("sub", 2)]),
    "product beside": (
        lambda p, a, b, c, d: a.sum(1) * b.sum(0) + c @ d,
        [("mul", 2), ("dot", 3)],
    ),
}


@pytest.mark.parametrize("name", DOTS)
def test_matrix_products(name):
    function, wanted = DOTS[name]
    assert products(function) == wanted


def test_the_second_of_two_products_starts_the_first():
    def body(p, x, y, n, out, ints):
        A, B, C = p.read(x, [8, 4]), p.read(y, [4, 8]), p.write(out, [8, 8])
        C[0, 0] = A[0, 0] @ B[0, 0] + A[1, 0] @ B[1, 0]

    after = eliminate_dead(fuse_products(record(body).program))
    first, second = [node for node in after.body.nodes if node.op == "dot"]
    assert second.args[2] is first


def test_a_product_accumulates_in_a_loop():
    def body(p, x, y, n, out, ints):
        A, B, C = p.read(x, [8, 4]), p.read(y, [4, 8]), p.write(out, [8, 8])
        C[0, 0] = p.fold(0, 3, p.zeros([8, 8]), lambda k, acc: acc + A[0, k] @ B[k, 0])

    after = eliminate_dead(fuse_products(record(body).program))
    (loop,) = [node for node in after.body.nodes if node.op == "loop"]
    (region,) = loop.regions
    (dot,) = region.results
    assert dot.op == "dot" and dot.args[2] is region.params[1]


def test_integer_products_accumulate():
    def body(p, x, y, n, out, ints):
        a = p.read(n, [8, 8])[0, 0].to(np.int8)
        p.write(ints, [8, 8])[0, 0] = p.zeros([8, 8], I32) + a @ a + p.zeros([8, 8], np.int8)

    traced = record(body)
    after = eliminate_dead(fuse_products(traced.program))
    check(after)
    assert [node.op for node in after.body.nodes if node.op in ("dot", "add")] == ["dot", "add"]
    np.testing.assert_array_equal(outputs(after, traced), outputs(traced.program, traced))


def test_a_product_used_twice_does_not_accumulate():
    def function(p, a, b, c, d):
        product = a @ b
        return (product + p.zeros([8, 8])).maximum(product)

    assert products(function) == [("dot", 2), ("add", 2)]
