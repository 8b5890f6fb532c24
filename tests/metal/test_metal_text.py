"""The text itself: small kernels in full, numbers, names, and what there is no text for."""

from __future__ import annotations

import itertools
import math
import struct

import numpy as np
import pytest
from small_kernels import SmallKernel

import gizml_tile as tile
from gizml_tile.dtypes import BF16, F16, F32, FP8, I32, I64, MASK, U8
from gizml_tile.errors import Place
from gizml_tile.lowering.atoms import ATOMS
from gizml_tile.lowering.emit.arguments import Argument
from gizml_tile.lowering.emit.metal import MetalArtifact, emit
from gizml_tile.lowering.emit.metal.spelling import literal, name_of
from gizml_tile.lowering.emit.metal.words import Array, run_text, turn_text
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    Access,
    Copy,
    Matrix,
    Parameter,
    Role,
)
from gizml_tile.target import Target

APPLE7, APPLE9 = Target("metal", "apple7"), Target("metal", "apple9")
PLACE = ((0, 0),)


class Small(SmallKernel):
    """A small kernel for an Apple GPU."""

    def __init__(self, arch: str = "apple9", threads: int = 64) -> None:
        super().__init__(threads=threads)
        self.target = Target("metal", arch)

    def artifact(self, **others) -> MetalArtifact:
        return emit(self.kernel(**others))

    def body_lines(self) -> list[str]:
        """The lines of the kernel's own body."""
        lines = self.artifact().text.splitlines()
        head = lines.index("kernel void kernel_kernel(")
        start = next(number for number, line in enumerate(lines) if number > head and line.endswith(") {"))
        return lines[start + 1 : -1]


def test_a_whole_text():
    build = Small()
    offsets = build.mul(build.thread(), build.number(2))
    build.place = Place("scale.py", 3, 5)
    value = build.load(Access(GLOBAL, build.tensor(F32), 2, PLACE), offsets, F32)
    build.place = Place("scale.py", 4, 9)
    total = build.fma(value, build.parameter(Parameter("scalar", 2), F32), build.constant(-0.5, F32))
    build.store(Access(GLOBAL, build.tensor(F32), 2, PLACE), total, offsets)
    artifact = build.artifact(name="scale")
    head, _, body = artifact.text.partition("#define UNROLL")
    assert head.splitlines() == [
        "// scale for metal (apple9): 64 threads, 0 bytes of threadgroup memory.",
        "#include <metal_stdlib>",
        "#include <metal_simdgroup>",
        "#include <metal_simdgroup_matrix>",
        "",
        "using namespace metal;",
        "",
        "// Infinities and NaNs are numbers like others, and a product and a sum are rounded each.",
        "#if __METAL_VERSION__ >= 320",
        "#pragma METAL fp math_mode(safe)",
        "#endif",
        "#pragma METAL fp contract(off)",
        "",
    ]
    assert body.splitlines() == [
        ' _Pragma("clang loop unroll(full)")',
        "",
        "inline int shift_left(int a, int count) { return int(uint(a) << uint(count)); }",
        "inline long shift_left(long a, long count) { return long(ulong(a) << ulong(count)); }",
        "",
        "struct Scalars {",
        "    float scalar_2;",
        "};",
        "",
        "[[max_total_threads_per_threadgroup(64)]]",
        "kernel void scale(",
        "    device const float* t0 [[buffer(0)]],",
        "    device float* t1 [[buffer(1)]],",
        "    constant Scalars& scalars [[buffer(2)]],",
        "    uint thread_index [[thread_index_in_threadgroup]]) {",
        "    const int tid = int(thread_index);",
        "    const int v_0 = shift_left(tid, 1);",
        "",
        "    // scale.py:3",
        "    const float2 t0_0 = *(const device float2*)(t0 + v_0);",
        "",
        "    // scale.py:4",
        "    float v_1[2];",
        "    v_1[0] = fma(t0_0[0], scalars.scalar_2, (-0.5f));",
        "    v_1[1] = fma(t0_0[1], scalars.scalar_2, (-0.5f));",
        "    *(device float2*)(t1 + v_0) = float2(v_1[0], v_1[1]);",
        "}",
    ]
    assert (artifact.entry, artifact.arch, artifact.threads) == ("scale", "apple9", 64)
    pointers = [Argument(Parameter("pointer", number), I64) for number in range(2)]
    assert artifact.arguments == (*pointers, Argument(Parameter("scalar", 2), F32))


