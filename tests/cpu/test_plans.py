"""What the planner makes of the programs that everyone writes."""

import re

import numpy as np
import pytest
from agreement import numbers
from products import Product, assert_product

import gizml_tile as tile
from gizml_tile.lowering.emit.cpu import unit
from gizml_tile.runtime.host import host

X = np.zeros((64, 1024), np.float32)
Y = np.zeros((64, 1024), np.float32)


def lines(grid, body, **options):
    """The plan without its first line, which tells of the computer."""
    return tile.explain(grid, body, kind="cpu", **options).splitlines()[1:]


def steps(text):
    """The kinds of tasks of each pass of a plan."""
    passes = [line.partition("one pass: ")[2] for line in text if "one pass: " in line]
    return [re.findall(r"(?:^|, )(\w+) \[\d+, \d+\]", each) for each in passes]


def groups(text):
    return [line for line in text if line.lstrip().startswith("rows of")]


def softmax(p):
    i = p.id(0)
    row = p.read(X, [16, 1024]).at([i, 0])
    e = (row - row.max(1)).exp()
    p.write(Y, [16, 1024]).put(e / e.sum(1), [i, 0])


def test_softmax_is_one_group_of_three_passes():
    text = lines([4], softmax)
    assert len(groups(text)) == 1
    assert "(all rows)" not in "".join(text)
    assert steps(text) == [["max"], ["keep", "sum"], ["put"]]


def test_elementwise_work_is_one_pass_and_keeps_nothing():
    def body(p):
        i = p.id(0)
        a, b = p.read(X, [16, 1024]).at([i, 0]), p.read(X, [16, 1024]).at([i + 1, 0])
        p.write(Y, [16, 1024]).put((a * b).tanh() + a.exp(), [i, 0])

    assert steps(lines([3], body)) == [["put"]]


def test_two_reductions_of_one_tile_share_a_pass():
    def body(p):
        row = p.read(X, [16, 1024]).at([p.id(0), 0])
        p.write(Y, [16, 1]).put(row.sum(1) + row.max(1), [p.id(0), 0])

    assert steps(lines([4], body))[0] == ["sum", "max"]


def test_a_matrix_product_is_one_deep_product():
    def body(p):
        i, j = p.id(0), p.id(1)
        A, B = p.read(X, [32, 64]), p.read(X.T, [64, 32])
        total = p.fold(0, A.blocks(1), p.zeros([32, 32]), lambda k, t: t + A.at([i, k]).dot(B.at([k, j])))
        p.write(Y, [32, 32]).put(total.relu(), [i, j])

    text = lines([2, 2], body)
    assert text[0].startswith("one product of the loop's whole depth, 32 x 32 by F32 fused multiply-add")
    assert text[1] == "each of its blocks, as soon as it is whole:"
    assert steps(text) == [["put"]]
    assert not any(line.startswith("loop") for line in text)
    unit_name = "the BF16 matrix unit" if host().amx else "BF16 pairs" if host().bf16_dot else "F32"
    assert unit_name in lines([2, 2], body, storage=(tile.BF16, tile.BF16, tile.F32))[0]
    assert unit_name in lines([2, 2], body, storage=(tile.FP8, tile.BF16, tile.F32))[0]
    assert "F32 fused" in lines([2, 2], body, storage=(tile.F16, tile.BF16, tile.F32))[0]


def test_bytes_are_multiplied_in_fours_or_pairs():
    def body(p):
        A, B = p.read(X, [32, 64]), p.read(X.T, [64, 32])
        turn = lambda k, total: total + A.at([0, k]).dot(B.at([k, 0]))
        p.write(Y, [32, 32]).put(p.fold(0, A.blocks(1), p.zeros([32, 32], tile.I32), turn), [0, 0])

    form = "I16 pairs" if host().i16_dot else "I32 multiply and add"
    form = "fours of U8 x I8" if host().i8_dot else form
    form = "the U8 x I8 matrix unit" if host().amx else form
    assert form in lines([1], body, storage=(tile.U8, tile.I8, tile.I32))[0]


def test_loops_that_are_no_deep_product():
    """Whatever else a loop does, or a value for each block of k, makes it a loop."""

    def body(p, change, after):
        A, B = p.read(X, [16, 64]), p.read(X.T, [64, 16])

        def turn(k, total):
            return after(k, total + change(p, k, A.at([0, k])).dot(B.at([k, 0])))

        p.write(Y, [16, 16]).put(p.fold(0, A.blocks(1), p.zeros([16, 16]), turn), [0, 0])

    plain, same = (lambda p, k, t: t), (lambda k, t: t)
    for change, after, deep in (
        (plain, same, True),
        (lambda p, k, t: t * 2, same, True),
        (lambda p, k, t: t * p.read(X, [1, 64]).at([0, k]), same, True),
        (lambda p, k, t: t * k.value(), same, False),
        (lambda p, k, t: t + p.iota(t.shape, 1), same, False),
        (lambda p, k, t: t * p.read(X, [16, 1]).at([0, k]), same, False),
        (lambda p, k, t: t - t.max(1), same, False),
        (plain, lambda k, t: t * 0.5, False),
    ):
        text = lines([1], lambda p, change=change, after=after: body(p, change, after))
        assert any("one product of the loop's whole depth" in line for line in text) == deep
        assert any(line.startswith("loop") for line in text) != deep


