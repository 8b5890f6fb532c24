"""Small ways to write kernels for the simulator's tests."""

import numpy as np

from gizml_tile.dtypes import F32, I32, from_numpy
from gizml_tile.errors import Place
from gizml_tile.lowering.kernel_ir.builder import Builder
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, WORKGROUP, Access, Buffer, Kernel
from gizml_tile.lowering.simulate import Memory, simulate
from gizml_tile.nodes import Tensor
from gizml_tile.target import gpus

ONE = ((0, 0),)


class Writer(Builder):
    """A builder with lines: ``at(12)`` is the line of what follows."""

    def at(self, line):
        self.place = Place("kernel.py", line)
        return self

    def number(self, value, dtype=I32):
        return self.constant(value, dtype)

    def get(self, tensor, offset, dtype=F32, width=1, mask=None, pad=0):
        return self.load(Access(GLOBAL, tensor, width, ONE, pad), offset, dtype, mask)

    def put(self, tensor, value, offset, width=1, mask=None):
        self.store(Access(GLOBAL, tensor, width, ONE), value, offset, mask)

    def take(self, buffer, offset, dtype=F32, width=1, mask=None):
        return self.load(Access(WORKGROUP, buffer, width, ONE), offset, dtype, mask)

    def keep(self, buffer, value, offset, width=1, mask=None):
        self.store(Access(WORKGROUP, buffer, width, ONE), value, offset, mask)


def kernel_of(write, tensors, buffers=(), threads=64, arch="sm_90a", signals=0, axes=1, cluster=1) -> Kernel:
    """The kernel that ``write(builder)`` writes; tensors are given by their arrays."""
    build = Writer()
    write(build)
    return Kernel(
        "k",
        next(each for each in gpus() if each.arch == arch),
        tuple(Tensor(f"t{n}", from_numpy(each.dtype), each.ndim) for n, each in enumerate(tensors)),
        (),
        tuple(buffers),
        threads,
        build.body(),
        axes,
        signals,
        cluster=cluster,
    )


def buffer(name, elements, dtype=F32, offset=0):
    return Buffer(name, dtype, elements, offset)


def run(write, tensors, buffers=(), grid=(1,), scalars=(), **options):
    """Run what ``write`` writes on arrays, in place; gives the findings."""
    kernel = kernel_of(write, tensors, buffers, axes=len(grid), **options)
    return simulate(kernel, [Memory.of(each) for each in tensors], scalars, grid)


def random(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
