"""Hopper's instructions assemble, alone and as a whole product, with nothing spilled or serialised."""

import pytest
from ptxas import assemble
from small_kernels import SmallKernel

from gizml_tile.dtypes import BF16, F16, F32, FP8, I8, I32, MASK, U8
from gizml_tile.lowering.emit.ptx import TensorMap
from gizml_tile.lowering.kernel_ir.instructions import Bulk, GroupMatrix, Operand, Role
from gizml_tile.target import Target


def check(kernel):
    artifact = kernel.ptx()
    report = assemble(artifact.text, artifact.arch)
    assert (report.spills, report.warnings) == (0, ())
    return artifact, report


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_boxes_and_signals(arch, rank):
    assert Target("cuda", arch).can("bulk")
    build = SmallKernel(arch)
    build.signals = 2
    box = (1,) * max(rank - 2, 0) + (8, 64)[-min(rank, 2) :]
    tensors = [build.tensor(BF16, rank) for _ in range(2)]
    buffer = build.buffer(BF16, 4096)
    zero, one = build.number(0), build.number(1)
    corner = [build.workgroup(0)] * (rank - 1) + [zero]
    first = build.map("eq", build.thread(), zero)
    build.when(first, lambda: [build.signal_init(each, 1) for each in (zero, one)] and None)
    build.barrier(0, 128)
    load, store = (Bulk(tensor, buffer, box, 128) for tensor in tensors)

    def turn(counter, carried):
        def fill():
            build.signal_expect(counter, 1024)
            build.bulk_load(load, build.mul(counter, build.number(512)), corner, counter)

        build.when(first, fill)
        build.signal_wait(counter, carried[0])
        build.signal_arrive(one)
        build.emit("fence_async")
        build.barrier(0, 128)

        def drain():
            build.bulk_store(store, build.number(512), corner)
            build.bulk_commit()
            build.bulk_wait(0, reading=True)

        build.when(first, drain)
        return [build.map("xor", carried[0], one)]

    build.loop(zero, build.number(10), one, [zero], turn)
    build.bulk_wait(0, reading=False)
    artifact, _ = check(build)
    assert artifact.maps == (TensorMap(0, box, 128), TensorMap(1, box, 128))
    assert artifact.workgroup_memory == 8192 + 16
    assert artifact.text.count("fence.mbarrier_init") == 1


def test_more_axes_than_the_copy_engine_has():
    build = SmallKernel()
    bulk = Bulk(build.tensor(F32, 6), build.buffer(F32, 64), (1, 1, 1, 1, 1, 64), 0)
    build.bulk_store(bulk, build.number(0), [build.number(0)] * 6)
    with pytest.raises(LookupError, match="no entry for the instruction 'bulk_store' of 6 axes"):
        build.ptx()


