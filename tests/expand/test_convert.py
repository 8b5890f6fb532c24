"""Every kind of conversion, element by element in the simulator."""

import random

import numpy as np
import pytest
from expansion_kernels import distinct, empty_program, expansion, give, holders, named, run, take

from gizml_tile.dtypes import BF16, E5M2, F32, FP8, I8, I64, MASK, U8, U16, U32, U64
from gizml_tile.errors import TileError
from gizml_tile.layout import Linear, blocked, conversion
from gizml_tile.layout.bits import bit_length
from gizml_tile.lowering.expand import storage
from gizml_tile.lowering.expand.convert import cheapest, convert, perform


def accumulator(shape, warps):
    """The spread of a matrix unit's results, repeated over a tile, warps along the rows first."""
    rows, columns = shape
    register, lane, warp = [(0, 1), (8, 0)], [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)], []
    row, column = 16, 8
    for _ in range(bit_length(warps)):
        if row < rows:
            warp.append((row, 0))
            row *= 2
        else:
            warp.append((0, column))
            column *= 2
    while column < columns:
        register.append((0, column))
        column *= 2
    while row < rows:
        register.append((row, 0))
        row *= 2
    return Linear.of(shape, register=register, lane=lane, warp=warp)


def random_layout(rng, shape, warps, replicas=True, again=False):
    """Any layout that holds a whole tile: bits of the place to registers, lanes and warps at random.

    With ``again`` the bits of replicas may repeat bases rather than be zero.
    """
    rows, columns = shape
    bases = [(1 << bit, 0) for bit in range(bit_length(rows))]
    bases += [(0, 1 << bit) for bit in range(bit_length(columns))]
    rng.shuffle(bases)
    lanes, warp_bits = 5, bit_length(warps)
    free = rng.randrange(3) if replicas else 0
    least = lanes + warp_bits
    free = max(free, least - len(bases))
    inputs = [*bases, *(rng.choice([(0, 0), *(bases if again else ())]) for _ in range(free))]
    rng.shuffle(inputs)
    lane, warp, register = inputs[:lanes], inputs[lanes:least], inputs[least:]
    return Linear.of(shape, register=register, lane=lane, warp=warp)


def converted(source, target, dtype, way=None, arch="sm_90a"):
    """Run a conversion of distinct values; the findings and what each holder gets and should get."""
    warps = source.size("warp")
    x = expansion(empty_program(dtype, dtype), warps, arch)
    stored = storage.storage_dtype(dtype)
    value = take(x, 0, source.size("register"), stored)
    value = storage.from_storage(x.build, value, dtype)
    value = perform(x, value, way or cheapest(source, target, dtype.bytes, 32))
    give(x, 1, storage.to_storage(x.build, value))
    elements = distinct(source.elements, dtype)
    given = np.ascontiguousarray(elements[holders(source)]).reshape(-1)
    wanted = np.ascontiguousarray(elements[holders(target)]).reshape(-1)
    found = np.zeros_like(wanted)
    findings = run(x, given, found)
    return findings, found, wanted


def check(source, target, dtype, way=None):
    findings, found, wanted = converted(source, target, dtype, way)
    kind = f"u{wanted.itemsize}"
    np.testing.assert_array_equal(found.view(kind), wanted.view(kind))
    assert not findings.wrong, findings
    return findings


SHAPES = [(16, 16), (32, 32), (64, 16), (16, 64), (128, 8), (1, 256), (256, 1), (64, 64)]
DTYPES = [F32, BF16, FP8, E5M2, I64, MASK, U8, I8, U16, U32, U64]


@pytest.mark.parametrize("seed", range(60))
def test_random_pairs_of_layouts(seed):
    rng = random.Random(seed)
    shape, warps = rng.choice(SHAPES), rng.choice([1, 2, 4])
    source = random_layout(rng, shape, warps, again=True)
    target = random_layout(rng, shape, warps, again=True)
    check(source, target, rng.choice(DTYPES))


def structured():
    """The pairs that plans make: results to vectors of memory and back, transposes, slices."""
    for warps in (1, 4, 8):
        for shape in ((64, 64), (128, 32), (32, 128)):
            mma = accumulator(shape, warps)
            for vector in (4, 8):
                rows = blocked(shape, (1, 0), vector, warps=warps)
                columns = blocked(shape, (0, 1), vector, warps=warps)
                yield from ((mma, rows), (rows, mma), (rows, columns), (columns, rows), (mma, columns))
            yield mma, accumulator(shape[::-1], warps).transposed()
            for axis in (0, 1):
                slim = mma.slice(axis).without_replicas()
                yield slim, blocked(slim.shape, (1, 0) if axis == 0 else (0, 1), 1, warps=warps)
                yield blocked(slim.shape, (1, 0), 1, warps=warps), mma.slice(axis)
                yield slim, blocked(shape, warps=warps, vector=4).slice(axis)


