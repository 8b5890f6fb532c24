"""Each instruction against NumPy: leaves, registers, memory, structure, and what lanes do together."""

import ml_dtypes
import numpy as np
import pytest
from small_writers import buffer, kernel_of, random, run

from gizml_tile.dtypes import BF16, F32, FP8, I8, I32, I64, MASK, U8
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    WORKGROUP,
    Access,
    Copy,
    MatrixAccess,
    Parameter,
)
from gizml_tile.lowering.simulate import Memory, simulate


def integers(*shape):
    return np.zeros(shape, np.int32)


def test_leaves():
    out = integers(2, 3, 4, 96)

    def write(k):
        x, y, z = (k.workgroup(axis) for axis in range(3))
        number = k.add(x, k.mul(k.workgroups(0), k.add(y, k.mul(k.workgroups(1), z))))
        value = k.add(k.mul(number, k.number(1000)), k.add(k.mul(k.warp(), k.number(100)), k.lane()))
        k.put(0, value, k.add(k.mul(number, k.number(96)), k.thread()))

    assert not run(write, [out], grid=(4, 3, 2), threads=96).found
    thread = np.arange(96)
    expected = np.arange(24)[:, None] * 1000 + thread // 32 * 100 + thread % 32
    assert (out.reshape(24, 96) == expected).all()


def test_parameters():
    a, out = random(6, 5), np.zeros(8, np.int64)
    half = np.zeros(1, np.float32)

    def write(k):
        names = [("size", 0, 0), ("size", 0, 1), ("stride", 0, 0), ("stride", 0, 1), ("scalar", 0, 0)]
        names += [("grid", 0, 0), ("grid", 0, 1), ("size", 1, 0)]
        for number, name in enumerate(names):
            value = k.parameter(Parameter(*name))
            k.put(1, value, k.number(number))
        k.put(2, k.parameter(Parameter("scalar", 1), F32), k.number(0))

    # One axis of the hardware's for the user's two.
    kernel = kernel_of(write, [a, out, half], threads=32)
    memories = [Memory.of(each) for each in (a, out, half)]
    found = simulate(kernel, memories, (7, 0.5), (1, 3), workgroups=(1,))
    assert not found.found, found
    assert list(out) == [6, 5, 5, 1, 7, 1, 3, 8] and half[0] == 0.5


def test_workgroups_of_the_hardware_come_from_the_grid():
    out = integers(6)

    def write(k):
        k.put(0, k.workgroup(), k.workgroup())

    kernel = kernel_of(write, [out], threads=32)
    assert not simulate(kernel, [Memory.of(out)], (), (2, 3)).found
    assert list(out) == list(range(6))


def test_registers():
    a, out = random(64, 4), np.zeros((64, 6), np.float32)
    bits = np.zeros(64, np.int32)

    def write(k):
        value = k.get(0, k.mul(k.thread(), k.number(4)), width=4)
        some = k.pick(value, [3, 0, 3])
        both = k.join([some, k.pick(value, [1, 2]), k.number(2.0, F32)])
        k.store(Access(GLOBAL, 1, 2, ((0, 0), (0, 2), (0, 4))), both, k.mul(k.thread(), k.number(6)))
        k.put(2, k.bitcast(k.pick(value, [0]), I32), k.thread())

    assert not run(write, [a, out, bits]).wrong
    assert (out == np.column_stack([a[:, [3, 0, 3, 1, 2]], np.full(64, 2)])).all()
    assert (bits == a[:, 0].view(np.int32)).all()


@pytest.mark.parametrize(
    "dtype, type_",
    [(BF16, ml_dtypes.bfloat16), (FP8, ml_dtypes.float8_e4m3fn), (I8, np.int8), (U8, np.uint8)],
)
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_vectors_of_narrow_types(dtype, type_, width):
    """Through workgroup memory, masked with a pad, converted to F32 and back."""
    if width * dtype.bytes > 16:
        width = 8
    a = (np.arange(64 * width) % 23).astype(type_)
    out, wide = np.zeros_like(a), np.zeros(64 * width, np.float32)

    def write(k):
        first = k.mul(k.thread(), k.number(width))
        value = k.get(0, first, dtype, width)
        k.keep(0, value, first, width)
        k.warp_barrier()
        mask = k.map("lt", k.thread(), k.number(60))
        value = k.load(Access(WORKGROUP, 0, width, ((0, 0),), 3), first, dtype, mask)
        k.put(1, value, first, width)
        full = k.convert(value, F32)
        for register in range(width):
            k.put(2, k.pick(full, [register]), k.add(first, k.number(register)))

    found = run(write, [a, out, wide], [buffer("s", 64 * width, dtype)])
    assert not found.wrong, found
    expected = np.concatenate([a[: 60 * width], np.full(4 * width, 3, type_)])
    assert (out == expected).all() and (wide == expected.astype(np.float32)).all()


