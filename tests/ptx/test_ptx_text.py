"""The text itself: which instruction stands for which operation, in small examples in full."""

import pytest
from small_kernels import SmallKernel, body_of, text_of

from gizml_tile.dtypes import BF16, F16, F32, I8, I32, I64, MASK
from gizml_tile.errors import Place
from gizml_tile.lowering.atoms import ATOMS
from gizml_tile.lowering.emit.literals import bits
from gizml_tile.lowering.emit.ptx import Argument, emit
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    WORKGROUP,
    Access,
    Copy,
    GroupMatrix,
    Kernel,
    Matrix,
    MatrixAccess,
    Operand,
    Parameter,
    Role,
)
from gizml_tile.nodes import Tensor
from gizml_tile.target import Target


def test_a_whole_text():
    build = SmallKernel("sm_80", threads=256)
    offsets = build.mul(build.thread(), build.number(2))
    place = ((0, 0),)
    build.place = Place('a "b".py', 3, 5)
    value = build.load(Access(GLOBAL, build.tensor(F32), 2, place), offsets, F32)
    build.place = Place('a "b".py', 4, 9)
    total = build.fma(value, build.parameter(Parameter("scalar", 2), F32), build.constant(-0.5, F32))
    build.store(Access(GLOBAL, build.tensor(F32), 2, place), total, offsets)
    artifact = emit(build.kernel("scale", resident=4))
    assert artifact.text.splitlines() == [
        ".version 8.0",
        ".target sm_80",
        ".address_size 64",
        '.file 1 "a ?b?.py"',
        ".visible .entry scale(",
        "\t.param .b64 scale_0,",
        "\t.param .b64 scale_1,",
        "\t.param .b32 scale_2",
        ")",
        ".reqntid 256",
        ".minnctapersm 4",
        "{",
        ".reg .b32 %r<7>;",
        ".reg .b64 %d<4>;",
        "mov.u32 %r0, %tid.x;",
        "ld.param.b32 %r1, [scale_2];",
        "ld.param.b64 %d0, [scale_0];",
        "cvta.to.global.u64 %d0, %d0;",
        "ld.param.b64 %d2, [scale_1];",
        "cvta.to.global.u64 %d2, %d2;",
        "shl.b32 %r2, %r0, 1;",
        ".loc 1 3 5",
        "mad.wide.s32 %d1, %r2, 4, %d0;",
        "ld.global.v2.b32 {%r3, %r4}, [%d1];",
        ".loc 1 4 9",
        "fma.rn.f32 %r5, %r3, %r1, 0fBF000000;",
        "fma.rn.f32 %r6, %r4, %r1, 0fBF000000;",
        "mad.wide.s32 %d3, %r2, 4, %d2;",
        "st.global.v2.b32 [%d3], {%r5, %r6};",
        "ret;",
        "}",
    ]
    pointers = [Argument(Parameter("pointer", number), I64) for number in range(2)]
    assert artifact.arguments == (*pointers, Argument(Parameter("scalar", 2), F32))
    assert (artifact.entry, artifact.arch, artifact.threads) == ("scale", "sm_80", 256)
    assert (artifact.workgroup_memory, artifact.maps, artifact.resident) == (0, (), 4)


@pytest.mark.parametrize(
    "name, entry", [("f", "f"), ("_", "kernel__"), ("<lambda>", "kernel__lambda_"), ("größe", "gr__e")]
)
def test_names_that_ptx_does_not_take(name, entry):
    assert emit(SmallKernel().kernel(name)).entry == entry


def test_unknown_instructions_and_targets():
    build = SmallKernel()
    build.emit("teleport")
    with pytest.raises(LookupError, match="PTX has no entry for the instruction 'teleport'"):
        build.ptx()
    build = SmallKernel()
    build.output(build.map("rem", build.input(F32), build.input(F32)))
    with pytest.raises(LookupError, match="no entry for the instruction 'rem' on F32"):
        build.ptx()
    build = SmallKernel()
    build.output(build.convert(build.input(F32), MASK))
    with pytest.raises(LookupError, match="'convert' from F32 to MASK"):
        build.ptx()
    build = SmallKernel()
    build.load(Access(GLOBAL, 0, 1, ((0, 0),)), build.number(0), F32)
    kernel = Kernel("k", build.target, (Tensor("x", F32, 1),), (), (), 32, build.body())
    with pytest.raises(LookupError, match="kernel k has no parameter Parameter"):
        emit(kernel)
    kernel = Kernel("k", Target("cuda", "sm_70"), (), (), (), 32, SmallKernel().body())
    with pytest.raises(LookupError, match=r"PTX is not written for cuda \(sm_70\)"):
        emit(kernel)


