"""Boxes by the copy engine, asynchronous products, and transaction barriers, each for itself."""

import numpy as np
import pytest
from small_writers import buffer, kernel_of, run

from gizml_tile.dtypes import BF16, F16, F32, FP8, I8, I32, U8, to_numpy
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    WORKGROUP,
    Access,
    Bulk,
    BulkWait,
    GroupMatrix,
    Operand,
)
from gizml_tile.lowering.simulate import Memory, simulate


def only(k, thread, effects):
    k.when(k.map("eq", k.thread(), k.number(thread)), effects)


def load_boxes(k, boxes, bytes, waiting=4):
    """Thread 0 loads (bulk, to, coordinates) by signal 0, for which all wait, or the first warps."""
    only(k, 0, lambda: k.signal_init(k.number(0), 1))
    k.barrier(0, 128)

    def issue():
        k.signal_expect(k.number(0), bytes)
        for bulk, to, coordinates in boxes:
            k.bulk_load(bulk, k.number(to), [k.number(each) for each in coordinates], k.number(0))

    only(k, 0, issue)
    only_warps = k.map("lt", k.warp(), k.number(waiting))
    k.when(only_warps, lambda: k.signal_wait(k.number(0), k.number(0)))


@pytest.mark.parametrize("corner", [(0, 0), (3, 20), (2, 12), (9, 4), (30, 0)])
def test_boxes_reach_over_the_edges(corner):
    """Zeros are read there, nothing is written, and all bytes count."""
    a = np.arange(20 * 24, dtype=np.float32).reshape(20, 24)
    out = np.zeros((20, 24), np.float32)

    def write(k):
        bulk = Bulk(0, 0, (8, 16), 0)
        load_boxes(k, [(bulk, 0, corner)], 512)
        value = k.take(0, k.thread())
        k.keep(1, k.add(value, k.number(1.0, F32)), k.thread())
        k.emit("fence_async")
        k.barrier(0, 128)

        def send():
            k.bulk_store(Bulk(1, 1, (8, 16), 0), k.number(0), [k.number(each) for each in corner])
            k.bulk_commit()
            k.emit("bulk_wait", attr=BulkWait(0, False))

        only(k, 0, send)

    buffers = [buffer("s", 128), buffer("t", 128, offset=512)]
    found = run(write, [a, out], buffers, threads=128, signals=1)
    assert not found.wrong, found
    rows = slice(max(corner[0], 0), max(corner[0] + 8, 0))
    columns = slice(max(corner[1], 0), max(corner[1] + 16, 0))
    expected = np.zeros_like(out)
    expected[rows, columns] = a[rows, columns] + 1
    assert (out == expected).all()


@pytest.mark.parametrize(
    ("corner", "storing", "kind"),
    [
        ((0, 3), False, "misaligned"),
        ((0, -5), False, "misaligned"),
        ((-2, -8), False, None),
        ((0, 3), True, "misaligned"),
        ((-2, 0), True, "out of bounds"),
        ((0, -8), True, "out of bounds"),
    ],
)
def test_coordinates_that_the_engine_refuses(corner, storing, kind):
    """Seen on an H200: an illegal instruction, also where the whole box is outside."""
    a = np.zeros((20, 24), np.float32)

    def write(k):
        if not storing:
            load_boxes(k, [(Bulk(0, 0, (8, 16), 0), 0, corner)], 512)
            return
        k.keep(0, k.number(1.0, F32), k.thread())
        k.emit("fence_async")
        k.barrier(0, 128)

        def send():
            k.bulk_store(Bulk(0, 0, (8, 16), 0), k.number(0), [k.number(each) for each in corner])
            k.bulk_commit()
            k.emit("bulk_wait", attr=BulkWait(0, False))

        only(k, 0, send)

    found = run(write, [a], [buffer("s", 128)], threads=128, signals=1)
    assert {each.kind for each in found.wrong} == ({kind} if kind else set())


