"""Elementwise operations on tiles in workgroup memory: when, how they are shared out, and that they "
"are right."""

import ml_dtypes
import numpy as np
import pytest

import gizml_tile as tile
from gizml_tile.lowering.planning.in_memory import Partition, partition


@pytest.mark.parametrize(
    "elements, threads, extents, widest, expected",
    [
        # 32 x 32 on 256 threads: 16 bytes of F32; of F16 a thread has no more than 4 elements.
        (1024, 256, [32, 32], 4, Partition(1, 256, 4, False)),
        (1024, 256, [32, 32], 2, Partition(1, 256, 4, False)),
        (4096, 256, [64, 64], 2, Partition(2, 256, 8, False)),
        (4096, 256, [64, 64], 1, Partition(1, 256, 16, False)),
        (4096, 256, [64, 64], 8, Partition(8, 256, 2, False)),
        # Elements that threads do not divide are guarded.
        (24, 32, [24], 4, Partition(1, 32, 1, True)),
        (40, 32, [40], 4, Partition(2, 32, 1, True)),
        # One operand's runs clamp the vector of all.
        (1024, 256, [32, 33], 4, Partition(4, 256, 1, False)),
        (1024, 256, [32, 2], 4, Partition(2, 256, 2, False)),
        (256, 256, [16], 4, Partition(1, 256, 1, False)),
    ],
)
def test_partitions(elements, threads, extents, widest, expected):
    assert partition(elements, threads, extents, widest) == expected


def test_partitions_in_words():
    assert str(partition(1024, 256, [32], 4)) == "outer 1, threads 256, vec 4"
    assert str(partition(24, 32, [24], 4)) == "outer 1, threads 32, vec 1, guarded"


def grid(out, R, C, **_):
    return tile.cdiv(out.shape[0], R), tile.cdiv(out.shape[1], C)


@tile.kernel(grid=grid)
def combine(p, a, b, out, *, R=32, C=32, VARIANT="workgroup"):
    if VARIANT:
        p.variant("elementwise", VARIANT)
    i, j = p.id(0), p.id(1)
    x, y = p.read(a, [R, C])[i, j], p.read(b, [R, C], pad=2)[i, j]
    p.write(out, [R, C])[i, j] = (x * y + p.iota([R, C], 1)) * 2 + x.exp()


@tile.kernel(grid=grid)
def biased(p, a, b, out, *, R=32, C=32):
    p.variant("elementwise", "workgroup")
    i, j = p.id(0), p.id(1)
    x, bias = p.read(a, [R, C])[i, j], p.read(b, [1, C])[0, j]
    p.write(out, [R, C])[i, j] = (x + bias > 0.5).to(tile.F32) + x


@tile.kernel(grid=1)
def several(p, a, b, out, *, R=32, C=32):
    p.variant("elementwise", "workgroup")
    A, OUT, B = p.read(a, [R, C]), p.write(out, [R, C]), p.write(b, [R, C])
    for i in range(A.blocks(0)):
        x = A[i, 0]
        OUT[i, 0] = x * 2 + 1
        B[i, 0] = x < 0.25


F16, F32, BF16, FP8 = np.float16, np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
CASES = [
    ((F32, F32, F32), (32, 32), {"warps": 8}),
    ((F16, F16, F16), (64, 32), {"warps": 8}),
    ((F16, F32, BF16), (64, 96), {"warps": 4}),
    ((FP8, F32, F32), (45, 70), {"warps": 4}),
    ((F32, F32, F16), (45, 70), {"R": 16, "C": 64, "warps": 1}),
    ((F32, F32, F32), (9, 9), {"R": 4, "C": 4, "warps": 2}),
    ((F32, F32, F32), (3, 1000), {"R": 1, "C": 512, "warps": 1}),
]


def operands(dtypes, shape, seed=0):
    random = np.random.default_rng(seed)
    a, b = (random.standard_normal(shape).astype(dtype) for dtype in dtypes[:2])
    return a, b, np.zeros(shape, dtypes[2])


def agrees(kernel, args, written, named, arch):
    """Whether the simulator finds no mistake and gives the bits that the CPU gives."""
    expected = [array.copy() for array in args]
    if any(one is other for one in args[:2] for other in args[2:]):
        expected[2] = expected[0]
    constants = {name: value for name, value in named.items() if name != "warps"}
    kernel(*expected, **constants)
    found = kernel.simulate(*args, arch=arch, **named)
    assert not [each for each in found.findings if not each.is_cost], found.findings
    for number in written:
        assert args[number].tobytes() == expected[number].tobytes()


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("dtypes, shape, named", CASES)
def test_results(dtypes, shape, named, arch):
    args = operands(dtypes, shape)
    assert "workgroup memory, outer" in combine.ir(*args, kind="cuda", arch=arch, **named)
    agrees(combine, args, [2], named, arch)


def test_operands_of_another_order_clamp_the_vector():
    a, b, out = operands((F32, F32, F32), (64, 64))
    assert "outer 1, threads 256, vec 4" in combine.ir(a, b, out, kind="cuda", warps=8)
    b = np.asfortranarray(b)
    assert "outer 4, threads 256, vec 1" in combine.ir(a, b, out, kind="cuda", warps=8)
    agrees(combine, (a, b, out), [2], {"warps": 8}, "sm_80")
    out = np.asfortranarray(out)
    agrees(combine, (np.asfortranarray(a), b, out), [2], {"warps": 8}, "sm_80")
    skewed = np.zeros((64, 67), np.float32)[:, 1:65]
    skewed[...] = a
    agrees(combine, (skewed, b, out), [2], {"warps": 8}, "sm_80")


