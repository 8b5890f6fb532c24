"""Common subexpressions: what is merged, and what a store or a scope keeps apart."""

from __future__ import annotations

from functools import partial

import numpy as np
from made_programs import assert_same_bits, operations, outputs, record, tensors

from gizml_tile.check import check
from gizml_tile.lowering.tile_passes.cse import eliminate_common
from gizml_tile.lowering.tile_passes.dce import eliminate_dead


def after_cse(body, may_alias=False, data=None):
    """The program after the pass, which must store the same bits as before."""
    traced = record(body, data)
    after = eliminate_common(traced.program, may_alias=may_alias)
    check(after)
    assert_same_bits(outputs(after, traced), outputs(traced.program, traced))
    return after


def count(program, op):
    return operations(program).count(op)


def test_equal_operations_are_one():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])
        a, b = X[p.id(0), p.id(1)].exp(), X[p.id(0), p.id(1)].exp()
        C[p.id(0), p.id(1)] = a * b + b * a

    after = after_cse(body)
    for op in ("read", "exp", "mul"):
        assert count(after, op) == 1
    assert count(after, "id") == 2


def test_constants_differ_by_bits_and_type():
    def body(p, x, y, n, out, ints):
        C = p.write(out, [8, 8])
        zeros = [p.k(0.0), p.k(-0.0), p.k(0, np.int32), p.zeros([8, 8]), p.k(float("nan")), p.k(float("nan"))]
        a, b, c, d, e, f = zeros
        C[p.id(0), p.id(1)] = 1 / a + 1 / b + c.to(np.float32) + d + e + f

    after = after_cse(body)
    # 1, 0, -0, the integer 0, the block of zeros, and one NaN
    assert count(after, "const") == 6


def test_operands_of_commutative_operations_may_change_places_but_not_others():
    def body(p, x, y, n, out, ints):
        a, b = p.read(x, [8, 8])[p.id(0), 0], p.read(y, [8, 8])[p.id(0), 0]
        p.write(out, [8, 8])[p.id(0), 0] = a.maximum(b) - b.maximum(a) + ((a - b) - (b - a))

    after = after_cse(body)
    assert count(after, "maximum") == 1
    assert count(after, "sub") == 4


def test_attributes_keep_operations_apart():
    def body(p, x, y, n, out, ints):
        X, Y = p.read(x, [8, 8]), p.read(x, [8, 8], pad=-1)
        a, b, w = X[2, 1], Y[2, 1], X.window([2, 1])
        p.write(out, [8, 8])[p.id(0), 0] = a + b + w + a.sum(0) + a.sum(1)

    after = after_cse(body)
    assert count(after, "read") == 3
    assert count(after, "sum") == 2


def test_a_store_keeps_reads_apart():
    def body(p, x, y, n, out, ints):
        X, Y, C = p.read(out, [8, 8]), p.read(y, [8, 8]), p.write(out, [8, 8])
        a = X[0, 0] + Y[0, 0]
        C[0, 0] = a + 1
        b = X[0, 0] + Y[0, 0]
        C[0, 1] = b

    # out before and after the store, y once; with may_alias y twice
    assert count(after_cse(body), "read") == 3
    assert count(after_cse(body, may_alias=True), "read") == 4


def test_two_names_of_one_memory():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])
        before = X[0, 0]
        C[0, 0] = before + 1
        C[0, 1] = X[0, 0]

    data = tensors()
    data["x"] = data["out"][:]
    traced = record(body, data)

    def run(program):
        memory = np.full((20, 12), 7, np.float32)
        copies = [memory if each is data["out"] or each is data["x"] else each for each in traced.tensors]
        from tile_ir_interpreter import interpret

        interpret(program, copies, (1,))
        return memory

    wanted = run(traced.program)
    np.testing.assert_array_equal(run(eliminate_common(traced.program, may_alias=True)), wanted)
    assert not np.array_equal(run(eliminate_common(traced.program)), wanted)


def test_a_loop_that_stores_reads_anew_each_turn():
    def body(p, x, y, n, out, ints):
        X, C = p.read(out, [8, 8]), p.write(out, [8, 8])
        first = X[0, 0]

        def turn(k, acc):
            a = X[0, 0]
            b = X[0, 0]
            C[0, 0] = a + b + 1
            return acc + a + X[0, 0]

        C[0, 1] = p.fold(0, 3, first, turn) + X[0, 0]

    # before the loop, at the start of a turn (twice the same), after the store, after the loop
    assert count(after_cse(body), "read") == 4


def test_a_branch_that_stores_reads_anew_after_it():
    def body(p, x, y, n, out, ints):
        X, C = p.read(out, [8, 8]), p.write(out, [8, 8])
        first = X[0, 0]

        def then():
            a = X[0, 0]
            C[0, 0] = a + 1
            return X[0, 0]

        two = p.cond(p.id(0) < 1, then, lambda: X[0, 0] * 2)
        C[0, 1] = first + two + X[0, 0]

    # the read before serves both ways until the store; after the store one, after the branch one
    assert count(after_cse(body), "read") == 3


def test_values_serve_the_regions_inside_but_not_those_beside():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])
        a = X[0, 0].exp()
        b = p.fold(0, 3, p.zeros([8, 8]), lambda k, acc: acc + X[0, 0].exp() + X[1, 1].exp())
        c = p.fold(0, 3, p.zeros([8, 8]), lambda k, acc: acc + X[1, 1].exp())
        C[0, 0] = a + b + c

    after = after_cse(body)
    assert count(after, "exp") == 3


def test_loops_are_never_merged():
    def body(p, x, y, n, out, ints):
        turn = partial(lambda k, acc: acc + 1)
        a = p.fold(0, 3, p.zeros([8, 8]), turn)
        b = p.fold(0, 3, p.zeros([8, 8]), turn)
        p.write(out, [8, 8])[0, 0] = a + b

    assert count(eliminate_dead(after_cse(body)), "loop") == 2
