"""Kernels of clusters to break: what workgroups read and write of each other's memory."""

import numpy as np
from fault_cases import case, zeros
from small_writers import ONE, buffer, random

from gizml_tile.dtypes import F32
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access, Role

FIRST = Access(WORKGROUP, 0, 1, ONE)


def place(k):
    """A thread's element of the tensors: by its workgroup, then its number."""
    return k.add(k.mul(k.workgroup(), k.number(64)), k.thread())


def neighbour(k):
    return k.map("xor", k.rank(), k.number(1))


@case(
    lambda: [random(8, 64), zeros(8, 64)],
    {
        "no barrier before reading": {("race", 4)},
        "no barrier before the end": {("race", 4)},
        "barrier of the workgroup": {("race", 4)},
        "no such rank": {("out of bounds", 4)},
        "half is never written": {("unwritten", 4)},
        "writes while others read": {("race", 5)},
    },
    lambda a, out: a[:, ::-1].reshape(4, 2, 64)[:, ::-1].reshape(8, 64),
    [buffer("s", 64)],
    grid=(4,),
    cluster=2,
)
def exchanges(k, wrong):
    """Each workgroup reads what its neighbour has, in the other direction."""
    thread = k.at(1).thread()
    value = k.get(0, place(k))
    mask = k.map("lt", thread, k.number(32)) if wrong == "half is never written" else None
    k.at(2).keep(0, value, thread, mask=mask)
    if wrong == "barrier of the workgroup":
        k.at(3).barrier(0, 64)
    elif wrong != "no barrier before reading":
        k.at(3).cluster_barrier()
    whose = k.number(2) if wrong == "no such rank" else neighbour(k)
    value = k.at(4).remote_load(FIRST, k.sub(k.number(63), thread), whose, F32)
    if wrong == "writes while others read":
        k.at(5).keep(0, value, thread)
    if wrong != "no barrier before the end":
        k.at(6).cluster_barrier()
    k.at(7).put(1, value, place(k))


@case(
    lambda: [random(8, 64), zeros(8, 64)],
    {
        "the other may not have begun": {("race", 3)},
        "no barrier before reading": {("race", 5)},
        "its owner uses it": {("race", 3)},
    },
    lambda a, out: a.reshape(2, 4, 64)[:, ::-1].reshape(8, 64),
    [buffer("s", 64)],
    grid=(2,),
    cluster=4,
)
def gives(k, wrong):
    """Each workgroup writes to the memory of the one that counts from the other end."""
    thread = k.at(1).thread()
    if wrong != "the other may not have begun":
        k.cluster_barrier()
    if wrong == "its owner uses it":
        k.at(2).keep(0, k.get(0, place(k)), thread)
    k.at(3).remote_store(FIRST, k.get(0, place(k)), thread, k.sub(k.number(3), k.rank()))
    if wrong != "no barrier before reading":
        k.at(4).cluster_barrier()
    k.at(5).put(1, k.take(0, thread), place(k))
    k.cluster_barrier()


@case(
    lambda: [random(4, 64), zeros(4, 64)],
    {
        "one workgroup waits longer": {("deadlock", 3)},
        "half of a role comes": {("divergent barrier", 3)},
    },
    lambda a, out: np.float32(2) * a.reshape(2, 2, 64)[:, ::-1].reshape(4, 64),
    [buffer("s", 64)],
    grid=(2,),
    cluster=2,
    threads=96,
)
def beside_others(k, wrong):
    """Warps that have ended are not waited for."""

    def work():
        thread = k.at(1).thread()
        k.at(2).keep(0, k.get(0, place(k)), thread)
        k.barrier(1, 64)
        if wrong == "half of a role comes":
            k.when(k.map("lt", thread, k.number(32)), lambda: k.at(3).cluster_barrier())
        else:
            k.at(3).cluster_barrier()
        value = k.at(4).remote_load(FIRST, thread, neighbour(k), F32)
        k.at(5).cluster_barrier()
        if wrong == "one workgroup waits longer":
            first = k.map("eq", k.rank(), k.number(0))
            k.when(first, lambda: k.at(3).cluster_barrier())
        k.at(6).put(1, k.add(value, value), place(k))

    def idle():
        k.at(7).thread()

    k.roles([(Role("work", 0, 2), work), (Role("idle", 2, 1), idle)])


@case(
    lambda: [random(8, 64), zeros(8, 64)],
    {
        "not begun": {("race", 5)},
        "does not wait": {("in flight", 8)},
        "waits for too little": {("deadlock", 7)},
        "waits for too much": {("deadlock", 7)},
        "signal of nobody": {("unwritten", 5), ("deadlock", 7)},
        "its owner uses it": {("race", 5)},
        "one begins not": {("deadlock", 4)},
    },
    lambda a, out: a.reshape(4, 2, 64)[:, ::-1].reshape(8, 64),
    [buffer("s", 64)],
    grid=(4,),
    cluster=2,
    signals=2,
)
def sends(k, wrong):
    """Each workgroup sends to its neighbour, which waits for the bytes."""
    thread = k.at(1).thread()
    zero = k.number(0)
    bytes = {"waits for too little": 128, "waits for too much": 512}.get(wrong, 256)

    def prepare():
        k.at(2).signal_init(zero, 1)
        k.signal_expect(zero, bytes)

    k.when(k.map("eq", thread, zero), prepare)
    k.at(3).barrier(0, 64)
    if wrong == "its owner uses it":
        k.at(3).keep(0, k.get(0, place(k)), thread)
    begins = k.map("eq", k.rank(), zero) if wrong == "one begins not" else None
    k.when(begins, lambda: k.emit("cluster_begin"))
    if wrong != "not begun":
        k.at(4).emit("cluster_begun")
    signal = k.number(1 if wrong == "signal of nobody" else 0)
    k.at(5).remote_send(FIRST, k.get(0, place(k)), thread, neighbour(k), signal)
    if wrong != "does not wait":
        k.at(7).signal_wait(zero, zero)
    k.at(8).put(1, k.take(0, thread), place(k))
