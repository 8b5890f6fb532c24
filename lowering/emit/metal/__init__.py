"""Text in the Metal Shading Language from a kernel: one entry for each instruction, and no decisions.

**The text.** A small part of C++: scalars, vectors of up to four, arrays of constant size, loops with a
constant number of turns that are unrolled (``UNROLL``), pointers into tensors and threadgroup memory, and a
few functions that the text begins with. What computes register by register is one loop over the registers;
each of the person's lines stands as a comment above what it became.

**Exact where C++ or Metal leave something open.** Integers wrap (unsigned arithmetic), divisions and
conversions from floats are defined for every operand, a NaN loses against a number and -0 lies below +0,
quotients and roots come from ``precise::``, a sum and a product are rounded each (``contract(off)``), and
infinities and NaNs count (``math_mode(safe)``, which the language has from version 3.2 on, macOS 15). BF16 is
the type ``bfloat`` where matrices may be of it and its 16 bits elsewhere; rounding to BF16, and all of FP8,
is done on integers by the kernel itself.

**Verified without the hardware.** The emitted text itself is compiled by g++ against a small stand-in for
Metal's library (``tests/metal/shim``), in which threads are fibers, and executed: single instructions on
numbers at which operations go wrong, the corpus of kernels, the examples, and random programs give the
simulator's or the CPU's results, bit for bit but for sums of products. The examples run under the address,
the undefined-behaviour and the thread sanitizer, which see accesses outside of memory, arithmetic that C++
leaves open and missing barriers; threads that part ways at a barrier or a shuffle are reported. Launches run
against a stand-in for PyTorch's compiler that executes the text likewise. Once, outside of the tests,
clang 18 took the corpus as C++14 without a warning, also with Metal's address spaces made part of types.

**From Apple's documents.** The language and its functions, 32 KiB of threadgroup memory, 31 buffers, 1024
threads, SIMD-groups of 32 lanes ("Metal Shading Language Specification", "Metal Feature Set Tables"); that
quotients, roots and fused multiply-adds are correctly rounded without fast math, and that conversions to
floats round to the nearest even (the specification's chapter on numerical compliance). ``precise::divide``
is what the language's own headers call that quotient in any mode.

**Unverified.** That Apple's compiler takes the text: the stand-in accepts C++ that Metal may refuse. Which
elements of an 8x8 matrix a lane holds: Apple's specification leaves it open, and what is used here is what
public kernels (MLX, llama.cpp) rely on since the M1. That threads of a threadgroup are numbered by
SIMD-group and lane in order. That nothing but the two pragmas is needed for exact results. Whether
subnormal floats are kept: they may be zero. All speed.
"""

from gizml_tile.lowering.emit.metal.artifact import MetalArtifact
from gizml_tile.lowering.emit.metal.module import emit

__all__ = ["MetalArtifact", "emit"]
