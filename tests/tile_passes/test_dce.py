"""Dead code: what no store needs goes, carried values included."""

from __future__ import annotations

from made_programs import assert_same_bits, operations, outputs, record

from gizml_tile.check import check
from gizml_tile.lowering.tile_passes.dce import eliminate_dead


def after_dce(body):
    traced = record(body)
    after = eliminate_dead(traced.program)
    check(after)
    assert_same_bits(outputs(after, traced), outputs(traced.program, traced))
    return after


def test_unused_values_reads_loops_and_branches_go():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])
        X[0, 0].exp()
        p.fold(0, 3, X[0, 0], lambda k, acc: acc + 1)
        p.cond(p.id(1) < 1, lambda: X[0, 0], lambda: X[1, 1])
        C[p.id(0), 0] = 1.0

    assert sorted(operations(after_dce(body))) == ["const", "id", "index", "put"]


def test_a_program_without_stores_is_empty():
    def body(p, x, y, n, out, ints):
        p.zeros([8]).exp()

    assert operations(after_dce(body)) == []


def test_stores_in_regions_keep_what_holds_them():
    def body(p, x, y, n, out, ints):
        C = p.write(out, [8, 8])

        def turn(k, acc):
            p.cond(k < 2, lambda: C.put(acc, [k, 0]), lambda: None)
            return acc + 1

        p.fold(0, 3, p.zeros([8, 8]), turn)

    after = after_dce(body)
    assert [op for op in operations(after) if op in ("loop", "cond", "put", "add")] == [
        "loop",
        "cond",
        "put",
        "add",
    ]


def test_values_carried_for_nothing_go():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])

        def turn(k, carried):
            a, b, c, d = carried
            # b feeds only itself, c feeds a, d feeds b
            return [a + c, b.exp() + d, c * 2, d.log()]

        a, *_ = p.loop(0, 3, [p.zeros([8, 8]), X[0, 0], X[1, 1], X[2, 1]], turn)
        C[0, 0] = a

    after = after_dce(body)
    (loop,) = [node for node in after.body.nodes if node.op == "loop"]
    assert len(loop.args) == 3 + 2
    assert [param.attr for param in loop.regions[0].params] == [0, 1, 2]
    assert "exp" not in operations(after) and "log" not in operations(after)


def test_carried_values_that_never_change_are_what_they_were():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])

        def turn(k, carried):
            acc, kept, outer = carried

            def inner(j, more):
                return [more[0] + kept * outer, more[1]]

            acc, kept_too = p.loop(0, 2, [acc, kept], inner)
            return [acc, kept_too, start]

        start = X[1, 1]
        acc, kept, outer = p.loop(0, 3, [p.zeros([8, 8]), X[0, 0], start], turn)
        C[0, 0] = acc + kept + outer

    after = after_dce(body)
    loops = [node for node in after.body.walk() if node.op == "loop"]
    assert [len(loop.args) - 3 for loop in loops] == [1, 1]


def test_what_nested_branches_leave_as_it_was_is_not_carried():
    """One way gives the carried value and the other what it was before the loop: the same."""

    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])
        start = X[1, 1]

        def turn(k, carried):
            acc, kept, other = carried
            kept_too = p.cond(
                k < 1,
                lambda: p.cond(p.id(0) < 1, lambda: kept, lambda: start),
                lambda: p.fold(0, k, other, lambda j, inner: p.cond(j < 2, lambda: inner, lambda: kept)),
            )
            return [acc + kept * other, other, kept_too]

        acc, kept, other = p.loop(0, 3, [p.zeros([8, 8]), start, start], turn)
        C[0, 0] = acc + kept + other

    after = after_dce(body)
    assert "cond" not in operations(after)
    (loop,) = [node for node in after.body.walk() if node.op == "loop"]
    assert len(loop.args) == 3 + 1


def test_what_a_nested_branch_changes_stays_carried():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])
        start = X[1, 1]

        def turn(k, carried):
            one, other, _ = carried
            new = p.cond(k < 1, lambda: one, lambda: p.cond(k < 2, lambda: one + 1, lambda: start))
            # The other follows a turn later, and the third two turns later.
            return [new, one, other]

        one, other, third = p.loop(0, 3, [start, start, start], turn)
        C[0, 0] = one
        C[0, 1] = other + third

    (loop,) = [node for node in after_dce(body).body.walk() if node.op == "loop"]
    assert len(loop.args) == 3 + 3


def test_branch_values_that_nobody_needs_go():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])
        kept = X[0, 0]
        _, b, c = p.cond(
            p.id(0) < 1,
            lambda: (X[0, 1].exp(), kept, X[1, 1].log()),
            lambda: (X[1, 0].abs(), kept, X[1, 1]),
        )
        C[p.id(0), 0] = b + c

    after = after_dce(body)
    (branch,) = [node for node in after.body.nodes if node.op == "cond"]
    assert [len(region.results) for region in branch.regions] == [1, 1]
    assert "exp" not in operations(after) and "abs" not in operations(after)


def test_a_branch_that_gives_nothing_anymore_goes():
    def body(p, x, y, n, out, ints):
        kept = p.read(x, [8, 8])[0, 0]
        p.write(out, [8, 8])[0, 0] = p.cond(p.id(0) < 1, lambda: kept, lambda: kept)

    assert "cond" not in operations(after_dce(body))


def test_swapped_carried_values_stay():
    def body(p, x, y, n, out, ints):
        X, C = p.read(x, [8, 8]), p.write(out, [8, 8])
        a, _ = p.loop(0, 3, [X[0, 0], X[1, 0]], lambda k, carried: [carried[1], carried[0]])
        C[0, 0] = a

    (loop,) = [node for node in after_dce(body).body.nodes if node.op == "loop"]
    assert len(loop.args) == 5
