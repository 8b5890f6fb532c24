"""What a launch knows about indices, against every coordinate that its programs really have."""

import math
import random
import time
from itertools import product

import numpy as np
import pytest
from tile_ir_interpreter import _Run

from gizml_tile.lowering.planning.bounds import facts, nonnegative
from gizml_tile.lowering.planning.ranges import FULL, Range, combined
from gizml_tile.lowering.planning.signature import AccessFacts
from gizml_tile.nodes import View
from gizml_tile.program import trace


class Recording(_Run):
    """An interpreter that remembers the coordinates of each read and put."""

    seen: dict

    def places(self, view, coordinates):
        self.now.append((view, coordinates))
        return super().places(view, coordinates)

    def node(self, node, args):
        self.now = []
        result = super().node(node, args)
        if node.op in ("read", "put"):
            self.seen.setdefault(node, set()).add(tuple(self.now[-1][1]))
        return result


def coordinates(program, arrays, grid, scalars):
    seen = {}
    for place in product(*(range(size) for size in reversed((*grid, 1, 1, 1)[:3]))):
        run = Recording(program, arrays, (*grid, 1, 1, 1)[:3], place[::-1], scalars, "exact")
        run.seen = seen
        run.region(program.body)
    return seen


def expression(rng, p, known, depth=0):
    """A random index made of known ones."""
    if depth > 2 or rng.random() < 0.25:
        return rng.choice(known)
    left = expression(rng, p, known, depth + 1)
    op = rng.choice("add sub mul div rem floordiv floormod minimum maximum neg abs select".split())
    if op in ("neg", "abs"):
        return getattr(left, op)()
    other = rng.choice([1, 2, 3, 4, 8, 16, -1, -4, expression(rng, p, known, depth + 1)])
    if op == "select":
        return left.lt(other).select(left, other)
    return getattr(left, op)(other)


def random_program(seed):
    rng = random.Random(seed)
    shape = [rng.choice([1, 2, 3, 5, 8, 12, 16, 32]) for _ in range(3)]
    array = np.zeros(shape, np.float32)
    block = [rng.choice([1, 2, 4, 8]) for _ in range(2)]
    grid = [rng.randrange(1, 4) for _ in range(3)]
    scalar = rng.randrange(-9, 10)

    def body(p):
        x = p.read(array, block)
        start = [p.id(0), p.id(1), p.id(2), p.count(0), x.dim(1), x.blocks(2), p.arg(scalar)]

        def read(known):
            places = [expression(rng, p, known) for _ in range(3)]
            if rng.random() < 0.4:
                places = [known[0], rng.choice(known), rng.choice(known)]
            rng.choice([x.at, x.window])(places).sum(0)

        def turns(known, depth):
            first, last = (expression(rng, p, known, 2) for _ in range(2))
            first = rng.choice([0, 0, first.rem(8)])
            last = rng.choice([last.rem(8), x.blocks(1)])
            step = rng.choice([1, 1, 2, 3, -1, -2])

            def turn(k, carried):
                inner = [*known, k, carried]
                read(inner)
                if depth:
                    inner.append(turns(inner, depth - 1))
                if rng.random() < 0.5:
                    lower = inner[-1].lt(3)
                    inner.append(
                        p.cond(lower, lambda: expression(rng, p, inner), lambda: expression(rng, p, inner))
                    )
                read(inner)
                return rng.choice([carried.add(rng.choice([0, 2, 4])), expression(rng, p, inner)])

            return p.fold(first, last, expression(rng, p, known), turn, step=step)

        read(start)
        read([*start, turns(start, 1)])

    traced = trace("test", body)
    return traced.program, list(traced.tensors), grid, traced.scalars


@pytest.mark.parametrize("seed", range(120))
def test_facts_hold_for_every_coordinate(seed):
    program, arrays, grid, scalars = random_program(seed)
    known = facts(program, [array.shape for array in arrays], grid, scalars)
    accesses = [node for node in program.body.walk() if node.op in ("read", "put")]
    nonnegatives = nonnegative(program)
    seen = coordinates(program, arrays, grid, scalars)
    assert len(known) == len(accesses)
    for node, fact in zip(accesses, known, strict=True):
        view = node.attr
        shape = arrays[view.tensor].shape
        for places in seen.get(node, ()):
            holds(view, shape, places, fact)
            for arg, place in zip(node.args, places, strict=True):
                assert place >= 0 or arg not in nonnegatives


def holds(view, shape, places, fact):
    first = len(shape) - len(view.block)
    for number, extent in enumerate(view.block):
        offset = places[first + number] * (extent if view.mode == "at" else 1)
        size = shape[first + number]
        if fact.inside[number]:
            assert offset >= 0 and offset + extent <= size
        else:
            assert size % fact.grain[number] == 0
        assert offset % fact.grain[number] == 0
    if fact.leading:
        assert all(0 <= place < size for place, size in zip(places[:first], shape[:first], strict=True))


OPERATIONS = "add sub mul neg abs maximum minimum div floordiv rem floormod".split()


