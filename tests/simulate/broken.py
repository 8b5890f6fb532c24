"""Small kernels that are right, each with the ways to break it and what must be found then.

A kernel writes itself with ``wrong`` naming its fault, or None. A case lists the faults, each with the
kinds and lines that the simulator must report: these, and no others.
"""

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from kernels import ONE, buffer, random

from gizml_tile.dtypes import BF16, F32
from gizml_tile.lowering.atoms import ATOMS
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    WORKGROUP,
    Access,
    Copy,
    Matrix,
    MatrixAccess,
    Role,
)


@dataclass(frozen=True)
class Case:
    """A kernel, its launch, what it must compute, and its faults."""

    name: str
    write: object
    arrays: object
    faults: dict
    expected: object
    buffers: tuple = ()
    launch: dict = field(default_factory=dict)


CASES = []


def case(arrays, faults, expected, buffers=(), **launch):
    """Registers ``write(k, wrong)`` as a case."""

    def register(write):
        CASES.append(Case(write.__name__, write, arrays, faults, expected, tuple(buffers), launch))
        return write

    return register


def zeros(*shape):
    return np.zeros(shape, np.float32)


# Barriers


@case(
    lambda: [random(128), zeros(128)],
    {
        "no barrier": {("race", 4)},
        "barrier of half the threads": {("divergent barrier", 3), ("race", 4)},
        "barrier under when": {("divergent barrier", 3), ("race", 4)},
        "overlapping buffers": {("race", 5)},
        "index too large": {("out of bounds", 4)},
        "negative index": {("out of bounds", 2), ("unwritten", 4)},
        "half is never written": {("unwritten", 4)},
    },
    lambda a, out: a[::-1],
    [buffer("s", 128), buffer("t", 128, offset=512)],
    threads=128,
)
def reverses(k, wrong):
    """Through workgroup memory."""
    thread = k.at(1).thread()
    value = k.get(0, thread)
    place = k.sub(thread, k.number(1)) if wrong == "negative index" else thread
    mask = k.map("lt", thread, k.number(64)) if wrong == "half is never written" else None
    k.at(2).keep(0, value, place, mask=mask)
    half = k.map("lt", thread, k.number(64))
    if wrong == "barrier under when":
        k.when(half, lambda: k.at(3).barrier(0, 128))
    elif wrong == "barrier of half the threads":
        k.when(half, lambda: k.at(3).barrier(1, 64))
        k.when(k.map("not", half), lambda: k.at(3).barrier(2, 32))
    elif wrong != "no barrier":
        k.at(3).barrier(0, 128)
    last = k.number(128 if wrong == "index too large" else 127)
    value = k.at(4).take(0, k.sub(last, thread))
    if wrong == "overlapping buffers":
        k.at(5).store(Access(WORKGROUP, 0, 1, ONE), value, thread)
    k.at(6).put(1, value, thread)


@case(
    lambda: [random(4, 64), zeros(64)],
    {
        "no barrier before the next round": {("race", 3)},
        "no barrier after writing": {("race", 5)},
    },
    lambda a, out: a[:, ::-1].sum(axis=0, dtype=np.float32),
    [buffer("s", 64)],
)
def rounds(k, wrong):
    """A buffer that is used again and again."""
    thread = k.at(1).thread()

    def body(number, carried):
        value = k.at(2).get(0, k.add(k.mul(number, k.number(64)), thread))
        k.at(3).keep(0, value, thread)
        if wrong != "no barrier after writing":
            k.at(4).barrier(0, 64)
        value = k.at(5).take(0, k.sub(k.number(63), thread))
        if wrong != "no barrier before the next round":
            k.at(6).barrier(0, 64)
        return [k.add(carried[0], value)]

    (total,) = k.loop(k.number(0), k.number(4), k.number(1), [k.number(0.0, F32)], body)
    k.at(7).put(1, total, thread)


@case(
    lambda: [random(64), zeros(64)],
    {
        "buffers overlap": {("race", 3)},
        "buffers overlap by two elements": {("race", 3)},
    },
    lambda a, out: a[::-1] + a,
    # The test moves the second buffer.
    [buffer("s", 64), buffer("t", 64, offset=256)],
)
def two_buffers(k, wrong):
    """Written in the same round."""
    thread = k.at(1).thread()
    value = k.get(0, thread)
    k.at(2).keep(0, value, thread)
    k.at(3).keep(1, value, k.sub(k.number(63), thread))
    k.at(4).barrier(0, 64)
    k.at(5).put(1, k.add(k.take(0, thread), k.take(1, thread)), thread)


@case(
    lambda: [random(64), zeros(64)],
    {
        "no barrier": {("race", 4)},
        "every thread writes": {("race", 2), ("race", 3)},
        "shuffle under when": {("divergent", 7)},
    },
    lambda a, out: np.full(64, a.reshape(2, 32).max(axis=1).sum(), np.float32),
    [buffer("s", 2)],
)
def sums_of_warps(k, wrong):
    """The first lane of each warp leaves the warp's maximum for all."""
    thread, lane = k.at(1).thread(), k.lane()
    value = k.get(0, thread)

    def largest(value):
        for distance in (16, 8, 4, 2, 1):
            value = k.map("max", value, k.at(7).shuffle_xor(value, distance))
        return value

    if wrong == "shuffle under when":
        k.when(k.map("lt", lane, k.number(16)), lambda: largest(value))
    best = largest(value)
    if wrong == "every thread writes":
        k.at(2).keep(0, value, k.warp())
    k.when(k.map("eq", lane, k.number(0)), lambda: k.at(3).keep(0, best, k.warp()))
    if wrong != "no barrier":
        k.at(5).barrier(0, 64)
    k.at(4)
    both = k.load(Access(WORKGROUP, 0, 2, ONE), k.number(0), F32)
    k.at(6).put(1, k.add(k.pick(both, [0]), k.pick(both, [1])), thread)


