"""Products between other work: attention, chains of products, carried tiles, branches.

The numbers are small and whole, and ``small`` keeps them so, so that every sum is exact in any order and a
result is right to the bit or wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from agreement import HALF_ULP, TYPES, agree, assert_close, laid_out, launch

import gizml_tile as tile


@dataclass
class Blocks:
    """What a case works on: a block of M rows of q, blocks of N rows of k and v; depth D, width K."""

    p: tile.Program
    i: tile.Index
    q: tile.Tile
    keys: tile.In
    values: tile.In
    sizes: tuple[int, int, int, int]

    @property
    def turns(self):
        return self.keys.blocks(0)

    def scores(self, k):
        return self.q.dot(self.keys.at([k, 0]).transpose())

    def zeros(self, rows, columns):
        return self.p.zeros([rows, columns])


def small(t):
    """Whole numbers modulo 4, exactly."""
    return t - (t * 0.25).floor() * 4


def attention(b):
    m, _, _d, width = b.sizes

    def turn(k, carried):
        total, most, length = carried
        scores = b.scores(k)
        following = most.maximum(scores.max(1))
        weights, fade = small(scores - following), small(most - following)
        total = small(total * fade) + weights.dot(b.values.at([k, 0]))
        return [total, following, small(length * fade) + weights.sum(1)]

    return b.p.loop(0, b.turns, [b.zeros(m, width), b.p.full([m, 1], -100), b.zeros(m, 1)], turn)


def causal_attention(b):
    m, n, _d, width = b.sizes
    rows = b.p.iota([m, 1], 0) + (b.i * m).value()

    def turn(k, total):
        seen = rows >= b.p.iota([1, n], 1) + (k * n).value()
        return total + seen.select(small(b.scores(k)), b.p.k(0)).dot(b.values.at([k, 0]))

    last = ((b.i * m + (m + n - 1)) // n).minimum(b.turns)
    return [b.p.fold(0, last, b.zeros(m, width), turn)]


def attention_without_a_loop(b):
    scores = small(b.scores(0))
    weights = scores - scores.max(1)
    return [weights.dot(b.values.at([0, 0])), weights.sum(1), weights * b.p.iota([1, b.sizes[1]], 1)]


def chain_of_products(b):
    first = small(b.scores(0))
    second = small(first.dot(b.values.at([0, 0])))
    square = small(second.transpose().dot(second))
    return [second.dot(square), square.sum(1).sum(0), second.transpose()]


def computed_right_operand(b):
    keys = b.keys.at([0, 0])
    changed = small(keys.to(tile.F32) * 3 + keys.sum(1))
    return [b.q.dot(changed.transpose()), b.q.dot(small(b.q.transpose().dot(b.q)))]


def computed_left_operand(b):
    changed = small(b.q + b.q.max(1))
    return [
        changed.transpose().dot(changed + b.q.min(1)),
        changed.dot(b.keys.at([0, 0]).transpose() - 1),
        changed.transpose().dot(small(b.scores(0))),
    ]


def vectors(b):
    column, row = b.q.sum(1), b.keys.at([0, 0]).to(tile.F32).sum(1).transpose()
    return [
        column.dot(row),
        column.transpose().dot(column),
        column.transpose().dot(b.q),
        row.dot(b.values.at([0, 0])),
        b.q.dot(b.q.max(0).transpose()),
    ]


def nested_loops(b):
    m, _, d, width = b.sizes

    def turn(k, carried):
        total, weights = carried

        def inner(j, weights):
            return small(weights + b.keys.at([j, 0]).sum(0) + k.value())

        weights = b.p.fold(k, b.turns, weights, inner)
        product = small(b.q * weights).dot(b.keys.at([k, 0]).transpose())
        return [small(total + product.dot(b.values.at([k, 0]))), weights]

    return b.p.loop(0, b.turns, [b.zeros(m, width), b.zeros(1, d)], turn)


def branches_in_a_loop(b):
    m, _, _, width = b.sizes

    def turn(k, carried):
        total, count = carried

        def then():
            product = b.scores(k).dot(b.values.at([k, 0]))
            return small(total + product), count + 1

        return list(b.p.cond((k % 2).eq(b.i % 2), then, lambda: (total * -1, count)))

    total, count = b.p.loop(0, b.turns, [b.zeros(m, width), b.p.int(0)], turn)
    return [total, count.value()]


def a_loop_in_a_branch(b):
    m, _, _, width = b.sizes

    def then():
        return b.p.fold(
            0, b.turns, b.zeros(m, width), lambda k, t: small(t + b.scores(k).dot(b.values.at([k, 0])))
        )

    total = b.p.cond(b.i.lt(1), then, lambda: b.p.full([m, width], 5))
    return [total, total.max(0)]


def carried_values_that_swap(b):
    m, _, _, width = b.sizes
    first = small(b.values.at([0, 0]).sum(0) + b.p.iota([m, width], 0))

    def turn(k, carried):
        a, other, _mask = carried
        return [other, small(a + other * k.value()), a > other]

    a, other, mask = b.p.loop(0, b.turns, [first, b.p.full([m, width], 1), first > 1], turn)
    return [mask.select(a, other * 10), a.max(1), other]


def carried_values_of_which_some_are_unused(b):
    m, n, d, _ = b.sizes

    def turn(k, carried):
        total, never, _once, number = carried
        return [small(total + b.scores(k)), never + 1, total, number + k]

    start = [b.zeros(m, n), b.zeros(m, d), b.p.full([m, n], 2), b.p.int(7)]
    total, _, once, number = b.p.loop(0, b.turns, start, turn)
    return [total, once, number.value(), b.scores(0)]


def carried_left_operand(b):
    m, n, _d, _ = b.sizes

    def turn(k, carried):
        total, left = carried
        keys = b.keys.at([k, 0])
        return [small(total + left.dot(keys.transpose())), small(left + keys.sum(0))]

    return b.p.loop(0, b.turns, [b.zeros(m, n), b.q], turn)


def carried_right_operand(b):
    _m, _, d, width = b.sizes

    def turn(k, right):
        return small(right + b.keys.at([k, 0]).transpose().dot(b.values.at([k, 0])))

    right = b.p.fold(0, b.turns, b.zeros(d, width), turn)
    again = b.p.fold(0, 3, right, lambda k, t: small(b.q.transpose().dot(b.q.dot(t))))
    return [b.q.dot(right), again, right.max(1)]


def powers_of_a_matrix(b):
    square = small(b.q.transpose().dot(b.q))

    def turn(k, power):
        return small(power.dot(square).dot(power.transpose()))

    return [b.p.fold(0, 3, square, turn), b.p.fold(0, 0, square, turn)]


def reductions_of_products_both_ways(b):
    scores = small(b.scores(0))
    down = small(scores - scores.sum(0))
    most = down.max(0)
    return [down * most, down.dot(b.values.at([0, 0])), down.min(1), (scores > 1).sum(0), most.transpose()]


CASES = [
    attention, causal_attention, attention_without_a_loop, chain_of_products, computed_right_operand,
    computed_left_operand, vectors, nested_loops, branches_in_a_loop, a_loop_in_a_branch,
    carried_values_that_swap, carried_values_of_which_some_are_unused, carried_left_operand,
    carried_right_operand, powers_of_a_matrix, reductions_of_products_both_ways,
]  # fmt: skip
# M rows, N keys a block, depth D, width K: less than a vector, a vector, blocks of rows, single ones.
SIZES = [(4, 8, 2, 4), (16, 16, 16, 16), (64, 32, 16, 32), (1, 64, 32, 8), (32, 1, 8, 1), (8, 4, 64, 128)]
KINDS = [("f32", "C"), ("bf16", "inside"), ("f16", "F"), ("f32", "steps"), ("fp8", "turned"), ("f32", "back")]


@pytest.mark.parametrize("number", range(len(SIZES)))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_case(case, number):
    m, n, d, width = SIZES[number]
    kind, order = KINDS[number]
    rng = np.random.default_rng(number)
    rows, keys = 2 * m - m // 3, 3 * n - n // 2

    def numbers(*shape):
        return laid_out(rng.integers(-3, 4, shape).astype(np.float32).astype(TYPES[kind]), order)

    q, k, v = numbers(rows, d), numbers(keys, d), numbers(keys, width)
    outputs = [np.full((2, 128, 128), 9, np.float32) for _ in range(5)]

    def body(p):
        i = p.id(0)
        rows = p.read(q, [m, d]).at([i, 0]).to(tile.F32) * 2
        blocks = Blocks(p, i, rows, p.read(k, [n, d]), p.read(v, [n, width]), (m, n, d, width))
        for result, output in zip(case(blocks), outputs, strict=False):
            if result.dtype is not tile.F32:
                result = result.to(tile.F32)
            p.write(output, list(result.shape)).put(result, [i, 0, 0])

    agree([2], body)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(("length", "depth"), [(1, 16), (40, 32), (100, 64)])
def test_attention_of_real_numbers(kind, length, depth):
    """exp and division between the products, against float64, causal and not."""
    rng = np.random.default_rng(length)
    q, k, v = (rng.standard_normal((length, depth)).astype(np.float32).astype(TYPES[kind]) for _ in range(3))
    for causal in (False, True):
        out = np.empty((length, depth), np.float32)

        def body(p, causal=causal, out=out):
            i = p.id(0)
            Q, K, V = p.read(q, [32, depth]), p.read(k, [16, depth]), p.read(v, [16, depth])
            rows = Q.at([i, 0])
            own = p.iota([32, 1], 0) + (i * 32).value()

            def turn(j, carried):
                total, most, sums = carried
                column = p.iota([1, 16], 1) + (j * 16).value()
                scores = rows.dot(K.at([j, 0]).transpose()) * depth**-0.5
                seen = column <= own if causal else column < K.dim(0).value()
                scores = seen.select(scores, p.k(-1e30))
                following = most.maximum(scores.max(1))
                weights, fade = (scores - following).exp(), (most - following).exp()
                return [total * fade + weights.dot(V.at([j, 0])), following, sums * fade + weights.sum(1)]

            start = [p.zeros([32, depth]), p.full([32, 1], -1e30), p.zeros([32, 1])]
            total, _, sums = p.loop(0, K.blocks(0), start, turn)
            p.write(out, [32, depth]).put(total / sums, [i, 0])

        launch([tile.cdiv(length, 32)], body)
        x, y, z = (each.astype(np.float64) for each in (q, k, v))
        scores = x @ y.T * depth**-0.5
        if causal:
            scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        assert_close(out, weights @ z, (3 * depth + length) * HALF_ULP * 8)


def test_bytes_are_packed_of_blocks_that_are_kept():
    """A program that reads what it wrote keeps its blocks as it read them: FP8 is decoded then."""
    rng = np.random.default_rng(4)
    shapes = ((64, 128), (128, 64))
    a, b = (rng.integers(-3, 4, shape).astype(np.float32).astype(TYPES["fp8"]) for shape in shapes)
    c = np.zeros((64, 64), np.float32)

    def body(p):
        A, B, C, again = p.read(a, [64, 64]), p.read(b, [64, 64]), p.write(c, [64, 64]), p.read(c, [64, 64])
        C.put(A.at([0, 0]) @ B.at([0, 0]), [0, 0])
        total = p.fold(0, 2, again.at([0, 0]), lambda k, acc: acc + A.at([0, k]) @ B.at([k, 0]))
        C.put(total, [0, 0])

    agree([1], body)
