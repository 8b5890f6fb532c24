"""The passes, alone and in order, leave what random kernels store as it was."""

from __future__ import annotations

import random

import pytest
from pass_kernels import kernel, stored

from gizml_tile.dtypes import I32, I64, MASK
from gizml_tile.lowering.kernel_ir.check import check
from gizml_tile.lowering.kernel_ir.text import text
from gizml_tile.lowering.passes.pipeline import STEPS, simplify

COUNTS = (1, 2, 4, 8)
BINARY = "add sub mul min max and or xor shl shr ushr high div rem".split()
COMPARISONS = "lt le gt ge eq ne".split()


class Statements:
    """Random statements of I32 registers in nested loops, branches and effects."""

    def __init__(self, build, seed):
        self.build = build
        self.random = random.Random(seed)
        # What each open block may use.
        self.values = [[build.give(count) for count in COUNTS] + [build.thread(), build.lane(), build.warp()]]

    def write(self):
        self.statements(12, 0)
        for _ in range(4):
            self.build.keep(self.value())

    def value(self, count=None):
        known = [value for block in self.values for value in block if count in (None, value.count)]
        if count is not None and (not known or self.random.random() < 0.3):
            number = self.random.choice([0, 1, -1, 2, 31, 32, 63, 64, self.random.randrange(-9, 9)])
            return self.build.number(number) if count == 1 else self.build.numbers(number, count)
        return self.random.choice(known)

    def mask(self):
        op = self.random.choice(COMPARISONS)
        mask = self.build.emit(op, (self.value(1), self.value(1)), None, MASK, 1)
        return self.build.emit("not", (mask,), None, MASK, 1) if self.random.random() < 0.3 else mask

    def uniform(self):
        """A mask that is the same in all threads, sometimes known."""
        build = self.build
        of = self.random.choice([build.workgroup(), build.number(0), build.number(1)])
        return build.emit("eq", (of, build.number(self.random.randrange(2))), None, MASK, 1)

    def statements(self, count, depth):
        for _ in range(count):
            choice = self.random.random()
            if choice < 0.12 and depth < 3:
                self.loop(depth)
            elif choice < 0.2 and depth < 3:
                self.branch(depth)
            elif choice < 0.27 and depth < 3:
                self.when(depth)
            else:
                self.values[-1].append(self.operation())

    def operation(self):
        choice, build = self.random.random(), self.build
        if choice < 0.2:
            source = self.value()
            chosen = tuple(self.random.randrange(source.count) for _ in range(self.random.choice(COUNTS)))
            return build.emit("pick", (source,), chosen, I32, len(chosen))
        if choice < 0.3:
            parts = (self.value(), self.value())
            whole = build.emit("join", parts, None, I32, sum(part.count for part in parts))
            first = self.random.randrange(whole.count)
            chosen = tuple(range(first, min(first + self.random.choice(COUNTS), whole.count)))
            chosen = chosen[: 1 << (len(chosen).bit_length() - 1)]
            return build.emit("pick", (whole,), chosen, I32, len(chosen))
        count = self.random.choice(COUNTS)
        a, b = self.value(count), self.value(self.random.choice([1, count]))
        if choice < 0.4:
            return build.emit("select", (self.mask(), a, b), None, I32, count)
        if choice < 0.45:
            return build.emit("convert", (build.convert(a, I64),), None, I32, count)
        op = self.random.choice(BINARY)
        if op in ("shl", "shr", "ushr"):
            b = build.map("and", b, build.number(31))
        if op in ("div", "rem"):
            b = build.map("or", build.map("and", b, build.number(7)), build.number(1))
        return build.emit(op, (a, b), None, I32, count)

    def inside(self, count, depth, *more):
        self.values.append(list(more))
        self.statements(count, depth + 1)
        return self.values.pop

    def loop(self, depth):
        inits = [self.value() for _ in range(self.random.randrange(4))]

        def body(k, carried):
            close = self.inside(3, depth, k, *carried)
            if self.random.random() < 0.3:
                self.build.when(self.mask(), lambda: None)
            results = [each if self.random.random() < 0.3 else self.value(each.count) for each in carried]
            close()
            return results

        build = self.build
        stop = self.random.choice([build.number(self.random.randrange(4)), build.workgroups()])
        self.values[-1] += build.loop(build.number(0), stop, build.number(1), inits, body)

    def branch(self, depth):
        counts = [self.random.choice(COUNTS) for _ in range(2)]

        def arm():
            close = self.inside(2, depth)
            results = [self.value(count) for count in counts]
            close()
            return results

        self.values[-1] += self.build.branch(self.uniform(), arm, arm)

    def when(self, depth):
        def effects():
            close = self.inside(2, depth)
            if self.build.slot < 32:
                self.build.keep(self.value())
            close()

        mask = self.random.choice([self.mask, self.uniform])()
        self.build.when(mask, effects)


@pytest.mark.parametrize("seed", range(60))
def test_the_stores_stay(seed):
    made = kernel(lambda build: Statements(build, seed).write())
    wanted = stored(made)[0].tobytes()
    for step in (*dict.fromkeys(STEPS), simplify):
        changed = step(made)
        check(changed)
        name = getattr(step, "__name__", step)
        assert stored(changed)[0].tobytes() == wanted, f"{name}:\n{text(made)}\nbecame\n{text(changed)}"


@pytest.mark.parametrize("seed", range(60))
def test_a_second_time_changes_little(seed):
    made = simplify(kernel(lambda build: Statements(build, seed).write()))
    again = simplify(made)
    first, second = (sum(1 for _ in each.body.walk()) for each in (made, again))
    assert second <= first
