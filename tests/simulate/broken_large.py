"""Larger kernels to break: asynchronous copies, matrix units and roles."""

import ml_dtypes
import numpy as np
from fault_cases import case, zeros
from small_writers import ONE, buffer, random

from gizml_tile.dtypes import BF16, F32
from gizml_tile.lowering.atoms import ATOMS
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Copy, Matrix, MatrixAccess, Role

# Asynchronous copies


@case(
    lambda: [random(8, 128), zeros(128)],
    {
        "no wait": {("in flight", 2), ("in flight", 5)},
        "waits for too few": {("in flight", 2), ("in flight", 5)},
        "no commit": {("in flight", 2), ("in flight", 5)},
        "no barrier": {("race", 5)},
        "no barrier after reading": {("race", 2)},
        "too few stages": {("in flight", 2)},
        "no mask": {("out of bounds", 2)},
        "misaligned": {("misaligned", 2), ("unwritten", 5), ("in flight", 5)},
        "past the buffer": {("out of bounds", 2), ("unwritten", 5), ("in flight", 5)},
    },
    lambda a, out: a[:, ::-1].sum(axis=0, dtype=np.float32),
    [buffer("stages", 256)],
    threads=128,
)
def pipeline(k, wrong):
    """Rows through two stages, fetched one ahead, read back to front."""
    thread = k.at(1).thread()
    few = wrong == "too few stages"

    def stage(row):
        return k.number(0) if few else k.mul(k.map("and", row, k.number(1)), k.number(128))

    def fetch(row):
        inside = None if wrong == "no mask" else k.map("lt", row, k.number(8))
        first = k.mul(thread, k.number(4))
        to = k.add(stage(row), first)
        if wrong == "misaligned":
            to = k.map("max", k.sub(to, k.number(2)), k.number(2))
        if wrong == "past the buffer":
            to = k.add(to, k.number(64))
        source = k.add(k.mul(row, k.number(128)), first)
        copy = Copy(0, 0, 4, ONE, ONE)

        def effect():
            k.at(2).copy(copy, to, source, inside)

        k.when(k.map("lt", thread, k.number(32)), effect)
        if wrong != "no commit":
            k.at(3).copy_commit()

    fetch(k.number(0))

    def body(row, carried):
        fetch(k.add(row, k.number(1)))
        if wrong != "no wait":
            k.at(4).copy_wait(2 if wrong == "waits for too few" else 1)
        if wrong != "no barrier":
            k.at(4).barrier(0, 128)
        value = k.at(5).take(0, k.add(stage(row), k.sub(k.number(127), thread)))
        if wrong != "no barrier after reading":
            k.at(6).barrier(0, 128)
        return [k.add(carried[0], value)]

    (total,) = k.loop(k.number(0), k.number(8), k.number(1), [k.number(0.0, F32)], body)
    k.at(7).put(1, total, thread)


# Matrix units


ATOM = next(each for each in ATOMS if each.name == "bf16_16x8x16")


