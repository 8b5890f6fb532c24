"""What is known is computed, and what is idle disappears."""

import pytest
from pass_kernels import after, body, kernel

from gizml_tile.dtypes import F32, I8, I32, I64, MASK
from gizml_tile.lowering.kernel_ir.instructions import Barrier
from gizml_tile.lowering.passes.fold import fold


def raw(b, op, *args, dtype=I32, count=None):
    """An instruction as it is, without what the builder sees."""
    return b.emit(op, args, None, dtype, count or max(arg.count for arg in args))


CONSTANTS = [
    ("add", 2**31 - 1, 1, -(2**31)),
    ("sub", 3, 5, -2),
    ("mul", 1 << 20, 1 << 12, 0),
    ("div", -7, 2, -3),
    ("div", -(2**31), -1, -(2**31)),
    ("rem", -7, 2, -1),
    ("min", -7, 2, -7),
    ("max", -7, 2, 2),
    ("and", 12, 10, 8),
    ("or", 12, 10, 14),
    ("xor", 12, 10, 6),
    ("shl", 3, 30, -(2**30)),
    ("shr", -8, 1, -4),
    ("ushr", -8, 1, 2**31 - 4),
    ("high", -1, -1, -2),
]


@pytest.mark.parametrize("op, a, b, wanted", CONSTANTS)
def test_constants(op, a, b, wanted):
    def write(build):
        build.keep(raw(build, op, build.number(a), build.number(b)))

    changed = after(fold, write)
    (store,) = [each for each in changed.body.walk() if each.op == "store"]
    assert (store.args[0].op, store.args[0].attr) == ("constant", wanted)


@pytest.mark.parametrize("op, a, b", [("div", 1, 0), ("rem", 1, 0), ("shl", 1, 32), ("shr", 1, -1)])
def test_what_is_undefined_stays(op, a, b):
    made = fold(kernel(lambda build: build.keep(raw(build, op, build.number(a), build.number(b)))))
    assert body(made) == [op]


def test_constants_register_by_register():
    def write(b):
        b.keep(raw(b, "add", b.constant((1, 2, 3, 4), I32), b.number(1)))
        b.keep(raw(b, "sub", b.constant((1, 2, 3, 4), I32), b.constant((0, 1, 2, 3), I32)))

    changed = after(fold, write)
    stores = [each.args[0] for each in changed.body.walk() if each.op == "store"]
    assert stores[0].attr == (2, 3, 4, 5)
    # Four equal numbers are one, repeated.
    assert (stores[1].op, stores[1].args[0].attr, stores[1].count) == ("pick", 1, 4)


def test_identities():
    def write(b):
        x, zero, one = b.give(4), b.number(0), b.number(1)
        minus = b.number(-1)
        for value in (
            raw(b, "add", x, zero),
            raw(b, "add", zero, x),
            raw(b, "sub", x, zero),
            raw(b, "mul", one, x),
            raw(b, "div", x, one),
            raw(b, "and", minus, x),
            raw(b, "or", x, zero),
            raw(b, "shl", x, zero),
            raw(b, "max", x, x),
            raw(b, "not", raw(b, "not", x)),
            raw(b, "select", b.map("lt", x, zero), x, x),
            raw(b, "convert", b.convert(x, I64)),
            raw(b, "bitcast", b.bitcast(x, F32)),
        ):
            b.keep(value)

    changed = after(fold, write)
    stores = [each.args[0].op for each in changed.body.walk() if each.op == "store"]
    assert stores == ["load"] * 13


def test_identities_keep_the_registers():
    def write(b):
        x = b.give()
        b.keep(raw(b, "add", x, b.numbers(0, 4)))
        b.keep(raw(b, "mul", x, b.numbers(0, 4)))

    stores = [each.args[0] for each in after(fold, write).body.walk() if each.op == "store"]
    assert [(each.op, each.count) for each in stores] == [("pick", 4), ("pick", 4)]


def test_narrowing_conversions_stay():
    def write(b):
        b.keep(b.convert(b.convert(b.give(), I8), I32))

    assert body(after(fold, write)) == ["load", "convert", "convert"]


def test_floats_stay():
    def write(b):
        x = b.convert(b.give(), F32)
        zero = b.number(0.0, F32)
        for value in (b.add(x, zero), b.sub(x, x), b.mul(x, zero), b.mul(x, b.number(1.0, F32))):
            b.keep(value)
        b.keep(raw(b, "select", b.map("eq", x, x), b.number(1), b.number(0)))

    assert body(after(fold, write)) == "load convert add sub mul mul eq select".split()


def test_sums_of_constants_meet():
    def write(b):
        x = b.give(2)
        b.keep(raw(b, "sub", raw(b, "add", x, b.number(5)), b.number(7)))

    changed = after(fold, write)
    (store,) = [each for each in changed.body.walk() if each.op == "store"]
    x, constant = store.args[0].args
    assert (store.args[0].op, x.op, constant.attr) == ("add", "load", -2)


def test_leaves_have_ranges():
    def write(b):
        lane, thread, warp = b.lane(), b.thread(), b.warp()
        for value in (
            raw(b, "and", thread, b.number(63)),
            raw(b, "and", lane, b.number(31)),
            raw(b, "rem", thread, b.number(64)),
            raw(b, "shr", lane, b.number(5)),
            raw(b, "div", warp, b.number(2)),
            raw(b, "select", b.map("lt", thread, b.number(64)), thread, lane),
            raw(b, "select", b.map("ne", warp, b.number(2)), warp, lane),
        ):
            b.keep(value)

    changed = after(fold, write)
    stores = [each.args[0].op for each in changed.body.walk() if each.op == "store"]
    assert stores == ["thread", "lane", "thread", "constant", "constant", "thread", "warp"]


