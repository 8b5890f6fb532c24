"""All passes together: random programs keep their bits, long programs stay quick, reruns change nothing."""

from __future__ import annotations

import time

import numpy as np
import pytest
from made_programs import assert_same_bits, operations, outputs
from random_statements import random_program
from tile_ir_interpreter import interpret

from gizml_tile.check import check
from gizml_tile.lowering.tile_passes.fma import fuse_products
from gizml_tile.lowering.tile_passes.pipeline import passes, simplify
from gizml_tile.program import trace
from gizml_tile.text import text


@pytest.mark.parametrize("seed", range(25))
def test_passes_keep_the_bits_of_random_programs(seed):
    traced = random_program(seed)
    program, fusing = traced.program, False
    wanted = outputs(program, traced, (2, 2))
    for step in passes():
        after = step(program)
        check(after)
        found = outputs(after, traced, (2, 2))
        if step is fuse_products:
            # Fused products round once less: what comes later is compared with them.
            wanted, fusing = found, True
            exact = interpret(after, [np.array(each) for each in traced.tensors], (2, 2), mode="float64")
            before = interpret(program, [np.array(each) for each in traced.tensors], (2, 2), mode="float64")
            for one, other in zip(exact, before, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
        assert_same_bits(found, wanted)
        program = after
    assert fusing


@pytest.mark.parametrize("seed", range(25))
def test_simplifying_again_changes_nothing_but_names(seed):
    once = simplify(random_program(seed).program)
    assert len(operations(simplify(once))) <= len(operations(once))


def test_equal_programs_have_equal_texts():
    first, second = (text(simplify(random_program(5).program), places=False) for _ in range(2))
    assert first == second


def long_program(count):
    data = np.zeros((8, 8), np.float32)

    def body(p):
        A, C = p.read(data, [8, 8]), p.write(data, [8, 8])
        x = A[0, 0]
        for number in range(count // 4):
            x = (x * 1.5 + A[number, 0]).exp()
        C[0, 0] = x

    return trace("long", body)


def seconds(function):
    best = 9.0
    for _ in range(3):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def test_long_programs_need_time_in_proportion():
    short, long = long_program(500).program, long_program(4000).program
    assert len(long.body.nodes) > 4000
    simplify(long), text(long), check(long)
    for function in (simplify, text, check):
        assert seconds(lambda f=function: f(long)) < 30 * seconds(lambda f=function: f(short))
