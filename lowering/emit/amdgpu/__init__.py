"""LLVM IR for AMD GPUs from a kernel: one entry for each instruction, and no decisions.

`emit` gives text, which ROCm's comgr makes machine code of on the machine that runs it. Nobody who wrote
this had such a GPU, so the text is verified without one, in five ways (``tests/amdgpu``):

*Its meaning.* The text itself, less address spaces, attributes and metadata, is compiled for the computer
that tests run on, and executed with a fiber for each thread. Intrinsics are small functions there, whose
matrix instructions find elements by the formulas of AMD's ISA guides, not by our table of atoms. Single
instructions, random loops, the corpus of kernels, the examples and random programs give the simulator's
bits, or those of the CPU's own code; sums of products are within their bound. Workgroup memory starts as
NaN, threads that miss a barrier or an exchange of lanes are an error, and the unit's square roots are a
step off on purpose, as they may be.

*Its code.* LLVM's code generator, which llvmlite brings, takes the texts for every architecture: what
is measured spills no register, workgroup memory is as large as planned, and matrix instructions are there
where they are planned. LLVM ends the process where it cannot go on; it works in one of its own.
``tests/amdgpu/test_amdgpu_code.py`` tells how all texts together go through it.

*Its intrinsics.* A call is looked up in a table by name, types and architecture (`intrinsics`) before it is
written, so a wrong one is an error of ours that names it. Every matrix instruction of the table goes
through the code generator for each architecture that is said to have it.

*Its portability.* Drivers carry LLVM 15 to 23. The text keeps to what all of them read: opaque pointers,
``poison``, BF16 as ``i16``, intrinsics under the names that old and new versions take, no flags of newer
ones. Where they differ in results, the text does not ask: square roots are refined here, since LLVM 15
takes the unit's own. Debian's comgr with LLVM 15, 17 and 21 made code of the texts of what is measured and
of a quarter of the corpus; the tests repeat it with whatever comgr is installed.

*Its launch.* hip-python itself packs the arguments of launches that a stand-in for the HIP runtime takes,
and gives to the text on the computer (``tests/runtime/test_hip_launches.py``).

What none of this shows is speed, and what the hardware does beside its description: nothing here has run
on an AMD GPU.

Some things are different from other GPUs. A warp is a wave, of 64 lanes on CDNA. An argument has 8 bytes,
an F32 in the lower half. A masked read is no branch: where the mask is not set it reads 16 bytes of zeros
that the code brings, or its buffer's beginning. LLVM moves nothing across a block of products, so that
fragments are read a step ahead, as the kernel says, and not all of an operand's at once. Fences around
barriers order workgroup memory alone, so that reads of tensors stay in flight, but where a kernel reads what
it has written.
"""

from gizml_tile.lowering.emit.amdgpu.artifact import AmdgpuArtifact
from gizml_tile.lowering.emit.amdgpu.module import emit

__all__ = ["AmdgpuArtifact", "emit"]
