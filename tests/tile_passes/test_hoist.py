"""Loop-invariant motion: what leaves a loop, and what a store or a branch keeps in it."""

from __future__ import annotations

import pytest
from made_programs import assert_same_bits, outputs, record

from gizml_tile.check import check
from gizml_tile.lowering.tile_passes.hoist import hoist


def after_hoist(body, may_alias=False):
    traced = record(body)
    after = hoist(traced.program, may_alias=may_alias)
    check(after)
    assert_same_bits(outputs(after, traced), outputs(traced.program, traced))
    return after


def inside(program, *path):
    """The operations directly in the region reached by following loops and branches by number."""
    region = program.body
    for number in path:
        structured = [node for node in region.nodes if node.regions]
        region = structured[number].regions[0]
    return [node.op for node in region.nodes]


def test_invariant_values_leave_the_loop():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])
        C[0, 0] = p.fold(0, 3, p.zeros([8, 8]), lambda k, acc: acc + X[0, 1].exp() * X[k, 0])

    after = after_hoist(body)
    assert inside(after, 0) == ["index", "read", "mul", "add"][1:] or inside(after, 0) == [
        "read",
        "mul",
        "add",
    ]
    assert "exp" in inside(after)


def test_they_leave_all_the_loops_they_can():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])

        def outer(i, acc):
            def inner(j, acc):
                return acc + X[0, 0].exp() + X[i, 0].log() + X[i, j].abs()

            return p.fold(0, 2, acc, inner)

        C[0, 0] = p.fold(0, 3, p.zeros([8, 8]), outer)

    after = after_hoist(body)
    assert "exp" in inside(after)
    assert "log" in inside(after, 0) and "exp" not in inside(after, 0)
    assert inside(after, 0, 0) == ["add", "add", "read", "abs", "add"]


def test_a_whole_loop_leaves():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])

        def outer(i, acc):
            return acc + p.fold(0, 3, p.zeros([8, 8]), lambda j, inner: inner + X[j, 0])

        C[0, 0] = p.fold(0, 3, p.zeros([8, 8]), outer)

    after = after_hoist(body)
    assert inside(after).count("loop") == 2
    assert inside(after, 1) == ["add"]


def test_a_loop_that_uses_the_counter_inside_stays():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])

        def outer(i, acc):
            return acc + p.fold(0, 3, p.zeros([8, 8]), lambda j, inner: inner + X[j, i])

        C[0, 0] = p.fold(0, 3, p.zeros([8, 8]), outer)

    after = after_hoist(body)
    assert inside(after).count("loop") == 1
    assert inside(after, 0) == ["loop", "result", "add"]


@pytest.mark.parametrize(
    ("read", "may_alias", "leaves"), [("y", False, True), ("y", True, False), ("out", False, False)]
)
def test_reads_stay_where_the_loop_stores(read, may_alias, leaves):
    def body(p, x, y, n, out, ints):
        R, C = p.read({"y": y, "out": out}[read], [8, 8]), p.write(out, [8, 8])

        def turn(k, acc):
            C[0, 0] = acc
            return acc + R[0, 0].abs()

        C[0, 1] = p.fold(0, 3, p.zeros([8, 8]), turn)

    after = after_hoist(body, may_alias)
    assert ("read" in inside(after)) == leaves
    assert ("abs" in inside(after)) == leaves


def test_stores_and_what_holds_them_stay():
    def body(p, x, y, n, out, ints):
        C = p.write(out, [8, 8])

        def turn(k, carried):
            p.cond(p.id(0) < 1, lambda: C.put(1.0, [0, 0]), lambda: None)
            p.loop(0, 2, [], lambda j, none: C.put(2.0, [1, 1]))
            return []

        p.loop(0, 3, [], turn)

    after = after_hoist(body)
    assert [op for op in inside(after, 0) if op in ("cond", "loop")] == ["cond", "loop"]


def test_nothing_leaves_a_branch_but_the_branch_may_leave():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])

        def turn(k, acc):
            one = p.cond(k < 1, lambda: X[0, 0].exp(), lambda: p.zeros([8, 8]))
            two = p.cond(p.id(0) < 1, lambda: X[0, 0].exp(), lambda: p.zeros([8, 8]))
            return acc + one + two

        C[0, 0] = p.fold(0, 3, p.zeros([8, 8]), turn)

    after = after_hoist(body)
    assert inside(after).count("cond") == 1
    assert inside(after, 1).count("cond") == 1
    assert "exp" in inside(after, 1, 0)


def test_what_a_branch_in_a_branch_gives_holds_both_in_the_loop():
    def body(p, x, y, n, out, ints):
        C, one = p.write(out, [8, 8]), p.zeros([8, 8]) + 1

        def turn(k, carried):
            last, acc = carried

            def otherwise():
                # The condition of the inner branch needs the outer one, and what it gives the loop.
                inner = p.cond(p.id(1) + p.id(0) < 1, lambda: one, lambda: last)
                return inner

            return [acc, p.cond(p.id(0) < 1, lambda: one, otherwise)]

        C[0, 0] = p.loop(0, 3, [one, one + 1], turn)[0]

    after = after_hoist(body)
    assert "cond" in inside(after, 0) and "cond" not in inside(after)


def test_a_branch_in_a_loop_holds_its_values_back_from_outer_loops():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])

        def turn(k, acc):
            def arm():
                return p.fold(0, 2, acc, lambda j, inner: inner + X[0, 0].exp())

            return p.cond(k < 2, arm, lambda: acc)

        C[0, 0] = p.fold(0, 3, p.zeros([8, 8]), turn)

    after = after_hoist(body)
    # out of the inner loop, but not out of the branch
    assert "exp" in inside(after, 0, 0)
    assert "exp" not in inside(after, 0)


def test_a_loop_without_turns_does_not_fault():
    def body(p, x, y, n, out, ints):
        N, C = p.read(n, [8, 8]), p.write(ints, [8, 8])
        zero = p.id(0) - p.id(0)
        C[0, 0] = p.fold(0, zero, N[0, 0] * 1, lambda k, acc: acc + N[500, 0] // N[-500, 0])

    after_hoist(body)
