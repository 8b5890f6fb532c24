"""A product with warp roles, bulk loads, asynchronous matrix operations and a bulk store.

The lines of its parts are what the tests expect findings at; ``without`` and the other options break it.
"""

import ml_dtypes
import numpy as np
from small_writers import buffer

from gizml_tile.dtypes import BF16, F32
from gizml_tile.lowering.kernel_ir.instructions import (
    WORKGROUP,
    Access,
    Bulk,
    BulkWait,
    GroupMatrix,
    Operand,
    Role,
)

SIDE = 64
BYTES = 2 * SIDE * SIDE * 2  # of a stage: a and b, BF16
BUFFERS = [
    buffer("a", 2 * SIDE * SIDE, BF16),
    buffer("b", 2 * SIDE * SIDE, BF16, 16384),
    buffer("out", SIDE * SIDE, F32, 32768),
]
SIGNALS = 4  # full and empty of two stages


def data(steps, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((2 * SIDE, steps * SIDE)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((steps * SIDE, SIDE)).astype(ml_dtypes.bfloat16)
    return a, b, np.zeros((2 * SIDE, SIDE), np.float32)


def product(steps, without=(), bytes=BYTES, parity=0, swizzle=128, order=("wait", "issue"), arrivals=1):
    """Each workgroup: 64 rows of a [128, K] @ b [K, 64]; ``without`` names what is left out."""

    def write(k):
        number, lane, thread = k.number, k.lane(), k.thread()

        def stage_of(step):
            return k.map("and", step, number(1)), k.map("and", k.map("shr", step, number(1)), number(1))

        def element(stage):
            return k.mul(stage, number(SIDE * SIDE))

        def start():
            for signal in range(4):
                if ("init", signal) not in without:
                    k.at(2).signal_init(number(signal), 1 if signal < 2 else arrivals)

        k.when(k.map("eq", thread, number(0)), start)
        if "init barrier" not in without:
            k.at(3).barrier(0, 256)

        def produce():
            def body(step, carried):
                stage, phase = stage_of(step)
                empty = k.add(stage, number(2))

                def issue():
                    k.at(11).signal_expect(stage, bytes)
                    first = k.mul(step, number(SIDE))
                    rows = k.mul(k.workgroup(), number(SIDE))
                    k.at(12).bulk_load(Bulk(0, 0, (SIDE, SIDE), 128), element(stage), [rows, first], stage)
                    k.at(13).bulk_load(
                        Bulk(1, 1, (SIDE, SIDE), 128), element(stage), [first, number(0)], stage
                    )

                if "empty wait" not in without:
                    k.at(10).signal_wait(empty, k.map("xor", phase, number(1)))
                k.when(k.map("eq", lane, number(0)), issue)
                return []

            k.loop(number(0), number(steps), number(1), [], body)

        def consume():
            own = k.sub(thread, number(128))
            elected = k.map("eq", own, number(0))

            def body(step, carried):
                stage, phase = stage_of(step)
                wait = k.map("xor", phase, number(parity))
                if "full wait of other warps" in without:
                    k.when(k.map("eq", k.warp(), number(4)), lambda: k.at(20).signal_wait(stage, wait))
                elif "full wait" not in without:
                    k.at(20).signal_wait(stage, wait)
                if "group fence" not in without:
                    k.at(21).emit("group_fence")
                matrix = GroupMatrix(
                    SIDE,
                    SIDE,
                    (BF16, BF16),
                    Operand(0, swizzle, 16, 1024),
                    Operand(1, swizzle, 8192, 1024, True),
                )
                k.at(22)
                chunk = k.mul(stage, number(SIDE * SIDE * 2 // 16))
                value = k.group_mma(matrix, chunk, chunk, carried[0])
                k.at(23).emit("group_commit")
                if "group wait" not in without:
                    k.at(24).emit("group_wait", attr=0)
                if "empty arrive" not in without:
                    k.when(elected, lambda: k.at(25).signal_arrive(k.add(stage, number(2))))
                return [value]

            zero = k.emit("pick", (k.constant(0.0, F32),), (0,) * 32, F32, 32)
            (total,) = k.loop(number(0), number(steps), number(1), [zero], body)
            warp = k.map("shr", own, number(5))
            row = k.add(k.mul(warp, number(16)), k.map("shr", lane, number(2)))
            at = k.add(k.mul(row, number(SIDE)), k.mul(k.map("and", lane, number(3)), number(2)))
            places = tuple((0, 8 * each + 8 * SIDE * half) for each in range(8) for half in range(2))
            k.at(30).store(Access(WORKGROUP, 2, 2, places), total, at)
            if "fence" not in without:
                k.at(31).emit("fence_async")
            if "out barrier" not in without:
                k.at(32).barrier(1, 128)

            def send():
                rows = k.mul(k.workgroup(), number(SIDE))
                k.at(33).bulk_store(Bulk(2, 2, (SIDE, SIDE), 0), number(0), [rows, number(0)])
                k.at(34).bulk_commit()
                if "bulk wait" not in without:
                    k.at(35).emit("bulk_wait", attr=BulkWait(0, True))

            k.when(elected, send)
            if "reuse" in without:  # of the staging, before it was read
                k.at(36).store(Access(WORKGROUP, 2, 2, places), total, at)

        k.at(4).roles([(Role("producer", 0, 1), produce), (Role("consumer", 4, 4), consume)])

    return write