def test_in_place_on_the_tensor_itself():
    a, b, _ = operands((F32, F32, F32), (50, 64))
    agrees(combine, (a, b, a), [2], {"warps": 4}, "sm_80")


def test_broadcast_and_masks_and_loops_and_several_puts():
    a, _, out = operands((F32, F32, F32), (64, 64))
    b = np.random.default_rng(1).standard_normal((1, 64)).astype(np.float32)
    agrees(biased, (a, b, out), [2], {"warps": 4}, "sm_80")
    a, _, out = operands((F32, F32, F32), (100, 32))
    agrees(several, (a, np.zeros((100, 32), bool), out), [1, 2], {"warps": 2}, "sm_90a")


def test_operands_are_loaded_and_stored_16_bytes_at_once():
    args = operands((F32, F32, F32), (32, 32))
    source = combine.source(*args, kind="cuda", arch="sm_80", warps=8)
    # The padded operand goes through registers, the other around them; then there is the result.
    assert source.count("cp.async.cg.shared.global") == 1
    assert source.count("st.shared.v4.b32") == 2
    assert source.count("ld.shared.v4.b32") == 3
    assert "ld.shared.b32" not in source and "st.shared.b32" not in source


def test_the_planner_chooses_it_for_tiles_that_are_large_for_registers():
    args = operands((F16, F16, F16), (256, 128))
    named = {"R": 256, "C": 128, "VARIANT": "", "kind": "cuda", "arch": "sm_90a"}
    assert "workgroup memory, outer 32, threads 128, vec 8" in combine.ir(*args, warps=4, **named)
    assert "workgroup" not in combine.ir(*args, warps=8, **named)
    agrees(combine, args, [2], {"R": 256, "C": 128, "VARIANT": "", "warps": 4}, "sm_90a")
    # Where neither registers nor workgroup memory have room, registers are what the error is about.
    with pytest.raises(tile.TileError, match=r"takes 256 registers of each of 128 threads"):
        combine.ir(*args, warps=4, **named | {"arch": "sm_75"})


@tile.kernel(grid=1)
def normalized(p, a, out):
    p.variant("elementwise", "workgroup")
    x = p.read(a, [8, 64])[0, 0]
    p.write(out, [8, 64])[0, 0] = x - x.sum(1)


@tile.kernel(grid=1)
def apart(p, a, out):
    p.variant("elementwise", "workgroup")
    x = p.read(a, [8, 64])[0, 0] * 2
    for k in range(p.count(0)):
        p.write(out, [8, 64])[k, 0] = x


@pytest.mark.parametrize(
    "kernel, message",
    [
        (
            normalized,
            "elementwise cannot be made by 'workgroup': a sum takes what is computed; variants that "
            "can: registers",
        ),
        (
            apart,
            "elementwise cannot be made by 'workgroup': a read and a put stand in different blocks of the "
            "program; variants that can: registers",
        ),
    ],
)
def test_why_not(kernel, message):
    a, out = np.zeros((8, 64), np.float32), np.zeros((8, 64), np.float32)
    with pytest.raises(tile.TileError) as caught:
        kernel.source(a, out, kind="cuda")
    assert caught.value.message == message
    assert caught.value.filename == __file__


def test_an_unknown_variant():
    args = operands((F32, F32, F32), (32, 32))
    with pytest.raises(tile.TileError) as caught:
        combine.source(*args, kind="cuda", VARIANT="bulk")
    assert caught.value.message == (
        "elementwise cannot be made by 'bulk': there is no such variant; variants that can: "
        "registers, workgroup"
    )


def test_operands_that_move_through_workgroup_memory_do_so_before():
    a, _, _ = operands((F32, F32, FP8), (17, 16))
    b, out = np.ones((1, 16), BF16), np.zeros((17, 18), FP8)[:, 2:]
    agrees(biased, (np.asfortranarray(a), b, out), [2], {"R": 4, "C": 64, "warps": 16}, "sm_120a")
    a, _, out = operands((F16, F32, FP8), (3, 16))
    b = np.ones((1, 23), BF16)[:, 7:]
    a, out = np.asfortranarray(a), np.asfortranarray(out)
    agrees(biased, (a, b, out), [2], {"R": 32, "C": 32, "warps": 16}, "sm_80")


def random_array(random, shape, dtype):
    """Values in memory of any order, offset and step."""
    values = (random.standard_normal(shape) * 2).astype(dtype)
    columns = shape[1]
    match random.integers(5):
        case 1:
            return np.asfortranarray(values)
        case 2:
            values = np.pad(values.astype(F32), ((0, 0), (int(random.integers(1, 9)), 0))).astype(dtype)
            return values[:, -columns:]
        case 3:
            return values[::-1]
        case 4:
            return np.repeat(np.repeat(values, 2, 0), 2, 1)[::2, ::2]
    return values


@pytest.mark.parametrize("seed", range(40))
def test_random_operands(seed):
    random = np.random.default_rng(seed)
    shape = int(random.integers(1, 70)), int(random.integers(1, 130))
    kernel = (combine, biased)[seed % 2]
    types = [(F16, F32, BF16, FP8)[number] for number in random.integers(4, size=3)]
    a, out = (random_array(random, shape, types[number]) for number in (0, 2))
    b = random_array(random, shape if kernel is combine else (1, shape[1]), types[1])
    named = {
        "R": 1 << random.integers(3, 7),
        "C": 1 << random.integers(3, 8),
        "warps": 1 << random.integers(5),
    }
    arch = ("sm_75", "sm_80", "sm_120a")[seed % 3]
    agrees(kernel, (a, b, out), [2], {name: int(value) for name, value in named.items()}, arch)