@case(
    lambda: [
        random(32, 16, dtype=ml_dtypes.bfloat16),
        random(16, 8, seed=1, dtype=ml_dtypes.bfloat16),
        zeros(32, 8),
    ],
    {
        "half a warp": {("divergent", 6), ("divergent", 4), ("divergent", 5)},
        "no swizzle": {("bank conflict", 2), ("bank conflict", 4)},
        "swizzled on one side": {("out of bounds", 4), ("unwritten", 4)},
        "rows of the wrong pitch": {("out of bounds", 4), ("unwritten", 4)},
        "no barrier": {("race", 5)},
    },
    lambda a, b, out: a.astype(np.float32) @ b.astype(np.float32),
    [buffer("a", 32 * 64, BF16), buffer("b", 16 * 8, BF16, 4096)],
)
def matrices(k, wrong):
    """Rows of a lie 128 bytes apart, their 16-byte chunks swizzled over eight rows."""
    thread, lane, warp = k.at(1).thread(), k.lane(), k.warp()

    def place(row, chunk, reading):
        swizzled = k.map("xor", chunk, k.map("and", row, k.number(7)))
        if wrong == "no swizzle":
            swizzled = chunk
        pitch = k.number(128 if wrong == "rows of the wrong pitch" and reading else 64)
        if wrong == "swizzled on one side" and reading:
            swizzled = k.map("xor", chunk, row)
        return k.add(k.mul(row, pitch), k.mul(swizzled, k.number(8)))

    row, chunk = k.map("shr", thread, k.number(1)), k.map("and", thread, k.number(1))
    source = k.mul(thread, k.number(8))
    k.at(2).keep(0, k.get(0, source, BF16, 8), place(row, chunk, False), 8)

    def fetch_b():
        k.at(3).keep(1, k.get(1, source, BF16, 8), source, 8)

    k.when(k.map("lt", thread, k.number(16)), fetch_b)
    if wrong != "no barrier":
        k.at(8).barrier(0, 64)
    row = k.add(k.mul(warp, k.number(16)), k.map("and", lane, k.number(15)))
    rows = place(row, k.map("shr", lane, k.number(4)), True)

    def multiply():
        a = k.at(4).matrix_load(MatrixAccess(0, 4, False, ONE), rows, BF16)
        of_b = k.mul(k.map("and", lane, k.number(15)), k.number(8))
        b = k.at(5).matrix_load(MatrixAccess(1, 2, True, ONE), of_b, BF16)
        zero = k.emit("pick", (k.number(0.0, F32),), (0, 0, 0, 0), F32, 4)
        return k.at(6).mma(Matrix(ATOM, 1, 1, 1), a, b, zero)

    if wrong == "half a warp":
        k.when(k.map("lt", lane, k.number(16)), lambda: multiply() and None)
    total = multiply()
    row = k.add(k.mul(warp, k.number(16)), k.map("shr", lane, k.number(2)))
    to = k.add(k.mul(row, k.number(8)), k.mul(k.map("and", lane, k.number(3)), k.number(2)))
    k.at(7).store(Access(GLOBAL, 2, 2, ((0, 0), (0, 64))), total, to)


# Roles


@case(
    lambda: [random(8, 32), zeros(32)],
    {
        "waits for each other": {("deadlock", 2), ("deadlock", 6)},
        "too many threads": {("deadlock", 4), ("deadlock", 6)},
        "never frees": {("deadlock", 2), ("deadlock", 6)},
        "frees too early": {("race", 3)},
        "does not wait for free": {("deadlock", 6)},
    },
    lambda a, out: a[:, ::-1].sum(axis=0, dtype=np.float32),
    [buffer("s", 32)],
)
def numbered_barriers(k, wrong):
    """One warp fills a row, the other adds it up: barrier 1 says full, 2 says free."""
    lane = k.at(1).lane()
    threads = 96 if wrong == "too many threads" else 64

    def fill():
        def body(row, carried):
            if wrong != "does not wait for free":
                k.at(2).barrier(2, 64)
            k.at(3).keep(0, k.get(0, k.add(k.mul(row, k.number(32)), lane)), lane)
            k.at(4).barrier(1, threads, arrive=wrong != "too many threads")
            return []

        k.loop(k.number(0), k.number(8), k.number(1), [], body)

    def add():
        if wrong != "waits for each other" and wrong != "does not wait for free":
            k.at(5).barrier(2, 64, arrive=True)

        def body(row, carried):
            k.at(6).barrier(1, threads)
            early = wrong == "frees too early"
            if early:
                k.at(7).barrier(2, 64, arrive=True)
            value = k.at(8).take(0, k.sub(k.number(31), lane))
            if wrong not in ("never frees", "does not wait for free") and not early:
                last = k.map("lt", row, k.number(7))

                def free():
                    k.at(9).barrier(2, 64, arrive=True)
                    return []

                k.branch(last, free, list)
            return [k.add(carried[0], value)]

        (total,) = k.loop(k.number(0), k.number(8), k.number(1), [k.number(0.0, F32)], body)
        k.at(10).put(1, total, lane)

    k.at(1).roles([(Role("filler", 0, 1), fill), (Role("adder", 1, 1), add)])


