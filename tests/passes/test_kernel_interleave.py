"""Long loads and stores are cut into pieces that take turns, where nothing else may notice."""

import random
from dataclasses import replace

import pytest
from pass_kernels import kernel, stored

from gizml_tile.dtypes import F32, I32, MASK
from gizml_tile.lowering.kernel_ir.check import check
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access
from gizml_tile.lowering.kernel_ir.text import text
from gizml_tile.lowering.passes.interleave import interleave

LONG = 32


def long_load(b, count=LONG, width=4, mask=None, first=0):
    places = tuple((0, first + number) for number in range(0, count, width))
    return b.load(Access(GLOBAL, 0, width, places, 7), b.first, I32, mask)


def long_store(b, value, first=0, width=4, mask=None):
    places = tuple((0, first + number) for number in range(0, value.count, width))
    b.store(Access(GLOBAL, 1 if value.dtype is I32 else 2, width, places), value, b.first, mask)


def interleaved(write, *, may_alias=False):
    """A kernel after the pass, which must leave its stores as they were."""
    made = replace(kernel(write), may_alias=may_alias)
    changed = interleave(made)
    check(changed)
    for before, now in zip(stored(made), stored(changed), strict=True):
        assert before.tobytes() == now.tobytes(), f"{text(made)}\nbecame\n{text(changed)}"
    return changed


def moves(made):
    """Loads and stores in order, with the first place of each."""
    return [
        f"{each.op} {each.attr.places[0][1]}" for each in made.body.walk() if each.op in ("load", "store")
    ]


def test_loads_and_stores_take_turns():
    def write(b):
        long_store(b, b.add(long_load(b, 16), b.thread()))

    # The next piece is on its way before one is stored.
    wanted = "load 0,load 4,store 0,load 8,store 4,load 12,store 8,store 12"
    assert moves(interleaved(write)) == wanted.split(",")


def test_what_something_else_waits_for_is_loaded_first():
    def write(b):
        early = long_load(b, 16, first=32)
        long_store(b, long_load(b, 16))
        b.warp_barrier()
        long_store(b, early, 32)

    found = moves(interleaved(write))
    assert found[:5] == ["load 32", "load 36", "load 40", "load 44", "load 0"]
    assert found[-1] == "store 32"


def test_each_piece_is_made_once():
    def write(b):
        x = long_load(b)
        doubled = b.add(x, x)
        long_store(b, b.pick(doubled, [each ^ 5 for each in range(LONG)]))
        b.store(Access(GLOBAL, 2, 1, ((0, 0),)), b.convert(b.pick(doubled, (3,)), F32), b.first)

    changed = interleaved(write)
    assert sum(each.count for each in changed.body.walk() if each.op == "load") == LONG
    assert sum(each.count for each in changed.body.walk() if each.op == "add" and each.count > 1) == LONG


