"""Kernels as text."""

from gizml_tile.dtypes import BF16, F16, F32, FP8, I32, I64
from gizml_tile.errors import Place
from gizml_tile.lowering.atoms import ATOMS
from gizml_tile.lowering.kernel_ir.builder import Builder
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    WORKGROUP,
    Access,
    Buffer,
    Bulk,
    Copy,
    GroupMatrix,
    Kernel,
    Matrix,
    MatrixAccess,
    Operand,
    Parameter,
    Role,
)
from gizml_tile.lowering.kernel_ir.text import text
from gizml_tile.nodes import Tensor
from gizml_tile.target import Target

TENSORS = (Tensor("a", F16, 2), Tensor("out", F32, 1))
BUFFERS = (Buffer("stage", F16, 1024), Buffer("sums", F32, 64, 2048))


def written(write, **more):
    build = Builder()
    write(build)
    parameters = (Parameter("pointer", 0), Parameter("size", 0, 1), Parameter("scalar", 2))
    parameters += (Parameter("grid", axis=1),)
    return Kernel("demo", Target("cuda", "sm_90a"), TENSORS, parameters, BUFFERS, 128, build.body(), **more)


def lines(write):
    """The text after the head."""
    return text(written(write)).split("\n")[6:-1]


def test_head():
    assert text(written(lambda b: None, axes=2, signals=3, resident=2)) == (
        "kernel demo for cuda (sm_90a): 128 threads, 2328 bytes of workgroup memory, grid of 2 axes, "
        "2 resident, 3 signals\n"
        "tensor 0 a: f16 rank 2\n"
        "tensor 1 out: f32 rank 1\n"
        "buffer 0 stage: f16 x 1024 at byte 0\n"
        "buffer 1 sums: f32 x 64 at byte 2048\n"
        "parameters: pointer a, size a axis 1, scalar 2, grid axis 1\n"
    )


def test_values():
    def write(b):
        x = b.load(Access(GLOBAL, 0, 8, ((0, 0), (0, 512)), 1.5), b.thread(), F16)
        y = b.pick(b.convert(x, F32), (0, 1, 2, 3, 7, 7, 7, 5))
        b.store(Access(WORKGROUP, 1, 4, ((0, 0), (0, 32))), y, b.constant((0, 8, 16), I32))

    assert lines(write) == [
        "%0  thread i32",
        "%1  constant i32 x 3: 0 8 16",
        "%2  load f16 x 16: %0 [a width 8 at r0 r0+512 pad 1.5]",
        "%3  convert f32 x 16: %2",
        "%4  pick f32 x 8: %3 [0..3 7*3 5]",
        "    store: %4 %1 [sums width 4 at r0 r0+32]",
    ]


def test_structure():
    def write(b):
        zero, one = b.constant(0, I32), b.constant(1, I32)

        def turn(k, carried):
            (x,) = b.branch(b.map("lt", k, one), lambda: [b.add(carried[0], k)], lambda: [k])
            return [x]

        b.loop(zero, b.thread(), one, [zero], turn)
        b.when(b.map("eq", b.lane(), one), lambda: b.barrier(1, 64, arrive=True))
        b.roles([(Role("load", 0, 1), b.warp_barrier), (Role("compute", 1, 3), lambda: b.copy_wait(2))])

    assert lines(write) == [
        "%0   constant i32: 0",
        "%1   constant i32: 1",
        "%2   thread i32",
        "%3   lane i32",
        "%4   loop: %0 .. %2 step %1 carries %0",
        "%5     param i32",
        "%6     param i32",
        "%7     lt mask: %5 %1",
        "%8     branch: %7",
        "       then",
        "%9       add i32: %6 %5",
        "         give %9",
        "       else",
        "         give %5",
        "%10    result i32: %8 [0]",
        "       give %10",
        "%11  result i32: %4 [0]",
        "%12  eq mask: %3 %1",
        "     when: %12",
        "       barrier: number 1 of 64 threads arrives",
        "     roles",
        "     role load of 1 warps from 0",
        "       warp_barrier",
        "     role compute of 3 warps from 1",
        "       copy_wait: 2",
    ]


def test_attributes():
    operand = Operand(0, 128, 16, 1024)
    attrs = {
        "parameter": Parameter("stride", 0, 1),
        "matrix_load": MatrixAccess(0, 4, True, ((0, 0), (0, 8))),
        "copy": Copy(0, 0, 8, ((0, 0),), ((0, 64),)),
        "bulk_load": Bulk(0, 0, (64, 32), 64, rounded=True),
        "mma": Matrix(ATOMS[0], 2, 4, 1),
        "group_mma": GroupMatrix(128, 16, (BF16, BF16), None, operand, True),
        "registers": (240, True),
    }

    def write(b):
        for op, attr in attrs.items():
            b.emit(op, (), attr, I64, 1)

    assert [line.partition("i64")[2] for line in lines(write)] == [
        ": stride a axis 1",
        ": stage 4 matrices transposed at r0 r0+8",
        ": width 8 to stage at r0 from a at r0+64",
        ": box 64x32 of a in stage swizzle 64 rounded",
        ": f16_16x8x16, 2 x 4 atoms, 1 steps",
        ": 64 x 128 x 16 bf16, a in registers, b in stage leading 16 stride 1024 swizzle 128, from zero",
        ": 240 True",
    ]


def test_places_are_optional():
    def write(b):
        b.place = Place("/some/where/kernel.py", 12)
        b.emit("add", (b.thread(), b.thread()), None, I32, 1)

    assert text(written(write)).endswith("  # kernel.py:12\n")
    plain = text(written(write), places=False)
    assert plain.endswith("add i32: %0 %0\n")
    assert plain == text(written(write), places=False)


def test_numbers_keep_their_signs():
    def write(b):
        b.constant(-0.0, F32)
        b.constant((0.0, 0.0, -0.0, 1.0, 2.0, 3.0), FP8)

    assert lines(write) == ["%0  constant f32: -0.0", "%1  constant fp8 x 6: 0.0 0.0 -0.0 1.0 2.0 3.0"]
