"""Small kernels to break: barriers, tensors, vectors and uniformity."""

import numpy as np
from fault_cases import case, zeros
from small_writers import ONE, buffer, random

from gizml_tile.dtypes import F32, I32
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access

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
    lambda: [np.arange(128, dtype=np.int32) % 8, np.zeros(8, np.int32)],
    {
        "no barrier after clearing": {("race", 3)},
        "not cleared": {("unwritten", 3)},
        "no barrier before looking": {("race", 5)},
        "plain additions": {("race", 3)},
        "another bin": {("out of bounds", 3)},
    },
    lambda a, out: np.full(8, 16, np.int32),
    [buffer("counts", 8, I32)],
    threads=128,
)
def counts(k, wrong):
    """All threads add to a few numbers at once."""
    thread, one = k.at(1).thread(), k.number(1)
    first = k.map("lt", thread, k.number(8))
    bin = k.get(0, thread, I32)
    if wrong != "not cleared":
        k.at(2).keep(0, k.number(0), thread, mask=first)
    if wrong != "no barrier after clearing":
        k.barrier(0, 128)
    bin = k.add(bin, one) if wrong == "another bin" else bin
    if wrong == "plain additions":
        k.at(3).keep(0, k.add(k.take(0, bin, I32), one), bin)
    else:
        k.at(3).atomic(Access(WORKGROUP, 0, 1, ONE, combine="add"), one, bin)
    if wrong != "no barrier before looking":
        k.at(4).barrier(0, 128)
    found = k.at(5).take(0, thread, I32, mask=first)
    k.at(6).put(1, found, thread, mask=first)


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