def truncated(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


MEANING = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a, b: -a,
    "abs": lambda a, b: abs(a),
    "maximum": max,
    "minimum": min,
    "div": truncated,
    "floordiv": lambda a, b: a // b if b else 0,
    "rem": lambda a, b: a - truncated(a, b) * b if b else 0,
    "floormod": lambda a, b: a % b if b else 0,
}


@pytest.mark.parametrize("op", OPERATIONS)
def test_each_operation_over_all_small_ranges(op):
    ranges = [
        Range(low, high, divisor)
        for divisor in (1, 2, 3, 4)
        for low in range(-8, 9)
        for high in range(low, 9)
        if low % divisor == 0 and high % divisor == 0 and (high - low) // divisor in (0, 1, 3)
    ]
    ranges = [Range(r.low, r.high, abs(r.low)) if r.low == r.high else r for r in ranges]
    for a in ranges[:: 1 + (len(ranges) > 60)]:
        for b in ranges:
            result = combined(op, [a] if op in ("neg", "abs") else [a, b])
            for x in range(a.low, a.high + 1, max(a.divisor, 1)):
                for y in range(b.low, b.high + 1, max(b.divisor, 1)):
                    value = MEANING[op](x, y)
                    assert result.low <= value <= result.high, (op, a, b, x, y, result)
                    assert value == 0 if result.divisor == 0 else value % result.divisor == 0


def test_what_overflows_wraps_and_keeps_powers_of_two():
    big = Range(0, 2**62, 24)
    assert combined("mul", [big, Range(6, 6, 6)]) == Range(FULL.low, FULL.high, 16)
    assert combined("neg", [Range(-(2**63), 0, 1)]) == FULL


def of_program(body, shapes, grid, scalars=()):
    program = trace("test", body, grid_rank=len(grid)).program
    return facts(program, shapes, grid, scalars), program


def matmul(p, a, b, c):
    A, B, C = p.read(a, [64, 32]), p.read(b, [32, 64]), p.write(c, [64, 64])
    i, j = p.id(0), p.id(1)
    total = p.fold(0, A.blocks(1), p.zeros([64, 64]), lambda k, acc: acc.add(A.at([i, k]).dot(B.at([k, j]))))
    C.put(total, [i, j])


def test_products_of_whole_blocks_need_no_masks():
    a, b, c = np.zeros((128, 96), "f4"), np.zeros((96, 192), "f4"), np.zeros((128, 192), "f4")
    whole = AccessFacts((True, True), (16, 16), True)
    found, program = of_program(lambda p: matmul(p, a, b, c), [a.shape, b.shape, c.shape], (2, 3))
    assert found == (whole, whole, whole)
    # One program more, or a ragged size, and just those axes need them.
    assert facts(program, [a.shape, b.shape, c.shape], (3, 3), ()) == (
        AccessFacts((False, True), (16, 16), True),
        whole,
        AccessFacts((False, True), (16, 16), True),
    )
    assert facts(program, [(128, 100), (100, 192), (128, 192)], (2, 3), ()) == (
        AccessFacts((True, False), (16, 4), True),
        AccessFacts((False, True), (4, 16), True),
        whole,
    )
    assert {"id", "param"} < {node.op for node in nonnegative(program)}


def test_windows_and_leading_axes():
    x = np.zeros((5, 4, 64), "f4")

    def body(p):
        X = p.read(x, [16])
        X.at([p.id(1), 3, p.id(0)])
        X.at([p.id(1), p.id(0).add(1), p.id(0)])
        X.window([0, 0, p.id(0).mul(8)])
        X.window([0, 0, p.id(0).mul(16).sub(4)])
        p.loop(3, -1, [], lambda k, _: [X.window([k, k, k.mul(16)])][1:], step=-1)

    found, _ = of_program(body, [x.shape], (4, 5))
    assert found == (
        AccessFacts((True,), (16,), True),
        AccessFacts((True,), (16,), False),
        AccessFacts((True,), (8,), True),
        AccessFacts((False,), (4,), True),
        AccessFacts((True,), (16,), True),
    )


def test_a_launch_asks_in_microseconds():
    a, b, c = np.zeros((128, 96), "f4"), np.zeros((96, 192), "f4"), np.zeros((128, 192), "f4")
    _, program = of_program(lambda p: matmul(p, a, b, c), [a.shape, b.shape, c.shape], (2, 3))
    shapes = [a.shape, b.shape, c.shape]
    best = math.inf
    for _ in range(50):
        start = time.perf_counter()
        facts(program, shapes, (2, 3), ())
        best = min(best, time.perf_counter() - start)
    assert best < 300e-6, f"{best * 1e6:.0f} microseconds"


def test_views_are_asked_in_program_order():
    x = np.zeros((64,), "f4")

    def body(p):
        X, Y = p.read(x, [16]), p.write(np.zeros(50, "f4"), [16])
        Y.put(X.at([p.id(0)]), [p.id(0)])

    found, program = of_program(body, [(64,), (50,)], (4,))
    order = [node.attr for node in program.body.walk() if isinstance(node.attr, View)]
    assert [view.tensor for view in order] == [0, 1]
    assert [fact.inside for fact in found] == [(True,), (False,)]
