"""The text of the corpus, of the examples and of what is measured, as LLVM's code generator sees it.

Each architecture is given a part of the corpus and a few random programs here. All of them, optimised as
comgr does, take some minutes, and say how many texts there were and which spill:
``pytest tests/amdgpu/test_amdgpu_code.py --whole -rP``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import addressing_cases
import along_cases
import benchmark_cases
import control_cases
import double_cases
import elementwise_cases
import port_cases
import product_cases
import pytest
import row_cases
import shape_cases
import window_cases
from compilers import Compiler
from example_launches import PROGRAMS, Catcher, run_example
from execute import compile_body, is_without_room
from generate import generate
from generate_products import generate_products
from programs import Program
from tensors import build_all

import gizml_tile as tile
from gizml_tile.kernel import Kernel
from gizml_tile.lowering.emit.amdgpu.intrinsics import ARCHS, INTRINSICS, intrinsic
from gizml_tile.target import Target

MODULES = (
    addressing_cases,
    along_cases,
    control_cases,
    double_cases,
    elementwise_cases,
    port_cases,
    row_cases,
    product_cases,
    shape_cases,
    window_cases,
)
CASES = [case for module in MODULES for case in module.CASES]
# Ragged blocks are computed with on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::gizml_tile.errors.TileWarning")

# What comgr does before it makes code.
OPTIMISED = 3
# The random programs of each generator for an architecture.
RANDOM, ALL_RANDOM = 2, 60
_FACTS = ("vgpr_count", "vgpr_spill_count", "private_segment_fixed_size", "group_segment_fixed_size")


@dataclass(frozen=True)
class Report:
    """What LLVM says of a kernel's code: registers, bytes in memory, instructions of matrix units."""

    registers: int
    spilled: int
    private: int
    workgroup: int
    matrix: int

    @property
    def spills(self) -> bool:
        return self.spilled > 0 or self.private > 0


class Compilers:
    """Two workers, which take one text after the other."""

    def __init__(self) -> None:
        self.free = [Compiler(), Compiler()]

    def report(self, text: str, arch: str, level: int) -> Report:
        worker = self.free.pop()
        try:
            assembly = worker.ask(text=text, arch=arch, level=level)["assembly"]
        finally:
            self.free.append(worker)
        facts = [int(re.search(rf"\.{name}: *(\d+)", assembly)[1]) for name in _FACTS]
        return Report(*facts, len(re.findall(r"\bv_(?:mfma|wmma|smfmac)_", assembly)))


@pytest.fixture(scope="module")
def compilers():
    return Compilers()


def reports(texts: Iterable[tuple[str, str, str]], compilers: Compilers, level: int = 0) -> dict[str, Report]:
    """Reports by name, for names, texts and architectures. What holds for every kernel is checked.

    LLVM's own passes leave out what has no effect, as in programs that store nothing of what they compute,
    and workgroup memory that nothing is read from.
    """
    modules = [
        (name + part, module, arch) for name, text, arch in texts for part, module in modules_of(text)
    ]
    with ThreadPoolExecutor(2) as pool:
        jobs = {
            name: (text, arch, pool.submit(compilers.report, text, arch, level))
            for name, text, arch in modules
        }
        found = {name: job.result() for name, (_, _, job) in jobs.items()}
    for name, (text, arch, _) in jobs.items():
        size = re.search(r"_memory = internal addrspace\(3\) global \[(\d+) x i8\]", text)
        memory, products = int(size[1]) if size else 0, bool(re.search("= call .*(mfma|wmma)", text))
        assert found[name].workgroup == memory or (level and found[name].workgroup < memory), name
        assert found[name].workgroup <= Target("hip", arch).facts.workgroup_memory, name
        assert (found[name].matrix > 0) == products or (level and not found[name].matrix), name
    return found


def modules_of(text: str) -> Iterator[tuple[str, str]]:
    """The modules of a launch, which has several where its programs run one after the other."""
    modules = re.split(r"(?m)^(?=target triple)", text)[1:]
    for number, module in enumerate(modules):
        yield f", program {number}" if len(modules) > 1 else "", module


def source(case, arch):
    return case.launch.source(*case.tensors(), kind="hip", arch=arch, **case.constants)


def told(arch: str, found: Mapping[str, Report]) -> list[str]:
    """The names of what spills; they are printed."""
    spilling = [name for name, report in found.items() if report.spills]
    print(f"{arch}: {len(found)} texts, {len(spilling)} spill {spilling}")
    return spilling


@pytest.mark.parametrize("number", range(len(ARCHS)), ids=ARCHS)
def test_the_corpus_becomes_code(number, compilers, whole):
    """A third of the cases for each architecture, so that each case is seen on two."""
    chosen = {place: case for place, case in enumerate(CASES) if whole or (place + number) % 3 == 0}
    arch = ARCHS[number]
    texts = ((f"{place}: {case}", source(case, arch), arch) for place, case in chosen.items())
    found = reports(texts, compilers, OPTIMISED if whole else 0)
    assert len(found) >= len(chosen) > 30
    told(arch, found)


