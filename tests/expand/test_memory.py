"""Reads and puts of all kinds of tensors, in the simulator against the tile IR's own meaning."""

import random

import numpy as np
import pytest
from gpu_kernels import named, run_program, strided
from test_convert import accumulator, random_layout
from tile_ir_interpreter import interpret

from gizml_tile.dtypes import BF16, F16, F32, FP8, I8, I16, I32, I64, MASK, U8
from gizml_tile.layout import blocked
from gizml_tile.program import trace

FLOATS = [F32, F16, BF16, FP8]


def same(one, other):
    kind = f"u{one.itemsize}"
    np.testing.assert_array_equal(
        np.ascontiguousarray(one).view(kind), np.ascontiguousarray(other).view(kind)
    )


def check(program, memories, views, grid, layouts, **settings):
    """Simulate a program and interpret it on copies: all of the memory must agree."""
    copies = [memory.data.copy() for memory in memories]
    others = [
        np.lib.stride_tricks.as_strided(copy[memory.offset :], view.shape, view.strides)
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
        + [(each, each) for each in (I8, U8, I16, I32, I64, MASK)]
        + [(I8, I32), (I16, I64), (U8, I16)]
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