def test_loads_beside_places():
    """Offsets of several registers, constants beside them, and a mask for each access."""
    a, out = random(256), np.zeros((64, 3), np.float32)

    def write(k):
        thread = k.thread()
        offsets = k.join([thread, k.mul(thread, k.number(2))])
        masks = k.join([k.map("lt", thread, k.number(each)) for each in (64, 32, 10)])
        value = k.load(Access(GLOBAL, 0, 1, ((0, 5), (1, 0), (0, 190)), 7), offsets, F32, masks)
        k.store(Access(GLOBAL, 1, 1, ((0, 0), (0, 1), (0, 2))), value, k.mul(thread, k.number(3)))

    assert not run(write, [a, out]).wrong
    t = np.arange(64)
    assert (out[:, 0] == a[t + 5]).all()
    assert (out[:, 1] == np.where(t < 32, a[2 * t % 128], 7)).all()
    assert (out[:, 2] == np.where(t < 10, a[np.minimum(t + 190, 255)], 7)).all()


def test_a_store_of_one_register_to_many_places():
    out = np.zeros((64, 4), np.float32)

    def write(k):
        k.store(Access(GLOBAL, 0, 2, ((0, 0), (0, 2))), k.number(3.0, F32), k.mul(k.thread(), k.number(4)))

    assert not run(write, [out]).wrong
    assert (out == 3).all()


def test_negative_strides_and_holes():
    """Elements of the data that are not the tensor's are out of bounds, though the memory is there."""
    data, out = random(100), np.zeros(64, np.float32)

    def write(k):
        k.at(1)
        offset = k.map("neg", k.mul(k.thread(), k.number(2)))
        value = k.at(2).get(0, offset, mask=k.map("lt", k.thread(), k.number(40)))
        k.at(3).get(0, k.number(-1))
        k.at(4).get(0, k.number(-80))
        k.at(5).get(0, k.number(1))
        k.at(6).put(1, value, k.thread())

    kernel = kernel_of(write, [data, out])
    found = simulate(kernel, [Memory(data, 90, (40,), (-2,)), Memory.of(out)])
    lines = [each.place.line for each in found.of("out of bounds")]
    assert lines == [3, 4, 5] and len(found.wrong) == 3, found
    assert (out[:40] == data[90 - 2 * np.arange(40)]).all() and (out[40:] == 0).all()


def test_an_empty_tensor_has_no_elements():
    empty, out = np.zeros(0, np.float32), np.ones(64, np.float32)

    def write(k):
        k.at(1)
        mask = k.map("lt", k.thread(), k.number(0))
        k.put(1, k.get(0, k.thread(), mask=mask, pad=2), k.thread())
        k.at(2).get(0, k.thread())

    found = run(write, [empty, out])
    assert [(each.kind, each.place.line, each.count) for each in found] == [("out of bounds", 2, 64)]
    assert (out == 2).all()


def test_shuffles():
    a = random(64)
    outs = [np.zeros(64, np.float32) for _ in range(2)]

    def write(k):
        value = k.get(0, k.thread())
        k.put(1, k.shuffle_xor(value, 5), k.thread())
        k.put(2, k.shuffle(value, k.map("and", k.mul(k.lane(), k.number(3)), k.number(31))), k.thread())

    assert not run(write, [a, *outs]).found
    lanes = np.arange(32)
    assert (outs[0].reshape(2, 32) == a.reshape(2, 32)[:, lanes ^ 5]).all()
    assert (outs[1].reshape(2, 32) == a.reshape(2, 32)[:, lanes * 3 % 32]).all()


def test_outer():
    a, b, out = random(64, 4), random(64, 2, seed=1), np.ones((64, 8), np.float32)

    def write(k):
        x = k.get(0, k.mul(k.thread(), k.number(4)), width=4)
        y = k.get(1, k.mul(k.thread(), k.number(2)), width=2)
        place = k.mul(k.thread(), k.number(8))
        access = Access(GLOBAL, 2, 4, ((0, 0), (0, 4)))
        k.store(access, k.outer(x, y, k.load(access, place, F32)), place)

    assert not run(write, [a, b, out]).wrong
    exact = a.astype(np.float64)[:, :, None] * b.astype(np.float64)[:, None, :] + 1
    assert (out == exact.astype(np.float32).reshape(64, 8)).all()


# Structure


