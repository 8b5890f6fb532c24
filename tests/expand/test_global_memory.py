"""Reads and puts of all kinds of tensors, in the simulator against the tile IR's own meaning."""

import random

import numpy as np
import pytest
from expansion_kernels import named, run_program, strided
from test_convert import accumulator, random_layout
from tile_ir_interpreter import interpret

from gizml_tile.dtypes import BF16, E5M2, F16, F32, FP8, I8, I16, I32, I64, MASK, U8, U16, U32, U64
from gizml_tile.layout import blocked
from gizml_tile.lowering.simulate import Memory
from gizml_tile.program import trace

FLOATS = [F32, F16, BF16, FP8, E5M2]


def same(one, other):
    kind = f"u{one.itemsize}"
    np.testing.assert_array_equal(
        np.ascontiguousarray(one).view(kind), np.ascontiguousarray(other).view(kind)
    )


def check(program, memories, views, grid, layouts, **settings):
    """Simulate a program and interpret it on copies: all of the memory must agree."""
    copies = [memory.data.copy() for memory in memories]
    others = [
        np.ndarray(
            view.shape,
            view.dtype,
            copy.view(np.uint8).data,
            memory.offset * copy.itemsize,
            view.strides,
        )
        for copy, memory, view in zip(copies, memories, views, strict=True)
    ]
    interpret(program, others, grid, settings.get("scalars", ()))
    x, findings = run_program(program, memories, grid, layouts, **settings)
    for memory, copy in zip(memories, copies, strict=True):
        same(memory.data, copy)
    assert not findings.wrong, findings
    return x


def some_layout(rng, shape, warps):
    """A layout of a kind that plans give to reads and puts."""
    kind = rng.randrange(4)
    if kind == 0 and shape[0] >= 16 * warps and shape[1] >= 8:
        return named(accumulator(shape, warps))
    if kind == 1:
        return named(random_layout(rng, shape, warps))
    order = rng.choice([(0, 1), (1, 0)])
    return named(blocked(shape, order, rng.choice([1, 2, 4, 8, 16]), warps=warps))


def random_case(seed):
    """A program that reads blocks of one tensor and puts them to another."""
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    rank = rng.choice([1, 2, 2, 3])
    blocked_axes = 1 if rank == 1 else rng.choice([1, 2, 2])
    block = [rng.choice([1, 2, 8, 16, 32, 64]) for _ in range(blocked_axes)]
    source, target = rng.choice(
        [(one, other) for one in FLOATS for other in FLOATS]
        + [(each, each) for each in (I8, U8, I16, U16, I32, U32, I64, U64, MASK)]
        + [(I8, I32), (I16, I64), (U8, I16), (U32, U64), (U32, I64)]
    )
    size = rng.choice([lambda b: b * rng.randrange(1, 3), lambda b: rng.randrange(1, 3 * b)])
    shape = [rng.randrange(1, 4) for _ in range(rank - blocked_axes)] + [size(each) for each in block]
    steps = [rng.choice([1, 1, 1, -1, 2]) for _ in shape]
    steps[-1] = rng.choice([1, 1, 1, steps[-1]])
    gap = rng.choice([0, 0, 1, 8, -sum(shape) % 16])
    zero = [rng.choice([step, step, step, 0]) for step in steps]
    a, a_view = strided(numbers, shape, source, zero, gap)
    b, b_view = strided(numbers, shape, target, steps, rng.choice([0, gap]))
    window = rng.random() < 0.4
    offsets = [rng.choice([0, 0, -1, 1, -4, 5, 8]) for _ in block]
    pad = rng.choice([0, 0, True] if source is MASK else [0, 0, 1, 3])

    def body(p):
        x, y = p.read(a_view, block, pad=pad), p.write(b_view, block)
        places = [p.id(axis) for axis in range(rank)]
        if window:
            first = rank - blocked_axes
            moved = [
                place if axis < first else place.mul(block[axis - first]).add(offsets[axis - first])
                for axis, place in enumerate(places)
            ]
            y.put_window(x.window(moved), moved)
        else:
            y.put(x.at(places), places)

    grid = [extent + rng.choice([0, 0, 1]) for extent in shape[: rank - blocked_axes]]
    grid += [
        -(-extent // each) + rng.choice([0, 0, 1])
        for extent, each in zip(shape[rank - blocked_axes :], block, strict=True)
    ]
    program = trace("test", body, grid_rank=rank).program
    warps = rng.choice([1, 2, 4])
    tile = (1, block[0]) if blocked_axes == 1 else tuple(block)
    layouts = {
        node: some_layout(rng, tile, warps) for node in program.body.walk() if node.op in ("read", "put")
    }
    return program, [a, b], [a_view, b_view], grid, layouts, warps, rng.random() < 0.3


@pytest.mark.parametrize("seed", range(150))
def test_random_blocks(seed):
    program, memories, views, grid, layouts, warps, wide = random_case(seed)
    check(program, memories, views, grid, layouts, warps=warps, wide=wide)


def test_one_thread_of_those_that_hold_an_element_puts_it():
    x, y = np.zeros((1, 32), np.float32), np.zeros((1, 32), np.float32)
    program = trace("test", lambda p: p.write(y, [1, 32]).put(p.zeros([1, 32]), [0, 0])).program
    (put,) = [node for node in program.body.walk() if node.op == "put"]
    memories = [Memory.of(y)]
    for layout, masked in (
        (blocked((1, 32), vector=1, warps=1), 2),
        (blocked((1, 32), vector=4, warps=1), 3),
    ):
        x, _ = run_program(program, memories, (1, 1, 1), {put: named(layout)})
        (store,) = [each for each in x.build.body().walk() if each.op == "store"]
        assert len(store.args) == masked


def counted(shape, block, layout, **settings):
    """The loads of a program that reads one block, by width and whether they are masked."""
    numbers = np.random.default_rng(0)
    source, view = strided(numbers, shape, F32, gap=settings.pop("gap", 0))
    target, out = strided(numbers, shape, F32)

    def body(p):
        tile = p.read(view, block).at([p.id(0), p.id(1)])
        p.write(out, block).put(tile, [p.id(0), p.id(1)])

    program = trace("test", body).program
    nodes = [node for node in program.body.walk() if node.op in ("read", "put")]
    grid = [-(-size // each) for size, each in zip(shape, block, strict=True)]
    memories, views = [source, target], [view, out]
    x = check(program, memories, views, (*grid, 1), dict.fromkeys(nodes, named(layout)), **settings)
    loads = [each for each in x.build.body().walk() if each.op == "load"]
    return [(each.attr.width, len(each.attr.places), len(each.args) > 1) for each in loads]


def test_masks_stand_only_where_they_are_needed():
    layout = blocked((16, 32), vector=4, warps=1)
    assert counted((32, 64), [16, 32], layout) == [(4, 4, False)]
    assert counted((30, 64), [16, 32], layout) == [(4, 4, True)]
    assert counted((32, 60), [16, 32], layout) == [(4, 4, True)]
    # Rows of 62 lie 64 apart: whole blocks go by vectors, the last ones by elements.
    assert counted((32, 62), [16, 32], layout, gap=2) == [(4, 4, False), (1, 16, True)]
    assert counted((32, 62), [16, 32], layout) == [(2, 8, True)]
