"""Padding: every size becomes a power of two, and what a program stores does not change."""

from __future__ import annotations

import numpy as np
import pytest
from tile_ir_interpreter import interpret

from gizml_tile.check import check
from gizml_tile.dtypes import I32, I64
from gizml_tile.lowering.tile_passes.pad import grown_blocks, pad
from gizml_tile.nodes import Elements, View
from gizml_tile.program import trace

# What stands past the visible elements must never count: the tensors hold infinities and NaN there.
PROGRAMS = {
    "sums": lambda t: [t.sum(0), t.sum(1), t.ne(t).sum(1).to(I32), t.gt(0).sum(0)],
    "largest": lambda t: [t.max(0), t.min(1), t.gt(0).max(1).to(I32), t.gt(-9).min(0).to(I32)],
    "places": lambda t: [t.argmax(1), t.argmin(0), t.flip(1).argmax(1)],
    "running": lambda t: [t.cumsum(1), t.cummax(0), t.cumsum(0, reverse=True), t.cummin(1, reverse=True)],
    "products of all": lambda t: [t.prod(1), (t * 0 + 1).cumprod(0, reverse=True)],
    "order": lambda t: [*t.sort(1), *t.sort(0, descending=True), *t.topk(3, 1), t.to(I32).sort(1)[0]],
    "counts": lambda t: [t.to(I32).histogram(5), (t * 2).floor().to(I64).histogram(4)],
    "products": lambda t: [t @ t.T, t.T @ t, (t + 1) @ (t - 1).T],
    "turned": lambda t: [t.T, t.T.T, t.T.sum(0)],
    "parts": lambda t: [t[1:4, 2:5], t[::-1, ::-2], t.flip(0), t[2:3], t[:, 4:5], t[-3:, -5:]],
    "joined": lambda t: [t.concat(t, 0), t.concat(t[:2] * 2, 0), t.concat(t.sum(1), 1), t.interleave(-t, 1)],
    "shapes": lambda t: [
        t[:1].reshape([-1, 1]),
        t[:, :4].reshape([-1, 8] if t.shape[0] % 2 == 0 else [-1, 2]),
        t[:, :4].reshape(4 * t.shape[0]),
        t.reshape([t.shape[1], t.shape[0]]),
        (t + 1).reshape([1, -1]).reshape([-1, 1]).reshape(t.shape),
        t.sum(1).reshape([1, -1]),
    ],
    "broadcast": lambda t: [t.sum(1).broadcast_to(t.shape), t.max(0) + t.min(1), t.sum(0) * t],
}
SHAPES = [(6, 12), (5, 24), (12, 5), (7, 9), (4, 6), (96, 5)]


def traced(make, shape, mode="at"):
    """A program of two blocks of a larger tensor, with what it writes."""
    rows, columns = shape
    rng = np.random.default_rng(rows * columns)
    x = np.full((2 * rows + 3, columns + 4), np.nan, np.float32)
    x[:] = rng.choice([np.nan, np.inf, -np.inf, 1e30], x.shape)
    at = (1, 0) if mode == "at" else (2, 3)
    start = (rows, 0) if mode == "at" else at
    x[start[0] : start[0] + rows, start[1] : start[1] + columns] = rng.integers(-3, 4, shape) / 2
    outs = []

    def body(p):
        X = p.read(x, [rows, columns])
        t = X.at([1, 0]) if mode == "at" else X.window([2, 3])
        for number, each in enumerate(make(t)):
            if len(outs) <= number:
                outs.append(np.full((each.shape[0] + 2, each.shape[1] + 3), 7, out_type(each)))
            p.write(outs[number], list(each.shape)).put_window(each, [1, 1])

    return trace("program", body, grid_rank=1), outs


def out_type(each):
    return {"F32": np.float32, "I32": np.int32, "I64": np.int64}[each.dtype.name]


def stored(program, given):
    tensors = [each.copy() for each in given.tensors]
    interpret(program, tensors, (1,), given.scalars)
    return [tensors[number] for number in program.writes]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_stay(name, shape):
    for mode in ("at", "window"):
        given, _ = traced(PROGRAMS[name], shape, mode)
        check(given.program)
        grown = pad(given.program)
        check(grown)
        for node in grown.body.walk():
            view = node.attr
            sizes = view.shape if isinstance(view, View | Elements) else node.shape
            assert all(size & (size - 1) == 0 for size in sizes), node
        for one, other in zip(stored(given.program, given), stored(grown, given), strict=True):
            np.testing.assert_array_equal(one, other)


def test_powers_of_two_stay_as_they_are():
    given, _ = traced(PROGRAMS["sums"], (8, 16))
    assert pad(given.program) is given.program


def test_written_sizes_are_known_where_a_place_has_one():
    x = np.ones((96, 80), np.float32)

    def body(p):
        X = p.read(x, [48, 80])
        for size in (3, 4):
            t = X.at([0, 0]) * 2
            p.write(x, [size, 80]).put(t[:size], [0, 0])

    grown = pad(trace("program", body, grid_rank=1).program)
    nodes = [node for node in grown.body.walk() if node.op in ("read", "mul", "slice")]
    assert [(node.op, grown.written_shape(node)) for node in nodes] == [
        *(("read", (48, 80)), ("mul", (48, 80)), ("slice", (4, 128))),  # once of 3 rows, once of 4
        *(("read", (48, 80)), ("mul", (48, 80)), ("slice", (4, 128))),
    ]


def test_zeros_are_not_made_twice():
    """Blocks whose pad is zero are operands of products and sums as they are."""
    a, b = np.ones((96, 80), np.float32), np.ones((80, 48), np.float32)
    c = np.zeros((96, 48), np.float32)

    def body(p):
        A, B = p.read(a, [48, 80]), p.read(b, [80, 48])
        p.write(c, [48, 48]).put(A.at([0, 0]) @ B.at([0, 0]) + A.at([1, 0]).sum(1), [0, 0])

    grown = pad(trace("program", body, grid_rank=1).program)
    assert "select" not in {node.op for node in grown.body.walk()}
    assert list(grown_blocks(grown)) == [
        "blocks of 48 x 80 read in t0 are computed as 64 x 128",
        "blocks of 80 x 48 read in t1 are computed as 128 x 64",
        "blocks of 48 x 48 stored in t2 are computed as 64 x 64",
    ]


def test_carried_tiles_and_branches_grow():
    x, y = np.ones((30, 20), np.float32), np.zeros((30, 20), np.float32)

    def body(p):
        X, i = p.read(x, [10, 5]), p.id(0)

        def turn(k, carried):
            total, row = carried
            t = X.at([0, k])
            return [total + t, p.cond(k.lt(2), lambda: row + t.sum(0), lambda: row.flip(1))]

        total, row = p.loop(0, 4, [p.zeros([10, 5]), p.zeros([1, 5])], turn)
        p.write(y, [10, 5]).put(total * row, [i, 0])

    given = trace("program", body, grid_rank=1)
    grown = pad(given.program)
    check(grown)
    assert stored(grown, given)[0].tolist() == stored(given.program, given)[0].tolist()
