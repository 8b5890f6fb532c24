"""The rules of the kernel IR: every broken one is told."""

import re
from dataclasses import replace

import pytest

from gizml_tile.dtypes import BF16, F16, F32, FP8, I8, I32, I64, MASK
from gizml_tile.lowering.atoms import ATOMS
from gizml_tile.lowering.kernel_ir import check_memory, check_threads, check_values
from gizml_tile.lowering.kernel_ir import instructions as kernel_ir
from gizml_tile.lowering.kernel_ir.builder import Builder
from gizml_tile.lowering.kernel_ir.check import RULES, check
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    WORKGROUP,
    Access,
    Barrier,
    Block,
    Buffer,
    Bulk,
    BulkWait,
    Copy,
    GroupMatrix,
    Instruction,
    Kernel,
    Matrix,
    MatrixAccess,
    Operand,
    Parameter,
    Role,
    Signal,
)
from gizml_tile.nodes import Tensor
from gizml_tile.target import Target

TENSORS = (Tensor("a", F16, 2), Tensor("out", F32, 1), Tensor("mask", MASK, 1))
BUFFERS = (Buffer("stage", F16, 1024), Buffer("sums", F32, 64, 2048))
ONE = ((0, 0),)


def kernel(write, arch="sm_90a", **more):
    build = Builder()
    write(build)
    parameters = (Parameter("pointer", 0), Parameter("scalar", 0))
    cluster = 2 if Target("cuda", arch).can("cluster") else 1
    made = Kernel("k", Target("cuda", arch), TENSORS, parameters, BUFFERS, 128, build.body(), 1, 1)
    made = replace(made, cluster=cluster)
    return replace(made, **more)


def value(b, dtype, count=1):
    """Some value of a type that is no constant."""
    if dtype is MASK:
        return b.emit("pick", (b.map("lt", b.thread(), b.lane()),), (0,) * count, MASK, count)
    x = b.emit("pick", (b.thread(),), (0,) * count, I32, count)
    if dtype is I32:
        return x
    if dtype.is_integer or dtype is F32:
        return b.convert(x, dtype)
    return b.convert(b.convert(x, F32), dtype)