@case(
    lambda: [random(32), zeros(32)],
    {"no warp barrier": {("race", 4)}},
    lambda a, out: a[::-1],
    [buffer("s", 32)],
    threads=32,
)
def inside_a_warp(k, wrong):
    """A warp needs no barrier of the workgroup, but one."""
    lane = k.at(1).lane()
    k.at(2).keep(0, k.get(0, lane), lane)
    if wrong != "no warp barrier":
        k.at(3).warp_barrier()
    k.at(5).put(1, k.at(4).take(0, k.sub(k.number(31), lane)), lane)


# Global memory


@case(
    lambda: [random(1000), zeros(1000)],
    {
        "no mask": {("out of bounds", 2), ("out of bounds", 3)},
        "no mask on the store": {("out of bounds", 3)},
        "stride of workgroups too small": {("race", 3)},
    },
    lambda a, out: 2 * a,
    grid=(16,),
)
def doubles(k, wrong):
    """1000 elements by 64 threads."""
    step = 63 if wrong == "stride of workgroups too small" else 64
    i = k.at(1).add(k.mul(k.workgroup(), k.number(step)), k.thread())
    inside = k.map("lt", i, k.number(1000))
    value = k.at(2).get(0, i, mask=None if wrong == "no mask" else inside)
    if wrong == "stride of workgroups too small":
        value = k.add(value, k.convert(k.workgroup(), F32))
    k.at(3).put(
        1, k.add(value, value), i, mask=inside if wrong in (None, "stride of workgroups too small") else None
    )


@case(
    lambda: [random(512)],
    {
        "reads what another workgroup writes": {("race", 3)},
        "reads what another thread writes": {("race", 3)},
    },
    lambda a: -a,
    grid=(8,),
)
def in_place(k, wrong):
    i = k.at(1).add(k.mul(k.workgroup(), k.number(64)), k.thread())
    source = i
    if wrong == "reads what another workgroup writes":
        source = k.map("xor", i, k.number(64))
    if wrong == "reads what another thread writes":
        source = k.map("xor", i, k.number(1))
    value = k.at(2).get(0, source)
    k.at(3).put(0, k.map("neg", value), i)


@case(
    lambda: [random(4096), zeros(4096)],
    {
        "misaligned load": {("misaligned", 2)},
        "misaligned store": {("misaligned", 3), ("out of bounds", 3)},
        "misaligned in workgroup memory": {("misaligned", 5), ("misaligned", 6)},
        "strided": {("uncoalesced", 7)},
        "conflicts": {("bank conflict", 9)},
    },
    lambda a, out: a,
    [buffer("s", 64 * 4 + 4), buffer("c", 64 * 32, offset=2048)],
    grid=(16,),
)
def vectors(k, wrong):
    """Four elements at a time."""
    thread = k.at(1).thread()
    first = k.add(k.mul(k.workgroup(), k.number(256)), k.mul(thread, k.number(4)))
    odd = k.number(1)
    source = first
    if wrong == "misaligned load":
        source = k.map("max", k.sub(first, odd), k.number(0))
    value = k.at(2).get(0, source, width=4)
    if wrong == "misaligned in workgroup memory":
        place = k.add(k.mul(thread, k.number(4)), odd)
        k.at(5).keep(0, value, place, width=4)
        value = k.at(6).take(0, place, width=4)
    if wrong == "strided":
        k.at(7).get(0, k.mul(thread, k.number(32)))
    if wrong == "conflicts":
        k.at(9).keep(1, k.pick(value, [0]), k.mul(thread, k.number(32)))
    to = k.add(first, odd) if wrong == "misaligned store" else first
    k.at(3).put(1, value, to, width=4)


# Uniformity


@case(
    lambda: [random(64), zeros(64)],
    {
        "bounds differ in a workgroup": {("divergent", 2)},
        "barrier in a loop that some leave": {("divergent", 2), ("divergent barrier", 3)},
        "the branch differs": {("divergent", 5)},
    },
    lambda a, out: 3 * a,
)
def loops(k, wrong):
    thread = k.at(1).thread()
    value = k.get(0, thread)
    differs = wrong in ("bounds differ in a workgroup", "barrier in a loop that some leave")
    stop = k.map("and", thread, k.number(3)) if differs else k.number(2)

    def body(number, carried):
        if wrong == "barrier in a loop that some leave":
            k.at(3).barrier(0, 64)
        return [k.at(2).add(carried[0], value)]

    (total,) = k.at(2).loop(k.number(0), stop, k.number(1), [k.at(2).add(value, k.number(0.0, F32))], body)
    condition = k.map("lt", thread if wrong == "the branch differs" else k.workgroup(), k.number(7))
    k.at(5)
    (total,) = k.branch(condition, lambda: [total], lambda: [value])
    k.at(6).put(1, total, thread)


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
