"""Reductions over random layouts: right, and the same in every thread that holds a result."""

import random

import numpy as np
import pytest
from expansion_kernels import empty_program, expansion, give, holders, named, random_values, run, take
from test_convert import accumulator, random_layout

from gizml_tile.dtypes import (
    BF16,
    E5M2,
    F16,
    F32,
    FP8,
    I8,
    I16,
    I32,
    I64,
    MASK,
    U8,
    U16,
    U32,
    U64,
    math_dtype,
    to_numpy,
)
from gizml_tile.layout import Linear, blocked
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.reduce import expand_reduce
from gizml_tile.nodes import Tensor, View, make

SHAPES = [(1, 256), (256, 1), (16, 64), (64, 16), (64, 64), (4, 32), (1, 2048), (128, 8), (1, 1)]
DTYPES = [F32, F32, BF16, F16, FP8, E5M2, I8, U8, I16, I32, I64, U16, U32, U64, MASK, MASK]


def reduced(op, axis, dtype, layout, home, elements):
    """Simulate a reduction of a tile; the findings and each holder's results."""
    shape = layout.shape
    tile = make("read", (), View(0, shape), tensors=[Tensor("x", dtype, 2)])
    node = make(op, (tile,), axis)
    result = storage.storage_dtype(node.dtype)
    program = empty_program(storage.storage_dtype(dtype), result)
    homes = {tile: named(layout), node: named(home)}
    x = expansion(program, layout.size("warp"), layouts=homes)
    value = take(x, 0, layout.size("register"), storage.storage_dtype(dtype))
    value = storage.from_storage(x.build, value, dtype)
    x.define(tile, x.build.pick(value, [0]) if shape == (1, 1) else value)
    made = expand_reduce(x, node)
    assert made.dtype is node.dtype
    if node.shape == (1, 1):
        assert made.count == 1
    give(x, 1, storage.to_storage(x.build, made))
    given = np.ascontiguousarray(elements[holders(layout)]).reshape(-1)
    found = np.zeros(made.count * x.plan.threads, to_numpy(result))
    findings = run(x, given.view(to_numpy(storage.storage_dtype(dtype))), found)
    return findings, found.reshape(x.plan.threads, -1)


def meant(op, axis, dtype, tile):
    """What the language says: exactly, or in float64 with the bound of its error."""
    if dtype is MASK:
        return {"sum": np.sum, "max": np.any, "min": np.all}[op](tile, axis=axis), 0
    if dtype.is_float:
        wide = tile.astype(np.float64)
        if op == "sum":
            terms = tile.shape[axis]
            return wide.sum(axis), (terms / 64 + 8) * 2.0**-24 * np.abs(wide).sum(axis)
        return (np.fmax if op == "max" else np.fmin).reduce(wide, axis=axis), 0
    kind = to_numpy(math_dtype(dtype))
    settings = {"dtype": kind} if op == "sum" else {}
    return getattr(tile.astype(kind), op)(axis=axis, **settings), 0


def check(op, axis, dtype, layout, home, numbers):
    elements = random_values(numbers, layout.elements, dtype)
    if dtype.is_float and op != "sum" and numbers.random() < 0.5:
        elements[numbers.random(elements.size) < 0.3] = np.nan
    findings, found = reduced(op, axis, dtype, layout, home, elements)
    assert not findings.wrong, findings
    wanted, bound = meant(op, axis, dtype, elements.reshape(layout.shape))
    places = np.zeros_like(found, int) if home.elements == 1 else holders(home)
    wanted, bound = wanted[places], np.broadcast_to(bound, wanted.shape)[places]
    with np.errstate(invalid="ignore"):
        close = np.abs(found.astype(wanted.dtype) - wanted) <= bound if bound.any() else found == wanted
    assert (close | (np.isnan(found.astype(float)) & np.isnan(wanted.astype(float)))).all()
    for place in np.unique(places):
        held = found[places == place]
        assert (held.view(f"u{held.itemsize}") == held.view(f"u{held.itemsize}")[0]).all() or np.isnan(
            held.astype(float)
        ).all()