@pytest.mark.parametrize("grid", [(1,), (5,), (600,)])
def test_loops_whose_bounds_differ_between_workgroups(grid):
    """Also with steps, and counted down; 600 workgroups take several batches."""
    out = integers(grid[0], 3)

    def write(k):
        number = k.workgroup()

        def body(counter, carried):
            return [k.add(carried[0], counter), k.add(carried[1], k.number(1))]

        stop = k.map("and", number, k.number(7))
        zero = k.number(0)
        first, count = k.loop(zero, stop, k.number(2), [zero, zero], body)
        down, _ = k.loop(stop, k.number(-3), k.number(-1), [zero, zero], body)
        place = k.mul(number, k.number(3))
        for register, value in enumerate((first, count, down)):
            k.put(0, value, k.add(place, k.number(register)))

    assert not run(write, [out], grid=grid).found
    for number in range(grid[0]):
        counted = range(0, number & 7, 2)
        down = range(number & 7, -3, -1)
        assert list(out[number]) == [sum(counted), len(counted), sum(down)]


def test_memory_in_loops_that_some_workgroups_have_left():
    out = integers(8, 8)

    def write(k):
        number = k.workgroup()

        def body(counter, carried):
            k.keep(0, counter, k.thread())
            k.barrier(0, 64)
            value = k.take(0, k.number(63), I32)
            mask = k.map("eq", k.thread(), k.number(0))
            k.put(0, k.add(value, k.number(1)), k.add(k.mul(number, k.number(8)), counter), mask=mask)
            k.barrier(0, 64)
            return []

        k.loop(k.number(0), number, k.number(1), [], body)

    found = run(write, [out], [buffer("s", 64, I32)], grid=(8,))
    assert not found.wrong, found
    for number in range(8):
        assert list(out[number]) == [each + 1 if each < number else 0 for each in range(8)]


def test_branches():
    out = integers(6, 64)

    def write(k):
        number = k.workgroup()
        place = k.add(k.mul(number, k.number(64)), k.thread())
        (value,) = k.branch(
            k.map("lt", number, k.number(3)),
            lambda: [k.add(k.thread(), k.number(1))],
            lambda: [k.mul(k.thread(), k.number(-1))],
        )
        k.put(0, value, place)

    assert not run(write, [out], grid=(6,)).found
    thread = np.arange(64)
    assert (out == np.where(np.arange(6)[:, None] < 3, thread + 1, -thread)).all()


def test_when():
    out = integers(64)

    def write(k):
        def inner():
            k.put(0, k.number(2), k.thread())

        def outer():
            k.put(0, k.number(1), k.thread())
            k.when(k.map("lt", k.thread(), k.number(10)), inner)

        k.when(k.map("lt", k.thread(), k.number(40)), outer)
        k.when(k.map("lt", k.thread(), k.number(0)), inner)

    assert not run(write, [out]).found
    thread = np.arange(64)
    assert (out == np.where(thread < 10, 2, np.where(thread < 40, 1, 0))).all()


# Copies


def test_copies():
    """Masked ones land as zeros, in groups, the older one first."""
    a, out = random(2, 64, 4), np.zeros((2, 64, 4), np.float32)

    def write(k):
        first = k.mul(k.thread(), k.number(4))
        mask = k.map("lt", k.thread(), k.number(50))
        k.copy(Copy(0, 0, 4, ((0, 0),), ((0, 0),)), first, first, mask)
        k.copy_commit()
        k.copy(Copy(0, 0, 4, ((0, 256),), ((0, 256),)), first, first)
        k.copy_commit()
        k.copy_wait(1)
        k.put(1, k.take(0, first, width=4), first, 4)
        k.copy_wait(0)
        access = Access(WORKGROUP, 0, 4, ((0, 256),))
        k.store(Access(GLOBAL, 1, 4, ((0, 256),)), k.load(access, first, F32), first)

    found = run(write, [a, out], [buffer("s", 512)])
    assert not found.wrong, found
    assert (out[0, :50] == a[0, :50]).all() and (out[0, 50:] == 0).all() and (out[1] == a[1]).all()


def test_a_copy_lands_at_its_wait():
    """What is there before does not count: the bytes are NaN."""
    a, out = np.ones(32, np.float32), np.zeros(32, np.float32)

    def write(k):
        k.copy(Copy(0, 0, 1, ((0, 0),), ((0, 0),)), k.thread(), k.thread())
        k.put(1, k.take(0, k.thread()), k.thread())

    found = run(write, [a, out], [buffer("s", 32)], threads=32)
    assert [each.kind for each in found] == ["in flight"] and np.isnan(out).all()