PAIRS = [pair for pair in structured() if pair[0].is_surjective]


@pytest.mark.parametrize("dtype", [F32, BF16, MASK, I64], ids=str)
def test_pairs_of_layouts_that_plans_make(dtype):
    for source, target in PAIRS:
        check(source, target, dtype)


def test_exchanges_meet_no_more_banks_than_they_say():
    free = 0
    for source, target in PAIRS:
        for dtype in (F32, BF16, FP8):
            way = cheapest(source, target, dtype.bytes, 32)
            findings = check(source, target, dtype, way)
            if way.kind == "workgroup" and not way.is_conflict_free:
                continue
            free += way.kind == "workgroup"
            assert not findings.of("bank conflict"), f"{source}\n{target}\n{way}\n{findings}"
    assert free > 50


@pytest.mark.parametrize("kind", ["shuffle", "workgroup"])
@pytest.mark.parametrize("seed", range(25))
def test_a_given_kind(kind, seed):
    rng = random.Random(seed)
    shape, warps = rng.choice(SHAPES), rng.choice([1, 2])
    source = random_layout(rng, shape, warps)
    target = random_layout(rng, shape, warps)
    if kind == "shuffle":
        # Other lanes and registers for what each warp has.
        bases = [*source.bases("register"), *source.bases("lane")]
        rng.shuffle(bases)
        target = Linear.of(shape, register=bases[5:], lane=bases[:5], warp=source.bases("warp"))
    for dtype in (F32, BF16, FP8, I64, MASK):
        check(source, target, dtype, conversion(source, target, dtype.bytes, kind=kind))


def test_registers_only_cost_nothing():
    source = accumulator((64, 64), 4)
    bases = source.bases("register")
    target = source.with_bases("register", [*bases[::-1], (0, 0)])
    x = expansion(empty_program(F32), 4)
    value = take(x, 0, source.size("register"), F32)
    moved = convert(x, value, named(source), named(target))
    assert moved.op == "pick"
    check(source, target, F32)


def through_little_memory(source, target, kilobytes):
    """Run a conversion of F32 with so much workgroup memory left; the sizes of the buffers it takes."""
    x = expansion(empty_program(F32, F32), source.size("warp"), "sm_75")
    x.memory.allocate("taken", F32, (64 - kilobytes) * 256)
    value = take(x, 0, source.size("register"), F32)
    give(x, 1, convert(x, value, named(source), named(target)))
    elements = distinct(source.elements, F32)
    wanted = elements[holders(target)].reshape(-1)
    found = np.zeros_like(wanted)
    findings = run(x, elements[holders(source)].reshape(-1), found)
    np.testing.assert_array_equal(found, wanted)
    assert not findings.wrong, findings
    return [buffer.bytes // 1024 for buffer in x.memory.buffers[1:]]


def test_tiles_larger_than_workgroup_memory_move_in_turns():
    mma, rows = accumulator((128, 128), 4), blocked((128, 128), (1, 0), 4, warps=4)
    assert conversion(mma, rows, 4, kind="workgroup").parts == 2
    assert through_little_memory(mma, rows, 40) == [32]


def test_tiles_that_cannot_move_in_turns_move_by_halves():
    rows = blocked((128, 128), (1, 0), 4, warps=8)
    columns = blocked((128, 128), (0, 1), 4, warps=8)
    assert conversion(rows, columns, 4, kind="workgroup").parts == 1
    assert through_little_memory(rows, columns, 48) == [32, 32]
    assert through_little_memory(rows, columns, 24) == [16] * 4
    assert through_little_memory(columns, accumulator((128, 128), 8), 24)


def test_what_does_not_fit_by_halves_is_an_error():
    rows = blocked((128, 128), (1, 0), 4, warps=8)
    with pytest.raises(TileError, match="of workgroup memory and a workgroup has 65536; make the bl"):
        through_little_memory(rows, rows.transposed(), 0)


def test_conversions_that_follow_each_other_share_memory_in_order():
    first = blocked((64, 64), (1, 0), 4, warps=4)
    second = blocked((64, 64), (0, 1), 4, warps=4)
    x = expansion(empty_program(F32, F32), 4)
    value = take(x, 0, first.size("register"), F32)
    for source, target in [(first, second), (second, first)] * 3:
        value = convert(x, value, named(source), named(target))

    def body(counter, carried):
        there = convert(x, carried[0], named(first), named(second))
        return [convert(x, there, named(second), named(first))]

    start, stop, step = (x.build.constant(number, I64) for number in (0, 3, 1))
    with x.memory.repeated():
        (value,) = x.build.loop(start, stop, step, [value], body)
    give(x, 1, value)
    given = np.arange(64 * 64, dtype=np.float32)
    found = np.zeros_like(given)
    findings = run(x, given, found)
    np.testing.assert_array_equal(found, given)
    assert not findings.wrong, findings