def whole(b):
    """One of every kind of instruction, in order."""
    thread, zero, one = b.thread(), b.constant(0, I32), b.constant(1, I32)
    b.lane(), b.warp(), b.workgroup(), b.workgroups(0), b.rank()
    b.parameter(Parameter("pointer", 0)), b.parameter(Parameter("scalar", 0), F32)
    x, y, mask = value(b, F32, 4), value(b, I64, 4), value(b, MASK)
    for op in ("neg", "abs", "sqrt", "exp2", "log2", "reciprocal", "rsqrt", "tanh", "sin", "cos"):
        b.map(op, x)
    for op in "add sub mul div min max minimum maximum lt le gt ge eq ne".split():
        b.map(op, x, x)
    for op in ("rem", "and", "or", "xor", "shl", "shr", "ushr"):
        b.map(op, y, y)
    b.map("popcount", y), b.map("clz", thread)
    b.map("high", thread, thread), b.map("not", y), b.fma(x, x, x), b.select(mask, x, x)
    b.join([x, b.bitcast(b.bitcast(x, I32), F32)]), b.again(x, thread)
    halves = b.load(Access(GLOBAL, 0, 8, ONE), thread, F16)
    b.store(Access(WORKGROUP, 0, 8, ONE), halves, zero, mask)
    b.atomic(Access(GLOBAL, 1, 2, ONE, combine="add"), b.pick(x, (0, 1)), thread, mask)
    b.update(Access(GLOBAL, 1, 1, ONE), F32, thread, lambda old: b.map("max", old, b.pick(x, (0,))), mask)
    b.matrix_store(MatrixAccess(0, 4, False, ONE), halves, thread)
    b.matrix_load(MatrixAccess(0, 4, True, ONE), thread, F16)
    b.copy(Copy(0, 0, 8, ONE, ONE), thread, thread, mask), b.copy_commit(), b.copy_wait(0)
    b.remote_store(Access(WORKGROUP, 0, 8, ONE), halves, zero, b.rank(), mask)
    b.remote_load(Access(WORKGROUP, 0, 8, ONE), zero, b.rank(), F16)
    b.remote_send(Access(WORKGROUP, 0, 8, ONE), halves, zero, b.rank(), zero)
    b.cluster_barrier(), b.barrier(0, 128), b.warp_barrier(), b.shuffle_xor(x, 1), b.shuffle(x, thread)
    c = value(b, F32, 4)
    b.mma(Matrix(ATOMS[0], 1, 1, 1), halves, b.pick(halves, range(4)), c)
    b.outer(b.pick(x, (0, 1)), b.pick(x, (0, 1)), c)
    b.signal_init(zero, 1), b.signal_expect(zero, 16), b.signal_arrive(zero), b.signal_wait(zero, one)
    b.bulk_load(Bulk(0, 0, (8, 8), 0), zero, (zero, zero), zero)
    b.bulk_store(Bulk(0, 0, (8, 8), 0), zero, (zero, zero)), b.bulk_commit()
    b.bulk_wait(0, reading=True)
    effects = "fence_async kernel_wait group_fence group_commit cluster_begin cluster_begun"
    for op in effects.split():
        b.emit(op)
    b.emit("group_wait", attr=0)
    operand = Operand(0, 128, 16, 1024)
    b.group_mma(GroupMatrix(8, 16, (F16, F16), operand, operand), zero, zero, c)
    b.group_mma(GroupMatrix(8, 16, (F16, F16), None, operand), halves, zero, c)
    b.loop(zero, one, one, [x], lambda k, carried: [b.add(carried[0], x)])
    b.branch(mask, lambda: [x], lambda: [c])
    b.when(mask, b.warp_barrier)
    b.roles([(Role("first", 0, 1), lambda: b.emit("registers", attr=(40, False)))])


def test_every_operation_has_a_rule_and_passes_it():
    made = kernel(whole)
    check(made)
    assert {each.op for each in made.body.walk()} | {"param"} == set(RULES)
    named = kernel_ir.LEAVES | kernel_ir.ELEMENTWISE | kernel_ir.ORDERED | kernel_ir.STRUCTURED
    assert named | {"pick", "join", "outer", "result"} == set(RULES)
    parts = (check_values.RULES, check_memory.RULES, check_threads.RULES)
    assert sum(map(len, parts)) == len(set().union(*parts))


def raw(op, *operands, attr=None, dtype=None, count=0, blocks=()):
    """Writes one instruction on values of some types and counts."""

    def write(b):
        args = [each(b) if callable(each) else value(b, *each) for each in operands]
        b.emit(op, args, attr, dtype, count, blocks)

    return write


def offsets(*numbers):
    return lambda b: b.constant(numbers, I32)


