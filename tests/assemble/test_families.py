"""Every family of instructions assembles for every architecture that has it, without spills."""

import pytest
from ptxas import ARCHS, assemble
from small_kernels import SmallKernel

from gizml_tile.dtypes import BF16, F16, F32, FP8, I8, I16, I32, I64, MASK, U8
from gizml_tile.lowering.atoms import ATOMS
from gizml_tile.lowering.emit.ptx.module import RULES
from gizml_tile.lowering.kernel_ir import instructions
from gizml_tile.lowering.kernel_ir.instructions import (
    APPROXIMATE,
    COMPARISONS,
    GLOBAL,
    WORKGROUP,
    Access,
    Copy,
    Matrix,
    MatrixAccess,
    Parameter,
)
from gizml_tile.target import Target

TYPES = (F32, I32, I64, F16, BF16, FP8, I8, U8, I16, MASK)
every_arch = pytest.mark.parametrize("arch", ARCHS)


def archs_that(*abilities):
    return [arch for arch in ARCHS if all(Target("cuda", arch).can(each) for each in abilities)]


def check(kernel):
    artifact = kernel.ptx()
    report = assemble(artifact.text, artifact.arch)
    assert (report.spills, report.stack, report.warnings) == (0, 0, ())
    return report


@every_arch
def test_float_mathematics(arch):
    build = SmallKernel(arch)
    a, b, c = (build.input(F32, 4, 4) for _ in range(3))
    two = build.constant(2.0, F32)
    total = build.fma(a, b, c)
    keeping_nan = ["minimum", "maximum"] if build.target.can("nan_minimum") else []
    for op in [*"add sub mul div min max".split(), *keeping_nan]:
        total = build.map(op, total, build.map(op, a, build.map(op, b, two)))
    for op in ["neg", "abs", "sqrt", *sorted(APPROXIMATE)]:
        total = build.add(total, build.map(op, a))
    for op in sorted(COMPARISONS):
        total = build.select(build.map(op, total, b), total, c)
    build.output(total, 4)
    kernel = build.ptx()
    # The slow path of a quotient or a root is a call inside, which has a stack of its own.
    report = assemble(kernel.text, arch)
    assert (report.spills, report.warnings) == (0, ())


@pytest.mark.parametrize("arch", archs_that("extremes_16"))
@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_extremes_of_pairs(arch, dtype):
    build = SmallKernel(arch)
    a, b = build.input(dtype, 8), build.input(dtype, 8)
    both = build.map("minimum", build.map("min", build.map("max", a, b), build.pick(b, [0])), a)
    build.output(build.map("maximum", both, b))
    check(build)


@every_arch
@pytest.mark.parametrize("dtype", [I32, I64], ids=str)
def test_integer_mathematics(arch, dtype):
    build = SmallKernel(arch)
    a, b, c = (build.input(dtype, 2) for _ in range(3))
    total = build.fma(a, b, c)
    for op in "add sub mul div rem min max and or xor".split():
        total = build.map(op, total, build.map(op, a, build.constant(7, dtype)))
    for op in "neg abs not".split():
        total = build.add(total, build.map(op, a))
    for op in "shl shr ushr".split():
        total = build.map(op, total, build.map("and", b, build.constant(31, dtype)))
        total = build.map(op, total, build.constant(3, dtype))
    if dtype is I32:
        total = build.map("high", total, build.constant(-858993459, I32))
    for op in sorted(COMPARISONS):
        total = build.select(build.map(op, total, b), total, c)
    build.output(total)
    report = assemble(build.ptx().text, arch)
    assert (report.spills, report.warnings) == (0, ())


@every_arch
def test_masks(arch):
    build = SmallKernel(arch)
    a, b = build.mask(5), build.mask(5)
    for op in "and or xor eq ne".split():
        a = build.map(op, build.map("not", a), b)
    a = build.select(build.constant(True, MASK), a, build.select(b, a, build.constant(False, MASK)))
    build.output(a)
    check(build)


@every_arch
@pytest.mark.parametrize("source", TYPES, ids=str)
def test_conversions(arch, source):
    facts = Target("cuda", arch)
    needs = {FP8: "fp8_convert", BF16: "bf16_convert"}
    if source is FP8 and not facts.can("fp8_convert"):
        build = SmallKernel(arch)
        build.output(build.convert(build.input(FP8, 4), F32))
        with pytest.raises(LookupError, match=r"has no instruction that converts FP8 \(fp8_convert\)"):
            build.ptx()
        return
    for count in (1, 3, 8):
        build = SmallKernel(arch)
        value = build.input(source, count)
        for to in TYPES[:-1]:
            if to not in needs or facts.can(needs[to]):
                build.output(build.convert(value, to))
        check(build)


@every_arch
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("widths", [(1, 2, 4), (8, 16, 32)], ids=["narrow", "wide"])
def test_accesses_of_every_width(arch, dtype, widths):
    build = SmallKernel(arch)
    thread = build.thread()
    offsets = build.join([build.mul(thread, build.number(32)), build.number(64)])
    mask = build.map("lt", thread, build.number(100))
    for space, memory in ((GLOBAL, build.tensor(dtype)), (WORKGROUP, build.buffer(dtype, 4096))):
        for width in widths:
            access = Access(space, memory, width, ((0, 0), (1, 32), (0, -32)), pad=1)
            value = build.load(access, offsets, dtype)
            masked = build.load(access, offsets, dtype, mask)
            each = build.load(access, offsets, dtype, build.join([mask, mask, mask]))
            for store in (value, masked, each):
                build.store(access, store, offsets)
            build.store(access, masked, offsets, mask)
    assert assemble(build.ptx().text, arch).warnings == ()  # 576 I64 registers do not fit


