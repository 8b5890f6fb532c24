"""What no effect needs is left out."""

from pass_kernels import after, body, operations

from gizml_tile.dtypes import I32
from gizml_tile.lowering.kernel_ir.instructions import Barrier
from gizml_tile.lowering.passes.dce import eliminate_dead


def loop(b, inits, step):
    return b.loop(b.number(0), b.workgroups(), b.number(1), inits, step)


def test_unused_values_go():
    def write(b):
        x = b.give()
        b.mul(b.add(x, x), x)
        b.keep(x)

    assert body(after(eliminate_dead, write)) == ["load"]


def test_a_loop_without_effects_or_used_values_goes():
    def write(b):
        loop(b, [b.give()], lambda k, carried: [b.add(carried[0], k)])

    assert operations(after(eliminate_dead, write).body) == []


def test_a_carried_value_that_only_feeds_itself_goes():
    def write(b):
        def turn(k, carried):
            x, y, z = carried
            return [b.mul(x, y), b.add(y, k), b.add(y, z)]

        results = loop(b, [b.give(), b.give(), b.give()], turn)
        b.keep(results[2])

    changed = after(eliminate_dead, write)
    assert body(changed) == ["load", "load", "loop", ["add", "add"], "result"]
    (found,) = [each for each in changed.body.walk() if each.op == "loop"]
    assert [param.attr for param in found.blocks[0].params] == [0, 1, 2]
    (result,) = [each for each in changed.body.walk() if each.op == "result"]
    assert result.attr == 1


def test_a_branch_gives_what_is_used():
    def write(b):
        x = b.give()
        mask = b.map("lt", b.workgroup(), b.number(1))
        results = b.branch(
            mask, lambda: [b.add(x, x), b.mul(x, x)], lambda: [b.sub(b.number(0), x), b.add(x, b.number(1))]
        )
        b.keep(results[1])

    assert body(after(eliminate_dead, write)) == ["load", "lt", "branch", ["mul"], ["add"], "result"]


def test_effects_inside_keep_what_is_around():
    def write(b):
        def turn(k, carried):
            b.when(b.map("lt", b.thread(), k), lambda: b.keep(b.add(carried[0], k)))
            return [b.add(carried[0], b.number(1))]

        loop(b, [b.give()], turn)

    names = body(after(eliminate_dead, write))
    assert names == ["load", "loop", ["lt", "when", ["add"], "add"]]


def test_effects_without_values_stay():
    def write(b):
        b.emit("barrier", attr=Barrier(0, 64))
        b.when(b.map("lt", b.thread(), b.number(3)), lambda: b.emit("mul", (b.thread(),) * 2, None, I32, 1))

    assert operations(after(eliminate_dead, write).body) == ["barrier"]