@pytest.mark.parametrize("number", range(len(ARCHS)), ids=ARCHS)
def test_random_programs_become_code(number, compilers, whole):
    first, count = (0, ALL_RANDOM) if whole else (RANDOM * number, RANDOM)
    programs = [make(seed) for make in (generate, generate_products) for seed in range(first, first + count)]
    texts = random_texts(programs, ARCHS[number])
    assert len(texts) > count
    told(ARCHS[number], reports(texts, compilers, OPTIMISED if whole else 0))


def random_texts(programs: Iterable[Program], arch: str) -> list[tuple[str, str, str]]:
    """Those of the programs that fit the device."""
    texts = []
    for program in programs:
        body = compile_body(program, {name: view for name, (_, view) in build_all(program.tensors).items()})
        try:
            text = tile.source(program.grid, body, kind="hip", arch=arch)
        except tile.TileError as error:
            assert is_without_room(error)
        else:
            texts.append((f"random program {len(texts)}, seed {program.seed}", text, arch))
    return texts


@pytest.mark.parametrize("arch", ARCHS)
def test_what_is_measured_does_not_spill(arch, compilers, whole):
    cases = benchmark_cases.cases(arch, "hip")
    if arch in ("gfx1151", "gfx1200") and not whole:  # of the units of gfx1100 and gfx1201
        cases = cases[::3]
    found = reports(((case.name, source(case, arch), arch) for case in cases), compilers, OPTIMISED)
    assert not told(arch, found)
    assert all(report.matrix for name, report in found.items() if name.startswith(("matmul bf", "attention")))


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_example_becomes_code(program, monkeypatch, compilers, whole):
    """Launches run on the CPU here, so that the example goes on."""
    texts: dict[tuple[str, str], str] = {}
    on_the_cpu, run = Kernel._launch, tile.run

    def kernel(kernel, *args, **named):
        for arch in ARCHS:
            texts[kernel._kernel.__name__, arch] = kernel.source(*args, kind="hip", arch=arch, **named)
        return on_the_cpu(kernel._kernel, kernel.grid, args, named)

    def body(grid, body):
        for arch in ARCHS:
            texts["body", arch] = tile.source(grid, body, kind="hip", arch=arch)
        return run(grid, body)

    Catcher(monkeypatch, kernel, body)
    run_example(monkeypatch, program)
    named = ((f"{name} {arch}", text, arch) for (name, arch), text in texts.items())
    found = reports(named, compilers, OPTIMISED if whole else 0)
    assert len(found) >= len(ARCHS)
    told(program, found)


MATRIX = [name for name in INTRINSICS if "mfma" in name or "wmma" in name]


@pytest.mark.parametrize("name", MATRIX)
def test_llvm_has_a_matrix_instruction(name, compilers):
    """Where the table of intrinsics says, with the types that it says."""
    known = INTRINSICS[name]
    passed, body = [], []
    for number, kind in enumerate(known.operands):
        if kind == "i1" or (kind == "i32" and number > 2):
            passed.append(f"{kind} {'false' if kind == 'i1' else 0}")
            continue
        body.append(f"  %o{number} = load {kind}, ptr addrspace(1) %p{number}")
        passed.append(f"{kind} %o{number}")
    pointers = ", ".join(f"ptr addrspace(1) %p{number}" for number in range(len(known.operands)))
    text = "\n".join(
        [
            'target triple = "amdgcn-amd-amdhsa"',
            f"define amdgpu_kernel void @kernel({pointers}) {{",
            *body,
            f"  %r = call {known.result} @{name}({', '.join(passed)})",
            f"  store {known.result} %r, ptr addrspace(1) %p0",
            "  ret void",
            "}",
            known.declaration(name),
        ]
    )
    for arch in sorted(known.archs):
        assert compilers.report(text, arch, 0).matrix == 1


def test_a_wrong_intrinsic_is_an_error_and_no_abort():
    with pytest.raises(LookupError, match=r"has no intrinsic 'llvm.amdgcn.s.barier'"):
        intrinsic("llvm.amdgcn.s.barier", "gfx942", ())
    with pytest.raises(LookupError, match=r"gfx942 has no llvm.amdgcn.wmma.* it is for gfx1100, gfx1151"):
        intrinsic("llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v16f16", "gfx942", ())
    with pytest.raises(LookupError, match=r"llvm.fabs.f32 takes \(float\), not \(i32\)"):
        intrinsic("llvm.fabs.f32", "gfx942", ("i32",))


def test_llvm_would_abort(compilers):
    """Why intrinsics are looked up first: the process ends, and the next text gets another."""
    text = "\n".join(
        [
            'target triple = "amdgcn-amd-amdhsa"',
            "define amdgpu_kernel void @kernel(ptr addrspace(1) %p, <16 x half> %a, <8 x float> %c) {",
            "  %r = call <8 x float> @llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v16f16(",
            "    <16 x half> %a, <16 x half> %a, <8 x float> %c)",
            "  store <8 x float> %r, ptr addrspace(1) %p",
            "  ret void",
            "}",
            "declare <8 x float> @llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v16f16(",
            "  <16 x half>, <16 x half>, <8 x float>)",
        ]
    )
    assert compilers.report(text, "gfx1100", 0).matrix == 1
    with pytest.raises(RuntimeError, match="LLVM ended its process"):
        compilers.report(text, "gfx942", 0)
    assert compilers.report(text, "gfx1100", 0).matrix == 1