# PTX ISA: ".rn" keeps add and mul from being contracted; without ".ftz" subnormals are kept; "neu" is
# true with a NaN; min and max give the number beside a NaN, and with ".NaN" the NaN.
FLOAT = {
    "add": "add.rn.f32",
    "sub": "sub.rn.f32",
    "mul": "mul.rn.f32",
    "div": "div.rn.f32",
    "min": "min.f32",
    "max": "max.f32",
    "minimum": "min.NaN.f32",
    "maximum": "max.NaN.f32",
    "sqrt": "sqrt.rn.f32",
    "neg": "neg.f32",
    "abs": "abs.f32",
    "exp2": "ex2.approx.ftz.f32",
    "log2": "lg2.approx.f32",
    "reciprocal": "rcp.approx.ftz.f32",
    "rsqrt": "rsqrt.approx.f32",
    "tanh": "tanh.approx.f32",
    "sin": "sin.approx.f32",
    "cos": "cos.approx.f32",
    "lt": "setp.lt.f32",
    "ge": "setp.ge.f32",
    "eq": "setp.eq.f32",
    "ne": "setp.neu.f32",
}


@pytest.mark.parametrize("op, text", FLOAT.items())
def test_float_operations(op, text):
    build = SmallKernel()
    a, b = build.input(F32), build.input(F32)
    one = op in "neg abs sqrt exp2 log2 reciprocal rsqrt tanh sin cos".split()
    build.output(build.map(op, a) if one else build.map(op, a, b))
    found = [line for line in build.ptx().text.splitlines() if line.startswith(text + " ")]
    assert len(found) == 1


@pytest.mark.parametrize("dtype, bits", [(I32, 32), (I64, 64)])
def test_integer_operations(dtype, bits):
    build = SmallKernel()
    a, b = build.input(dtype), build.input(dtype)
    wanted = {"div": "div.s", "rem": "rem.s", "shr": "shr.s", "ushr": "shr.u", "shl": "shl.b"}
    wanted |= {"mul": "mul.lo.s", "min": "min.s", "lt": "setp.lt.s", "not": "not.b", "high": "mul.hi.u"}
    for op in wanted:
        build.output(build.map(op, a) if op == "not" else build.map(op, a, b))
    text = build.ptx().text
    for mnemonic in wanted.values():
        assert f"\n{mnemonic}{bits} " in text
    if dtype is I64:
        # A shift counts in 32 bits.
        count = text.partition("shl.b64 ")[2].partition(";")[0].rpartition(", ")[2]
        assert f"cvt.u32.u64 {count}, " in text


@pytest.mark.parametrize(
    "number, dtype, pattern",
    [
        (1.0, F32, 0x3F800000),
        (-0.0, F32, 0x80000000),
        (1e39, F32, 0x7F800000),
        (float("nan"), F32, 0x7FC00000),
        (1.5, F16, 0x3E00),
        (1e-8, F16, 0),
        (3.0, BF16, 0x4040),
        (-1, I8, 0xFF),
    ],
)
def test_immediates(number, dtype, pattern):
    assert bits(number, dtype) == pattern


def test_immediates_of_eight_bit_floats():
    import ml_dtypes
    import numpy as np

    from gizml_tile.dtypes import FP8

    every = np.arange(256, dtype=np.uint8)
    values = every.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    again = [bits(float(value), FP8) for value in values]
    assert again == [0x7F if byte == 0xFF else byte for byte in every]
    assert bits(1e9, FP8) == 0x7E and bits(float("-inf"), FP8) == 0xFE


def test_what_is_made_again_is_hidden_from_the_assembler():
    def write(build):
        value = build.input(BF16, 4, 4)
        for _ in range(2):
            build.output(build.again(value, build.thread()), 4)

    operations = [line.partition(" ")[0] for line in body_of(write)]
    hiding = [each for each in operations if each.partition(".")[0] in ("and", "neg", "xor")]
    # The zero once, then a word of two elements after the other.
    assert hiding == ["and.b32", "neg.s32", *["xor.b32"] * 4]


