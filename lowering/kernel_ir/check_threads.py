"""The rules of what threads do together: barriers, exchanges, matrix units."""

from __future__ import annotations

from gizml_tile.dtypes import F32, F64, I32
from gizml_tile.lowering.kernel_ir.check_values import Rule, expect, operands
from gizml_tile.lowering.kernel_ir.instructions import (
    Barrier,
    GroupMatrix,
    Instruction,
    Kernel,
    Matrix,
    Signal,
)

# Four warps work together on an asynchronous product of 64 rows.
_GROUP_THREADS, _GROUP_ROWS = 128, 64


def _effect(ability: str = "") -> Rule:
    """An instruction without operands, value and attribute."""

    def rule(i: Instruction, kernel: Kernel) -> None:
        operands(i, 0)
        expect(i, None)
        assert i.attr is None, f"{i}: {i.attr!r}"
        assert not ability or kernel.target.can(ability), f"{kernel.target} has no {i.op}"

    return rule


def _barrier(i: Instruction, kernel: Kernel) -> None:
    operands(i, 0)
    expect(i, None)
    assert isinstance(i.attr, Barrier), f"{i}: {i.attr!r}"
    assert 0 <= i.attr.number < 16, f"{i}: number {i.attr.number}"
    lanes, threads = kernel.target.facts.lanes, i.attr.threads
    assert threads % lanes == 0 and 0 < threads <= kernel.threads, f"{i}: {threads} threads"
    if i.attr.ring:
        assert not i.attr.each and threads % (2 * lanes) == 0, f"{i}: a ring of {threads} threads"
        assert 2 <= i.attr.ring <= 16 - i.attr.number, f"{i}: a ring of {i.attr.ring}"


def _shuffle(i: Instruction, kernel: Kernel) -> None:
    operands(i, 1, 2)
    value, *lane = i.args
    if lane:
        assert i.attr is None, f"{i}: {i.attr!r} with a lane"
        assert lane[0].dtype is I32 and lane[0].count in (1, value.count), f"{i}: lane {lane[0]}"
    else:
        lanes = kernel.target.facts.lanes
        assert type(i.attr) is int and 0 < i.attr < lanes, f"{i}: {i.attr!r}"
    expect(i, value.dtype, value.count)


def _mma(i: Instruction, kernel: Kernel) -> None:
    operands(i, 3)
    matrix = i.attr
    assert isinstance(matrix, Matrix), f"{i}: {matrix!r}"
    atom, m, n, k = matrix.atom, matrix.m, matrix.n, matrix.k
    assert kernel.target.can(atom.needs), f"{kernel.target} has no {atom.name}"
    wanted = (
        (atom.a_dtype, m * k * atom.a.size("register")),
        (atom.b_dtype, k * n * atom.b.size("register")),
        (atom.c_dtype, m * n * atom.c.size("register")),
    )
    for arg, (dtype, count) in zip(i.args, wanted, strict=True):
        assert (arg.dtype, arg.count) == (dtype, count), f"{i}: {arg} for {dtype} x {count}"
    expect(i, *wanted[2])


def _outer(i: Instruction, kernel: Kernel) -> None:
    operands(i, 3)
    a, b, c = i.args
    assert i.attr is None, f"{i}: {i.attr!r}"
    assert a.dtype is b.dtype is c.dtype and c.dtype in (F32, F64, I32), f"{i} of {list(i.args)}"
    assert c.count == a.count * b.count, f"{i} of {list(i.args)}"
    expect(i, c.dtype, c.count)


def _signal(*, arguments: int = 1) -> Rule:
    def rule(i: Instruction, kernel: Kernel) -> None:
        operands(i, arguments)
        expect(i, None)
        assert kernel.target.can("bulk"), f"{kernel.target} has no {i.op}"
        assert kernel.signals > 0, f"{i} in a kernel without signals"
        for arg in i.args:
            assert arg.dtype is I32 and arg.count == 1, f"{i}: {arg}"
        if i.op == "signal_init":
            assert isinstance(i.attr, Signal) and i.attr.arrivals > 0, f"{i}: {i.attr!r}"
        elif i.op == "signal_expect":
            assert type(i.attr) is int and i.attr > 0, f"{i}: {i.attr!r} bytes"
        else:
            assert i.attr is None, f"{i}: {i.attr!r}"

    return rule


def _group_wait(i: Instruction, kernel: Kernel) -> None:
    operands(i, 0)
    expect(i, None)
    assert kernel.target.can("group_matrix"), f"{kernel.target} has no {i.op}"
    assert type(i.attr) is int and i.attr >= 0, f"{i}: {i.attr!r} groups"


def _group_mma(i: Instruction, kernel: Kernel) -> None:
    operands(i, 3)
    matrix = i.attr
    a, b, c = i.args
    assert isinstance(matrix, GroupMatrix), f"{i}: {matrix!r}"
    assert kernel.target.can("group_matrix"), f"{kernel.target} has no {i.op}"
    assert matrix.n % 8 == 0 and 8 <= matrix.n <= 256, f"{i}: n {matrix.n}"
    assert matrix.m >= 1, f"{i}: m {matrix.m}"
    left, right = matrix.dtypes
    assert left.bytes == right.bytes and left.is_float == right.is_float, f"{i}: {left} and {right}"
    if matrix.a is None:
        count = _GROUP_ROWS * matrix.m * matrix.k // _GROUP_THREADS
        assert (a.dtype, a.count) == (left, count), f"{i}: {a} for {left} x {count}"
    else:
        assert a.dtype is I32 and a.count == 1, f"{i}: offset {a}"
    assert b.dtype is I32 and b.count == 1, f"{i}: offset {b}"
    for operand in (matrix.a, matrix.b):
        assert operand is None or 0 <= operand.buffer < len(kernel.buffers), f"{i}: {operand}"
    count = _GROUP_ROWS * matrix.m * matrix.n // _GROUP_THREADS
    dtype = F32 if left.is_float else I32
    assert (c.dtype, c.count) == (dtype, count), f"{i}: {c} for {dtype} x {count}"
    expect(i, dtype, count)


def _registers(i: Instruction, kernel: Kernel) -> None:
    operands(i, 0)
    expect(i, None)
    assert isinstance(i.attr, tuple) and len(i.attr) == 2, f"{i}: {i.attr!r}"
    count, more = i.attr
    assert type(count) is int and type(more) is bool, f"{i}: {i.attr!r}"
    # The unit hands registers out in eights.
    assert count % 8 == 0 and 24 <= count <= 256, f"{i}: {count} registers"


RULES: dict[str, Rule] = {
    "barrier": _barrier,
    "warp_barrier": _effect(),
    "copy_commit": _effect("copy"),
    "shuffle": _shuffle,
    "mma": _mma,
    "outer": _outer,
    **{op: _signal() for op in ("signal_init", "signal_expect", "signal_arrive")},
    "signal_wait": _signal(arguments=2),
    "bulk_commit": _effect("bulk"),
    "fence_async": _effect("bulk"),
    "kernel_wait": _effect("bulk"),
    **{op: _effect("group_matrix") for op in ("group_fence", "group_commit")},
    "group_wait": _group_wait,
    "group_mma": _group_mma,
    "registers": _registers,
    **{op: _effect("cluster") for op in ("cluster_barrier", "cluster_begin", "cluster_begun")},
}
