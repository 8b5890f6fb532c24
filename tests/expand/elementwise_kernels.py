"""Kernels of one elementwise operation: load registers, compute, store; and what they should give."""

from __future__ import annotations

import numpy as np
from numpy_arithmetic import NumpyArithmetic
from tile_ir_interpreter import interpret_values

from gizml_tile.dtypes import I32, to_numpy
from gizml_tile.lowering import math
from gizml_tile.lowering.expand.elementwise import expand_elementwise
from gizml_tile.lowering.expand.storage import from_storage, storage_dtype, to_storage
from gizml_tile.lowering.kernel_ir.builder import Builder
from gizml_tile.lowering.kernel_ir.check import check
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Kernel
from gizml_tile.lowering.passes.pipeline import simplify
from gizml_tile.lowering.simulate import Memory, simulate
from gizml_tile.nodes import Region, Tensor, TileProgram, View, make
from gizml_tile.target import Target

THREADS, REGISTERS = 64, 16
SHARED = frozenset(
    "exp exp2 expm1 log log2 log1p softplus tanh sigmoid silu erf gelu gelu_erf sin cos pow".split()
)


def program(op, dtypes, size, attr=None):
    """A tile program of one operation on reads of flat tensors, and its node."""
    tensors = tuple(Tensor(f"t{number}", dtype, 1) for number, dtype in enumerate(dtypes))
    zero = make("index", (), 0)
    reads = [make("read", (zero,), View(n, (size,)), tensors=tensors) for n in range(len(dtypes))]
    node = make(op, tuple(reads), attr)
    return TileProgram("test", tensors, (), (), Region((), (zero, *reads, node), ())), node


def padded(array):
    """The array's values again and again, up to a power of two that the threads share evenly."""
    size = max(THREADS * REGISTERS, 1 << (len(array) - 1).bit_length())
    return np.resize(array, size)


def expected(op, dtypes, arrays, attr=None):
    """What the interpreter of the tile IR gives, or the shared mathematics in NumPy."""
    if op in SHARED:
        return getattr(math, op)(NumpyArithmetic(), *(array.astype(np.float32) for array in arrays))
    tile, node = program(op, dtypes, len(arrays[0]), attr)
    with np.errstate(invalid="ignore"):
        return interpret_values(tile, [node], arrays)[0].reshape(-1).astype(to_numpy(node.dtype))


def kernel(op, dtypes, attr=None, arch="sm_90a", write=None):
    """The kernel; ``write(build, values)`` computes the result where it is not the operation's."""
    tile, node = program(op, dtypes, REGISTERS, attr)
    build = Builder()
    first = build.mul(
        build.add(build.mul(build.workgroup(), build.constant(THREADS, I32)), build.thread()),
        build.constant(REGISTERS, I32),
    )
    places = tuple((0, number) for number in range(REGISTERS))
    values = [
        from_storage(build, build.load(Access(GLOBAL, number, 1, places), first, storage_dtype(dtype)), dtype)
        for number, dtype in enumerate(dtypes)
    ]
    target = Target("cuda", arch)
    if write is None:
        result = expand_elementwise(build, target, node, values)
        assert result.dtype is node.dtype
    else:
        result = write(build, values)
    stored = to_storage(build, result)
    build.store(Access(GLOBAL, len(dtypes), 1, places), stored, first)
    tensors = (*tile.tensors, Tensor("result", result.dtype, 1))
    made = Kernel("test", target, tensors, (), (), THREADS, build.body())
    check(made)
    return made


def run(made, arrays):
    """The result of a kernel on arrays whose sizes are equal and multiples of a workgroup's elements."""
    result = np.zeros(len(arrays[0]), to_numpy(made.tensors[-1].dtype))
    grid = (len(result) // (THREADS * REGISTERS),)
    memories = [Memory.of(np.ascontiguousarray(array)) for array in (*arrays, result)]
    findings = simulate(made, memories, grid=grid, checks=False, counts=False)
    assert not findings.wrong, str(findings)
    return result


def computed(op, dtypes, arrays, attr=None, arch="sm_90a"):
    """What a kernel of one operation gives, before and after the passes."""
    made = kernel(op, dtypes, attr, arch)
    simple = simplify(made)
    check(simple)
    result, again = run(made, arrays), run(simple, arrays)
    assert result.tobytes() == again.tobytes()
    return result
