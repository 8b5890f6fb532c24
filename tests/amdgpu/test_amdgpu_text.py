"""The text itself: a small kernel in full, numbers, fences, names, and what there is no text for."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from small_kernels import SmallKernel

from gizml_tile.dtypes import BF16, F16, F32, FP8, I32, I64, MASK
from gizml_tile.errors import Place
from gizml_tile.lowering.atoms import ATOMS
from gizml_tile.lowering.emit.amdgpu import emit
from gizml_tile.lowering.emit.amdgpu.intrinsics import ARCHS
from gizml_tile.lowering.emit.amdgpu.literals import literal
from gizml_tile.lowering.kernel_ir.instructions import (
    GLOBAL,
    WORKGROUP,
    Access,
    Copy,
    Matrix,
    Parameter,
    Role,
)
from gizml_tile.target import Target

PLACE = ((0, 0),)


class Small(SmallKernel):
    """A small kernel for an AMD GPU."""

    def __init__(self, arch: str = "gfx942", threads: int = 64) -> None:
        super().__init__(threads=threads)
        self.target = Target("hip", arch)

    def text(self, **others) -> str:
        return emit(self.kernel(**others)).text

    def body_lines(self, **others) -> list[str]:
        """The lines of the first block and those after it."""
        lines = self.text(**others).splitlines()
        return [line.strip() for line in lines[lines.index("entry:") + 1 : lines.index("}")]]


def test_a_whole_text():
    build = Small()
    offsets = build.mul(build.thread(), build.number(2))
    build.place = Place("folder/scale.py", 3, 5)
    value = build.load(Access(GLOBAL, build.tensor(F32), 2, PLACE), offsets, F32)
    build.place = Place("folder/scale.py", 4, 9)
    total = build.fma(value, build.parameter(Parameter("scalar", 2), F32), build.constant(-0.5, F32))
    build.store(Access(GLOBAL, build.tensor(F32), 2, PLACE), total, offsets)
    artifact = emit(build.kernel("scale", may_alias=False))
    assert artifact.text.splitlines() == [
        'target triple = "amdgcn-amd-amdhsa"',
        "define amdgpu_kernel void @scale(ptr addrspace(1) noalias %p0, ptr addrspace(1) noalias %p1, "
        "i64 %p2) #0 !dbg !4 {",
        "entry:",
        "  %v1 = call i32 @llvm.amdgcn.workitem.id.x()",
        "  %v2 = trunc i64 %p2 to i32",
        "  %v3 = bitcast i32 %v2 to float",
        "  %v4 = shl i32 %v1, 1",
        "  %v5 = getelementptr float, ptr addrspace(1) %p0, i32 %v4, !dbg !6",
        "  %v6 = load <2 x float>, ptr addrspace(1) %v5, align 8, !dbg !6",
        "  %v7 = extractelement <2 x float> %v6, i32 0, !dbg !6",
        "  %v8 = extractelement <2 x float> %v6, i32 1, !dbg !6",
        "  %v9 = call float @llvm.fma.f32(float %v7, float %v3, float 0xBFE0000000000000), !dbg !7",
        "  %v10 = call float @llvm.fma.f32(float %v8, float %v3, float 0xBFE0000000000000), !dbg !7",
        "  %v11 = insertelement <2 x float> poison, float %v9, i32 0, !dbg !7",
        "  %v12 = insertelement <2 x float> %v11, float %v10, i32 1, !dbg !7",
        "  %v13 = getelementptr float, ptr addrspace(1) %p1, i32 %v4, !dbg !7",
        "  store <2 x float> %v12, ptr addrspace(1) %v13, align 8, !dbg !7",
        "  ret void, !dbg !7",
        "}",
        "declare float @llvm.fma.f32(float, float, float)",
        "declare i32 @llvm.amdgcn.workitem.id.x()",
        'attributes #0 = { nounwind "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" }',
        "!llvm.dbg.cu = !{!1}",
        "!llvm.module.flags = !{!8}",
        '!0 = !DIFile(filename: "scale.py", directory: "folder")',
        '!1 = distinct !DICompileUnit(language: DW_LANG_C99, file: !0, producer: "gizml-tile", '
        "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)",
        "!2 = !{}",
        "!3 = !DISubroutineType(types: !2)",
        '!4 = distinct !DISubprogram(name: "scale", scope: !0, file: !0, line: 3, type: !3, scopeLine: 3, '
        "spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !1)",
        "!5 = !DILexicalBlockFile(scope: !4, file: !0, discriminator: 0)",
        "!6 = !DILocation(line: 3, column: 5, scope: !5)",
        "!7 = !DILocation(line: 4, column: 9, scope: !5)",
        '!8 = !{i32 2, !"Debug Info Version", i32 3}',
    ]
    assert (artifact.entry, artifact.arch, artifact.threads) == ("scale", "gfx942", 64)
    assert [each.parameter.kind for each in artifact.arguments] == ["pointer", "pointer", "scalar"]


@pytest.mark.parametrize(
    "number, dtype, text",
    [
        (0.1, F32, "0x3FB99999A0000000"),
        (-0.0, F32, "0x8000000000000000"),
        (float("inf"), F32, "0x7FF0000000000000"),
        (2.0**-149, F32, "0x36A0000000000000"),
        (1.5, F16, "0xH3E00"),
        (-2.0, BF16, "-16384"),
        (448.0, FP8, "126"),
        (True, MASK, "true"),
        (-7, I64, "-7"),
    ],
)
def test_numbers(number, dtype, text):
    assert literal(number, dtype) == text


def exchange(build: Small, *, back: bool) -> str:
    """A store to workgroup memory, a barrier, and the way out; read again from the tensor if ``back``."""
    value = build.input(F32)
    buffer = build.buffer(F32, 64)
    build.store(Access(WORKGROUP, buffer, 1, PLACE), value, build.thread())
    build.barrier(0, 64)
    moved = build.load(Access(WORKGROUP, buffer, 1, PLACE), build.thread(), F32)
    tensor = build.tensor(F32)
    build.store(Access(GLOBAL, tensor, 1, PLACE), moved, build.thread())
    if back:
        build.barrier(0, 64)
        build.output(build.load(Access(GLOBAL, tensor, 1, PLACE), build.thread(), F32))
    return build.text(may_alias=False)


def test_fences_order_workgroup_memory_alone():
    text = exchange(Small(), back=False)
    tagged = re.search(r'fence syncscope\("workgroup"\) release, !mmra !(\d+)\n', text)
    parts = re.search(rf"!{tagged[1]} = !{{!(\d+), !(\d+)}}", text)
    assert f'!{parts[1]} = !{{!"amdgpu-synchronize-as", !"local"}}' in text
    assert f'!{parts[2]} = !{{!"amdgpu-as", !"local"}}' in text
    assert text.count("fence") == text.count("!mmra") == 2


def test_fences_order_tensors_that_are_read_again():
    text = exchange(Small(), back=True)
    assert text.count('fence syncscope("workgroup")') == 4 and "!mmra" not in text


def test_masked_reads_are_no_branches_and_writes_are():
    build = Small()
    mask, pad = build.mask(), 7.0
    tensor = build.tensor(F32)
    for each in (0.0, pad):
        value = build.load(Access(GLOBAL, tensor, 1, PLACE, each), build.thread(), F32, mask)
        build.store(Access(GLOBAL, tensor, 1, PLACE), value, build.thread(), mask)
    text = build.text()
    assert "@zeros = internal addrspace(1) constant [16 x i8] zeroinitializer, align 16" in text
    assert text.count("br i1") == 2
    assert len(re.findall(r"select i1 %v\d+, float", text)) == 1


def test_reads_do_not_move_across_products():
    atom = next(each for each in ATOMS if each.name == "mfma_f16_16x16x16")
    build = Small()
    operands = build.input(F16, 4), build.input(F16, 8), build.input(F32, 8)
    build.output(build.mma(Matrix(atom, 1, 2, 1), *operands))
    calls = [line for line in build.body_lines() if "@llvm.amdgcn.mfma" in line or "sched" in line]
    assert len(calls) == 3 and calls[2] == "call void @llvm.amdgcn.sched.barrier(i32 0)"


def test_divisors_that_llvm_knows_nothing_of():
    build = Small()
    number = build.input(I32)
    build.output(build.map("div", number, build.number(7)))
    build.output(build.map("div", number, number))
    lines = build.body_lines()
    assert sum("sdiv i32" in line for line in lines) == 2
    # Kept from 0 and -1 where it may be one of them.
    assert sum(line.endswith(", -1") for line in lines) == 1


def test_waiting_loops_are_not_unrolled():
    build = Small()
    bounds = [build.number(each) for each in (0, 9, 1)]
    build.loop(*bounds, [], lambda counter, carried: build.barrier(0, 64) or [])
    build.loop(*bounds, [build.input(I32)], lambda counter, carried: [build.add(carried[0], counter)])
    text = build.text()
    assert text.count("!llvm.loop") == 1 and '!{!"llvm.loop.unroll.disable"}' in text


def test_places_of_files_with_odd_names():
    build = Small()
    build.place = Place('a "b"\\ü.py', 1, 1)
    build.output(build.input(F32))
    assert 'filename: "a ?b???.py"' in build.text()


def test_sizes_of_the_launch():
    """In threads along each axis, as the launch's description has them."""
    build = Small()
    build.output(build.workgroups(0))
    build.output(build.workgroups(1))
    lines = build.body_lines()
    places = [re.search(r"i64 (\d+)$", line)[1] for line in lines if "addrspace(4) %v1," in line]
    divisors = [line.rpartition(", ")[2] for line in lines if "udiv" in line]
    assert (places, divisors) == (["12", "16"], ["64", "1"])