def test_boxes_of_three_axes():
    a = np.arange(4 * 6 * 32, dtype=np.float32).reshape(4, 6, 32)
    out = np.zeros((2, 3, 16), np.float32)

    def write(k):
        load_boxes(k, [(Bulk(0, 0, (2, 3, 16), 0), 0, (1, 2, 8))], 4 * 96)
        k.put(
            1,
            k.take(0, k.thread(), mask=k.map("lt", k.thread(), k.number(96))),
            k.thread(),
            mask=k.map("lt", k.thread(), k.number(96)),
        )

    found = run(write, [a, out], [buffer("s", 96)], threads=128, signals=1)
    assert not found.wrong, found
    assert (out == a[1:3, 2:5, 8:24]).all()


@pytest.mark.parametrize("span", [0, 32, 64, 128])
def test_swizzles(span):
    """The 16-byte chunks of rows of a span are exchanged by the bits 7 to 9 of their address."""
    columns = (span or 128) // 2
    a = np.arange(16 * columns, dtype=np.float16).reshape(16, columns)
    out = np.zeros(16 * columns, np.float16)

    def write(k):
        load_boxes(k, [(Bulk(0, 0, (16, columns), span), 0, (0, 0))], 32 * columns)

        def body(row, carried):
            place = k.add(k.mul(row, k.number(128)), k.thread())
            k.put(1, k.take(0, place, F16), place)
            return []

        k.loop(k.number(0), k.number(16 * columns // 128), k.number(1), [], body)

    found = run(write, [a, out], [buffer("s", 16 * columns, F16)], threads=128, signals=1)
    assert not found.wrong, found
    for row in range(16):
        for column in range(columns):
            byte = 2 * (row * columns + column)
            mask = {0: 0, 32: 1, 64: 3, 128: 7}[span]
            byte ^= (byte >> 7 & mask) << 4
            assert out[byte // 2] == a[row, column]


# Asynchronous products


def small(shape, dtype, seed):
    low = 0 if dtype is U8 else -3
    return np.random.default_rng(seed).integers(low, 4, shape).astype(to_numpy(dtype))


def sums_to(k, tensor, value, columns):
    """Store the sums of 64 x columns, whose places the PTX ISA shows in a figure."""
    lane, warp = k.lane(), k.warp()
    row = k.add(k.mul(warp, k.number(16)), k.map("shr", lane, k.number(2)))
    at = k.add(k.mul(row, k.number(columns)), k.mul(k.map("and", lane, k.number(3)), k.number(2)))
    places = tuple((0, 8 * each + 8 * columns * half) for each in range(columns // 8) for half in range(2))
    k.store(Access(GLOBAL, tensor, 2, places), value, at)


def product(k, matrix, a, b, dtype):
    c = k.emit("pick", (k.constant(0, dtype),), (0,) * (matrix.n // 2), dtype, matrix.n // 2)
    k.emit("group_fence")
    value = k.group_mma(matrix, a, b, c)
    k.emit("group_commit")
    k.emit("group_wait", attr=0)
    return value


@pytest.mark.parametrize("dtype", [BF16, F16, FP8, F32, I8, U8], ids=str)
@pytest.mark.parametrize("span", [32, 64, 128])
@pytest.mark.parametrize("columns", [8, 24, 64])
def test_products_of_rows_along_k(dtype, span, columns):
    """Boxes with a span of k in each row, for a and for the columns of b."""
    depth = span // dtype.bytes
    a, b = small((64, depth), dtype, 0), small((columns, depth), dtype, 1)
    total = F32 if dtype.is_float else I32
    out = np.zeros((64, columns), to_numpy(total))

    def write(k):
        boxes = [(Bulk(0, 0, (64, depth), span), 0, (0, 0)), (Bulk(1, 1, (columns, depth), span), 0, (0, 0))]
        load_boxes(k, boxes, (64 + columns) * span)
        operands = [Operand(number, span, 16, 8 * span) for number in range(2)]
        matrix = GroupMatrix(columns, depth, (dtype, dtype), operands[0], operands[1])
        value = product(k, matrix, k.number(0), k.number(0), total)
        sums_to(k, 2, value, columns)

    buffers = [buffer("a", 64 * depth, dtype), buffer("b", columns * depth, dtype, 64 * span)]
    found = run(write, [a, b, out], buffers, threads=128, signals=1)
    assert not found.wrong, found
    assert (out == a.astype(np.float64) @ b.astype(np.float64).T).all()


@pytest.mark.parametrize("span", [32, 64, 128])
def test_products_of_rows_across_k(span):
    """Boxes with a span of m or n in each row of k: panels beside each other."""
    depth, columns = 32, 128
    width = span // 2
    a, b = small((depth, 64), BF16, 0), small((depth, columns), BF16, 1)
    out = np.zeros((64, columns), np.float32)

    def write(k):
        boxes = []
        for tensor, size in ((0, 64), (1, columns)):
            for panel in range(size // width):
                bulk = Bulk(tensor, tensor, (depth, width), span)
                boxes.append((bulk, panel * depth * width, (0, panel * width)))
        load_boxes(k, boxes, 2 * depth * (64 + columns))
        operands = [Operand(number, span, depth * span, 8 * span, True) for number in range(2)]
        matrix = GroupMatrix(columns, depth, (BF16, BF16), operands[0], operands[1])
        sums_to(k, 2, product(k, matrix, k.number(0), k.number(0), F32), columns)

    buffers = [buffer("a", 64 * depth, BF16), buffer("b", columns * depth, BF16, 128 * depth)]
    found = run(write, [a, b, out], buffers, threads=128, signals=1)
    assert not found.wrong, found
    assert (out == a.astype(np.float64).T @ b.astype(np.float64)).all()


@pytest.mark.parametrize("transposed", [False, True])
def test_products_without_a_swizzle(transposed):
    """Core matrices of 8 rows of 16 bytes, one after the other: k fastest, or m and n."""
    depth, columns = 32, 16
    a, b = small((64, depth), F16, 0), small((columns, depth), F16, 1)
    out = np.zeros((64, columns), np.float32)
    placed = []
    for matrix in (a, b):
        # [row block, row, k block, k] of 8 each
        blocks = matrix.reshape(-1, 8, depth // 8, 8)
        order = (0, 2, 3, 1) if transposed else (0, 2, 1, 3)
        placed.append(np.ascontiguousarray(blocks.transpose(order)).reshape(-1))

    def write(k):
        for tensor, data in enumerate(placed):
            width = len(data) // 128
            first = k.mul(k.thread(), k.number(width))
            access = Access(
                GLOBAL, tensor, min(width, 8), tuple((0, 8 * each) for each in range(max(width // 8, 1)))
            )
            inside = Access(WORKGROUP, tensor, access.width, access.places)
            k.store(inside, k.load(access, first, F16), first)
        k.emit("fence_async")
        k.barrier(0, 128)
        # The next block along k, and the next eight rows.
        along, across = 128, 128 * depth // 8
        leading, stride = (across, along) if transposed else (along, across)
        operands = [Operand(number, 0, leading, stride, transposed) for number in range(2)]
        matrix = GroupMatrix(columns, depth, (F16, F16), operands[0], operands[1])
        sums_to(k, 2, product(k, matrix, k.number(0), k.number(0), F32), columns)

    buffers = [buffer("a", 64 * depth, F16), buffer("b", columns * depth, F16, 128 * depth)]
    found = run(write, [*placed, out], buffers, threads=128)
    assert not found.wrong, found
    assert (out == a.astype(np.float64) @ b.astype(np.float64).T).all()


@pytest.mark.parametrize("dtype", [BF16, FP8, F32], ids=str)
def test_products_with_a_in_registers(dtype):
    """a's registers: words of neighbours along k, the next eight rows, the other half of a step's k."""
    depth, columns = 64 // dtype.bytes, 8
    a, b = small((64, depth), dtype, 0), small((columns, depth), dtype, 1)
    out = np.zeros((64, columns), np.float32)
    word = 4 // dtype.bytes

    def write(k):
        load_boxes(k, [(Bulk(1, 0, (columns, depth), 64), 0, (0, 0))], 64 * columns)
        lane = k.lane()
        row = k.add(k.mul(k.warp(), k.number(16)), k.map("shr", lane, k.number(2)))
        first = k.add(k.mul(row, k.number(depth)), k.mul(k.map("and", lane, k.number(3)), k.number(word)))
        places = tuple(
            (0, step * 8 * word + half * 4 * word + eight * 8 * depth)
            for step in range(2)
            for half in range(2)
            for eight in range(2)
        )
        held = k.load(Access(GLOBAL, 0, word, places), first, dtype)
        matrix = GroupMatrix(columns, depth, (dtype, dtype), None, Operand(0, 64, 16, 512))
        sums_to(k, 2, product(k, matrix, held, k.number(0), F32), columns)

    found = run(write, [a, b, out], [buffer("b", columns * depth, dtype)], threads=128, signals=1)
    assert not found.wrong, found
    assert (out == a.astype(np.float64) @ b.astype(np.float64).T).all()


@pytest.mark.parametrize("waiting", [0, 1, 3, 4])
def test_each_of_the_four_warps_waits(waiting):
    """All of them read all of b."""
    b, out = small((8, 32), BF16, 0), np.zeros((64, 8), np.float32)

    def write(k):
        load_boxes(k, [(Bulk(0, 0, (8, 32), 64), 0, (0, 0))], 512, waiting)
        held = k.emit("pick", (k.constant(1.0, BF16),), (0,) * 16, BF16, 16)
        k.at(7)
        matrix = GroupMatrix(8, 32, (BF16, BF16), None, Operand(0, 64, 16, 512))
        sums_to(k, 1, product(k, matrix, held, k.number(0), F32), 8)

    found = run(write, [b, out], [buffer("b", 256, BF16)], threads=128, signals=1)
    assert [(each.kind, each.place.line) for each in found.wrong] == [("in flight", 7)] * (waiting < 4)


@pytest.mark.parametrize("fresh", [False, True])
def test_two_products_into_the_same_sums(fresh):
    a = small((64, 64), BF16, 0)
    out = np.zeros((64, 64), np.float32)

    def write(k):
        load_boxes(k, [(Bulk(0, 0, (64, 64), 128), 0, (0, 0))], 8192)
        operand = Operand(0, 128, 16, 1024)
        c = k.emit("pick", (k.constant(5.0, F32),), (0,) * 32, F32, 32)
        k.emit("group_fence")
        halves, start = (BF16, BF16), k.number(0)
        first = k.group_mma(GroupMatrix(64, 64, halves, operand, operand, fresh), start, start, c)
        k.emit("group_commit")
        second = k.group_mma(GroupMatrix(64, 64, halves, operand, operand), start, start, first)
        k.emit("group_commit")
        k.at(9).emit("group_wait", attr=0)
        sums_to(k, 1, second, 64)

    found = run(write, [a, out], [buffer("a", 4096, BF16)], threads=128, signals=1)
    assert not found.wrong, found
    exact = a.astype(np.float64)
    assert (out == 2 * exact @ exact.T + (0 if fresh else 5)).all()


def test_tf32_leaves_the_low_bits_out():
    a = np.full((64, 8), 1 + 2.0**-10 + 2.0**-11, np.float32)
    b = np.eye(8, dtype=np.float32)
    out = np.zeros((64, 8), np.float32)

    def write(k):
        boxes = [(Bulk(0, 0, (64, 8), 32), 0, (0, 0)), (Bulk(1, 1, (8, 8), 32), 0, (0, 0))]
        load_boxes(k, boxes, 72 * 32)
        matrix = GroupMatrix(8, 8, (F32, F32), Operand(0, 32, 16, 256), Operand(1, 32, 16, 256))
        sums_to(k, 2, product(k, matrix, k.number(0), k.number(0), F32), 8)

    buffers = [buffer("a", 512), buffer("b", 64, offset=2048)]
    assert not run(write, [a, b, out], buffers, threads=128, signals=1).wrong
    assert (out == np.float32(1 + 2.0**-10)).all()


def test_sums_of_fp8_lose_what_is_small():
    """Rows begin with 1, and 31 terms of 2^-row follow in the same step; one of 2^-(row - 8) in the next."""
    a, b = np.zeros((64, 64), to_numpy(FP8)), np.zeros((16, 64), to_numpy(FP8))
    a[:, 0], b[:, 0] = 1, 1
    for row in range(10):
        a[row, 1:32], b[:8, 1:32] = 2.0**-row, 2.0**-8
        a[row, 32], b[8:, 32] = 2.0**-row, 2.0**-8
    out = np.zeros((64, 16), np.float32)

    def write(k):
        boxes = [(Bulk(0, 0, (64, 64), 64), 0, (0, 0)), (Bulk(1, 1, (16, 64), 64), 0, (0, 0))]
        load_boxes(k, boxes, 80 * 64)
        matrix = GroupMatrix(16, 64, (FP8, FP8), Operand(0, 64, 16, 512), Operand(1, 64, 16, 512))
        sums_to(k, 2, product(k, matrix, k.number(0), k.number(0), F32), 16)

    buffers = [buffer("a", 4096, FP8), buffer("b", 1024, FP8, 4096)]
    assert not run(write, [a, b, out], buffers, threads=128, signals=1).wrong
    # Below 2^-13 of 1 nothing is left: of 2^-8 * 2^-row from row 6 on.
    kept = np.arange(10) < 6
    small = 2.0 ** -(8 + np.arange(10))
    assert (out[:10, 0] == 1 + 31 * small * kept).all()
    assert (out[:10, 8] == 1 + small * kept).all()


# Faults of the copy engine's users


def test_a_box_must_lie_in_its_buffer_and_aligned():
    a = np.zeros((16, 16), np.float32)

    def write(k):
        only(k, 0, lambda: k.at(1).signal_init(k.number(0), 1))
        k.barrier(0, 128)

        def issue():
            k.at(2).bulk_load(Bulk(0, 0, (16, 16), 0), k.number(16), [k.number(0)] * 2, k.number(0))
            k.at(3).bulk_load(Bulk(0, 0, (8, 16), 0), k.number(16), [k.number(0)] * 2, k.number(0))
            k.at(4).signal_expect(k.number(0), 512)

        only(k, 0, issue)
        k.at(5).signal_wait(k.number(0), k.number(0))

    found = run(write, [a], [buffer("s", 256)], threads=128, signals=1)
    assert [(each.kind, each.place.line) for each in found] == [("out of bounds", 2), ("misaligned", 3)]


def test_a_deadlock_of_one_workgroup_is_not_the_others():
    """Workgroups that wait in lockstep for one that never goes on run again by themselves."""
    out = np.zeros(8, np.float32)

    def write(k):
        only(k, 0, lambda: k.signal_init(k.number(0), 1))
        k.barrier(0, 128)
        k.at(2)
        third = k.map("eq", k.workgroup(), k.number(3))
        k.when(k.map("not", third), lambda: only(k, 0, lambda: k.at(3).signal_arrive(k.number(0))))
        k.at(4).signal_wait(k.number(0), k.number(0))
        only(k, 0, lambda: k.at(5).put(0, k.number(1.0, F32), k.workgroup()))

    found = run(write, [out], grid=(8,), threads=128, signals=1)
    assert [(each.kind, each.place.line, each.count) for each in found] == [("deadlock", 4, 1)]
    assert list(out) == [1, 1, 1, 0, 1, 1, 1, 1]


def test_a_wait_for_reading_leaves_the_writes_to_the_end():
    """And sources that are free again may be overwritten."""
    out = np.zeros((2, 32), np.float32)

    def write(k):
        def round(number):
            k.keep(0, k.number(float(number + 1), F32), k.thread())
            k.emit("fence_async")
            k.barrier(0, 128)

            def send():
                k.bulk_store(Bulk(0, 0, (1, 32), 0), k.number(0), [k.number(number), k.number(0)])
                k.bulk_commit()
                k.emit("bulk_wait", attr=BulkWait(0, True))

            only(k, 0, send)
            k.barrier(0, 128)

        round(0)
        round(1)

    kernel = kernel_of(write, [out], [buffer("s", 128)], threads=128)
    assert not simulate(kernel, [Memory.of(out)]).wrong
    assert (out == [[1] * 32, [2] * 32]).all()
