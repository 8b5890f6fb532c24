"""Small values that do not change move before loops."""

from pass_kernels import after, body

from gizml_tile.dtypes import F32, I32
from gizml_tile.lowering.passes.hoist import hoist


def turns(b, count, turn):
    (result,) = b.loop(b.number(0), b.number(count), b.number(1), [b.number(1)], turn)
    b.keep(result)


def test_an_invariant_moves():
    def write(b):
        x = b.give()
        turns(b, 3, lambda k, carried: [b.add(carried[0], b.mul(x, x))])

    assert body(after(hoist, write)) == ["load", "mul", "loop", ["add"], "result"]


def test_it_moves_out_of_as_many_loops_as_it_can():
    def write(b):
        x = b.give()

        def outer(i, carried):
            def inner(j, values):
                return [b.add(values[0], b.add(b.mul(x, x), b.mul(i, x)))]

            return b.loop(b.number(0), b.number(2), b.number(1), carried, inner)

        turns(b, 3, outer)

    names = body(after(hoist, write))
    assert names == ["load", "mul", "loop", ["mul", "add", "loop", ["add"], "result"], "result"]


def test_wide_values_loads_and_effects_stay():
    def write(b):
        x = b.give(8)

        def turn(k, carried):
            wide = b.add(x, b.thread())
            narrow = b.add(b.pick(x, (0, 1)), b.thread())
            b.keep(b.sub(wide, k))
            b.keep(b.sub(narrow, k))
            return [b.add(carried[0], b.give())]

        turns(b, 3, turn)

    names = body(after(hoist, write))
    # A pick is no register of its own, and so moves always.
    assert names[:4] == ["load", "pick", "add", "loop"]
    assert names[4] == ["add", "sub", "sub", "load", "add"]


def test_a_loop_has_room_for_so_many():
    def write(b):
        x = b.give()

        def turn(k, carried):
            total = carried[0]
            for number in range(60):
                total = b.map("max", total, b.map("xor", x, b.number(number + 1)))
            return [total]

        turns(b, 3, turn)

    names = body(after(hoist, write))
    assert names.count("xor") == 48
    assert names[names.index("loop") + 1].count("xor") == 12


def test_out_of_branches_inside_the_loop():
    def write(b):
        x = b.give()

        def turn(k, carried):
            mask = b.map("lt", k, b.number(1))
            return b.branch(mask, lambda: [b.mul(x, x)], lambda: [carried[0]])

        turns(b, 2, turn)

    names = body(after(hoist, write))
    assert names == ["load", "mul", "loop", ["lt", "branch", [], [], "result"], "result"]


def test_a_loop_of_no_turns_only_wastes_it():
    def write(b):
        x = b.give()
        turns(b, 0, lambda k, carried: [b.map("div", x, b.map("sub", x, x))])

    assert body(after(hoist, write)) == ["load", "sub", "div", "loop", [], "result"]


def test_constants_move_from_where_passes_left_them():
    def write(b):
        def turn(k, carried):
            constant = b.emit("constant", (), 1.5, F32, 1)
            b.keep(b.add(constant, b.convert(k, F32)))
            return [b.emit("constant", (), 7, I32, 1)]

        turns(b, 2, turn)

    (found,) = [each for each in after(hoist, write).body.walk() if each.op == "loop"]
    assert "constant" not in [each.op for each in found.blocks[0].instructions]