# Matrices of other types


@pytest.mark.parametrize("dtype, type_", [(FP8, np.uint8), (F32, np.float32)])
def test_matrix_load_of_other_sizes(dtype, type_):
    row = 16 // dtype.bytes
    own = row // 4
    a = np.arange(32 * row).astype(type_).reshape(4, 8, row)
    if dtype is FP8:
        a = a.view(ml_dtypes.float8_e4m3fn)
    out = np.zeros((4, 32, own), a.dtype)

    def write(k):
        first = k.mul(k.lane(), k.number(row))
        k.keep(0, k.get(0, first, dtype, row), first, row)
        value = k.matrix_load(MatrixAccess(0, 4, False, ((0, 0),)), first, dtype)
        access = Access(GLOBAL, 1, own, tuple((0, 32 * own * matrix) for matrix in range(4)))
        k.store(access, value, k.mul(k.lane(), k.number(own)))

    found = run(write, [a, out], [buffer("s", 32 * row, dtype)], threads=32)
    assert not found.wrong, found
    lane = np.arange(32)
    expected = a[:, lane[:, None] // 4, own * (lane[:, None] % 4) + np.arange(own)]
    assert (out.view(type_) == expected.view(type_)).all()


# The whole


def test_tensors_may_share_memory():
    """Two parameters of the same array: what one writes and the other reads is a race all the same."""
    data = random(128)

    def write(k):
        k.at(1)
        value = k.at(2).get(0, k.map("xor", k.thread(), k.number(1)))
        k.at(3).put(1, value, k.thread())

    kernel = kernel_of(write, [data[:64], data[64:]])
    apart = [Memory(data, 0, (64,), (1,)), Memory(data, 64, (64,), (1,))]
    assert not simulate(kernel, apart).wrong
    same = [Memory(data, 0, (64,), (1,)), Memory(data, 0, (64,), (1,))]
    assert [(each.kind, each.place.line) for each in simulate(kernel, same).wrong] == [("race", 3)]


def test_equal_bits_of_two_workgroups_are_no_race():
    out = np.zeros(64, np.float32)

    def write(k, value):
        k.at(1).put(0, k.convert(value(k), F32), k.thread())

    assert not run(lambda k: write(k, lambda k: k.thread()), [out], grid=(4,)).found
    found = run(lambda k: write(k, lambda k: k.add(k.thread(), k.workgroup())), [out], grid=(4,))
    assert [(each.kind, each.count) for each in found] == [("race", 192)]


def test_without_checks_results_are_the_same():
    a = random(256)
    outs = []
    for checks in (False, True):
        out = np.zeros(256, np.float32)

        def write(k):
            k.keep(0, k.get(0, k.thread()), k.thread())
            k.barrier(0, 256)
            k.put(1, k.take(0, k.sub(k.number(255), k.thread())), k.thread())

        kernel = kernel_of(write, [a, out], [buffer("s", 256)], threads=256)
        found = simulate(kernel, [Memory.of(a), Memory.of(out)], checks=checks, counts=checks)
        assert not found.found
        outs.append(out)
    assert (outs[0] == outs[1]).all() and (outs[0] == a[::-1]).all()


def test_findings_read_well():
    out = np.zeros(8, np.float32)
    found = run(lambda k: k.at(3).put(0, k.number(1.0, F32), k.thread()), [out], threads=32)
    text = "kernel.py:3:1: out of bounds: store: thread 8 of workgroup 0 accesses element 8 of t0, "
    text += "which has shape [8] and strides [1]; this is a mistake of the compiler and not of the program"
    assert str(found) == f"{text}; please report it with the kernel"
    assert found.of("race") == () and len(found) == 1 and found.wrong == found.found
    assert (found.found[0].file, found.found[0].line) == ("kernel.py", 3)


def test_masks_and_integers_of_64_bits():
    out = np.zeros(64, np.int64)
    flags = np.zeros(64, np.uint8)

    def write(k):
        wide = k.convert(k.thread(), I64)
        k.put(0, k.mul(wide, k.constant(1 << 40, I64)), k.thread())
        odd = k.map("eq", k.map("and", k.thread(), k.number(1)), k.number(1))
        both = k.map("and", odd, k.map("not", k.map("lt", k.thread(), k.number(32))))
        k.keep(0, both, k.thread())
        k.put(1, k.convert(k.take(0, k.thread(), MASK), U8), k.thread())

    assert not run(write, [out, flags], [buffer("s", 64, MASK)]).wrong
    thread = np.arange(64)
    assert (out == thread << 40).all() and (flags == (thread % 2) * (thread >= 32)).all()