def wrong(build: Small) -> str:
    with pytest.raises(LookupError) as caught:
        build.text()
    return str(caught.value)


def test_there_is_no_text_for_asynchronous_copies():
    build = Small()
    buffer = build.buffer(F32, 64)
    build.copy(Copy(build.tensor(F32), buffer, 4, PLACE, PLACE), build.thread(), build.thread())
    assert wrong(build) == "LLVM IR for AMD GPUs has no entry for the instruction 'copy'"


def test_there_is_no_text_for_roles():
    build = Small(threads=128)
    build.roles([(Role("one", 0, 1), lambda: None), (Role("two", 1, 1), lambda: None)])
    assert wrong(build) == "LLVM IR for AMD GPUs has no entry for the instruction 'roles'"


def test_there_is_no_text_for_a_barrier_of_some():
    build = Small(threads=128)
    build.barrier(3, 64)
    assert wrong(build) == (
        "LLVM IR for gfx942 has no entry for the instruction 'barrier' number 3 of 64 threads"
    )


def test_there_is_no_text_for_a_conversion_to_fp8():
    build = Small()
    build.output(build.convert(build.input(F32), FP8))
    assert wrong(build) == "LLVM IR for gfx942 has no entry for the instruction 'convert' from F32 to FP8"


def test_there_is_no_text_for_foreign_atoms():
    atom = next(each for each in ATOMS if each.name == "f16_16x8x16")
    build = Small()
    operands = build.input(F16, 8), build.input(F16, 4), build.input(F32, 4)
    build.output(build.mma(Matrix(atom, 1, 1, 1), *operands))
    assert wrong(build) == "LLVM IR for AMD GPUs has no entry for the atom 'f16_16x8x16'"


def test_a_matrix_instruction_of_another_gpu():
    atom = next(each for each in ATOMS if each.name == "mfma_f16_16x16x32")
    build = Small("gfx90a")
    operands = build.input(F16, 8), build.input(F16, 8), build.input(F32, 4)
    build.output(build.mma(Matrix(atom, 1, 1, 1), *operands))
    assert wrong(build) == "gfx90a has no llvm.amdgcn.mfma.f32.16x16x32.f16; it is for gfx950"


def test_there_is_no_text_for_other_gpus():
    build = Small("sm_90a")
    assert wrong(build) == f"LLVM IR is not written for hip (sm_90a); it is for {', '.join(ARCHS)}"


def test_a_parameter_that_is_not_passed():
    build = Small()
    build.output(build.input(F32))
    kernel = build.kernel()
    with pytest.raises(LookupError, match=r"kernel kernel has no parameter Parameter\(kind='pointer'"):
        emit(replace(kernel, parameters=()))
