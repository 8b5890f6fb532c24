"""The simulator runs tens of millions of thread-instructions a second, with all its checks."""

import time

import numpy as np
from small_writers import buffer, kernel_of, random

from gizml_tile.dtypes import BF16, F32
from gizml_tile.lowering.atoms import ATOMS
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    WORKGROUP,
    Access,
    Copy,
    Matrix,
    MatrixAccess,
)
from gizml_tile.lowering.simulate import Memory, simulate

ATOM = next(each for each in ATOMS if each.name == "bf16_16x8x16")
GOAL, LEAST = 20e6, 10e6  # thread-instructions a second of the processor's time; the machine may be busy


def softmax(k):
    """Eight numbers of each thread; the largest through shuffles and workgroup memory."""
    first = k.add(k.mul(k.workgroup(), k.number(2048)), k.mul(k.thread(), k.number(4)))
    places = ((0, 0), (0, 1024))
    value = k.load(Access(GLOBAL, 0, 4, places), first, F32)
    best = k.pick(value, [0])
    for register in range(1, 8):
        best = k.map("max", best, k.pick(value, [register]))
    for distance in (16, 8, 4, 2, 1):
        best = k.map("max", best, k.shuffle_xor(best, distance))
    k.when(k.map("eq", k.lane(), k.number(0)), lambda: k.keep(0, best, k.warp()))
    k.barrier(0, 256)
    best = k.take(0, k.map("and", k.lane(), k.number(7)))
    for distance in (4, 2, 1):
        best = k.map("max", best, k.shuffle_xor(best, distance))
    value = k.fma(k.map("exp2", k.sub(value, best)), k.number(2.0, F32), k.number(1.0, F32))
    k.store(Access(GLOBAL, 1, 4, places), value, first)


def transpose(k):
    thread = k.thread()
    row, column = k.map("shr", thread, k.number(3)), k.mul(k.map("and", thread, k.number(7)), k.number(4))
    first = k.add(k.mul(k.workgroup(), k.number(1024)), k.mul(thread, k.number(4)))
    value = k.get(0, first, width=4)
    k.store(
        Access(WORKGROUP, 0, 1, tuple((0, each) for each in range(4))),
        value,
        k.add(k.mul(row, k.number(33)), column),
    )
    k.barrier(0, 256)
    turned = k.load(
        Access(WORKGROUP, 0, 1, tuple((0, 33 * each) for each in range(4))),
        k.add(k.mul(column, k.number(33)), row),
        F32,
    )
    k.put(1, turned, first, width=4)


def product(k):
    """Four warps, 64 x 32 of a product, k in steps of 32 through asynchronous copies."""
    lane, warp, thread = k.lane(), k.warp(), k.thread()

    def body(step, carried):
        to = k.mul(thread, k.number(8))
        source = k.add(k.mul(step, k.number(2048)), to)
        k.copy(Copy(0, 0, 8, ((0, 0), (0, 1024)), ((0, 0), (0, 1024))), to, source)
        k.copy(Copy(0, 1, 8, ((0, 0),), ((0, 0),)), to, source)
        k.copy_commit()
        k.copy_wait(0)
        k.barrier(0, 128)
        row = k.map("and", lane, k.number(15))
        chunk = k.map(
            "xor", k.map("shr", lane, k.number(4)), k.map("and", k.map("shr", row, k.number(1)), k.number(3))
        )
        rows = k.add(k.mul(row, k.number(32)), k.mul(chunk, k.number(8)))
        of_a = k.add(rows, k.mul(warp, k.number(512)))
        other = k.map("xor", of_a, k.number(16))
        a = k.matrix_load(MatrixAccess(0, 4, False, ((0, 0), (1, 0))), k.join([of_a, other]), BF16)
        rows = k.join([rows, k.map("xor", rows, k.number(16))])
        b = k.matrix_load(MatrixAccess(1, 4, False, ((0, 0), (1, 0))), rows, BF16)
        total = k.mma(Matrix(ATOM, 1, 2, 2), a, b, carried[0])
        k.barrier(0, 128)
        return [total]

    zero = k.emit("pick", (k.number(0.0, F32),), (0,) * 8, F32, 8)
    (total,) = k.loop(k.number(0), k.number(8), k.number(1), [zero], body)
    place = k.add(k.mul(k.workgroup(), k.number(1024)), k.mul(thread, k.number(8)))
    k.store(Access(GLOBAL, 1, 4, ((0, 0), (0, 4))), total, place)


def count(block):
    """Thread-instructions of a block: registers made or stored, loops as often as they run."""
    total = 0
    for each in block.instructions:
        times = each.args[1].attr if each.op == "loop" else 1
        total += each.args[0].count if each.op == "store" else each.count
        total += times * sum(count(inside) for inside in each.blocks)
    return total


def rate(write, threads, workgroups, size, buffers, dtype=np.float32):
    """Thread-instructions, and the processor's seconds of the best of three runs."""
    from ml_dtypes import bfloat16

    source = random(size, dtype=bfloat16 if dtype is None else dtype)
    tensors = [source, np.zeros(workgroups * threads * 8, np.float32)]
    kernel = kernel_of(write, tensors, buffers, threads=threads)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        found = simulate(kernel, [Memory.of(each) for each in tensors], (), (workgroups,))
        seconds.append(time.process_time() - start)
        assert not found.wrong, found
    return count(kernel.body) * threads * workgroups, min(seconds)


def test_speed(record_property):
    runs = [
        rate(softmax, 256, 256, 256 * 2048, [buffer("s", 8)]),
        rate(transpose, 256, 256, 256 * 1024, [buffer("s", 33 * 32)]),
        rate(product, 128, 256, 8 * 2048, [buffer("a", 2048, BF16), buffer("b", 1024, BF16, 4096)], None),
    ]
    instructions = sum(each for each, _ in runs)
    found = instructions / sum(seconds for _, seconds in runs)
    record_property("thread-instructions a second", found)
    print(f"{found / 1e6:.0f} million thread-instructions a second; the goal is {GOAL / 1e6:.0f}")
    assert found >= LEAST