def test_what_leaves_may_exceed_stays():
    def write(b):
        thread, lane = b.thread(), b.lane()
        b.keep(raw(b, "and", thread, b.number(31)))
        b.keep(raw(b, "shr", thread, b.number(5)))
        b.keep(raw(b, "select", b.map("lt", lane, b.number(31)), thread, lane))
        b.keep(raw(b, "select", b.map("eq", lane, b.number(7)), thread, lane))

    assert body(after(fold, write)) == ["and", "shr", "lt", "select", "eq", "select"]


def test_masks():
    def write(b):
        x = b.give()
        mask = b.map("lt", x, b.number(0))
        true, false = b.number(True, MASK), b.number(False, MASK)
        for each in (
            raw(b, "and", mask, true, dtype=MASK),
            raw(b, "or", mask, false, dtype=MASK),
            raw(b, "not", raw(b, "not", mask, dtype=MASK), dtype=MASK),
            raw(b, "and", mask, false, dtype=MASK),
            raw(b, "or", mask, true, dtype=MASK),
        ):
            b.keep(raw(b, "select", each, x, b.thread()))
        b.keep(raw(b, "select", raw(b, "not", mask, dtype=MASK), x, b.thread()))

    changed = after(fold, write)
    stores = [each.args[0] for each in changed.body.walk() if each.op == "store"]
    assert [each.op for each in stores] == ["select"] * 3 + ["thread", "load", "select"]
    assert all(each.args[0].op == "lt" for each in stores if each.op == "select")
    assert stores[-1].args[1].op == "thread"


PICKS = [
    lambda b, x: b.emit("pick", (x,), tuple(range(8)), I32, 8),
    lambda b, x: b.emit("join", (x,), None, I32, 8),
    lambda b, x: b.join([b.pick(x, range(4)), b.pick(x, range(4, 8))]),
    lambda b, x: b.emit("pick", (b.join([x, b.give(4)]),), tuple(range(8)), I32, 8),
    lambda b, x: b.emit("pick", (b.pick(x, range(7, -1, -1)),), tuple(range(7, -1, -1)), I32, 8),
]


@pytest.mark.parametrize("number", range(len(PICKS)))
def test_registers_come_from_where_they_are(number):
    changed = after(fold, lambda b: b.keep(PICKS[number](b, b.give(8))))
    (store,) = [each for each in changed.body.walk() if each.op == "store"]
    assert (store.args[0].op, store.args[0].count) == ("load", 8)


def test_parts_of_a_join():
    def write(b):
        x, y, z = b.give(4), b.give(4), b.give(2)
        whole = b.join([b.join([x, y]), z])
        b.keep(b.emit("pick", (whole,), (5, 4), I32, 2))
        b.keep(b.emit("pick", (whole,), (4, 5, 6, 7, 8, 9), I32, 6))
        b.keep(b.emit("pick", (whole,), (3, 4), I32, 2))

    stores = [each.args[0] for each in after(fold, write).body.walk() if each.op == "store"]
    assert (stores[0].op, stores[0].attr, stores[0].args[0].op) == ("pick", (1, 0), "load")
    assert (stores[1].op, [each.op for each in stores[1].args]) == ("join", ["load", "load"])
    assert (stores[2].op, len(stores[2].args[0].args)) == ("pick", 3)


def test_branches_and_effects_that_are_known():
    def write(b):
        x = b.give()
        true, false = b.number(True, MASK), b.number(False, MASK)
        (y,) = b.branch(false, lambda: [b.add(x, x)], lambda: [b.mul(x, x)])
        b.keep(y)
        b.when(true, lambda: b.keep(b.sub(x, y)))
        b.when(false, lambda: b.emit("barrier", attr=Barrier(0, 64)))

    assert body(after(fold, write)) == ["load", "mul", "sub"]


def test_loops_of_few_turns():
    def write(b):
        x = b.give()

        def turn(k, carried):
            return [b.add(carried[0], b.mul(k, x))]

        for start, stop, step in ((3, 3, 1), (4, 5, 1), (0, 10, 16), (0, 2, 1)):
            (y,) = b.loop(b.number(start), b.number(stop), b.number(step), [x], turn)
            b.keep(y)

    names = body(after(fold, write))
    # No turn; one turn with k = 4; one with k = 0, where the product is known; two turns stay.
    assert names == ["load", "shl", "add", "loop", ["mul", "add"], "result"] or names == [
        "load", "mul", "add", "loop", ["mul", "add"], "result"
    ]  # fmt: skip


def test_what_no_turn_changes():
    def write(b):
        x = b.give()

        def turn(k, carried):
            return [b.add(carried[0], carried[1]), carried[1]]

        y, z = b.loop(b.number(0), b.workgroups(), b.number(1), [x, b.number(0)], turn)
        b.keep(y)
        b.keep(z)

    (found,) = [each for each in after(fold, write).body.walk() if each.op == "loop"]
    assert found.blocks[0].results[0] is found.blocks[0].params[1]