def test_renaming_costs_nothing():
    def packed(build):
        value = build.input(BF16, 8, 8)
        swapped = build.join([build.pick(value, [4, 5, 6, 7]), build.pick(value, [0, 1, 2, 3])])
        build.output(build.bitcast(build.bitcast(swapped, F16), BF16), 8)

    names = [line.partition(" ")[0] for line in body_of(packed)]
    assert "prmt.b32" not in names and names.count("mov.b32") == 0
    assert body_of(packed)[-1].endswith("{%r4, %r5, %r2, %r3};")


def test_odd_picks_take_one_permutation_a_word():
    lines = body_of(lambda build: build.output(build.pick(build.input(BF16, 4, 4), [1, 2, 3, 0]), 4))
    assert [line for line in lines if line.startswith("prmt")] == [
        "prmt.b32 %r4, %r2, %r3, 0x5432;",
        "prmt.b32 %r5, %r3, %r2, 0x5432;",
    ]


def test_offsets_are_addresses_once():
    def kernel(build):
        tensor = build.tensor(F16)
        offsets = build.join([build.thread(), build.lane()])
        places = ((0, 0), (1, 0), (0, 100), (1, -7))
        build.output(build.load(Access(GLOBAL, tensor, 1, places), offsets, F16))

    lines = body_of(kernel)
    assert sum(line.startswith("mad.wide.s32") and ", 2, %d0;" in line for line in lines) == 2
    loads = [line.partition("[")[2] for line in lines if line.startswith("ld.global")]
    assert loads == ["%d1];", "%d2];", "%d1+200];", "%d2+-14];"]


def test_addresses_made_in_a_loop_stay_there():
    """An address of a block inside is not at hand after it."""
    build = SmallKernel()
    one = build.constant(1.0, F32)
    access = Access(GLOBAL, build.tensor(F32), 1, ((0, 0),))
    store = lambda: build.store(access, one, build.thread())
    build.when(build.map("lt", build.lane(), build.number(3)), store)
    store()
    assert build.ptx().text.count("mad.wide.s32") == 2


def test_wide_offsets_and_constants():
    def kernel(build):
        stride = build.parameter(Parameter("stride", 0))
        tensor = build.tensor(F32)
        places = ((0, 1), (0, 2**30), (0, -(2**29)))
        build.load(Access(GLOBAL, tensor, 1, places), stride, F32)

    lines = body_of(kernel)
    shifted = next(line for line in lines if line.startswith("shl.b64"))
    assert shifted.endswith(", 2;")
    assert f"add.s64 %d4, %d2, {2**32};" in lines
    loads = [line.partition("[")[2] for line in lines if line.startswith("ld.global")]
    assert loads == ["%d2+4];", "%d4];", f"%d2+-{2**31}];"]


def test_workgroup_memory():
    def kernel(build):
        first, second = build.buffer(BF16, 100), build.buffer(F32, 64)
        value = build.load(Access(WORKGROUP, first, 8, ((0, 0), (0, 8))), build.thread(), BF16)
        build.store(Access(WORKGROUP, first, 8, ((0, 0), (0, 8))), value, build.number(8))
        number = build.load(Access(WORKGROUP, second, 1, ((0, 1),)), build.thread(), F32)
        build.store(Access(WORKGROUP, second, 1, ((0, 1),)), number, build.number(2))

    text = text_of(kernel)
    assert ".extern .shared .align 1024 .b8 kernel_memory[];" in text
    assert "mad.lo.s32 %r1, %r0, 2, %r2;" in text
    assert "ld.shared.v4.b32 {%r3, %r4, %r5, %r6}, [%r1];" in text
    assert "st.shared.v4.b32 [kernel_memory+16]" in text
    assert "st.shared.v4.b32 [kernel_memory+32]" in text
    assert "+1028];" in text and "st.shared.b32 [kernel_memory+1036]" in text


def test_masked_accesses_keep_their_pad():
    def kernel(build):
        mask = build.map("lt", build.thread(), build.number(3))
        access = Access(GLOBAL, build.tensor(BF16), 2, ((0, 0),), pad=float("-inf"))
        build.load(access, build.thread(), BF16, mask)

    first, second = body_of(kernel)[-2:]
    assert first.startswith("mov.b32 %r") and first.endswith(", 0xFF80FF80;")
    assert second.startswith("@%p0 ld.global.b32 ")