def test_the_loop_of_attention_is_one_group():
    q, out = np.zeros((64, 32), np.float32), np.zeros((64, 32), np.float32)

    def body(p):
        i = p.id(0)
        rows, K, V = p.read(q, [32, 32]).at([i, 0]), p.read(q, [32, 32]), p.read(q, [32, 32])

        def turn(j, carried):
            total, most, sums = carried
            scores = rows.dot(K.at([j, 0]).transpose())
            following = most.maximum(scores.max(1))
            weights, fade = (scores - following).exp(), (most - following).exp()
            return [total * fade + weights.dot(V.at([j, 0])), following, sums * fade + weights.sum(1)]

        start = [p.zeros([32, 32]), p.full([32, 1], -1e30), p.zeros([32, 1])]
        total, _, sums = p.loop(0, K.blocks(0), start, turn)
        p.write(out, [32, 32]).put(total / sums, [i, 0])

    text = lines([2], body)
    start = next(number for number, line in enumerate(text) if line.startswith("loop"))
    inside = [line for line in text[start + 1 :] if line.startswith(" ")]
    inner_groups = [line for line in inside if line.startswith("  rows of")]
    assert len(inner_groups) == 1
    assert sum(" dot [" in line for line in inside) == 2
    # the scores and the weights never leave the block of rows that is at work
    assert not any("[32, 32] exp (all rows)" in line for line in inside)


@pytest.mark.parametrize(("staged_bytes", "reuse"), [(0, 3), (1 << 16, 1), (1 << 29, 1), (1 << 29, 1000)])
def test_staging_changes_no_bit(monkeypatch, staged_bytes, reuse):
    """Nothing packed for the launch, some operands, or all of them."""
    product = Product((70, 600, 90), (16, 16, 64), orders=("F", "F", "C"))
    plain = product.launch(product.operands())
    monkeypatch.setattr(unit, "STAGED_BYTES", staged_bytes)
    monkeypatch.setattr(unit, "STAGE_REUSE", reuse)
    assert np.array_equal(product.launch(product.operands()), plain)
    pairs = Product((70, 600, 90), (16, 16, 64), ("bf16", "bf16"))
    a, b, c = pairs.operands()
    assert_product(pairs.launch((a, b, c)), a, b)


def test_an_arena_is_as_large_as_the_tiles_that_are_kept():
    """A softmax keeps a block of rows, not the tile; a carried tile has two homes."""

    def arena(body, grid):
        from gizml_tile.lowering.emit.cpu import CpuSignature, emit
        from gizml_tile.lowering.tile_passes.pipeline import simplify
        from gizml_tile.program import trace

        program = simplify(trace("body", body, grid_rank=1).program)
        layouts = tuple(("any", "unit") for _ in program.tensors)
        return emit(program, CpuSignature(layouts, 1, False), host()).arena_bytes

    assert arena(softmax, [4]) < 16 * 1024 * 4 + 4096

    def carried(p):
        block = p.read(X, [64, 1024]).at([0, 0])
        p.write(Y, [64, 1024]).put(p.fold(0, 5, block, lambda k, t: (t * 0.5).exp()), [0, 0])

    assert 2 * 64 * 1024 * 4 <= arena(carried, [1]) < 2 * 64 * 1024 * 4 + 4096


def test_programs_run_in_any_order_of_the_grid():
    """Every program of grids of all shapes runs exactly once, also in groups of columns."""
    rng = np.random.default_rng(0)
    for m, n in ((1, 200), (200, 1), (33, 130), (130, 33)):
        for first in (False, True):
            a = numbers(rng, (m, 8), np.dtype(np.float32))
            b = numbers(rng, (8, n), np.dtype(np.float32))
            c = np.full((m, n), np.nan, np.float32)
            product = Product((m, 8, n), (1, 2, 8), columns_first=first)
            grid, body = product.program(a, b, c)
            tile.run(grid, body)
            assert_product(c, a, b)


def softmax_of(m, n):
    def body(p):
        row = p.read(X, [m, n]).at([0, 0])
        e = (row - row.max(1)).exp()
        p.write(Y, [m, n]).put(e / e.sum(1), [0, 0])
        p.write(Y, [1, n]).put(row.sum(0), [0, 0])
        p.write(Y, [n, m]).put(e.transpose(), [0, 0])

    return body


def scores_of(m, n):
    def body(p):
        q, k = p.read(X, [m, 8]).at([0, 0]).exp(), p.read(X, [n, 8]).at([0, 0]).exp()
        s = q.dot(k.transpose())
        p.write(Y, [m, n]).put(s.exp(), [0, 0])
        p.write(Y, [m, 8]).put(s.dot(k + k.max(1)), [0, 0])

    return body


def product_of(m, n):
    def body(p):
        A, B = p.read(X, [m, 4]), p.read(X, [4, n])
        total = p.fold(0, A.blocks(1), p.zeros([m, n]), lambda k, t: t + A.at([0, k]).dot(B.at([k, 0])))
        p.write(Y, [m, n]).put(total, [0, 0])

    return body


@pytest.mark.parametrize("make", [softmax_of, scores_of, product_of])
def test_large_tiles_make_no_long_code(make):
    """Nothing is written out for each row or column: compile time does not grow with tiles."""
    for m, n in ((64, 64), (1024, 1024), (1, 2**17), (2**17, 1), (4, 2**16), (2**16, 4)):
        assert tile.source([1], make(m, n)).count("\n") < 4000, (m, n)
