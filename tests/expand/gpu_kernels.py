"""Kernels built by hand around parts of the expansion, and run in the simulator."""

from __future__ import annotations

import numpy as np

from gizml_tile.dtypes import I32, MASK, to_numpy
from gizml_tile.layout import Linear
from gizml_tile.lowering.expand.control import make_tile
from gizml_tile.lowering.expand.convert import convert
from gizml_tile.lowering.expand.expansion import Expansion
from gizml_tile.lowering.expand.indices import make_index
from gizml_tile.lowering.kernel_ir.instructions import GLOBAL, Access, Kernel, Parameter
from gizml_tile.lowering.planning.plan import Plan, Signature, TileLayout
from gizml_tile.lowering.simulate import Memory, simulate
from gizml_tile.nodes import Region, Tensor, TileProgram
from gizml_tile.target import Target

LANES = 32


def empty_program(*dtypes):
    """A program of flat tensors and no nodes."""
    tensors = tuple(Tensor(f"t{number}", dtype, 1) for number, dtype in enumerate(dtypes))
    return TileProgram("test", tensors, (), (), Region((), (), ()))


def expansion(program, warps=1, arch="sm_90a", signature=None, layouts=(), accesses=()):
    """An expansion of a program with some of its plan given."""
    signature = signature or Signature(
        tuple(("unit",) for _ in program.tensors), (16,) * len(program.tensors), (), 1, False, False
    )
    plan = Plan(
        program,
        Target("cuda", arch),
        signature,
        warps,
        0,
        dict(layouts),
        dict(accesses),
        {},
        {},
        frozenset(),
        {},
        {},
    )
    return Expansion(plan, make_tile, make_index, convert)


def kernel_of(x):
    """The kernel that was built in an expansion."""
    body = x.build.body()
    used = {each.attr for each in body.walk() if each.op == "parameter"}
    pointers = tuple(Parameter("pointer", number) for number in range(len(x.program.tensors)))
    others = sorted(used, key=lambda each: (each.kind, each.number, each.axis))
    return Kernel(
        "test",
        x.target,
        x.program.tensors,
        (*pointers, *others),
        tuple(x.memory.buffers),
        x.plan.threads,
        body,
        axes=x.plan.signature.grid_rank,
    )


def take(x, tensor, count, dtype):
    """``count`` registers of each thread from a flat tensor, thread after thread."""
    return x.build.load(_flat(tensor, count), _first(x, count), dtype)


def give(x, tensor, value):
    """Store each thread's registers to a flat tensor, thread after thread."""
    x.build.store(_flat(tensor, value.count), value, _first(x, value.count))


def _first(x, count):
    return x.build.mul(x.build.thread(), x.build.constant(count, I32))


def _flat(tensor, count):
    return Access(GLOBAL, tensor, 1, tuple((0, number) for number in range(count)))


def holders(layout: Linear):
    """The element number of every holder: an array of [threads, registers]."""
    columns = layout.shape[1]
    rows = []
    for warp in range(layout.size("warp")):
        for lane in range(layout.size("lane")):
            table = layout.table("register", warp=warp, lane=lane)
            rows.append([row * columns + column for row, column in table])
    return np.array(rows)


def distinct(elements, dtype):
    """So many values of a type, as different as it lets them be."""
    kind = to_numpy(dtype)
    if dtype is MASK:
        return np.random.default_rng(elements).integers(0, 2, elements).astype(bool)
    if kind.itemsize == 1:
        return (np.arange(elements) * 37 % 251).astype(np.uint8).view(kind)
    if kind.itemsize == 2:
        return (np.arange(elements) % 60000).astype(np.uint16).view(kind)
    return np.arange(elements).astype(kind)


def run(x, *arrays, grid=(1,), scalars=()):
    """Simulate what was built on arrays; they are written in place. Gives the findings."""
    kernel = kernel_of(x)
    memories = [each if isinstance(each, Memory) else Memory.of(each) for each in arrays]
    return simulate(kernel, memories, scalars, grid)


def named(linear):
    """A layout for tests."""
    return TileLayout("test", linear)