def test_copies_read_nothing_where_the_mask_is_not_set():
    def kernel(build):
        mask = build.map("lt", build.thread(), build.number(3))
        copy = Copy(build.tensor(F32), build.buffer(F32, 1024), 4, ((0, 0),), ((0, 8),))
        build.copy(copy, build.thread(), build.thread(), mask)
        build.copy(copy, build.thread(), build.thread())
        build.copy_commit()
        build.copy_wait(1)

    lines = body_of(kernel)[-5:]
    assert any("selp.b32" in line and line.endswith(", 16, 0, %p0;") for line in body_of(kernel))
    assert lines[-4].startswith("cp.async.cg.shared.global [%r") and ", 16, %r" in lines[-4]
    assert lines[-3].endswith("+32], 16;")
    assert lines[-2:] == ["cp.async.commit_group;", "cp.async.wait_group 1;"]


def test_copies_of_two_bytes_do_not_exist():
    build = SmallKernel()
    copy = Copy(build.tensor(F16), build.buffer(F16, 64), 1, ((0, 0),), ((0, 0),))
    build.copy(copy, build.number(0), build.number(0))
    with pytest.raises(LookupError, match="'copy' of 2 bytes"):
        build.ptx()


def test_matrices():
    def kernel(build):
        buffer = build.buffer(BF16, 4096)
        offsets = build.mul(build.lane(), build.number(8))
        value = build.matrix_load(MatrixAccess(buffer, 4, True, ((0, 0), (0, 512))), offsets, BF16)
        build.matrix_store(MatrixAccess(buffer, 2, False, ((0, 0),)), build.pick(value, range(4)), offsets)

    lines = [line for line in body_of(kernel) if "matrix." in line]
    assert [line.partition(" ")[0] for line in lines] == [
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
        "stmatrix.sync.aligned.m8n8.x2.shared.b16",
    ]
    assert lines[1].endswith("+1024];")


def test_blocks_of_atoms():
    """Registers are ordered as `Matrix` says, and the steps of k follow one another in each sum."""
    atom = next(each for each in ATOMS if each.name == "bf16_16x8x16")

    def kernel(build):
        a, b = build.input(BF16, 2 * 2 * 8, 8), build.input(BF16, 2 * 4, 8)
        c = build.input(F32, 2 * 4, 4)
        build.output(build.mma(Matrix(atom, 2, 1, 2), a, b, c), 4)

    lines = body_of(kernel)
    mmas = [line.partition(" ")[2] for line in lines if line.startswith("mma.sync")]
    assert all("m16n8k16.row.col.f32.bf16.bf16.f32" in line for line in lines if line.startswith("mma"))
    groups = [[part.split("}")[0].split(", ") for part in line.split("{")[1:]] for line in mmas]
    (d0, a0, b0, _), (d1, a1, b1, _), (_, a2, b2, c2), (_, a3, b3, c3) = groups
    number = [int(each[2:]) for each in (*a0, *a2, *a1, *a3)]
    assert number == list(range(number[0], number[0] + 16))  # a: m, then k
    assert (b0, b2) == (b1, b3) and int(b2[0][2:]) == int(b0[0][2:]) + 2
    assert (c2, c3) == (d0, d1)


def test_atoms_that_are_not_there():
    from dataclasses import replace

    build = SmallKernel()
    atom = replace(ATOMS[0], name="odd", k=4)
    a, b, c = build.input(F16, 8), build.input(F16, 4), build.input(F32, 4)
    build.mma(Matrix(atom, 1, 1, 1), a, b, c)
    with pytest.raises(LookupError, match="no entry for the atom 'odd'"):
        build.ptx()


def test_warp_numbers_are_uniform():
    lines = body_of(lambda build: build.output(build.warp()))
    assert lines[:3] == [
        "mov.u32 %r0, %tid.x;",
        "shr.u32 %r1, %r0, 5;",
        "shfl.sync.idx.b32 %r1, %r1, 0, 0x1f, 0xffffffff;",
    ]