def slim(rng, layout, axis, warps):
    """A home for what a reduction leaves: the operand's slice, or any other layout."""
    own = layout.slice(axis)
    return rng.choice(
        [own.without_replicas(), own, random_layout(rng, own.shape, warps), blocked(own.shape, warps=warps)]
    )


@pytest.mark.parametrize("seed", range(150))
def test_random_reductions(seed):
    rng = random.Random(seed)
    shape, warps = rng.choice(SHAPES), rng.choice([1, 2, 4, 8])
    if rng.random() < 0.3 and shape[0] >= 16 and shape[1] >= 8:
        layout, warps = accumulator(shape, 1), 1
    else:
        layout = random_layout(rng, shape, warps, again=True)
    axis = rng.randrange(2)
    check(
        rng.choice(["sum", "max", "min"]),
        axis,
        rng.choice(DTYPES),
        layout,
        slim(rng, layout, axis, warps),
        np.random.default_rng(seed),
    )


def test_an_operand_whose_bits_move_rows_and_columns():
    swizzled = Linear.of(
        (8, 32),
        register=[(0, 1), (1, 2), (0, 2)],
        lane=[(1, 4), (0, 4), (2, 8), (2, 0), (4, 16)],
        warp=[(0, 16)],
    )
    assert swizzled.is_surjective and not swizzled.is_separable
    for axis in (0, 1):
        home = blocked(swizzled.slice(axis).shape, warps=2)
        check("sum", axis, F32, swizzled, home, np.random.default_rng(axis))


def test_replicas_are_counted_once():
    # The second lane bit, the second warp bit and the third register bit hold copies.
    layout = Linear.of(
        (4, 16),
        register=[(0, 1), (0, 2), (0, 1)],
        lane=[(1, 0), (0, 0), (0, 4), (2, 0), (0, 4)],
        warp=[(0, 8), (0, 0)],
    )
    assert layout.is_surjective
    numbers = np.random.default_rng(0)
    for axis in (0, 1):
        for dtype in (I32, MASK, F32):
            check("sum", axis, dtype, layout, layout.slice(axis), numbers)


def test_zeros_of_both_signs_and_infinities():
    layout = blocked((1, 64), warps=1)
    elements = np.full(64, 0.0, np.float32)
    elements[37] = -0.0
    home = layout.slice(1)
    for op, sign in (("max", False), ("min", True)):
        for dtype in (F32, F16, BF16):
            _, found = reduced(op, 1, dtype, layout, home, elements.astype(to_numpy(dtype)))
            assert (np.signbit(found) == sign).all()
    elements[5], elements[9] = np.inf, -np.inf
    _, found = reduced("sum", 1, F32, layout, home, elements)
    assert np.isnan(found).all()


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_extremes_of_16_bits_are_of_pairs(dtype):
    """32 elements of a thread, in 16 words: 15 operations of 2 registers, then one of F32."""
    layout = blocked((1, 1024), vector=8, warps=1)
    tile = make("read", (), View(0, (1, 1024)), tensors=[Tensor("x", dtype, 2)])
    for op in ("max", "min"):
        node = make(op, (tile,), 1)
        x = expansion(empty_program(dtype, F32), 1, layouts={tile: named(layout)})
        x.define(tile, take(x, 0, layout.size("register"), dtype))
        expand_reduce(x, node)
        made = [each for each in x.build.body().walk() if each.op == op]
        assert sum(each.count for each in made if each.dtype is dtype) == 30
        assert sum(each.count for each in made if each.dtype is F32) == 1 + 5


def test_one_barrier_for_a_sum_over_warps():
    layout = blocked((1, 1024), vector=8, warps=4)
    tile = make("read", (), View(0, (1, 1024)), tensors=[Tensor("x", F32, 2)])
    node = make("sum", (tile,), 1)
    x = expansion(empty_program(F32, F32), 4, layouts={tile: named(layout)})
    x.define(tile, take(x, 0, layout.size("register"), F32))
    expand_reduce(x, node)
    operations = [each.op for each in x.build.body().walk()]
    assert operations.count("barrier") == 1
    assert operations.count("shuffle") == 5