@case(
    lambda: [random(8, 32), zeros(32)],
    {
        "no order between lanes": {("race", 4)},
        "arrives before writing": {("race", 8)},
        "signal that is not there": {("out of bounds", 7), ("race", 8), ("deadlock", 3)},
        "wrong arrivals": {("deadlock", 3), ("deadlock", 7)},
        "one lane waits for all": {("race", 8)},
    },
    lambda a, out: a[:, ::-1].sum(axis=0, dtype=np.float32),
    [buffer("s", 32)],
    signals=2,
)
def signals_without_bytes(k, wrong):
    """One warp fills a row, the other adds it up: signal 0 says full, 1 says free."""
    lane = k.at(1).lane()
    first = k.map("eq", lane, k.number(0))

    def start():
        k.at(2).signal_init(k.number(0), 33 if wrong == "wrong arrivals" else 32)
        k.at(2).signal_init(k.number(1), 1)

    k.when(k.map("eq", k.thread(), k.number(0)), start)
    k.at(2).barrier(0, 64)

    def fill():
        def body(row, carried):
            parity = k.map("and", row, k.number(1))
            k.at(3).signal_wait(k.number(1), k.map("xor", parity, k.number(1)))
            value = k.get(0, k.add(k.mul(row, k.number(32)), lane))
            if wrong == "arrives before writing":
                k.at(5).signal_arrive(k.number(0))
            k.at(4).keep(0, value, lane)
            if wrong != "arrives before writing":
                k.at(5).signal_arrive(k.number(0))
            return []

        k.loop(k.number(0), k.number(8), k.number(1), [], body)

    def add():
        def body(row, carried):
            parity = k.map("and", row, k.number(1))
            signal = k.number(2 if wrong == "signal that is not there" else 0)
            if wrong == "one lane waits for all":
                k.when(first, lambda: k.at(7).signal_wait(signal, parity))
            else:
                k.at(7).signal_wait(signal, parity)
            value = k.at(8).take(0, k.sub(k.number(31), lane))
            if wrong != "no order between lanes":
                k.at(9).warp_barrier()
            k.when(first, lambda: k.at(10).signal_arrive(k.number(1)))
            return [k.add(carried[0], value)]

        (total,) = k.loop(k.number(0), k.number(8), k.number(1), [k.number(0.0, F32)], body)
        k.at(11).put(1, total, lane)

    k.at(1).roles([(Role("filler", 0, 1), fill), (Role("adder", 1, 1), add)])


@case(
    lambda: [random(4, 3, 32), zeros(3, 32)],
    {
        "nobody begins": {("deadlock", 4)},
        "never passes on": {("deadlock", 4)},
        "passes on too early": {("race", 5)},
    },
    lambda a, out: (a * 2).sum(axis=0, dtype=np.float32),
    [buffer("s", 32)],
    threads=96,
)
def groups_in_a_ring(k, wrong):
    """Three groups of one warp each use the same memory, one after the other."""
    lane, ring = k.at(1).lane(), 3

    def work():
        last = k.map("eq", k.warp(), k.number(ring - 1))
        if wrong != "nobody begins":
            k.when(last, lambda: k.at(2).barrier(8, 64, arrive=True, ring=ring))

        def body(row, carried):
            own = k.add(k.mul(k.add(k.mul(row, k.number(3)), k.warp()), k.number(32)), lane)
            value = k.at(3).get(0, own)
            k.at(4).barrier(8, 64, ring=ring)
            if wrong == "passes on too early":
                k.at(4).barrier(8, 64, arrive=True, ring=ring)
            k.at(5).keep(0, k.add(value, value), lane)
            total = k.add(carried[0], k.at(6).take(0, lane))
            if wrong not in ("never passes on", "passes on too early"):
                k.at(7).barrier(8, 64, arrive=True, ring=ring)
            return [total]

        (total,) = k.loop(k.number(0), k.number(4), k.number(1), [k.number(0.0, F32)], body)
        k.at(8).put(1, total, k.add(k.mul(k.warp(), k.number(32)), lane))

    k.at(1).roles([(Role("worker", 0, 3, groups=3), work)])
