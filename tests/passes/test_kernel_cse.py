"""Common values are computed once, where that is in reach."""

from pass_kernels import after, body

from gizml_tile.dtypes import F32, I32
from gizml_tile.lowering.passes.cse import eliminate_common


def test_equal_values_are_one():
    def write(b):
        x = b.give()
        b.keep(b.mul(b.add(x, b.thread()), b.add(b.thread(), x)))

    assert body(after(eliminate_common, write)) == ["load", "add", "mul"]


def test_operands_of_a_difference_keep_their_order():
    def write(b):
        x = b.give()
        b.keep(b.add(b.sub(x, b.thread()), b.sub(b.thread(), x)))

    assert body(after(eliminate_common, write)) == ["load", "sub", "sub", "add"]


def test_loads_stay():
    def write(b):
        b.keep(b.sub(b.give(), b.give()))

    assert body(after(eliminate_common, write)) == ["load", "load", "sub"]


def test_numbers_are_equal_by_their_bits():
    def write(b):
        for number in (0.0, -0.0, 0.0):
            b.keep(b.map("div", b.number(1.0, F32), b.emit("constant", (), number, F32, 1)))

    assert body(after(eliminate_common, write)) == ["div", "div"]


def test_arms_of_a_branch_do_not_share_but_know_what_is_around():
    def write(b):
        x = b.give()
        y = b.add(x, b.thread())

        def arm():
            return [b.mul(b.add(x, b.thread()), x)]

        mask = b.map("lt", b.workgroup(), b.number(1))
        (z,) = b.branch(mask, arm, arm)
        b.keep(b.add(y, z))

    names = body(after(eliminate_common, write))
    assert names == ["load", "add", "lt", "branch", ["mul"], ["mul"], "result", "add"]


def test_registers_count():
    def write(b):
        b.keep(b.numbers(3, 2))
        b.keep(b.numbers(3, 4))
        b.keep(b.emit("pick", (b.number(3),), (0,) * 4, I32, 4))

    assert body(after(eliminate_common, write)) == ["pick", "pick"]
