"""The turns of a launch's loops, against an interpreter that takes them."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from test_bounds import random_program
from tile_ir_interpreter import _Run

from gizml_tile.lowering.planning.turns import turns
from gizml_tile.program import trace


class Taking(_Run):
    """An interpreter that counts the turns of loops."""

    taken: Counter

    def op_loop(self, node, start, stop, step, *carried):
        self.taken[node] += len(range(start, stop, step)) if step else 0
        return super().op_loop(node, start, stop, step, *carried)


def taken(program, arrays, grid, scalars):
    found = Counter()
    for place in product(*(range(size) for size in reversed((*grid, 1, 1, 1)[:3]))):
        run = Taking(program, arrays, (*grid, 1, 1, 1)[:3], place[::-1], scalars, "exact")
        run.taken = found
        run.region(program.body)
    return found


def loops(program):
    return [node for node in program.body.walk() if node.op == "loop"]


def counted(body, grid, *arrays, scalars=()):
    traced = trace("test", body, grid_rank=len(grid))
    return list(turns(traced.program, [each.shape for each in arrays], grid, scalars).values())


def test_random_programs_take_them():
    known = unknown = 0
    for seed in range(30):
        program, arrays, grid, scalars = random_program(seed)
        found = turns(program, [array.shape for array in arrays], grid, scalars)
        right = taken(program, arrays, grid, scalars)
        for loop in loops(program):
            known, unknown = known + (loop in found), unknown + (loop not in found)
            assert found.get(loop, right[loop]) == right[loop], seed
    assert known > 2 * unknown > 0


@pytest.mark.parametrize("grid", [(5,), (4, 3), (3, 1, 2)])
def test_a_triangle(grid):
    x = np.zeros((64, 64), np.float32)

    def body(p):
        X, Y = p.read(x, [8, 8]), p.write(x, [8, 8])
        total = p.fold(0, p.id(0) + 1, p.zeros([8, 8]), lambda j, t: t + X[p.id(0), j])
        Y[p.id(0), 0] = total

    assert counted(body, grid, x) == [sum(range(grid[0] + 1)) * int(np.prod(grid[1:]))]


def test_loops_in_branches_and_loops():
    x = np.zeros((64, 64), np.float32)

    def body(p):
        X, i = p.read(x, [8, 8]), p.id(0)

        def outer(k, t):
            return p.fold(k, 3 * k, t, lambda j, t: t + X[j, k])

        def many():
            return p.fold(6, 0, p.zeros([8, 8]), outer, step=-2)

        p.write(x, [8, 8])[i, 0] = p.cond(i.lt(2), many, lambda: p.fold(0, 7, p.zeros([8, 8]), outer))

    # Of five programs two take the first way, with turns 6, 4, 2, and three the other, with turns 0 to 6.
    assert counted(body, (5,), x) == [2 * 3, 2 * 2 * (6 + 4 + 2), 3 * 7, 3 * 2 * sum(range(7))]


def test_what_tensors_hold_is_not_known():
    x = np.zeros((64, 64), np.float32)

    def body(p):
        X, Y = p.read(x, [8, 8]), p.write(x, [8, 8])
        last = p.fold(0, p.arg(3), p.id(0), lambda j, carried: carried + j)
        Y[0, 0] = p.fold(0, last, p.zeros([8, 8]), lambda j, t: t + X[0, j])

    assert counted(body, (1 << 30,), x, scalars=(3,)) == [3 << 30]


def test_many_programs_are_not_looked_at_one_by_one():
    x = np.zeros((64, 64), np.float32)

    def body(p):
        X, i = p.read(x, [8, 8]), p.id(0)
        total = p.fold(0, X.blocks(1), p.zeros([8, 8]), lambda j, t: t + X[i, j])
        p.write(x, [8, 8])[i * 3 + 1, 0] = p.fold(0, i, total, lambda j, t: t + X[i, j])

    assert counted(body, (1 << 30,), x) == [8 << 30]