@pytest.mark.parametrize("width", (1, 2, 4))
def test_masks_of_accesses_are_cut_too(width):
    def write(b):
        steps = b.constant(list(range(LONG // width)), I32)
        mask = b.emit("lt", (steps, b.map("and", b.thread(), b.number(15))), None, MASK, LONG // width)
        long_store(b, b.add(long_load(b, width=width, mask=mask), b.number(1)), width=width, mask=mask)

    assert moves(interleaved(write))[1:3] == ["load 4", "store 0"]


def test_a_branch_of_each_thread_takes_its_turn():
    def write(b):
        x = long_load(b, 16)
        parts = []
        for first in (0, 8):
            part = b.pick(x, range(first, first + 8))
            mask = b.emit("lt", (b.pick(part, (0,)), b.number(0)), None, MASK, 1)
            parts += b.branch(
                mask, lambda part=part: [b.add(part, b.thread())], lambda part=part: [part], apart=True
            )
        long_store(b, b.sub(b.join(parts), b.number(1)))

    changed = interleaved(write)
    order = [each.op for each in changed.body.walk() if each.op in ("load", "store", "branch")]
    assert order == "load load branch store load load store branch store store".split()


def test_a_branch_that_all_take_ends_a_run():
    def write(b):
        x = long_load(b, 16)
        mask = b.emit("eq", (b.workgroup(), b.number(0)), None, MASK, 1)
        (y,) = b.branch(mask, lambda: [b.add(x, x)], lambda: [x])
        long_store(b, y)

    assert moves(interleaved(write)) == ["load 0", "store 0"]


def kept(write, **given):
    made = interleaved(write, **given)
    return moves(made)[:2] == ["load 0", "store 0"] and len(moves(made)) == 2


def test_what_may_be_the_same_memory_stays_in_order():
    def write(b):
        long_store(b, long_load(b))

    assert kept(write, may_alias=True)
    assert not kept(write)


def test_a_tensor_that_is_read_too_stays_in_order():
    def write(b):
        places = tuple((0, each) for each in range(0, LONG, 4))
        x = b.load(Access(GLOBAL, 1, 4, places), b.first, I32)
        # Register 0 comes from the last place.
        long_store(b, b.add(b.pick(x, list(reversed(range(LONG)))), b.thread()))

    assert kept(write)


def test_short_moves_stay():
    assert kept(lambda b: long_store(b, long_load(b, 4)))


class Vectors:
    """Random statements of long vectors, in runs between barriers, each with stores at its end."""

    def __init__(self, build, seed):
        self.build, self.random = build, random.Random(seed)
        self.values = []
        self.slot = [0, 0]

    def write(self):
        for _ in range(2):
            for _ in range(self.random.randrange(1, 3)):
                self.values.append(long_load(self.build, LONG, self.random.choice((1, 2, 4)), self.mask()))
            for _ in range(self.random.randrange(2, 9)):
                self.values.append(self.operation())
            self.stores()
            self.build.warp_barrier()

    def mask(self):
        bit = self.build.map("and", self.build.thread(), self.build.number(1))
        lone = self.build.emit("eq", (bit, self.build.number(0)), None, MASK, 1)
        return self.random.choice((None, lone))

    def value(self):
        return self.random.choice(self.values)

    def operation(self):
        build, choice = self.build, self.random.random()
        if choice < 0.2:
            registers = tuple(self.random.randrange(LONG) for _ in range(LONG))
            return build.pick(self.value(), registers)
        if choice < 0.4:
            cut = self.random.randrange(1, LONG)
            a, b = self.value(), self.value()
            return build.join([build.pick(a, range(cut)), build.pick(b, range(LONG - cut))])
        if choice < 0.5:
            some = self.random.randrange(LONG)
            return build.add(self.value(), build.pick(self.value(), (some,)))
        if choice < 0.6:
            mask = build.emit("lt", (self.value(), self.value()), None, MASK, LONG)
            return build.select(mask, self.value(), build.number(3))
        if choice < 0.7:
            return build.again(self.value(), build.pick(self.value(), (0,)))
        return build.map(self.random.choice(["add", "sub", "mul", "xor", "max"]), self.value(), self.value())

    def stores(self):
        long_store(self.build, self.value(), self.slot[0], self.random.choice((1, 2, 4)), self.mask())
        self.slot[0] += LONG
        if self.random.random() < 0.5:
            small = self.build.map("and", self.value(), self.build.number(255))
            long_store(self.build, self.build.convert(small, F32), self.slot[1])
            self.slot[1] += LONG


@pytest.mark.parametrize("seed", range(80))
def test_random_vectors(seed):
    interleaved(lambda build: Vectors(build, seed).write())


def test_the_same_text_each_time():
    def write(b):
        inputs = [long_load(b, 16, first=4 * number) for number in range(5)]
        mask = b.map("lt", b.thread(), b.constant(4, I32))

        def total(order):
            value = b.constant(0, I32)
            for number in order:
                value = b.add(value, b.mul(inputs[number], inputs[number - 1]))
            return [b.spread(value, 16)]

        (result,) = b.branch(mask, lambda: total(range(5)), lambda: total(range(4, -1, -1)), apart=True)
        long_store(b, result)

    kept = [interleaved(write) for _ in range(8)]
    assert len({text(each) for each in kept}) == 1