@every_arch
def test_far_and_wide_offsets(arch):
    build = SmallKernel(arch)
    stride = build.parameter(Parameter("stride", 0))
    wide = build.mul(build.convert(build.thread(), I64), stride)
    tensor = build.tensor(F32)
    far = Access(GLOBAL, tensor, 1, ((0, 0), (0, 2**31), (0, -(2**40))))
    value = build.load(far, wide, F32)
    build.store(far, value, build.constant(5, I64))
    build.store(far, build.mul(value, build.parameter(Parameter("scalar", 1), F32)), wide)
    artifact = build.ptx()
    assert [each.dtype for each in artifact.arguments] == [I64, I64, F32]
    check(build)


@every_arch
def test_packed_registers(arch):
    build = SmallKernel(arch)
    for dtype in (BF16, I8):
        value, other, mask = build.input(dtype, 9), build.input(dtype, 9), build.mask(9)
        mixed = build.pick(build.join([value, other, value]), [13, 2, 26, 0, 17, 8, 9, 1, 1])
        build.output(build.select(mask, mixed, build.map("xor", value, other)))
        build.output(build.bitcast(build.spread(build.pick(value, [3]), 4), F16 if dtype is BF16 else U8))
    check(build)


@every_arch
def test_shuffles(arch):
    build = SmallKernel(arch)
    lane = build.map("xor", build.lane(), build.number(5))
    for dtype in TYPES:
        value = build.shuffle_xor(build.input(dtype, 3), 16)
        build.output(build.shuffle(value, lane))
    build.output(build.shuffle(build.constant(1.0, F32), build.number(0)))
    check(build)


@every_arch
def test_structure(arch):
    build = SmallKernel(arch, threads=128)
    stop = build.convert(build.parameter(Parameter("size", 0)), I32)
    build.tensor(F32)
    mask = build.map("lt", build.workgroup(1), build.workgroups(2))

    def body(counter, carried):
        a, b, keep, flag = carried
        build.barrier(0, 128)
        build.barrier(3, 64)
        build.barrier(4, 128, arrive=True)
        build.warp_barrier()
        chosen = build.branch(mask, lambda: [a, b], lambda: [b, a])
        apart = build.map("lt", a, chosen[0])
        chosen = build.branch(apart, lambda: chosen, lambda: [a, a], apart=True)
        inner = build.loop(
            build.constant(8, I64),
            build.constant(0, I64),
            build.constant(-2, I64),
            [chosen[0]],
            lambda count, values: [build.fma(values[0], values[0], a)],
        )
        build.when(build.map("eq", build.warp(), counter), lambda: build.output(chosen[1]))
        return [b, inner[0], keep, build.map("not", flag)]

    start = [build.input(F32), build.input(F32), build.input(BF16, 3), build.constant(True, MASK)]
    for step in (build.number(1), build.convert(build.parameter(Parameter("stride", 0)), I32)):
        for value in build.loop(build.number(0), stop, step, start, body):
            build.output(value)
    report = assemble(build.ptx().text, arch)
    assert (report.spills, report.warnings) == (0, ())


@pytest.mark.parametrize("arch", archs_that("matrix_load"))
def test_matrix_loads(arch):
    build = SmallKernel(arch)
    buffer = build.buffer(BF16, 4096)
    rows = build.mul(build.lane(), build.number(64))
    for matrices in (1, 2, 4):
        for transposed in (False, True):
            access = MatrixAccess(buffer, matrices, transposed, ((0, 0), (0, 16)))
            value = build.matrix_load(access, rows, BF16)
            build.output(value)
            if Target("cuda", arch).can("matrix_store"):
                build.matrix_store(access, value, rows)
    check(build)


@pytest.mark.parametrize("arch", archs_that("copy"))
def test_asynchronous_copies(arch):
    build = SmallKernel(arch)
    mask = build.map("lt", build.thread(), build.number(100))
    for dtype, width in ((F32, 1), (BF16, 4), (I8, 16), (F32, 8)):
        tensor, buffer = build.tensor(dtype), build.buffer(dtype, 2048)
        offsets = build.mul(build.thread(), build.number(width))
        copy = Copy(tensor, buffer, width, ((0, 0), (0, 1024)), ((0, 0), (0, 4096)))
        build.copy(copy, offsets, offsets)
        build.copy(copy, offsets, offsets, mask)
        build.copy(copy, offsets, offsets, build.join([mask, build.map("not", mask)]))
        build.copy_commit()
    build.copy_wait(0)
    check(build)


@pytest.mark.parametrize(
    "arch, atom",
    [(arch, atom) for atom in ATOMS for arch in archs_that(atom.needs)],
    ids=lambda each: getattr(each, "name", each),
)
def test_atoms(arch, atom):
    build = SmallKernel(arch)
    m, n, k = 2, 4, 2
    a = build.input(atom.a_dtype, m * k * atom.a.size("register"))
    b = build.input(atom.b_dtype, n * k * atom.b.size("register"))
    zero = build.join([build.constant(0, atom.c_dtype)] * (m * n * atom.c.size("register")))
    total = build.mma(Matrix(atom, m, n, k), a, b, zero)
    build.output(build.mma(Matrix(atom, m, n, k), a, b, total))
    check(build)


@every_arch
def test_outer_products(arch):
    build = SmallKernel(arch)
    a, b = build.input(F32, 4, 4), build.input(F32, 8, 4)
    build.output(build.outer(a, b, build.input(F32, 32, 4)), 4)
    check(build)


def test_every_instruction_is_here():
    """All that the kernel IR documents has an entry, apart from what stands for a block's parameter."""
    documented = instructions.ELEMENTWISE | instructions.ORDERED | instructions.STRUCTURED
    documented |= instructions.LEAVES | {"pick", "join", "outer", "result"}
    assert documented - {"param"} == set(RULES)
