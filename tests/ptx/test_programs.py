"""Random programs of loops and branches: one thread's text agrees with the simulator of the kernel IR."""

import random

import numpy as np
import pytest
from one_thread import run
from small_kernels import SmallKernel

from gizml_tile.dtypes import I32, I64
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access
from gizml_tile.lowering.simulate import Memory, simulate

OPS = ("add", "sub", "mul", "xor", "and", "min", "max")
ELEMENTS = 64


class Chance:
    """Writes a random program into a builder."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.build = SmallKernel(threads=32)
        self.tensor = self.build.tensor(I32)

    def program(self):
        build = self.build
        values = [build.load(self.access(3), build.number(place), I32) for place in (0, 3, 6)]
        values = self.block(values, 6, 2)
        for number, value in enumerate(values):
            build.store(Access(GLOBAL, 0, 1, ((0, 16 + number),)), build.pick(value, [0]), build.number(0))
        return build

    def access(self, count):
        return Access(GLOBAL, self.tensor, 1, tuple((0, each) for each in range(count)))

    def block(self, values, size, depth):
        """Values of three registers from such values, by a few steps."""
        for _ in range(size):
            kinds = ["map", "map", "pick", "join", "load", "swap"] + ["loop", "branch", "when"] * bool(depth)
            values = getattr(self, self.random.choice(kinds))(values, depth)
        return values

    def replaced(self, values, value):
        place = self.random.randrange(len(values))
        return [*values[:place], value, *values[place + 1 :]]

    def map(self, values, depth):
        a, b = self.random.choice(values), self.random.choice([*values, self.build.number(3)])
        return self.replaced(values, self.build.map(self.random.choice(OPS), a, b))

    def pick(self, values, depth):
        chosen = [self.random.randrange(3) for _ in range(3)]
        return self.replaced(values, self.build.pick(self.random.choice(values), chosen))

    def join(self, values, depth):
        parts = [self.build.pick(self.random.choice(values), [self.random.randrange(3)]) for _ in range(3)]
        return self.replaced(values, self.build.join(parts))

    def load(self, values, depth):
        """From an offset that a value gives, so that addresses are made again where they change."""
        first = self.build.pick(self.random.choice(values), [0])
        offset = self.build.map("and", first, self.build.number(13))
        wide = self.random.random() < 0.5
        offset = self.build.convert(offset, I64) if wide else offset
        return self.replaced(values, self.build.load(self.access(3), offset, I32))

    def swap(self, values, depth):
        return self.random.sample(values, len(values))

    def when(self, values, depth):
        build = self.build
        condition = build.map("lt", *(build.pick(self.random.choice(values), [each]) for each in (0, 1)))
        store = Access(GLOBAL, 0, 1, ((0, 32 + self.random.randrange(8)),))
        build.when(condition, lambda: build.store(store, build.pick(values[0], [2]), build.number(0)))
        return values

    def branch(self, values, depth):
        condition = self.build.map("lt", *(self.build.pick(each, [0]) for each in values[:2]))
        arms = [lambda: self.block(values, 3, depth - 1)] * 2
        return list(self.build.branch(condition, *arms))

    def loop(self, values, depth):
        build = self.build
        start, stop = build.number(self.random.randrange(3)), build.number(self.random.randrange(6))

        def turn(counter, carried):
            named = build.join([counter, build.pick(carried[0], [0, 1])])
            pool = self.replaced(list(carried), named) if self.random.random() < 0.3 else list(carried)
            if self.random.random() < 0.3:
                pool = self.replaced(pool, self.random.choice(values))
            return self.block(pool, 4, depth - 1)

        return list(build.loop(start, stop, build.number(self.random.choice([1, 2])), values, turn))


@pytest.mark.parametrize("seed", range(60))
def test_one_thread_agrees_with_the_simulator(seed):
    build = Chance(seed).program()
    data = np.random.default_rng(seed).integers(-50, 50, ELEMENTS, np.int32)
    simulated, memory = data.copy(), bytearray(data.tobytes())
    simulate(build.kernel(), [Memory.of(simulated)], (), (1,))
    run(build.ptx(), [memory])
    assert list(np.frombuffer(memory, np.int32)) == list(simulated)