def test_roles_are_one_chain():
    build = SmallKernel(threads=384)
    roles = [(Role("copy", 8, 4), lambda: build.barrier(1, 128)), (Role("multiply", 0, 8), lambda: None)]
    build.roles(roles)
    lines = build.ptx().text.splitlines()
    labels = [line[:-1] for line in lines if line.startswith("$")]
    jumps = [line.rpartition(" ")[2][:-1] for line in lines if "bra" in line]
    end = labels[-1]
    assert jumps == [labels[0], end, labels[1], end]
    assert any(line.startswith("sub.u32") and line.endswith(", 8;") for line in lines)


@pytest.mark.parametrize("apart, jump", [(False, "bra.uni"), (True, "bra")])
def test_branches_that_threads_take_apart(apart, jump):
    """PTX ISA, "bra": ".uni" promises that all active threads of a warp go the same way."""
    build = SmallKernel()
    value = build.input(I32)
    mask = build.map("lt", value, build.number(3))
    build.branch(mask, lambda: [value], lambda: [build.number(0)], apart=apart)
    jumps = [line.split()[-2] for line in build.ptx().text.splitlines() if "bra" in line]
    assert jumps == [jump, jump]


@pytest.mark.parametrize("body, kept", [("barrier", True), ("small", False), ("large", True)])
def test_loops_that_stay_rolled(body, kept):
    build = SmallKernel()
    value = build.input(F32, 64, 4)

    def turn(counter, carried):
        total = carried[0]
        if body == "barrier":
            build.barrier(0, 128)
        for _ in range(8 if body == "large" else 1):
            total = build.add(total, value)
        return [total]

    build.loop(build.number(0), build.input(I32), build.number(1), [value], turn)
    assert ('.pragma "nounroll";' in build.ptx().text) is kept


def test_barriers_of_a_ring():
    """Groups of two warps wait at barriers 8, 9 and 10, and arrive at that of the group after them."""
    build = SmallKernel(threads=192)
    build.barrier(8, 128, ring=3)
    build.barrier(8, 128, ring=3, arrive=True)
    lines = build.ptx().text.splitlines()
    wait = next(line for line in lines if line.startswith("bar.sync"))
    own = wait.split()[1].rstrip(",")
    assert any(line.startswith(f"shr.u32 {own},") and line.endswith(", 1;") for line in lines)
    assert f"add.u32 {own}, {own}, 8;" in lines
    following = next(line for line in lines if line.startswith("bar.arrive")).split()[1].rstrip(",")
    assert f"add.u32 {following}, {own}, 1;" in lines
    assert any(line.startswith(f"selp.b32 {following}, 8, {following}, ") for line in lines)
    assert any(line.startswith("setp.eq.u32") and line.endswith(f"{following}, 11;") for line in lines)


def test_descriptors():
    """PTX ISA, "Matrix Descriptor Format": 128-byte swizzle and a stride of 1024 bytes give 0x40000040."""
    build = SmallKernel()
    left, right = build.buffer(BF16, 8192), build.buffer(BF16, 8192)
    a = Operand(left, 128, 16, 1024)
    b = Operand(right, 64, 8192, 512, transposed=True)
    matrix = GroupMatrix(8, 32, (BF16, BF16), a, b, fresh=True)
    zero = build.join([build.constant(0.0, F32)] * 4)
    build.group_mma(matrix, build.warp(), build.number(0), zero)
    text = build.ptx().text
    first, second = (line for line in text.splitlines() if "wgmma.mma_async" in line)
    assert "m64n8k16.f32.bf16.bf16" in first
    assert first.endswith(", 0, 1, 1, 0, 1;") and second.endswith(", 1, 1, 1, 0, 1;")
    assert text.count(", 0x40000040};") == 2 and text.count(", 0x80000020};") == 2
    assert f", {1 << 16};" in text and f", {512 << 16};" in text  # the leading distances
    # A step of k is 32 bytes inside the swizzle's span, or 16 rows.
    assert ", 2;\nmov.b64" in text and ", 64;\nmov.b64" in text


def test_shuffles_by_register_of_packed_values():
    build = SmallKernel()
    lanes = build.input(I32, 4)
    build.shuffle(build.input(BF16, 4), lanes)
    with pytest.raises(LookupError, match="'shuffle' of BF16 by register"):
        build.ptx()


def test_the_same_kernel_has_the_same_text():
    def build():
        kernel = SmallKernel()
        values = [kernel.input(F32, 4, 4) for _ in range(3)]
        kernel.output(kernel.convert(kernel.fma(*values), BF16))
        return kernel.ptx()

    assert build() == build()
