"""Programs that workgroups of a cluster share: turns of a loop by each, and their sums together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

from gizml_tile.dtypes import F32, I32, I64
from gizml_tile.lowering.expand.carried import define_results
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.kernel_ir.builder import Value
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access
from gizml_tile.lowering.planning.plan import Cluster
from gizml_tile.nodes import Const, Node

# Registers that one access moves.
_VECTOR = 4


def cluster_of(x: Expansion) -> Cluster | None:
    """The cluster that shares each program, if one does."""
    return None if x.plan.specialised is None else x.plan.specialised.cluster


def is_shared(x: Expansion, loop: Node) -> bool:
    """Whether workgroups share a loop's turns."""
    cluster = cluster_of(x)
    return cluster is not None and loop is cluster.loop


def turns_of(x: Expansion, loop: Node) -> tuple[Value, Value, Value]:
    """The start, stop and step of a loop's turns that this workgroup takes."""
    build, cluster = x.build, cluster_of(x)
    start, stop, step = (x.index(arg) for arg in loop.args[:3])
    if cluster is None or loop is not cluster.loop:
        return start, stop, step
    first = build.mul(build.convert(build.rank(), I64), step)
    return build.add(start, first), stop, build.mul(step, build.constant(cluster.size, I64))


def first_alone(x: Expansion, loop: Node, inits: Sequence[Value]) -> list[Value]:
    """What a loop's sums begin with: of the first workgroup what the program says, of others zeros."""
    if not is_shared(x, loop):
        return list(inits)
    build = x.build
    first = build.map("eq", build.rank(), build.constant(0, I32))
    found = []
    for node, value in zip(loop.args[3:], inits, strict=True):
        if not (isinstance(node.attr, Const) and node.op == "const" and node.attr.value == 0):
            assert value.dtype is not None
            value = build.select(first, value, build.constant(0, value.dtype))
        found.append(value)
    return found


def prepare_cluster(x: Expansion, cluster: Cluster) -> None:
    """Set up the barrier that counts the bytes of sums which come; by one thread."""
    signal = _signal(x)
    x.build.signal_init(signal, 1)
    x.build.signal_expect(signal, cluster.received_bytes(x.plan.threads))


def open_sums(x: Expansion) -> None:
    """The memory for sums that come from other workgroups."""
    cluster = cluster_of(x)
    if cluster is not None:
        elements = cluster.received * x.plan.threads
        x.sums = x.memory.allocate("sums of other workgroups", F32, elements)


def add_columns(x: Expansion, loop: Node, sums: Sequence[Value]) -> None:
    """Send each other workgroup its columns of this one's sums, and add up one's own.

    The registers of the results repeat: those of the first columns stand for the workgroup's own.
    """
    build, cluster = x.build, cluster_of(x)
    assert cluster is not None
    value = _joined(x, sums)
    size, each = cluster.size, [value.count // cluster.size for value in sums]

    def part(rank: int) -> Value:
        """The columns of a workgroup, of all sums."""
        pieces: list[int] = []
        start = 0
        for count, whole in zip(each, sums, strict=True):
            pieces += range(start + rank * count, start + (rank + 1) * count)
            start += whole.count
        return build.pick(value, pieces)

    def give(rank: int) -> list[Value]:
        for other in range(size):
            if other != rank:
                _send(x, part(other), (other - rank - 1) % size, build.constant(other, I32))
        return [part(rank)]

    def choose(rank: int) -> Sequence[Value]:
        if rank == size - 1:
            return give(rank)
        mine = build.map("eq", build.rank(), build.constant(rank, I32))
        return build.branch(mine, lambda: give(rank), lambda: choose(rank + 1))

    (own,) = choose(0)
    total = _added(x, own)
    finals, start = [], 0
    for count, whole in zip(each, sums, strict=True):
        finals.append(build.pick(total, [start + number % count for number in range(whole.count)]))
        start += count
    define_results(x, loop, _typed(x, finals, sums))


def add_first(x: Expansion, loop: Node, sums: Sequence[Value], rest: Callable[[], None]) -> None:
    """Send all sums to the first workgroup, which adds them up and does the ``rest``."""
    build, cluster = x.build, cluster_of(x)
    assert cluster is not None
    value = _joined(x, sums)

    def gather() -> Sequence[Value]:
        with x.block():
            total, finals, start = _added(x, value), [], 0
            for whole in sums:
                finals.append(build.pick(total, range(start, start + whole.count)))
                start += whole.count
            define_results(x, loop, _typed(x, finals, sums))
            rest()
        return []

    def give() -> Sequence[Value]:
        # One after the other: the number of the one that sends tells where.
        for rank in range(1, cluster.size):
            mine = build.map("eq", build.rank(), build.constant(rank, I32))
            build.branch(mine, partial(_given, x, value, rank - 1), list)
        return []

    # Those that send come first, where the workgroups of a cluster are simulated in step.
    build.branch(build.map("ne", build.rank(), build.constant(0, I32)), give, gather)


def _given(x: Expansion, value: Value, slot: int) -> list[Value]:
    _send(x, value, slot, x.build.constant(0, I32))
    return []


def parts_of_columns(x: Expansion) -> int:
    """How many workgroups share a tile's columns."""
    cluster = cluster_of(x)
    return cluster.size if cluster is not None and cluster.columns else 1


def columns_further(x: Expansion, columns: int) -> Value:
    """How many columns a workgroup's own part of a tile lies further right, an I32."""
    parts = parts_of_columns(x)
    if parts == 1:
        return x.build.constant(0, I32)
    return x.build.mul(x.build.rank(), x.build.constant(columns // parts, I32))


def _signal(x: Expansion) -> Value:
    """The last transaction barrier."""
    return x.build.constant(x.plan.signals - 1, I32)


def _joined(x: Expansion, sums: Sequence[Value]) -> Value:
    """All sums as bits of F32s."""
    return x.build.join([x.build.bitcast(value, F32) for value in sums])


def _typed(x: Expansion, finals: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
    typed = []
    for final, value in zip(finals, sums, strict=True):
        assert value.dtype is not None
        typed.append(x.build.bitcast(final, value.dtype))
    return typed


def _access(x: Expansion, count: int, slot: int) -> tuple[Access, Value]:
    """Where a thread's registers lie in a slot of the memory: neighbours' vectors beside each other."""
    assert x.sums is not None
    width = _VECTOR if count % _VECTOR == 0 else 1
    threads = x.plan.threads
    places = tuple((0, (slot * count + first) * threads) for first in range(0, count, width))
    offsets = x.build.mul(x.build.thread(), x.build.constant(width, I32))
    return Access(WORKGROUP, x.sums, width, places), offsets


def _send(x: Expansion, value: Value, slot: int, rank: Value) -> None:
    access, offsets = _access(x, value.count, slot)
    x.build.remote_send(access, value, offsets, rank, _signal(x))


def _added(x: Expansion, own: Value) -> Value:
    """A workgroup's own sums and those that others sent, in the order of their slots."""
    build, cluster = x.build, cluster_of(x)
    assert cluster is not None
    build.signal_wait(_signal(x), build.constant(0, I32))
    sent = []
    for slot in range(cluster.size - 1):
        access, offsets = _access(x, own.count, slot)
        sent.append(build.load(access, offsets, F32))
    return reduce(build.add, sent, own)
