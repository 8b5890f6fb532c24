"""All passes together: random programs keep their bits, long programs stay quick, reruns change nothing."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from programs import assert_same_bits, operations, outputs, record
from tile_ir_interpreter import interpret

from gizml_tile.check import check
from gizml_tile.dtypes import BF16, F16, F32, FP8, I8, I32, I64, MASK
from gizml_tile.lowering.tile_passes.fma import fuse_products
from gizml_tile.lowering.tile_passes.pipeline import passes, simplify
from gizml_tile.program import trace
from gizml_tile.text import text

FLOAT_OPS = "add sub mul div maximum minimum".split()
INTEGER_OPS = "add sub mul maximum minimum floordiv floormod rem and_ or_ xor shl shr".split()
INDEX_OPS = "add sub mul div rem floordiv floormod minimum maximum".split()
CONSTANTS = [0.0, -0.0, 1.0, -1.0, 2.5]


class Generator:
    """Random statements over pools of floats, integers, masks and indices of one shape."""

    def __init__(self, seed, p, x, y, n, out, ints):
        self.random = random.Random(seed)
        self.p = p
        self.views = [p.read(x, [4, 4]), p.read(y, [4, 4], pad=-1.5), p.read(out, [4, 4])]
        self.numbers = p.read(n, [4, 4], pad=3)
        self.out, self.ints = p.write(out, [4, 4]), p.write(ints, [4, 4])

    def coordinate(self, pools):
        return self.random.choice([*pools["index"][-4:], 0, 1, 0, 1, 0, 1, self.random.randrange(-1, 5)])

    def recent(self, values):
        """A value, likely one of the last: what is made should be used."""
        return self.random.choice(values[-3:] if self.random.random() < 0.7 else values)

    def statement(self, pools, depth):
        pick = self.recent
        kinds = "float float read store float read store integer index mask select unary read store".split()
        kind = self.random.choice([*kinds, *(["loop", "branch"] if depth < 3 else [])])
        floats, integers = pools["float"], pools["integer"]
        match kind:
            case "float":
                other = pick([*floats, pick(CONSTANTS)])
                floats.append(getattr(pick(floats), pick(FLOAT_OPS))(other))
            case "integer":
                other = pick([*integers, pick([1, 2, 3, 5])])
                integers.append(getattr(pick(integers), pick(INTEGER_OPS))(other))
            case "index":
                other = pick([*pools["index"], pick([1, 2, -3])])
                pools["index"].append(getattr(pick(pools["index"]), pick(INDEX_OPS))(other))
            case "mask":
                made = getattr(pick(floats), pick("lt le gt ge eq ne".split()))(pick(floats))
                pools["mask"].append(
                    pick([made, made.not_(), made & pick(pools["mask"]), made ^ pick(pools["mask"])])
                )
            case "read":
                view = self.random.choice(self.views)
                at = [self.coordinate(pools), self.coordinate(pools)]
                floats.append(pick([view.at, view.window])(at))
                integers.append(self.numbers.at(at))
            case "store":
                at = [self.coordinate(pools), self.coordinate(pools)]
                if pick([True, False]):
                    self.out.put(pick(floats), at)
                else:
                    self.ints.put_window(pick(integers).to(I32), at)
            case "select":
                floats.append(pick(pools["mask"]).select(pick(floats), pick(floats)))
                integers.append(pick(pools["mask"]).select(pick(integers), pick([*integers, 7])))
            case "unary":
                value = pick(floats)
                floats.append(
                    pick(
                        [
                            value.T,
                            value.neg(),
                            value.abs(),
                            value.to(pick([F32, F16, BF16, FP8])),
                            value.sum(0),
                            value.max(1),
                            value.floor(),
                            value
                            @ pick([each for each in floats if each.shape[0] == value.shape[1]] or [value.T]),
                            pick(integers).to(F32),
                            pick(pools["index"]).value(),
                        ]
                    )
                )
                integers.append(pick([value.to(I32), pick(integers).to(I8), pick(integers).max(0)]))
            case "loop":
                self.loop(pools, depth)
            case "branch":
                self.branch(pools, depth)

    def block(self, pools, depth):
        inner = {kind: list(values) for kind, values in pools.items()}
        for _ in range(self.random.randrange(2, 8)):
            self.statement(inner, depth + 1)
        return inner

    def loop(self, pools, depth):
        inits = [
            pools["float"][-1],
            pools["integer"][-1],
            pools["index"][-1],
            self.random.choice(pools["float"]),
        ]
        inits[0], inits[1] = inits[0].to(F32), inits[1].to(I64)

        def body(k, carried):
            inner = {kind: list(values) for kind, values in pools.items()}
            inner["float"] += [carried[0], carried[3]]
            inner["integer"].append(carried[1])
            inner["index"] += [k, carried[2]]
            inner = self.block(inner, depth)
            fits = [each for each in inner["float"] if each.shape == inits[0].shape]
            whole = [each for each in inner["integer"] if each.shape == inits[1].shape]
            return [
                self.recent(fits).to(F32),
                self.recent(whole).to(I64),
                self.random.choice([*inner["index"], carried[2]]),
                self.random.choice([carried[3], carried[3], inits[3]]),
            ]

        start, stop, step = self.random.choice(
            [(0, 3, 1), (2, 0, -1), (1, 1, 1), (0, pools["index"][0], 1), (3, 1, 1)]
        )
        one, two, index, three = self.p.loop(start, stop, inits, body, step=step)
        pools["float"] += [one, three]
        pools["integer"].append(two)
        pools["index"].append(index)

    def branch(self, pools, depth):
        shape = pools["float"][-1].shape

        def arm():
            inner = self.block(pools, depth)
            fits = [each for each in inner["float"] if each.shape == shape]
            return self.recent(fits).to(F32), self.random.choice(inner["index"])

        pick = self.random.choice
        i, j = pick(pools["index"]), pick([*pools["index"], 1])
        made, index = self.p.cond(pick([i < j, i >= j, (i != j) & (i < 3), ~(i > j)]), arm, arm)
        pools["float"].append(made)
        pools["index"].append(index)


def random_program(seed):
    def body(p, x, y, n, out, ints):
        make = Generator(seed, p, x, y, n, out, ints)
        i, j = p.id(0), p.id(1)
        pools = {
            "index": [i, j, p.count(0)],
            "float": [make.views[0][i, j], make.views[1][j, i], p.zeros([4, 4])],
            "integer": [make.numbers[i, j], p.iota([4, 4], 1, I32)],
            "mask": [p.full([4, 4], True, MASK)],
        }
        for _ in range(12):
            make.statement(pools, 0)
        make.out[i, j] = pools["float"][-1]
        make.ints[i, j] = pools["integer"][-1].to(I32)

    return record(body)


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
    short, long = long_program(1000).program, long_program(8000).program
    assert len(long.body.nodes) > 8000
    simplify(long), text(long), check(long)
    for function in (simplify, text, check):
        assert seconds(lambda f=function: f(long)) < 30 * seconds(lambda f=function: f(short))
