"""Every instruction that is planned for AMD GPUs: its text, executed, gives the simulator's bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compilers import assembled
from on_host import beside, for_arch
from small_kernels import SmallKernel
from small_metal_kernels import CASES, THREADS, numbers, programs

from gizml_tile.dtypes import F32
from gizml_tile.lowering.atoms import atoms
from gizml_tile.lowering.emit.amdgpu import emit
from gizml_tile.lowering.emit.amdgpu.intrinsics import ARCHS
from gizml_tile.lowering.emit.amdgpu.module import RULES
from gizml_tile.lowering.kernel_ir.instructions import Kernel, Matrix
from gizml_tile.lowering.simulate import Memory
from gizml_tile.target import Target

# Waves have 64 lanes on one and 32 on the other.
LONG, SHORT = "gfx942", "gfx1201"
ON_LANES = ("shuffle", "again", "logic", "turns")
RUNS = [
    *((name, LONG) for name in CASES if not name.startswith(("f16 ", "bf16 ", "f32 "))),
    *((name, SHORT) for name in CASES if name.startswith(ON_LANES)),
]
PRODUCTS = [(atom, arch) for arch in ARCHS for atom in atoms(Target("hip", arch))]
PROGRAMS = range(40)
SEEN: set[str] = set()


def run(kernel: Kernel, arch: str, whole: bool = False) -> None:
    """The text beside the simulator, on random elements or small whole numbers; LLVM makes code of it too."""
    made = for_arch(kernel, arch)
    assert assembled(emit(made).text, arch)
    SEEN.update(each.op for each in made.body.walk())
    memories = []
    for number, tensor in enumerate(made.tensors):
        values = numbers(tensor.dtype, THREADS * 4 * 64, number)
        if whole:
            # Their sums are the same in any order.
            values = np.random.default_rng(number).integers(-3, 4, len(values)).astype(values.dtype)
        memories.append(Memory.of(values))
    beside(made, memories, checks=False, counts=False)


@pytest.mark.parametrize("name, arch", RUNS)
def test_the_text_gives_the_simulators_bits(name, arch):
    kernel = SmallKernel(threads=THREADS)
    CASES[name](kernel)
    run(kernel.kernel(), arch)


@pytest.mark.parametrize("atom, arch", PRODUCTS, ids=lambda each: getattr(each, "name", each))
def test_a_matrix_instruction(atom, arch):
    """Its registers are where the table of atoms says: the functions that stand in have their own."""
    kernel = SmallKernel(threads=THREADS)
    a, b, c = (layout.size("register") for layout in (atom.a, atom.b, atom.c))
    operands = [kernel.input(atom.a_dtype, 2 * a), kernel.input(atom.b_dtype, 2 * 2 * b)]
    if atom.name.startswith("wmma11"):
        # Both halves of a wave have the operands.
        lane = kernel.map("and", kernel.lane(), kernel.number(15))
        operands = [kernel.shuffle(each, lane) for each in operands]
    sums = kernel.input(atom.c_dtype, 2 * c)
    product = kernel.mma(Matrix(atom, 1, 2, 2), *operands, sums)
    kernel.output(product)
    run(kernel.kernel(), arch, whole=True)


def test_rdna3_operands_that_differ_between_the_halves_of_a_wave_are_found():
    atom = next(atom for atom, arch in PRODUCTS if arch == "gfx1100")
    kernel = SmallKernel(threads=THREADS)
    operands = kernel.input(atom.a_dtype, 16), kernel.input(atom.b_dtype, 16)
    kernel.output(kernel.mma(Matrix(atom, 1, 1, 1), *operands, kernel.input(F32, 8)))
    with pytest.raises(AssertionError, match="lane 31 repeats another element"):
        run(kernel.kernel(), "gfx1100", whole=True)


@pytest.mark.parametrize("seed", PROGRAMS)
def test_random_loops_and_branches(seed):
    ((_, build),) = programs(range(seed, seed + 1)).items()
    made = replace(for_arch(build.kernel(), (LONG, SHORT)[seed % 2]), threads=THREADS)
    data = np.random.default_rng(seed).integers(-50, 50, 64, np.int32)
    beside(made, [Memory.of(data)], checks=False, counts=False)


def test_all_instructions_are_among_them():
    """But leaves of grids, and what approximates or is atomic, which have tests of their own."""
    elsewhere = "workgroup workgroups warp parameter warp_barrier exp2 log2 reciprocal rsqrt sin cos "
    elsewhere += "atomic update"
    assert set(RULES) - SEEN <= set(elsewhere.split())