THREAD = Builder.thread
WRONG = [
    (raw("gamma", (F32,), dtype=F32, count=1), "no operation gamma"),
    (raw("constant", attr=300, dtype=I8, count=1), "300"),
    (raw("constant", attr=1.0, dtype=I32, count=1), "1.0"),
    (raw("constant", attr=1, dtype=MASK, count=1), "1"),
    (raw("constant", attr=(1, 2), dtype=I32, count=3), "2 numbers"),
    (raw("param", attr=0, dtype=I32, count=1), "no block's parameter"),
    (raw("thread", dtype=I64, count=1), "is I32 x 1"),
    (raw("workgroup", attr=3, dtype=I32, count=1), "axis 3"),
    (raw("parameter", attr=Parameter("size", 0, 1), dtype=I64, count=1), "is not passed"),
    (raw("parameter", attr=Parameter("pointer", 0), dtype=I32, count=1), "of a pointer"),
    (raw("pick", (F32, 2), attr=(0, 2), dtype=F32, count=2), "register 2"),
    (raw("pick", (F32, 2), attr=(0,), dtype=F32, count=2), "is F32 x 1"),
    (raw("join", (F32, 2), (I32, 2), dtype=F32, count=4), "joins"),
    (raw("join", (F32, 2), (F32, 2), dtype=F32, count=3), "is F32 x 4"),
    (raw("bitcast", (F32,), dtype=I64, count=1), "of <convert F32 x 1>"),
    (raw("again", (F32,), (I64,), dtype=F32, count=1), "once <convert I64 x 1> is there"),
    (raw("again", (MASK,), (I32,), dtype=MASK, count=1), "again MASK x 1> of <pick MASK x 1>"),
    (raw("convert", (I64,), dtype=F16, count=1), "of <convert I64 x 1>"),
    (raw("add", (F32,), (I32,), dtype=F32, count=1), "of ["),
    (raw("add", (F32, 2), (F32, 4), dtype=F32, count=4), "of ["),
    (raw("add", (F32,), (F32,), dtype=F32, count=4), "of ["),
    (raw("add", (F16,), (F16,), dtype=F16, count=1), "add F16 x 1> of F16"),
    (raw("rem", (F32,), (F32,), dtype=F32, count=1), "of F32"),
    (raw("lt", (F32,), (F32,), dtype=F32, count=1), "is MASK x 1"),
    (raw("neg", (F32,), (F32,), dtype=F32, count=1), "2 operands"),
    (raw("select", (I32,), (F32,), (F32,), dtype=F32, count=1), "mask"),
    (raw("select", (MASK,), (F32,), (I32,), dtype=F32, count=1), "and"),
    (raw("load", THREAD, attr=Access("local", 0, 1, ONE), dtype=F16, count=1), "space 'local'"),
    (raw("load", THREAD, attr=Access(GLOBAL, 3, 1, ONE), dtype=F16, count=1), "tensor 3"),
    (raw("load", THREAD, attr=Access(WORKGROUP, 2, 1, ONE), dtype=F16, count=1), "buffer 2"),
    (raw("load", THREAD, attr=Access(GLOBAL, 0, 3, ONE), dtype=F16, count=3), "width 3"),
    (raw("load", THREAD, attr=Access(GLOBAL, 0, 16, ONE), dtype=F16, count=16), "width 16"),
    (raw("load", THREAD, attr=Access(GLOBAL, 0, 1, ((1, 0),)), dtype=F16, count=1), "register 1"),
    (raw("load", THREAD, attr=Access(GLOBAL, 0, 1, ONE), dtype=F32, count=1), "is F16 x 1"),
    (raw("load", THREAD, attr=Access(GLOBAL, 2, 1, ONE), dtype=MASK, count=1), "is U8 x 1"),
    (raw("load", (F32,), attr=Access(GLOBAL, 0, 1, ONE), dtype=F16, count=1), "offsets"),
    (raw("load", offsets(63), attr=Access(WORKGROUP, 1, 2, ONE), dtype=F32, count=2), "element 63 of sums"),
    (
        raw("load", THREAD, (MASK, 3), attr=Access(GLOBAL, 0, 1, ONE * 2), dtype=F16, count=2),
        "mask <pick MASK x 3>",
    ),
    (raw("store", (F32, 2), THREAD, attr=Access(GLOBAL, 1, 1, ONE)), "for F32 x 1"),
    (raw("store", (F16,), THREAD, attr=Access(GLOBAL, 1, 1, ONE)), "for F32 x 1"),
    (raw("atomic", (F32,), THREAD, attr=Access(GLOBAL, 1, 1, ONE, combine="max")), "'max' of F32"),
    (raw("atomic", (F32,), THREAD, attr=Access(WORKGROUP, 1, 1, ONE, combine="add")), "F32 in a buffer"),
    (raw("update", THREAD, attr=Access(GLOBAL, 1, 1, ONE * 2)), "places"),
    (lambda b: b.update(Access(GLOBAL, 0, 1, ONE), F32, b.thread(), lambda old: old), "param F32"),
    (
        lambda b: b.update(
            Access(GLOBAL, 1, 1, ONE), F32, b.thread(), lambda old: b.shuffle_xor(b.add(old, old), 1)
        ),
        "shuffle in its block",
    ),
    (raw("matrix_load", THREAD, attr=MatrixAccess(0, 3, False, ONE), dtype=F16, count=6), "3 matrices"),
    (raw("matrix_load", THREAD, attr=MatrixAccess(1, 4, True, ONE), dtype=F32, count=4), "of F32"),
    (raw("copy", THREAD, THREAD, attr=Copy(0, 0, 1, ONE, ONE)), "width 1"),
    (raw("copy", THREAD, THREAD, attr=Copy(0, 1, 4, ONE, ONE)), "F16 to F32"),
    (raw("copy_wait", attr=-1), "-1 groups"),
    (raw("barrier", attr=Barrier(16, 128)), "number 16"),
    (raw("barrier", attr=Barrier(1, 100)), "100 threads"),
    (raw("barrier", attr=Barrier(1, 32, ring=2)), "a ring of 32 threads"),
    (raw("barrier", attr=Barrier(14, 64, ring=3)), "a ring of 3"),
    (raw("shuffle", (F32,), attr=32, dtype=F32, count=1), "32"),
    (raw("shuffle", (F32,), THREAD, attr=1, dtype=F32, count=1), "with a lane"),
    (
        raw("mma", (BF16, 8), (F16, 4), (F32, 4), attr=Matrix(ATOMS[0], 1, 1, 1), dtype=F32, count=4),
        "for F16 x 8",
    ),
    (raw("outer", (F32, 2), (F32, 3), (F32, 5), dtype=F32, count=5), "of ["),
    (raw("signal_init", (I64,), attr=Signal(1)), "I64"),
    (raw("signal_init", (I32,), attr=Signal(0)), "arrivals"),
    (raw("bulk_store", (I32,), (I32,), attr=Bulk(0, 0, (8, 8), 0)), "1 coordinates for rank 2"),
    (raw("bulk_store", (I32,), (I32,), (I32,), attr=Bulk(0, 0, (8, 8), 48)), "swizzle 48"),
    (raw("bulk_wait", attr=BulkWait(-1, False)), "groups=-1"),
    (raw("registers", attr=(20, True)), "20 registers"),
    (raw("result", lambda b: b.thread(), attr=0, dtype=I32, count=1), "of <thread I32 x 1>"),
    (raw("when", (I32,), blocks=(Block((), (), ()),)), "mask"),
    (raw("branch", (MASK,), blocks=(Block((), (), ()),)), "1 blocks"),
    (raw("roles", attr=(Role("x", 3, 2),), blocks=(Block((), (), ()),)), "warps of x"),
    (raw("roles", attr=(Role("x", 0, 3, 2),), blocks=(Block((), (), ()),)), "2 groups of x"),
    (raw("loop", (F32,), (F32,), (F32,), blocks=(Block((), (), ()),)), "counts in F32"),
    (lambda b: b.remote_load(Access(GLOBAL, 0, 1, ONE), b.thread(), b.rank(), F16), "space='global'"),
    (lambda b: b.remote_load(Access(WORKGROUP, 0, 1, ONE), b.thread(), value(b, I64), F16), "rank <"),
    (lambda b: b.remote_store(Access(WORKGROUP, 0, 1, ONE), value(b, F32), b.thread(), b.rank()), "for F16"),
    (
        lambda b: b.remote_send(
            Access(WORKGROUP, 1, 1, ONE), value(b, F32), b.thread(), b.rank(), value(b, I64)
        ),
        "signal <",
    ),
    (
        lambda b: b.remote_send(Access(WORKGROUP, 0, 1, ONE), value(b, F16), b.thread(), b.rank(), b.rank()),
        "width 1",
    ),
    (raw("loop", (I32,), (I64,), (I32,), blocks=(Block((), (), ()),)), "bound"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_breaks_a_rule_is_told(number):
    write, message = WRONG[number]
    with pytest.raises(AssertionError, match=re.escape(message)):
        check(kernel(write))


ABILITIES = [
    (lambda b: b.copy_commit(), "has no copy_commit"),
    (lambda b: value(b, BF16), "convert BF16"),
    (lambda b: value(b, FP8), "convert FP8"),
    (lambda b: b.matrix_store(MatrixAccess(0, 1, False, ONE), value(b, F16, 2), b.thread()), "matrix_store"),
    (lambda b: b.map("max", value(b, F16), value(b, F16)), "has no max"),
    (lambda b: b.emit("group_wait", attr=0), "has no group_wait"),
    (lambda b: b.signal_arrive(b.thread()), "has no signal_arrive"),
    (lambda b: b.cluster_barrier(), "has no cluster_barrier"),
    (
        lambda b: b.mma(Matrix(ATOMS[1], 1, 1, 1), *(value(b, F32, 4) for _ in range(3))),
        "has no bf16_16x8x16",
    ),
]


@pytest.mark.parametrize("number", range(len(ABILITIES)))
def test_abilities_are_asked_for(number):
    write, message = ABILITIES[number]
    with pytest.raises(AssertionError, match=re.escape(message)):
        check(kernel(write, "sm_75"))


def test_operands_stand_before_their_use_in_reach():
    x = Instruction("thread", (), None, I32, 1)
    y = Instruction("neg", (x,), None, I32, 1)
    mask = Instruction("lt", (x, x), None, MASK, 1)
    when = Instruction("when", (mask,), None, None, 0, None, (Block((), (y,), ()),))
    z = Instruction("abs", (y,), None, I32, 1)
    made = kernel(lambda b: None)
    for instructions in ([y, x], [x, mask, when, z]):
        with pytest.raises(AssertionError, match="not defined before"):
            check(replace(made, body=Block((), tuple(instructions), ())))
    for instructions in ([x, y, x], [x, y, mask, when]):
        with pytest.raises(AssertionError, match="stands in two places"):
            check(replace(made, body=Block((), tuple(instructions), ())))
    arms = (Block((), (y,), (y,)), Block((), (), (y,)))
    branch = Instruction("branch", (mask,), None, None, 0, None, arms)
    with pytest.raises(AssertionError, match="gives <neg I32 x 1>, which is not defined there"):
        check(replace(made, body=Block((), (x, mask, branch), ())))


def test_loops_carry_what_they_take():
    def write(b):
        zero, one = b.constant(0, I32), b.constant(1, I32)
        counter = Instruction("param", (), 0, I32, 1)
        carried = Instruction("param", (), 1, F32, 1)
        blocks = (Block((counter, carried), (), (carried,)),)
        b.emit("loop", (zero, one, one, zero), blocks=blocks)

    with pytest.raises(AssertionError, match="carries"):
        check(kernel(write))


@pytest.mark.parametrize("dtype, flag", [(F32, 0), (I32, 1), (I32, -1)])
def test_a_flag_is_a_carried_integer(dtype, flag):
    def write(b):
        zero, one = b.constant(0, I32), b.constant(1, I32)
        b.loop(zero, one, one, [b.constant(0, dtype)], lambda k, carried: carried, flag)

    with pytest.raises(AssertionError, match="flag"):
        check(kernel(write))


def test_kernels_fit_their_target():
    made = kernel(lambda b: None)
    for change, message in (
        ({"threads": 100}, "100 threads"),
        ({"threads": 2048}, "2048 threads"),
        ({"buffers": (Buffer("big", F32, 1 << 16),)}, "bytes of workgroup memory"),
        ({"buffers": (Buffer("odd", F32, 1, 2),)}, "is not aligned"),
        ({"axes": 4}, "4 axes"),
        ({"cluster": 3}, "clusters of 3 workgroups"),
        ({"cluster": 2, "target": Target("cuda", "sm_80")}, "has no clusters"),
    ):
        with pytest.raises(AssertionError, match=message):
            check(replace(made, **change))
