"""Tiles in workgroup memory: stored in one layout and loaded in another, whatever their swizzle."""

import random

import numpy as np
import pytest
from expansion_kernels import distinct, empty_program, expansion, give, holders, named, run, take
from test_convert import accumulator, random_layout

from gizml_tile.dtypes import BF16, F32, FP8, I32, I64
from gizml_tile.layout import blocked
from gizml_tile.layout.bits import bit_length
from gizml_tile.lowering.expand.shared import load_shared, shared_side, store_shared
from gizml_tile.lowering.planning.plan import SharedTile
from gizml_tile.lowering.planning.shared import shared_tile


def random_tile(rng, dtype, shape):
    """A staged operand's tile, or bits of the offset in any order with some of them crossed."""
    if rng.random() < 0.5:
        return shared_tile(dtype, shape, rng.randrange(2))
    count = bit_length(shape[0]) + bit_length(shape[1])
    bases = [1 << bit for bit in range(count)]
    if rng.random() < 0.5:
        rng.shuffle(bases)
    for _ in range(rng.randrange(3) if count > 1 else 0):
        one, other = rng.sample(range(count), 2)
        bases[one] ^= bases[other]
    columns = bit_length(shape[1])
    return SharedTile(dtype, shape, tuple(bases[columns:]), tuple(bases[:columns]), "test")


def moved(source, target, tile, slot=0):
    """Store distinct values in one layout, load them in another; the findings."""
    dtype = tile.dtype
    x = expansion(empty_program(dtype, dtype), source.size("warp"))
    buffer = x.memory.allocate("tile", dtype, 2 * tile.elements + 16)
    base = x.build.constant(slot * tile.elements, I32) if slot else None
    value = take(x, 0, source.size("register"), dtype)
    x.memory.before_write(buffer)
    store_shared(x, buffer, tile, base, value, named(source))
    x.memory.before_read(buffer)
    give(x, 1, load_shared(x, buffer, tile, base, named(target)))
    elements = distinct(source.elements, dtype)
    wanted = elements[holders(target)].reshape(-1)
    found = np.zeros_like(wanted)
    findings = run(x, elements[holders(source)].reshape(-1), found)
    kind = f"u{wanted.itemsize}"
    np.testing.assert_array_equal(found.view(kind), wanted.view(kind))
    assert not findings.wrong, findings
    return findings


@pytest.mark.parametrize("seed", range(80))
def test_random_layouts_and_swizzles(seed):
    rng = random.Random(seed)
    shape, warps = rng.choice([(16, 32), (64, 16), (32, 64), (128, 64)]), rng.choice([1, 2, 4])
    tile = random_tile(rng, rng.choice([F32, BF16, FP8, I64]), shape)
    sides = []
    for _ in range(2):
        kind = rng.randrange(3)
        if kind == 0:
            order = rng.choice([(0, 1), (1, 0)])
            sides.append(blocked(shape, order, rng.choice([1, 4, 8, 16]), warps=warps))
        elif kind == 1 and shape[0] >= 16 * warps:
            sides.append(accumulator(shape, warps))
        else:
            sides.append(random_layout(rng, shape, warps, again=True))
    moved(*sides, tile, slot=rng.randrange(2))


def test_rows_of_a_staged_operand_move_by_16_bytes_without_conflicts():
    for dtype in (BF16, F32, FP8):
        for axis in (0, 1):
            vector = 16 // dtype.bytes
            tile = shared_tile(dtype, (64, 64), axis)
            order = (1, 0) if axis == 1 else (0, 1)
            layout = blocked((64, 64), order, vector, warps=4)
            assert shared_side(layout, tile).width == vector
            findings = moved(layout, layout, tile)
            assert not findings.of("bank conflict"), findings