@pytest.mark.parametrize("dtype", [F16, BF16, F32, FP8, I8, U8], ids=str)
@pytest.mark.parametrize("in_registers", [False, True], ids=["in memory", "in registers"])
def test_group_products(dtype, in_registers):
    build = SmallKernel()
    deep = 128 // dtype.bytes  # four steps of k
    n, sums = 64, F32 if dtype.is_float else I32
    operand = Operand(build.buffer(dtype, 32768), 128, 16, 1024)
    zero = build.number(0)
    matrix = GroupMatrix(n, deep, (dtype, dtype), None if in_registers else operand, operand)
    a = build.input(dtype, 64 // dtype.bytes, 16 // dtype.bytes) if in_registers else zero
    start = build.input(sums, n // 2, 4)
    build.emit("group_fence")
    total = build.group_mma(matrix, a, build.mul(build.warp(), build.number(64)), start)
    build.emit("group_commit")
    build.emit("group_wait", attr=0)
    build.output(total, 4)
    artifact, _ = check(build)
    assert artifact.text.count("wgmma.mma_async") == 4


def test_transposed_operands_of_bytes():
    build = SmallKernel()
    operand = Operand(build.buffer(FP8, 4096), 128, 16, 1024, transposed=True)
    matrix = GroupMatrix(64, 32, (FP8, FP8), operand, operand, fresh=True)
    build.group_mma(matrix, build.number(0), build.number(0), build.join([build.constant(0.0, F32)] * 32))
    with pytest.raises(LookupError, match="'group_mma' of transposed FP8"):
        build.ptx()


def product(columns=256, depth=64, stages=4, consumers=2):
    """A persistent-style product of 128 x 256 tiles: one warpgroup copies, two multiply."""
    build = SmallKernel(threads=128 * (consumers + 1))
    a, b, c = (build.tensor(BF16, 2) for _ in range(3))
    rows = 64 * consumers
    a_size, b_size = rows * depth, columns * depth
    left, right = build.buffer(BF16, stages * a_size), build.buffer(BF16, stages * b_size)
    build.signals = 2 * stages
    zero, one = build.number(0), build.number(1)
    turns = build.number(100)
    first = build.map("eq", build.thread(), zero)
    row = build.mul(build.workgroup(0), build.number(rows))
    column = build.mul(build.workgroup(1), build.number(columns))

    def prepare():
        for stage in range(stages):
            build.signal_init(build.number(stage), 1)
            build.signal_init(build.number(stages + stage), consumers)

    build.when(first, prepare)
    build.barrier(0, build.threads)

    def advance(stage, parity):
        wraps = build.map("eq", stage, build.number(stages - 1))
        return [
            build.select(wraps, zero, build.add(stage, one)),
            build.select(wraps, build.map("xor", parity, one), parity),
        ]

    def produce():
        build.emit("registers", attr=(24, False))

        def turn(counter, carried):
            stage, parity = carried
            build.signal_wait(build.add(stage, build.number(stages)), parity)
            build.signal_expect(stage, 2 * (a_size + b_size))
            k = build.mul(counter, build.number(depth))
            build.bulk_load(
                Bulk(a, left, (rows, depth), 128), build.mul(stage, build.number(a_size)), [row, k], stage
            )
            for panel in range(columns // 64):
                where = build.add(build.mul(stage, build.number(b_size)), build.number(panel * 64 * depth))
                corner = [k, build.add(column, build.number(64 * panel))]
                build.bulk_load(Bulk(b, right, (depth, 64), 128), where, corner, stage)
            return advance(stage, parity)

        chosen = build.map("eq", build.thread(), build.number(128 * consumers))
        build.when(chosen, lambda: build.loop(zero, turns, one, [zero, one], turn) and None)

    def consume():
        build.emit("registers", attr=(240, True))
        group = build.map("shr", build.warp(), build.number(2))
        leads = build.map("eq", build.map("and", build.thread(), build.number(127)), zero)
        matrix = GroupMatrix(
            columns,
            depth,
            (BF16, BF16),
            Operand(left, 128, 16, 1024),
            Operand(right, 128, depth * 128, 1024, transposed=True),
        )

        def turn(counter, carried):
            stage, parity, total = carried
            build.signal_wait(stage, parity)
            build.emit("group_fence")
            mine = build.add(
                build.mul(stage, build.number(a_size)), build.mul(group, build.number(64 * depth))
            )
            total = build.group_mma(matrix, mine, build.mul(stage, build.number(b_size)), total)
            build.emit("group_commit")
            build.emit("group_wait", attr=0)
            build.when(leads, lambda: build.signal_arrive(build.add(stage, build.number(stages))))
            return [*advance(stage, parity), total]

        start = build.join([build.constant(0.0, F32)] * (columns // 2))
        total = build.loop(zero, turns, one, [zero, zero, start], turn)[2]
        build.output(build.convert(total, BF16), 8)

    build.roles(
        [
            (Role("consumers", 0, 4 * consumers), consume),
            (Role("producer", 4 * consumers, 4), produce),
        ]
    )
    assert c == 2
    return build


def test_a_whole_product():
    artifact, report = check(product())
    assert report.registers == 168  # what 384 threads may have, before the roles trade them
    assert artifact.text.count("wgmma.mma_async") == 4
    # The sums stay where they are: nothing moves them from turn to turn.
    inside = artifact.text[artifact.text.index("wgmma.fence") : artifact.text.rindex("wgmma.wait_group")]
    assert "mov.b32" not in inside
    assert [each.tensor for each in artifact.maps] == [0, 1]


def test_sums_that_others_read_are_not_written_in_place():
    build = SmallKernel()
    operand = Operand(build.buffer(BF16, 32768), 128, 16, 1024)
    matrix = GroupMatrix(16, 16, (BF16, BF16), operand, operand)
    start = build.input(F32, 8)
    build.emit("group_fence")
    total = build.group_mma(matrix, build.number(0), build.number(0), start)
    build.emit("group_commit")
    build.emit("group_wait", attr=0)
    build.output(build.select(build.constant(True, MASK), total, start))
    text = build.ptx().text
    (line,) = (line for line in text.splitlines() if "wgmma.mma_async" in line)
    target = line.partition("{")[2].partition(",")[0]
    assert any(each.startswith(f"mov.b32 {target}, %r") for each in text.splitlines())
