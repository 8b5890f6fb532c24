"""Reads and stores of random programs keep their order, also where two tensors are one memory."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tile_ir_interpreter import interpret

from gizml_tile.check import check
from gizml_tile.dtypes import I64
from gizml_tile.lowering.tile_passes.pipeline import passes
from gizml_tile.program import trace


def memory_program(seed, arrays):
    """A program in which every value read counts: integers, so that nothing is lost to rounding."""
    choose = random.Random(seed)

    def body(p):
        reads = [p.read(each, [2]) for each in arrays]
        writes = [p.write(each, [2]) for each in arrays]

        def place(counters):
            return [choose.choice([0, 0, 0, 1, *counters])]

        def block(acc, counters, depth):
            for _ in range(choose.randrange(1, 5)):
                kind = choose.choice(["read", "read", "store", "loop", "branch"][: 5 if depth < 3 else 3])
                if kind == "read":
                    acc = acc * 3 + choose.choice(reads)[place(counters)]
                elif kind == "store":
                    choose.choice(writes)[place(counters)] = acc + choose.randrange(9)
                elif kind == "loop":
                    stop = choose.choice([0, 1, 2, 3])

                    def turn(k, inner, depth=depth):
                        return block(inner, [*counters, k], depth + 1)

                    acc = p.fold(0, stop, acc, turn)
                else:
                    condition = choose.choice([*counters, p.id(0)]) < choose.choice([0, 1, 2])

                    def arm(acc=acc, depth=depth):
                        return block(acc, counters, depth + 1)

                    acc = p.cond(condition, arm, arm)
            return acc

        acc = block(p.zeros([2], I64), [p.id(0)], 0)
        writes[0][0] = acc

    traced = trace("memory", body)
    check(traced.program)
    return traced


@pytest.mark.parametrize("aliased", [False, True])
@pytest.mark.parametrize("block_of_seeds", range(10))
def test_order_is_kept(block_of_seeds, aliased):
    for seed in range(block_of_seeds * 20, block_of_seeds * 20 + 20):
        arrays = [np.arange(4, dtype=np.int64) + 10 * number for number in range(3)]
        traced = memory_program(seed, arrays)
        order = [next(n for n, each in enumerate(arrays) if each is one) for one in traced.tensors]

        def run(program, order=order):
            memory = [np.arange(4, dtype=np.int64) + 10 * number for number in range(3)]
            if aliased:
                memory[1] = memory[0]
                memory[2] = memory[0][::-1]
            interpret(program, [memory[number] for number in order], (2,))
            return np.stack(memory)

        program = traced.program
        wanted = run(program)
        for step in passes(may_alias=aliased):
            program = step(program)
            check(program)
            np.testing.assert_array_equal(run(program), wanted)


def test_the_aliases_matter():
    """Without being told of aliases the passes do change some of these programs."""
    changed = 0
    for seed in range(60):
        memory = np.arange(4, dtype=np.int64)
        arrays = [memory, memory[:], memory[::-1]]
        traced = memory_program(seed, arrays)
        results = []
        for simplified in (False, True):
            fresh = np.arange(4, dtype=np.int64)
            views = {id(arrays[0]): fresh, id(arrays[1]): fresh, id(arrays[2]): fresh[::-1]}
            program = traced.program
            for step in passes() if simplified else ():
                program = step(program)
            interpret(program, [views[id(each)] for each in traced.tensors], (2,))
            results.append(fresh)
        changed += not np.array_equal(*results)
    assert changed