def test_the_persons_line_is_a_comment(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("# a kernel\ny = größe + 1  \\\n")
    build = Small()
    build.place = Place(str(file), 2, 1)
    build.output(build.input(F32))
    assert "    // mine.py:2: y = gr??e + 1" in build.body_lines()


def test_what_computes_register_by_register_is_one_loop():
    build = Small()
    value = build.input(F32, 8, 4)
    square = build.mul(value, value)
    build.output(build.add(build.map("sqrt", square), square), 4)
    assert build.body_lines() == [
        "    const int tid = int(thread_index);",
        "    const int v_0 = shift_left(tid, 3);",
        "    float4 t0_0[2];",
        "    t0_0[0] = *(const device float4*)(t0 + v_0);",
        "    t0_0[1] = *(const device float4*)(t0 + v_0 + 4);",
        "    float v_1[8];",
        "    UNROLL for (ushort r = 0; r < 8; r++) {",
        "        const float v_2 = t0_0[r / 4][r % 4] * t0_0[r / 4][r % 4];",
        "        v_1[r] = precise::sqrt(v_2) + v_2;",
        "    }",
        "    const int v_3 = shift_left(tid, 3);",
        "    *(device float4*)(t1 + v_3) = float4(v_1[0], v_1[1], v_1[2], v_1[3]);",
        "    *(device float4*)(t1 + v_3 + 4) = float4(v_1[4], v_1[5], v_1[6], v_1[7]);",
    ]


def test_what_a_loop_adds_to_stays_in_its_variables():
    build = Small()
    value = build.input(F32, 4, 4)
    add = lambda counter, carried: [build.add(carried[0], value)]
    build.output(build.loop(build.number(0), build.number(9), build.number(1), [value], add)[0], 4)
    text = "\n".join(build.body_lines())
    inside = text[text.index("for (int") : text.index("*(device")].splitlines()
    assert [line.strip() for line in inside[:-1]] == [
        "for (int turn_0 = 0; turn_0 < 9; turn_0 += 1) {",
        "UNROLL for (ushort r = 0; r < 4; r++)",
        "carried_0[r] = carried_0[r] + t0_0[r];",
        "}",
    ]


def test_products_and_what_bf16_is():
    def product(arch: str) -> str:
        build = Small(arch)
        atom = next(each for each in ATOMS if each.name == "simdgroup_bf16_8x8x8")
        a, b = build.input(BF16, 4, 4), build.input(BF16, 8, 8)
        build.output(build.mma(Matrix(atom, 2, 4, 1), a, b, build.input(F32, 16)))
        return build.artifact().text

    text = product("apple8")
    assert (
        "    UNROLL for (ushort row = 0; row < 2; row++)\n"
        "        UNROLL for (ushort column = 0; column < 4; column++)\n"
        "            multiply_accumulate(v_3 + 8 * row + 2 * column, v_1 + 2 * row, v_2 + 2 * column);\n"
    ) in text
    assert "v_2[r] = as_type<bfloat2>(t1_0[r / 2])[r % 2];" in text
    assert "device const bfloat* t0" in text
    with pytest.raises(LookupError, match="Metal has no entry for the atom 'simdgroup_bf16_8x8x8'"):
        product("apple7")


@pytest.mark.parametrize("may_alias", [True, False])
def test_a_barrier_orders_tensors_where_one_is_written_and_read(may_alias):
    build = Small()
    value = build.input(F32)
    build.barrier(0, 64)
    build.output(value)
    flags = (
        "mem_flags::mem_device | mem_flags::mem_threadgroup" if may_alias else "mem_flags::mem_threadgroup"
    )
    assert f"    threadgroup_barrier({flags});" in build.artifact(may_alias=may_alias).text.splitlines()


def test_numbers_and_structures():
    build = Small()
    size = build.parameter(Parameter("size", 0, 1))
    build.output(build.convert(build.mul(size, build.parameter(Parameter("scalar", 1))), I32))
    assert "    long t0_size_1;\n    long scalar_1;\n" in build.artifact().text


@pytest.mark.parametrize(
    "number, dtype, text",
    [
        (0.1, F32, "0.1f"),
        (1.0, F32, "1.0f"),
        (-0.0, F32, "(-0.0f)"),
        (1e30, F32, "1e+30f"),
        (-160.0, F32, "(-160.0f)"),
        (math.inf, F32, "INFINITY"),
        (-math.inf, F32, "(-INFINITY)"),
        (math.nan, F32, "NAN"),
        (1.0, F16, "half(1.0f)"),
        (1.0, BF16, "bfloat(1.0f)"),
        (1.0, FP8, "uchar(0x38)"),
        (-5, I32, "(-5)"),
        (-(2**31), I32, "(-2147483647 - 1)"),
        (-(2**63), I64, "(-9223372036854775807L - 1)"),
        (7, I64, "7L"),
        (200, U8, "uchar(200)"),
        (True, MASK, "true"),
    ],
)
def test_literals(number, dtype, text):
    assert literal(number, dtype, APPLE9) == text
    if dtype is BF16:
        assert literal(number, dtype, APPLE7) == "ushort(0x3f80)"


def test_every_float_is_its_literal():
    for pattern in [1, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, *range(0x3E000000, 0x42000000, 40009)]:
        value = struct.unpack("f", struct.pack("I", pattern))[0]
        text = literal(value, F32, APPLE9)
        assert struct.pack("f", min(float(text[:-1]), 3.4028234663852886e38)) == struct.pack("I", pattern)


@pytest.mark.parametrize(
    "name, text",
    [
        ("x", "x"),
        ("half", "half_tensor"),
        ("max", "max_tensor"),
        ("2 stages of a", "stages_of_a"),
        ("größe__x", "gr_e_x"),
        ("_", "tensor"),
        ("numbers", "numbers_tensor"),
        ("word", "word_tensor"),
    ],
)
def test_names(name, text):
    assert name_of(name, "tensor") == text


def evaluated(text: str, r: int) -> int:
    return eval(text.replace("/", "//"), {"r": r})


def test_places_as_expressions_of_the_turn():
    """Every text that there is gives the numbers; steps and exchanged bits have one."""
    for first, step in itertools.product((0, 3, 16), (-1, 0, 1, 4)):
        numbers = [first + 16 + step * place for place in range(7)]
        assert [evaluated(turn_text(numbers), r) for r in range(7)] == numbers
    for bits in itertools.permutations([0, 1, 2, 4, 8], 3):
        for first in (0, 16, 5):
            numbers = [first]
            for bit in bits:
                numbers += [each ^ bit for each in numbers]
            text = turn_text(numbers)
            if text is not None:
                assert [evaluated(text, r) for r in range(8)] == numbers, text
    assert turn_text([0, 1, 0, 1]) == "r % 2"
    assert turn_text([0, 0, 1, 1]) == "r / 2"
    assert turn_text([0, 4, 1, 5]) == "r % 2 * 4 + r / 2"
    assert turn_text([1, 0, 3, 2]) == "(r ^ 1)"
    assert turn_text([0, 1, 5, 2]) is None


def test_registers_as_expressions_of_the_turn():
    plain, vectors = Array("a", 8), Array("b", 16, 4)
    words, one = Array("c", 16, 8, "half2", 2), Array("d", 4, 4)
    column = lambda array, places: [(array, place) for place in places]
    assert run_text(column(plain, range(4))) == "a[r]"
    assert run_text(column(vectors, range(8))) == "b[r / 4][r % 4]"
    assert run_text(column(words, range(8, 16))) == "as_type<half2>(c[1][r / 2])[r % 2]"
    assert run_text(column(one, [0, 2])) == "d[r * 2]"
    assert run_text(["x", "x"]) == "x"
    assert run_text([(plain, 0), (one, 0)]) is None


def refused(build: Small, text: str) -> None:
    with pytest.raises(LookupError, match=text):
        build.artifact()


def test_what_apple_has_no_text_for():
    build = Small()
    build.emit("teleport")
    refused(build, "Metal has no entry for the instruction 'teleport'")
    build = Small()
    zero = build.number(0)
    build.copy(Copy(build.tensor(F32), build.buffer(F32, 4), 4, PLACE, PLACE), zero, zero)
    refused(build, "Metal has no entry for the instruction 'copy'")
    build = Small()
    build.roles([(Role("all", 0, 2), lambda: None)])
    refused(build, "Metal has no entry for the instruction 'roles'")
    build = Small()
    build.output(build.map("rem", build.input(F32), build.input(F32)))
    refused(build, "no entry for the instruction 'rem' on F32")
    for source, to in ((F32, FP8), (FP8, F32), (F32, BF16)):
        build = Small("apple7")
        build.output(build.convert(build.input(source), to))
        refused(build, f"'convert' from {source} to {to}")
    build = Small()
    build.barrier(1, 64)
    refused(build, "'barrier' of 64 threads")
    build = Small()
    atom = next(each for each in ATOMS if each.name == "f16_16x8x16")
    build.output(
        build.mma(Matrix(atom, 1, 1, 1), build.input(F16, 8), build.input(F16, 4), build.input(F32, 4))
    )
    refused(build, "Metal has no entry for the atom 'f16_16x8x16'")


def test_a_barrier_of_each_simdgroup():
    build = Small()
    build.barrier(1, 32, each=True)
    build.warp_barrier()
    assert build.body_lines() == ["    simdgroup_barrier(mem_flags::mem_threadgroup);"] * 2


def test_targets_and_tensors_that_there_is_no_text_for():
    build = Small()
    build.target = Target("cuda", "sm_90a")
    refused(build, r"MSL is not written for cuda \(sm_90a\); it is for apple7, apple8, apple9")
    build = Small()
    for _ in range(30):
        build.tensor(F32)
    refused(build, "Metal takes 29 tensors; kernel kernel has 30")


def test_the_parameters_that_are_missing():
    build = Small()
    build.tensor(F32)
    build.emit("parameter", (), Parameter("size", 0, 0), I64, 1)
    refused(build, "kernel kernel has no number Parameter")


@tile.kernel(grid=lambda y, **_: (tile.cdiv(y.shape[0], 64),))
def doubled(p, x, y):
    i = p.id(0)
    p.write(y, [64])[i] = p.read(x, [64])[i] * 2


def test_the_source_of_a_kernel():
    x = np.zeros(100, np.float16)
    texts = [
        doubled.source(x, x, kind="metal", **arch) for arch in ({}, {"arch": "apple9"}, {"arch": "apple7"})
    ]
    assert texts[0] == texts[1] and texts[0].startswith("// doubled for metal (apple9)")
    assert texts[2].startswith("// doubled for metal (apple7)")
    line = "    // test_metal_text.py:{}: p.write(y, [64])[i] = p.read(x, [64])[i] * 2"
    assert line.format(doubled.__wrapped__.__code__.co_firstlineno + 3) in texts[0].splitlines()
    stored = doubled.source(x, x, kind="metal", arch="apple7", storage=[tile.BF16, tile.FP8])
    assert "device const ushort* x" in stored and "device uchar* y" in stored
