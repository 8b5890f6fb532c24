"""Small kernels for the tests of passes, and what they store."""

from __future__ import annotations

import numpy as np

from gizml_tile.dtypes import F32, I32
from gizml_tile.lowering.kernel_ir.builder import Builder
from gizml_tile.lowering.kernel_ir.check import check
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, LEAVES, Access, Kernel
from gizml_tile.lowering.kernel_ir.text import text
from gizml_tile.lowering.simulate import Memory, simulate
from gizml_tile.nodes import Tensor
from gizml_tile.target import Target

THREADS, GROUPS, SLOTS = 64, 2, 64
TENSORS = (Tensor("given", I32, 1), Tensor("kept", I32, 1), Tensor("floats", F32, 1))


class Writer(Builder):
    """A builder that loads and stores registers of a tensor, thread after thread."""

    def __init__(self):
        super().__init__()
        self.slot = 0
        number = self.add(self.mul(self.workgroup(), self.number(THREADS)), self.thread())
        self.first = self.mul(number, self.number(SLOTS))

    def number(self, value, dtype=I32):
        return self.constant(value, dtype)

    def numbers(self, value, count, dtype=I32):
        """A constant in registers of its own."""
        return self.emit("pick", (self.constant(value, dtype),), (0,) * count, dtype, count)

    def give(self, count=1):
        """Values from memory, of which a pass knows nothing."""
        places = tuple((0, number) for number in range(count))
        return self.load(Access(GLOBAL, 0, 1, places), self.first, I32)

    def keep(self, value):
        """Store a value to the next places of this thread."""
        places = tuple((0, self.slot + each) for each in range(value.count))
        self.slot += value.count
        assert self.slot <= SLOTS
        self.store(Access(GLOBAL, 1 if value.dtype is I32 else 2, 1, places), value, self.first)


def kernel(write):
    """The checked kernel that ``write(builder)`` writes."""
    build = Writer()
    write(build)
    made = Kernel("test", Target("cuda", "sm_90a"), TENSORS, (), (), THREADS, build.body())
    check(made)
    return made


def after(step, write):
    """A kernel after a pass, which must give a valid kernel with the same stores."""
    made = kernel(write)
    changed = step(made)
    check(changed)
    for before, now in zip(stored(made), stored(changed), strict=True):
        assert before.tobytes() == now.tobytes(), f"{text(made)}\nbecame\n{text(changed)}"
    return changed


def stored(made):
    """What a kernel leaves in memory."""
    size = THREADS * GROUPS * SLOTS
    given = np.random.default_rng(1).integers(-9, 9, size, np.int32)
    kept, floats = np.zeros(size, np.int32), np.zeros(size, np.float32)
    memories = [Memory.of(each) for each in (given, kept, floats)]
    findings = simulate(made, memories, grid=(GROUPS,), counts=False)
    assert not findings.wrong, str(findings)
    return kept, floats


def operations(block):
    """The names of a block's instructions but leaves and stores, those of inner blocks in lists."""
    names = []
    for instruction in block.instructions:
        if instruction.op in LEAVES or instruction.op == "store":
            continue
        names.append(instruction.op)
        names += [operations(inner) for inner in instruction.blocks]
    return names


def body(made):
    """The operations after those that address this thread's memory."""
    names = operations(made.body)
    head = ["shl", "add", "shl"]
    assert names[:3] == head, names
    return names[3:]
